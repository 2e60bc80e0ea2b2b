#ifndef LUTHIER_LIB_CRF_ATTRIBUTE_TEXT_H_
#define LUTHIER_LIB_CRF_ATTRIBUTE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/crf/chain_data.h"
#include "lib/crf/features.h"
#include "lib/crf/interner.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/text_source.h"

namespace luthier::crf {

// Labelled sequences whose tokens come with their attributes and values, as read. Immutable once made.
struct AttributeText {
  std::string name;                           // For messages.
  Interner attributes;                        // By first occurrence.
  Interner label_names;                       // By first occurrence.
  std::vector<int64_t> sequence_start = {0};  // In tokens.
  std::vector<int64_t> token_start = {0};     // In `attribute`.
  std::vector<int32_t> attribute;             // Each at most once a token.
  std::vector<double> value;                  // Finite.
  std::vector<int32_t> label;                 // tokens, indices into label_names.
  std::vector<int32_t> line;                  // tokens: line number in the file.

  int64_t sequences() const { return static_cast<int64_t>(sequence_start.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(label.size()); }
};

// CRFsuite's format: a line a token, fields separated by tabs: the label, then attributes `name` or `name:value`
// (without a value: 1; `\:` and `\\` in names stand for : and \); blank lines end sequences. An attribute that a token
// has twice gets the sum of its values. Nothing is added: bias and ends are there if the file has them.
//
// Errors are INVALID_ARGUMENT "name:line: ..." or "name: ...": no tokens, a label or name that is empty, values that
// are no finite numbers, more than kMaxLabels labels, a sequence above kMaxSequenceTokens. DATA_LOSS as ReadColumnText.
absl::StatusOr<AttributeText> ReadAttributeText(learn::LineReader& lines);

// The attributes that occur in the sequences numbered `rows` on at least min_count tokens, frozen; rows of the weights
// by falling number of occurrences, ties by first occurrence.
class AttributeMap {
 public:
  // INVALID_ARGUMENT as Check; CANCELLED when stopped, here and below.
  static absl::StatusOr<AttributeMap> Fit(const AttributeText& text, const std::vector<int32_t>& rows,
                                          int64_t min_count, const base::StopToken& stop = {});

  // INVALID_ARGUMENT: no sequences, fewer than two labels.
  static absl::Status Check(const AttributeText& text, const std::vector<int32_t>& rows);

  // Attributes that are not in the map are dropped; unknown labels as FeatureMap::Encode has them. `text` may be
  // another one than Fit's.
  absl::StatusOr<ChainData> Encode(const AttributeText& text, const std::vector<int32_t>& rows,
                                   FeatureMap::UnknownLabels unknown = FeatureMap::UnknownLabels::kError,
                                   const base::StopToken& stop = {}) const;

  // What Load gives encodes every text as this one does. DATA_LOSS when the bytes do not fit.
  void Save(learn::CheckpointWriter* writer) const;
  static absl::StatusOr<AttributeMap> Load(learn::CheckpointReader* reader);

  int32_t attributes() const { return names_.size(); }
  const std::string& name(int32_t attribute) const { return names_.text(attribute); }  // Of a row.
  const std::vector<std::string>& label_names() const { return label_names_; }

 private:
  AttributeMap() = default;
  // Of these sequences, in byte order.
  static std::vector<std::string> LabelNames(const AttributeText& text, const std::vector<int32_t>& rows);

  Interner names_;  // In the order of the rows.
  std::vector<std::string> label_names_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_ATTRIBUTE_TEXT_H_
