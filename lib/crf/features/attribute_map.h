#ifndef LUTHIER_LIB_CRF_FEATURES_ATTRIBUTE_MAP_H_
#define LUTHIER_LIB_CRF_FEATURES_ATTRIBUTE_MAP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/crf/features/chain_data.h"
#include "lib/crf/features/features.h"
#include "lib/data/attribute_text.h"
#include "lib/data/interner.h"

namespace luthier::crf {

// An immutable numbering of the attributes of some sequences: each attribute has a row of the
// weights. Rows are ordered by falling number of occurrences, ties by first occurrence.
class AttributeMap {
 public:
  // Numbers the attributes that occur on at least `min_count` tokens of the sequences numbered
  // `rows`. Returns the errors of Check. Returns CANCELLED when stopped, here and below.
  static absl::StatusOr<AttributeMap> Fit(const data::AttributeText& text, const std::vector<int32_t>& rows,
                                          int64_t min_count, const base::StopToken& stop = {});

  // Returns INVALID_ARGUMENT if there are no sequences or fewer than two labels.
  static absl::Status Check(const data::AttributeText& text, const std::vector<int32_t>& rows);

  // Encodes sequences of `text`, which may differ from that of Fit. Attributes that are not in the
  // map are dropped. Unknown labels are treated as by FeatureMap::Encode.
  absl::StatusOr<ChainData> Encode(const data::AttributeText& text, const std::vector<int32_t>& rows,
                                   FeatureMap::UnknownLabels unknown = FeatureMap::UnknownLabels::kError,
                                   const base::StopToken& stop = {}) const;

  // Load returns a map that encodes every text as this one does, or DATA_LOSS if the bytes do not
  // fit.
  void Save(base::CheckpointWriter* writer) const;
  static absl::StatusOr<AttributeMap> Load(base::CheckpointReader* reader);

  int32_t attributes() const { return names_.size(); }
  const std::string& name(int32_t attribute) const { return names_.text(attribute); }  // Text of a row's attribute.
  const std::vector<std::string>& label_names() const { return label_names_; }

 private:
  AttributeMap() = default;
  // Returns the labels of these sequences, in byte order.
  static std::vector<std::string> LabelNames(const data::AttributeText& text, const std::vector<int32_t>& rows);

  data::Interner names_;  // Names in the order of the rows.
  std::vector<std::string> label_names_;
};

}  // namespace luthier::crf

#endif  // LUTHIER_LIB_CRF_FEATURES_ATTRIBUTE_MAP_H_
