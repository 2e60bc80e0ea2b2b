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

// The data of objective `crf`: which file, which sequences are held out, and how a trial's settings encode them.
namespace luthier::objectives {

// Lines of a file below `root`, or of generated data (lib/data/synth_chains.h) in option `format`: columns ("" too),
// attributes, letters. A null root: generated data only (FAILED_PRECONDITION otherwise). CANCELLED when
// stopped.
absl::StatusOr<data::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                            const data::DataRoot* root, const base::StopToken& stop = {});

// Training and held-out sequences, encoded.
struct ChainFold {
  crf::ChainData train, validation;
  std::vector<int32_t> row_group;  // Group of each attribute, as ChainGroups has them; empty without groups.
};

// Every fold with the attributes of one choice of feature settings.
struct EncodedChains {
  std::string key;  // That choice.
  std::vector<ChainFold> folds;
  std::string identity;  // Fingerprints of all.
};

// A file, or generated data.
struct ChainOrigin {
  std::string name;
  data::UniqueFd fd{-1};                         // The file; -1 if the data are generated.
  std::optional<data::DataCache::Source> state;  // When opened; none if nothing shall be kept of it.
};

// Sequences, read once, and their encodings: the last few stay in memory; what was read and all encodings stay in the
// cache for later processes. One that finds there that the data are in order reads them only when a trial needs an
// encoding that is not there. Thread-safe.
class ChainSource {
 public:
  // `objective` must have passed Validate; `root` may be null for generated data, `cache` when nothing shall be kept;
  // it must outlive this. What does not depend on a trial is found wrong here: INVALID_ARGUMENT for templates that are
  // none or do not fit the columns, and settings that exclude each other; errors of the readers; CANCELLED when
  // stopped.
  static absl::StatusOr<std::unique_ptr<const ChainSource>> Open(const study::BuiltinObjective& objective,
                                                                 const data::DataRoot* root,
                                                                 const data::DataCache* cache,
                                                                 const base::StopToken& stop);

  // Trials that need an encoding at once wait for one of them. CANCELLED when stopped;
  // FAILED_PRECONDITION when data must be read that have changed since Open.
  absl::StatusOr<std::shared_ptr<const EncodedChains>> Encode(const catalogue::Settings& settings,
                                                              const base::StopToken& stop) const;

  // The group that the transitions' weights are in.
  int32_t transitions_group() const { return transitions_group_; }

 private:
  // As read: columns and tokens with attributes are encoded anew for other settings, letters are what they are.
  using Text = std::variant<data::ColumnText, data::AttributeText, crf::ChainData>;
  // The place where encodings are kept; the training data have a state.
  struct Kept {
    std::string key;            // All that they depend on beside that file and the feature settings.
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

  // Changed by Open and whoever is encoding.
  mutable bool read_ = false;
  mutable Text text_;                       // Text of the data, of the type that they need, from the start.
  mutable std::optional<Text> validation_;  // The same alternative.
  mutable std::optional<catalogue::ChainGroups> groups_;

  mutable base::Mutex mutex_;
  mutable base::CondVar changed_;
  mutable bool encoding_ ABSL_GUARDED_BY(mutex_) = false;  // One at a time: it costs time and memory.
  mutable std::deque<std::shared_ptr<const EncodedChains>> encoded_ ABSL_GUARDED_BY(mutex_);  // Newest last.
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CHAIN_SOURCE_H_
