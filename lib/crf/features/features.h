#ifndef LUTHIER_LIB_CRF_FEATURES_FEATURES_H_
#define LUTHIER_LIB_CRF_FEATURES_FEATURES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/data/column_text.h"
#include "lib/notation/templates.h"

namespace luthier::crf {

// Tokens that stand at positions before the first and behind the last token.
enum class Boundary {
  kSingle,    // One text, the same everywhere.
  kNumbered,  // A text for each side and distance, as in CRF++.
  kSkip,      // Nothing: a template with such a position gives no attribute.
};

struct FeatureOptions {
  std::vector<notation::Template> templates;
  bool lower_words = true;  // ASCII capitals of column 0 are read as small letters.
  Boundary boundary = Boundary::kSingle;
  int64_t min_count = 1;  // Attributes of fewer occurrences in the training data are dropped. >= 1.
  // With 0, a dictionary holds all attributes that occur in training. With 1 ... 28 there are
  // 2^hash_bits rows, and a hash of an attribute's text selects its row. Then there is no
  // dictionary, nothing is dropped (min_count is not used), and some attributes share a row.
  int hash_bits = 0;
  bool bias = true;  // An attribute of every token.
  bool ends = true;  // Attributes of a sequence's first and last token.
};

// A map from tokens to attributes. It is made from training data and then does not change:
// attributes that did not occur there (often enough) are dropped. Rows are numbered by falling
// number of occurrences, ties by first occurrence, so that the rows of the weights that are used
// most lie together.
class FeatureMap {
 public:
  // Makes the map from the sequences numbered `rows`. Returns the errors of Check, and
  // INVALID_ARGUMENT for more than 2^30 attributes. Returns CANCELLED when stopped, here and below.
  static absl::StatusOr<FeatureMap> Fit(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                        FeatureOptions options, const base::StopToken& stop = {});

  // Returns INVALID_ARGUMENT if a template names a column that `text` does not have, if there are
  // no sequences, or if there are fewer than two labels.
  static absl::Status Check(const data::ColumnText& text, const std::vector<int32_t>& rows,
                            const FeatureOptions& options);

  // Encodes the sequences numbered `rows`. A label that did not occur in training is an error,
  // INVALID_ARGUMENT "name:line: ...", or with kKeep becomes one of unknown_names. The model never
  // predicts it, so the token counts as wrong. Another number of columns than in training is an
  // error.
  enum class UnknownLabels { kError, kKeep };
  absl::StatusOr<ChainData> Encode(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                   UnknownLabels unknown = UnknownLabels::kError,
                                   const base::StopToken& stop = {}) const;

  // Saves the data that Encode needs, without texts and combinations on which no attribute depends.
  // Load returns a map that encodes every text as this one does, or DATA_LOSS if the bytes do not
  // fit.
  void Save(base::CheckpointWriter* writer) const;
  static absl::StatusOr<FeatureMap> Load(base::CheckpointReader* reader);

  int columns() const { return columns_; }  // Number of columns without that of the label.
  const FeatureOptions& options() const { return options_; }
  int32_t attributes() const { return attributes_; }
  const std::vector<std::string>& label_names() const { return label_names_; }
  // Returns the template that made each row's attribute: the first of options().templates of its kind (0 for all with
  // hashing, where kinds share rows), kBias, kEnds.
  static constexpr int32_t kBias = -1, kEnds = -2;
  std::vector<int32_t> RowSources() const;
  // Returns the fraction of the distinct attributes of the training data that share their row with
  // another one; 0 without hashing.
  double collision_rate() const { return collision_rate_; }

 private:
  // A key of two numbers. Texts and combinations of texts have numbers, and a combination of k
  // texts is a nesting of k - 1 pairs, ((a, b), c). So keys are exact, and no text is built. With
  // hashing the numbers are hashes.
  using Key = std::pair<uint64_t, uint64_t>;

  FeatureMap(FeatureOptions options, int columns);
  // Returns the labels of these sequences, in byte order.
  static std::vector<std::string> LabelNames(const data::ColumnText& text, const std::vector<int32_t>& rows);
  // Returns the number of each cell of `text`. A cell without a number gets a new one if `intern`
  // is true, else kUnknown.
  std::vector<uint64_t> CellIds(const data::ColumnText& text, bool intern);
  std::vector<uint64_t> CellIds(const data::ColumnText& text) const;
  uint64_t BoundaryId(int64_t overhang) const;
  // Calls emit(space, id) for each template's value at token t of the sequence [begin, end).
  // combine(a, b) returns the number of a pair.
  template <typename Combine, typename Emit>
  void Visit(const std::vector<uint64_t>& ids, int64_t begin, int64_t end, int64_t t, Combine&& combine,
             Emit&& emit) const;
  absl::Status FitDictionary(const data::ColumnText& text, const std::vector<int32_t>& rows,
                             const base::StopToken& stop);
  absl::Status FitHashing(const data::ColumnText& text, const std::vector<int32_t>& rows, const base::StopToken& stop);
  int32_t HashRow(uint64_t space, uint64_t id) const;
  void CountAttributes() { attributes_ = template_rows_ + (options_.bias ? 1 : 0) + (options_.ends ? 2 : 0); }
  static constexpr uint64_t kCombined = uint64_t{1} << 40;  // Numbers of pairs begin here, those of texts at 0.

  // Save and load the dictionary.
  void SaveDictionary(base::CheckpointWriter* writer) const;
  bool LoadDictionary(base::CheckpointReader* reader);

  FeatureOptions options_;
  int columns_ = 0;
  std::vector<uint64_t> space_;  // Number (or hash) of each template.
  std::vector<std::string> label_names_;
  data::Interner texts_;
  std::vector<uint64_t> boundary_;  // By overhang, see BoundaryId.
  absl::flat_hash_map<Key, uint64_t> pairs_;
  absl::flat_hash_map<Key, int32_t> row_;  // (space, id) -> row; -1: too rare.
  int32_t template_rows_ = 0;
  int32_t attributes_ = 0;
  double collision_rate_ = 0.0;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_FEATURES_H_
