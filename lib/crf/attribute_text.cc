#include "lib/crf/attribute_text.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/crf/column_text.h"
#include "lib/learn/minimizer.h"

namespace luthier::crf {
namespace {

// The name of an attribute, and its value's text if there is one.
void SplitAttribute(absl::string_view field, std::string* name, std::optional<absl::string_view>* value) {
  name->clear();
  value->reset();
  for (size_t k = 0; k < field.size(); ++k) {
    if (field[k] == '\\' && k + 1 < field.size() && (field[k + 1] == ':' || field[k + 1] == '\\')) {
      name->push_back(field[++k]);
    } else if (field[k] == ':') {
      *value = field.substr(k + 1);
      return;
    } else {
      name->push_back(field[k]);
    }
  }
}

}  // namespace

absl::StatusOr<AttributeText> ReadAttributeText(learn::LineReader& lines) {
  AttributeText text;
  text.name = lines.name();
  const auto error = [&](const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat(lines.name(), ":", lines.line_number(), ": ", what));
  };
  const auto end_sequence = [&] {
    if (text.tokens() > text.sequence_start.back()) text.sequence_start.push_back(text.tokens());
  };
  std::string name;
  std::optional<absl::string_view> value_text;
  std::vector<int64_t> place;  // Of each attribute in `attribute`, where a token last had it.
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines.Next());
    if (!next) break;
    if (next->find_first_not_of(" \t") == absl::string_view::npos) {
      end_sequence();
      continue;
    }
    if (text.tokens() - text.sequence_start.back() >= kMaxSequenceTokens) {
      return error(absl::StrCat("the sequence has more than ", kMaxSequenceTokens,
                                " tokens; are the blank lines between sequences missing?"));
    }
    if (text.tokens() >= INT32_MAX || lines.line_number() >= INT32_MAX) return error("the file has too many tokens");
    const std::vector<absl::string_view> fields = absl::StrSplit(*next, '\t');
    if (fields[0].empty()) return error("has no label before its first tab");
    const auto first = static_cast<int64_t>(text.attribute.size());
    for (size_t k = 1; k < fields.size(); ++k) {
      if (fields[k].empty() && k + 1 == fields.size()) break;  // A tab at the end of the line.
      SplitAttribute(fields[k], &name, &value_text);
      if (name.empty()) return error(absl::StrCat("attribute ", k, " has no name"));
      double value = 1.0;
      if (value_text && (!absl::SimpleAtod(*value_text, &value) || !std::isfinite(value))) {
        return error(absl::StrCat("attribute ", base::Quote(name), " has the value ", base::Quote(*value_text),
                                  ", which is not a finite number; a colon in a name is written \\:"));
      }
      const int32_t id = text.attributes.Intern(name);
      if (static_cast<size_t>(id) == place.size()) place.push_back(-1);
      int64_t& at = place[static_cast<size_t>(id)];
      if (at < first) {
        at = static_cast<int64_t>(text.attribute.size());
        text.attribute.push_back(id);
        text.value.push_back(value);
      } else {
        double& sum = text.value[static_cast<size_t>(at)];
        sum += value;
        if (!std::isfinite(sum)) return error(absl::StrCat("the values of ", base::Quote(name), " are too large"));
      }
    }
    const int32_t label = text.label_names.Intern(fields[0]);
    if (label >= kMaxLabels) {
      return error(absl::StrCat("label ", base::Quote(fields[0]), " is number ", kMaxLabels + 1,
                                "; is the label in the first column?"));
    }
    text.label.push_back(label);
    text.line.push_back(static_cast<int32_t>(lines.line_number()));
    text.token_start.push_back(static_cast<int64_t>(text.attribute.size()));
  }
  end_sequence();
  if (text.tokens() == 0) return absl::InvalidArgumentError(absl::StrCat(lines.name(), ": has no tokens"));
  return text;
}

std::vector<std::string> AttributeMap::LabelNames(const AttributeText& text, const std::vector<int32_t>& rows) {
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

absl::Status AttributeMap::Check(const AttributeText& text, const std::vector<int32_t>& rows) {
  if (rows.empty()) return absl::InvalidArgumentError(absl::StrCat(text.name, ": no sequences to train on"));
  const std::vector<std::string> names = LabelNames(text, rows);
  if (names.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.name, ": all labels are ", base::Quote(names[0]), ": nothing is to be learned"));
  }
  return absl::OkStatus();
}

absl::StatusOr<AttributeMap> AttributeMap::Fit(const AttributeText& text, const std::vector<int32_t>& rows,
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

absl::StatusOr<ChainData> AttributeMap::Encode(const AttributeText& text, const std::vector<int32_t>& rows,
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
      const std::string& name = text.label_names.text(text.label[t]);
      if (k < 0 && unknown == FeatureMap::UnknownLabels::kKeep) {
        k = data.labels() + static_cast<int32_t>(data.unknown_names.size());
        data.unknown_names.push_back(name);
      } else if (k < 0) {
        return absl::InvalidArgumentError(absl::StrCat(text.name, ":", text.line[t], ": label ", base::Quote(name),
                                                       " does not occur in the training data"));
      }
      data.label.push_back(k);
    }
    data.sequence_start.push_back(data.tokens());
  }
  if (std::all_of(data.value.begin(), data.value.end(), [](double v) { return v == 1.0; })) data.value.clear();
  return data;
}

void AttributeMap::Save(learn::CheckpointWriter* writer) const {
  std::vector<std::string> names;
  for (int32_t a = 0; a < names_.size(); ++a) names.push_back(names_.text(a));
  writer->Texts(names);
  writer->Texts(label_names_);
}

absl::StatusOr<AttributeMap> AttributeMap::Load(learn::CheckpointReader* reader) {
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
