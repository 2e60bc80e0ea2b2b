#ifndef LUTHIER_LIB_MODEL_MODEL_H_
#define LUTHIER_LIB_MODEL_MODEL_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/data/data_root.h"
#include "lib/data/readers.h"
#include "lib/study/parameters.h"

// Trained models as files, and their uses. A file holds everything that applying the model needs: weights, names of
// features and classes, scaling, the dictionary of attributes; and the model's origin.
namespace luthier::model {

// The origin of a model.
struct ModelInfo {
  std::string objective;       // "logistic", "hsvm", "crf", "ridge", "kernel_ridge"
  study::Parameters settings;  // All of the objective's.
  std::string data;            // As the study file names it.
  std::string fingerprint;     // Fingerprint of the data that it was trained on.
  int64_t examples = 0;        // Rows or sequences.
  std::string study;           // "" and 0 without one.
  int64_t trial = 0;
  std::string version;                    // Version of the program that trained it.
  std::string outcome;                    // "converged", "precision", "limit"
  std::string note;                       // The solver that was chosen and why, if the training had to choose.
  std::map<std::string, double> metrics;  // Metrics of the training, such as train_loss.
};

// A file of the user's, for reading; errors name it.
absl::StatusOr<data::UniqueFd> OpenUserFile(const std::string& path);

// A file that a model is applied to. Anywhere: the user who applies a model names files of their own.
struct DataFile {
  std::string path;
  data::ReadOptions read;  // Options for reading tables.
  // Opens `path`. Reading may open it twice, each time from its beginning.
  std::function<absl::StatusOr<data::UniqueFd>(const std::string&)> open = OpenUserFile;
};

struct Predictions {
  // Rows: the prediction for each, and numbers for each (columns named by `numbers`): the probabilities of the
  // classes, or the score. `numbers` is empty for sequences, and for regressions, whose predictions are numbers.
  std::vector<std::string> numbers;
  std::vector<std::string> label;
  std::vector<std::vector<double>> value;  // label.size() rows of numbers.size().
  // Sequences: where each begins in `label` (and the end), and the file's columns of every token, then the prediction.
  std::vector<int64_t> sequence_start;
  std::string text;
  std::vector<std::string> notes;  // For people: what was left out.
};

struct Evaluation {
  std::map<std::string, double> metrics;
  // One line each for classes or types of segments: precision, recall, F1, how many there are.
  struct Part {
    std::string name;
    double precision = 0.0;
    double recall = 0.0;
    double f1 = 0.0;
    int64_t count = 0;
  };
  std::vector<Part> parts;
  std::vector<std::string> notes;
};

// Immutable; any thread.
class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }

  // Name and value of what a person may want to know beside info(): classes, features, weights.
  virtual std::vector<std::pair<std::string, std::string>> Facts() const = 0;

  // Returns INVALID_ARGUMENT "file:line: …" for data that do not fit the model, NOT_FOUND, DATA_LOSS for damaged
  // archives. Labels may be there, and are ignored.
  virtual absl::StatusOr<Predictions> Predict(const DataFile& data) const = 0;
  // The data must have labels. A label that the model does not know counts as wrong, and its row or sequence is left
  // out of the loss.
  virtual absl::StatusOr<Evaluation> Evaluate(const DataFile& data) const = 0;

  // The bytes of its file.
  std::string Save() const;

 protected:
  explicit Model(ModelInfo info) : info_(std::move(info)) {}
  // After the info: "linear", "regression" or "chain", then the rest.
  virtual void SaveParts(base::CheckpointWriter* writer) const = 0;

 private:
  const ModelInfo info_;
};

// Reads a model; `name` is for messages. Returns DATA_LOSS for bytes that are damaged or cut off, FAILED_PRECONDITION
// if they are not a model, or one of another version of the format.
absl::StatusOr<std::unique_ptr<Model>> LoadModel(absl::string_view bytes, const std::string& name);

// Does the same for a file; also returns NOT_FOUND and other errors of opening it.
absl::StatusOr<std::unique_ptr<Model>> ReadModelFile(const std::string& path);

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_MODEL_H_
