#ifndef LUTHIER_LIB_OBJECTIVES_CHAIN_SOURCE_H_
#define LUTHIER_LIB_OBJECTIVES_CHAIN_SOURCE_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/features/chain_data.h"
#include "lib/data/attribute_text.h"
#include "lib/data/column_text.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/data/split.h"
#include "lib/data/text_source.h"
#include "lib/notation/templates.h"
#include "lib/study/study_spec.h"

// The data of objective `crf`: the file, the held-out sequences, and their encoding under a trial's settings.
namespace luthier::objectives {

// Opens the lines of a file below `root`, or of generated data (lib/data/synth_chains.h) in option `format`: columns
// ("" too), attributes, letters. With a null root only generated data work (FAILED_PRECONDITION otherwise). Returns
// CANCELLED when stopped.
absl::StatusOr<data::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                            const data::DataRoot* root, const base::StopToken& stop = {});

// Training and held-out sequences, encoded.
struct ChainFold {
  crf::ChainData train, validation;
  std::vector<int32_t> row_group;  // Group of each attribute, as ChainGroups has them; empty without groups.
};

// Every fold with the attributes of one choice of feature settings.
struct EncodedChains {
  std::string key;  // The choice of feature settings.
  std::vector<ChainFold> folds;
  std::string identity;  // Fingerprints of all folds.
};

// A file, or generated data.
struct ChainOrigin {
  std::string name;
  data::UniqueFd fd{-1};                         // The file; -1 if the data are generated.
  std::optional<data::DataCache::Source> state;  // State when opened; none if nothing shall be kept of it.
};

// Sequences, read once, and their encodings. The last few encodings stay in memory; the text and all encodings stay in
// the cache for later processes. With a valid cache the text is read on the first missing encoding. Thread-safe.
class ChainSource {
 public:
  // `objective` must have passed Validate; `root` may be null for generated data, `cache` if nothing shall be kept; it
  // must outlive this. Mistakes that do not depend on a trial are found here: returns INVALID_ARGUMENT for invalid
  // templates, templates that do not fit the columns, and settings that exclude each other; the errors of the readers;
  // CANCELLED when stopped.
  static absl::StatusOr<std::unique_ptr<const ChainSource>> Open(const study::BuiltinObjective& objective,
                                                                 const data::DataRoot* root,
                                                                 const data::DataCache* cache,
                                                                 const base::StopToken& stop);

  // Trials that need an encoding at the same time wait for one of them. Returns CANCELLED when stopped,
  // FAILED_PRECONDITION if data must be read that have changed since Open.
  absl::StatusOr<std::shared_ptr<const EncodedChains>> Encode(const catalogue::Settings& settings,
                                                              const base::StopToken& stop) const;

  // The group that the transitions' weights are in.
  int32_t transitions_group() const { return transitions_group_; }

 private:
  // The text as read: columns and tokens with attributes are encoded anew for other settings, letters stay as they are.
  using Text = std::variant<data::ColumnText, data::AttributeText, crf::ChainData>;
  // The place where encodings are kept; set if the training data have a state.
  struct Kept {
    std::string key;            // Identifies everything that they depend on beside that file and the feature settings.
    std::string further_state;  // State of the validation data, if they are a file.
  };

  ChainSource() = default;
  absl::Status OpenFiles(const study::BuiltinObjective& objective, const data::DataRoot* root,
                         const data::DataCache* cache);
  template <typename T>
  absl::Status ReadOne(const ChainOrigin& origin, const base::StopToken& stop, T* text) const;
  template <typename T>
  absl::Status ReadAll(const base::StopToken& stop, T* text) const;
  // Reads the data that are not read yet, and the groups of their attributes.
  absl::Status Read(const base::StopToken& stop) const;
  absl::Status Split(int64_t sequences, int64_t further);
  absl::Status Check() const;
  absl::Status FindGroups() const;
  absl::StatusOr<bool> FindOutline(const base::StopToken& stop);
  absl::Status KeepOutline(const base::StopToken& stop) const;
  std::string KeyOf(const catalogue::Settings& settings) const;
  absl::StatusOr<ChainFold> EncodeFold(const catalogue::Settings& settings, const data::Partition& part,
                                       const base::StopToken& stop) const;
  absl::StatusOr<std::shared_ptr<const EncodedChains>> EncodeAnew(const catalogue::Settings& settings, std::string key,
                                                                  const base::StopToken& stop) const;
  absl::StatusOr<bool> FindKept(const base::StopToken& stop, EncodedChains* encoded) const;
  absl::Status Keep(const EncodedChains& encoded, const base::StopToken& stop) const;

  // Fixed after Open.
  const data::DataCache* cache_ = nullptr;
  ChainOrigin data_;
  std::optional<ChainOrigin> further_;  // Validation data of their own.
  study::Split split_;
  std::vector<data::Partition> parts_;  // Sequences; `validation` of the second file if there is one.
  std::vector<notation::Template> templates_;
  std::vector<catalogue::PenaltyGroup> penalty_groups_;
  int32_t transitions_group_ = 0;
  std::optional<Kept> kept_;

  // Members that Open and the encoding thread change.
  mutable bool read_ = false;
  mutable Text text_;                       // Text of the data, of the type that they need, from the start.
  mutable std::optional<Text> validation_;  // Text of the validation data, of the same alternative.
  mutable std::optional<catalogue::ChainGroups> groups_;

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable bool encoding_ ABSL_GUARDED_BY(mutex_) = false;  // One at a time: it costs time and memory.
  mutable std::deque<std::shared_ptr<const EncodedChains>> encoded_ ABSL_GUARDED_BY(mutex_);  // Newest last.
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CHAIN_SOURCE_H_
