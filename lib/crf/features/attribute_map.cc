#include "lib/crf/features/attribute_map.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/data/attribute_text.h"
#include "lib/data/column_text.h"
#include "lib/linear/minimizer.h"

namespace luthier::crf {
std::vector<std::string> AttributeMap::LabelNames(const data::AttributeText& text, const std::vector<int32_t>& rows) {
  std::vector<bool> there(static_cast<size_t>(text.label_names.size()), false);
  for (const int32_t i : rows) {
    const auto begin = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i)]);
    const auto end = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i) + 1]);
    for (size_t t = begin; t < end; ++t) there[static_cast<size_t>(text.label[t])] = true;
  }
  std::vector<std::string> names;
  for (size_t k = 0; k < there.size(); ++k) {
    if (there[k]) names.push_back(text.label_names.text(static_cast<int32_t>(k)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status AttributeMap::Check(const data::AttributeText& text, const std::vector<int32_t>& rows) {
  if (rows.empty()) return absl::InvalidArgumentError(absl::StrCat(text.name, ": no sequences to train on"));
  const std::vector<std::string> names = LabelNames(text, rows);
  if (names.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(text.name, ": all labels are the same: nothing is to be learned"));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttributeMap> AttributeMap::Fit(const data::AttributeText& text, const std::vector<int32_t>& rows,
                                               int64_t min_count, const base::StopToken& stop) {
  LUTHIER_CHECK(min_count >= 1);
  LUTHIER_RETURN_IF_ERROR(Check(text, rows));
  AttributeMap map;
  map.label_names_ = LabelNames(text, rows);
  std::vector<int64_t> count(static_cast<size_t>(text.attributes.size()), 0);
  for (const int32_t i : rows) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const auto begin = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i)]);
    const auto end = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i) + 1]);
    for (int64_t e = text.token_start[begin]; e < text.token_start[end]; ++e) {
      ++count[static_cast<size_t>(text.attribute[static_cast<size_t>(e)])];
    }
  }
  std::vector<int32_t> order(count.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t a) { return count[static_cast<size_t>(a)] < min_count; });
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int64_t count_a = count[static_cast<size_t>(a)], count_b = count[static_cast<size_t>(b)];
    return count_a != count_b ? count_a > count_b : a < b;
  });
  for (const int32_t a : order) map.names_.Intern(text.attributes.text(a));
  return map;
}

absl::StatusOr<ChainData> AttributeMap::Encode(const data::AttributeText& text, const std::vector<int32_t>& rows,
                                               FeatureMap::UnknownLabels unknown, const base::StopToken& stop) const {
  ChainData data;
  data.name = text.name;
  data.attributes = attributes();
  data.label_names = label_names_;
  std::vector<int32_t> row, label;
  for (int32_t a = 0; a < text.attributes.size(); ++a) row.push_back(names_.Find(text.attributes.text(a)));
  for (int32_t k = 0; k < text.label_names.size(); ++k) {
    const auto found = std::lower_bound(label_names_.begin(), label_names_.end(), text.label_names.text(k));
    const bool known = found != label_names_.end() && *found == text.label_names.text(k);
    label.push_back(known ? static_cast<int32_t>(found - label_names_.begin()) : -1);
  }
  for (const int32_t i : rows) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const auto begin = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i)]);
    const auto end = static_cast<size_t>(text.sequence_start[static_cast<size_t>(i) + 1]);
    for (size_t t = begin; t < end; ++t) {
      for (auto e = static_cast<size_t>(text.token_start[t]); e < static_cast<size_t>(text.token_start[t + 1]); ++e) {
        if (row[static_cast<size_t>(text.attribute[e])] < 0) continue;
        data.attribute.push_back(row[static_cast<size_t>(text.attribute[e])]);
        data.value.push_back(text.value[e]);
      }
      data.token_start.push_back(static_cast<int64_t>(data.attribute.size()));
      int32_t& k = label[static_cast<size_t>(text.label[t])];
      if (k < 0 && unknown == FeatureMap::UnknownLabels::kKeep) {
        k = data.labels() + static_cast<int32_t>(data.unknown_names.size());
        data.unknown_names.push_back(text.label_names.text(text.label[t]));
      } else if (k < 0) {
        return absl::InvalidArgumentError(
            absl::StrCat(text.name, ":", text.line[t], ": its label does not occur in the training data"));
      }
      data.label.push_back(k);
    }
    data.sequence_start.push_back(data.tokens());
  }
  if (std::all_of(data.value.begin(), data.value.end(), [](double v) { return v == 1.0; })) data.value.clear();
  return data;
}

void AttributeMap::Save(base::CheckpointWriter* writer) const {
  std::vector<std::string> names;
  for (int32_t a = 0; a < names_.size(); ++a) names.push_back(names_.text(a));
  writer->Texts(names);
  writer->Texts(label_names_);
}

absl::StatusOr<AttributeMap> AttributeMap::Load(base::CheckpointReader* reader) {
  AttributeMap map;
  const std::vector<std::string> names = reader->Texts();
  for (const std::string& name : names) map.names_.Intern(name);
  map.label_names_ = reader->Texts();
  const bool ascending = std::adjacent_find(map.label_names_.begin(), map.label_names_.end(), std::greater_equal<>()) ==
                         map.label_names_.end();
  if (!reader->ok() || map.attributes() != static_cast<int32_t>(names.size()) || map.label_names_.size() < 2 ||
      !ascending) {
    return absl::DataLossError("the table of attributes does not fit together");
  }
  return map;
}

}  // namespace luthier::crf
