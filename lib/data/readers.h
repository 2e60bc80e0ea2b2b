#ifndef LUTHIER_LIB_DATA_READERS_H_
#define LUTHIER_LIB_DATA_READERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/data/dataset.h"
#include "lib/data/text_source.h"

namespace luthier::data {

enum class Format { kAuto, kLibsvm, kCsv, kIdx };
enum class Header { kAuto, kYes, kNo };
enum class Task { kClassification, kRegression };

struct ReadOptions {
  // kAuto: by extension (.csv .tsv: CSV; .svm .libsvm .svmlight: LIBSVM; idx3-ubyte: IDX; before any .gz or .xz), else
  // by content: LIBSVM when the first line's first or second word looks like "number:number", or it is one number.
  Format format = Format::kAuto;
  // CSV only. kAuto: the first line is a header when one of its fields other than the label is not a number.
  Header header = Header::kAuto;
  // CSV only: name of the label's column in the header; empty: the last column.
  std::string label;
  // CSV only: name of a column that is not a feature but groups or orders the rows (Dataset::key); empty: none.
  std::string key_column;
  Task task = Task::kClassification;  // Kind of the labels: classes or numbers.
  // IDX only: the file of the labels. If empty, its name is that of the images with "labels-idx1" for "images-idx3".
  std::string labels_file;
  TextLimits limits;
};

// Opens the file of a name: below a data root, or anywhere for a user's own files.
using FileOpener = absl::FunctionRef<absl::StatusOr<UniqueFd>(const std::string&)>;

// Rows as read, before labels become classes.
struct RawRows {
  std::string name;
  SparseMatrix x;
  std::vector<std::string> label;     // Texts; empty when the file has none.
  std::vector<std::string> features;  // Names, as in Dataset.
  std::string label_name;             // CSV with a header: name of the label's column.
  std::vector<std::string> key;       // Texts of ReadOptions::key_column; empty without it.
  bool open_columns = false;          // LIBSVM: as in Dataset.
  int64_t beyond = 0;                 // Number of entries left out because the model lacks their columns.
  std::vector<std::string> ignored;   // CSV: columns left out because the model lacks them.
};

// Columns that rows must have for a trained model to be applied to them.
struct WantedColumns {
  int32_t cols = 0;
  std::vector<std::string> features;  // Empty: known by their position alone.
  std::string label;                  // Name of the label's column, or empty.
};

// LIBSVM / SVMlight: `label index:value index:value … # comment`; indices from 1. Blank and comment lines are skipped.
// Indices out of order are sorted; the same index twice in a line is refused (summing would hide a damaged file).
//
// CSV: fields separated by comma, semicolon or tab (the most frequent one in the first line), optionally in double
// quotes ("" is a quote; line ends may be quoted); blanks around a field do not count. All columns but the label are
// numbers.
//
// With `wanted`, for a model, labels may be missing from the file. CSV: columns are found by name if both have names,
// in any order, and further ones are ignored; else by position, and one more column behind them is the label. LIBSVM:
// entries of columns that the model lacks are left out. The result has wanted->cols columns.
//
// Errors are INVALID_ARGUMENT "name:line: …" or "name:line:column: …" (column: byte of the line, from 1) for ragged
// rows, text where a number belongs, missing values, NaN or infinity, an index below 1 or above kMaxColumns, no
// features, and columns of `wanted` that the file lacks; DATA_LOSS for damaged compressed data.
absl::StatusOr<RawRows> ReadLibsvm(LineReader& lines, const WantedColumns* wanted);
absl::StatusOr<RawRows> ReadCsv(LineReader& lines, const ReadOptions& options, const WantedColumns* wanted);

// IDX (MNIST): images of unsigned bytes, a row of pixels / 255 each, and their labels from another file, or null for
// none. Returns INVALID_ARGUMENT "name: …" for other types and dimensions, different numbers of images and labels, or
// too many bytes; DATA_LOSS if bytes are missing; CANCELLED when stopped: `stop` is polled before each image and chunk.
absl::StatusOr<RawRows> ReadIdx(ByteSource& images, const std::string& name, ByteSource* labels,
                                const std::string& labels_name, const base::StopToken& stop = {});

// Makes a data set to learn from. Returns INVALID_ARGUMENT for no rows, one class only, or a target that is not a
// number; CANCELLED when stopped.
absl::StatusOr<Dataset> ToDataset(RawRows rows, Task task, const base::StopToken& stop = {});

// Reads the rows of a file for a model, in whichever format. Images without a file of labels have none. Returns
// INVALID_ARGUMENT also if there are no rows.
absl::StatusOr<RawRows> ReadRowsFor(FileOpener open, const std::string& name, const ReadOptions& options,
                                    const WantedColumns& wanted);

// Reads a file in whichever format. `name` is also used in messages and for its extension.
absl::StatusOr<Dataset> ReadDataset(FileOpener open, const std::string& name, const ReadOptions& options);

// Reads the data set that a study names: `data` is a URI `synth:…` (synth.h) or a path below `root`. With a null `root`
// only synth: works (FAILED_PRECONDITION otherwise). Here and below the functions return CANCELLED once
// options.limits.stop is raised.
absl::StatusOr<Dataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root);

// A data set with its Fingerprint; both are read from `cache` if it has them, else they are kept there. A null cache is
// none.
struct LoadedDataset {
  Dataset dataset;
  std::string fingerprint;
};
absl::StatusOr<LoadedDataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root,
                                          const DataCache* cache);

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_READERS_H_
