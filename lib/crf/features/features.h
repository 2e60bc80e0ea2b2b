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
  kNumbered,  // A text for each side and distance, as CRF++ has it.
  kSkip,      // Nothing: a template with such a position gives no attribute.
};

struct FeatureOptions {
  std::vector<notation::Template> templates;
  bool lower_words = true;  // ASCII capitals of column 0 are read as small letters.
  Boundary boundary = Boundary::kSingle;
  int64_t min_count = 1;  // Attributes of fewer occurrences in the training data are dropped. >= 1.
  // 0: a dictionary of all that occurs in training. Else 2^hash_bits rows, attributes put there by a hash of their
  // texts: no dictionary, nothing dropped (min_count is not used), but some share a row. 1 ... 28.
  int hash_bits = 0;
  bool bias = true;  // An attribute of every token.
  bool ends = true;  // Attributes of a sequence's first and last token.
};

// From tokens to attributes. Made from training data, then frozen: attributes that did not occur there (often enough)
// are dropped. Rows are numbered by falling number of occurrences, ties by first occurrence, so that the rows of the
// weights that are used most lie together.
class FeatureMap {
 public:
  // Uses the sequences numbered `rows`. INVALID_ARGUMENT: as Check has it; more than 2^30 attributes. CANCELLED when
  // stopped, here and below.
  static absl::StatusOr<FeatureMap> Fit(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                        FeatureOptions options, const base::StopToken& stop = {});

  // INVALID_ARGUMENT: a template names a column that the text has not, no sequences, fewer than two labels.
  static absl::Status Check(const data::ColumnText& text, const std::vector<int32_t>& rows,
                            const FeatureOptions& options);

  // Labels that training has not are an error, INVALID_ARGUMENT "name:line: ...", or become unknown_names: the model
  // never gives them, so they count as wrong. Another number of columns than in training is an error.
  enum class UnknownLabels { kError, kKeep };
  absl::StatusOr<ChainData> Encode(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                   UnknownLabels unknown = UnknownLabels::kError,
                                   const base::StopToken& stop = {}) const;

  // All that Encode needs; texts and combinations that no attribute depends on are left out. What Load gives encodes
  // every text as this one does. DATA_LOSS when the bytes do not fit.
  void Save(base::CheckpointWriter* writer) const;
  static absl::StatusOr<FeatureMap> Load(base::CheckpointReader* reader);

  int columns() const { return columns_; }  // Without the label's.
  const FeatureOptions& options() const { return options_; }
  int32_t attributes() const { return attributes_; }
  const std::vector<std::string>& label_names() const { return label_names_; }
  // Returns the template that made each row's attribute: the first of options().templates of its kind (0 for all with
  // hashing, where kinds share rows), kBias, kEnds.
  static constexpr int32_t kBias = -1, kEnds = -2;
  std::vector<int32_t> RowSources() const;
  // Share of the distinct attributes of the training data that share their row with another one; 0 without hashing.
  double collision_rate() const { return collision_rate_; }

 private:
  // Texts and combinations of texts have numbers: a combination of k texts is k - 1 pairs, ((a, b), c), so keys are two
  // numbers, exact, and no text is built. With hashing the numbers are hashes.
  using Key = std::pair<uint64_t, uint64_t>;

  FeatureMap(FeatureOptions options, int columns);
  // Returns the labels of these sequences, in byte order.
  static std::vector<std::string> LabelNames(const data::ColumnText& text, const std::vector<int32_t>& rows);
  // The number of each cell of `text`; `intern`: of one that has none, a new one, else kUnknown.
  std::vector<uint64_t> CellIds(const data::ColumnText& text, bool intern);
  std::vector<uint64_t> CellIds(const data::ColumnText& text) const;
  uint64_t BoundaryId(int64_t overhang) const;
  // Calls emit(space, id) for each template's value at token t of the sequence [begin, end); combine(a, b) numbers a
  // pair.
  template <typename Combine, typename Emit>
  void Visit(const std::vector<uint64_t>& ids, int64_t begin, int64_t end, int64_t t, Combine&& combine,
             Emit&& emit) const;
  absl::Status FitDictionary(const data::ColumnText& text, const std::vector<int32_t>& rows,
                             const base::StopToken& stop);
  absl::Status FitHashing(const data::ColumnText& text, const std::vector<int32_t>& rows, const base::StopToken& stop);
  int32_t HashRow(uint64_t space, uint64_t id) const;
  void CountAttributes() { attributes_ = template_rows_ + (options_.bias ? 1 : 0) + (options_.ends ? 2 : 0); }
  // The dictionary's part of Save and Load.
  void SaveDictionary(base::CheckpointWriter* writer) const;
  bool LoadDictionary(base::CheckpointReader* reader);

  FeatureOptions options_;
  int columns_ = 0;
  std::vector<uint64_t> space_;  // Id, or with hashing a hash, that separates each template's attributes.
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
