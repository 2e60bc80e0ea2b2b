#include "lib/crf/features/features.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/minimizer.h"
#include "lib/notation/templates.h"

namespace luthier::crf {
namespace {

constexpr uint64_t kUnknown = ~uint64_t{0};
constexpr int32_t kMaxAttributes = 1 << 30;

uint64_t HashPair(uint64_t a, uint64_t b) {
  const uint64_t both[2] = {a, b};
  return base::Hash64(absl::string_view(reinterpret_cast<const char*>(both), sizeof(both)));
}

}  // namespace

FeatureMap::FeatureMap(FeatureOptions options, int columns) : options_(std::move(options)), columns_(columns) {
  LUTHIER_CHECK(options_.hash_bits >= 0 && options_.hash_bits <= 28);
  data::Interner spaces;
  for (const notation::Template& one : options_.templates) {
    const int32_t id = spaces.Intern(absl::StrCat(one.space, " ", one.positions.size()));
    space_.push_back(options_.hash_bits > 0 ? base::Hash64(spaces.text(id)) : static_cast<uint64_t>(id));
  }
  // No field of a file holds a blank, so these are never a token's text.
  for (int side = 0; side < 2; ++side) {
    for (int distance = 1; distance <= notation::kMaxOffset; ++distance) {
      const std::string name =
          options_.boundary == Boundary::kNumbered ? absl::StrCat(side == 0 ? " -" : " +", distance) : " ";
      boundary_.push_back(options_.hash_bits > 0 ? base::Hash64(name) : static_cast<uint64_t>(texts_.Intern(name)));
    }
  }
}

uint64_t FeatureMap::BoundaryId(int64_t overhang) const {
  if (options_.boundary == Boundary::kSkip) return kUnknown;
  return boundary_[static_cast<size_t>(overhang < 0 ? -overhang - 1 : notation::kMaxOffset + overhang - 1)];
}

std::vector<uint64_t> FeatureMap::CellIds(const data::ColumnText& text, bool intern) {
  for (const bool lower : {false, true}) {
    for (int32_t s = 0; intern && options_.hash_bits == 0 && s < text.strings.size(); ++s) {
      const std::string& raw = text.strings.text(s);
      texts_.Intern(lower && options_.lower_words ? absl::AsciiStrToLower(raw) : raw);
    }
  }
  return std::as_const(*this).CellIds(text);
}

std::vector<uint64_t> FeatureMap::CellIds(const data::ColumnText& text) const {
  const auto number = [&](const std::string& s) {
    if (options_.hash_bits > 0) return base::Hash64(s);
    const int32_t id = texts_.Find(s);
    return id < 0 ? kUnknown : static_cast<uint64_t>(id);
  };
  std::vector<uint64_t> word(static_cast<size_t>(text.strings.size()));
  std::vector<uint64_t> other(word.size());
  for (size_t s = 0; s < word.size(); ++s) {
    const std::string& raw = text.strings.text(static_cast<int32_t>(s));
    other[s] = number(raw);
    word[s] = options_.lower_words ? number(absl::AsciiStrToLower(raw)) : other[s];
  }
  std::vector<uint64_t> ids(text.cell.size());
  for (size_t k = 0; k < ids.size(); ++k) {
    ids[k] = (k % static_cast<size_t>(columns_) == 0 ? word : other)[static_cast<size_t>(text.cell[k])];
  }
  return ids;
}

template <typename Combine, typename Emit>
void FeatureMap::Visit(const std::vector<uint64_t>& ids, int64_t begin, int64_t end, int64_t t, Combine&& combine,
                       Emit&& emit) const {
  for (size_t j = 0; j < space_.size(); ++j) {
    uint64_t value = kUnknown;
    bool first = true;
    for (const notation::Position& position : options_.templates[j].positions) {
      const int64_t at = t + position.offset;
      const uint64_t id = at < begin  ? BoundaryId(at - begin)
                          : at >= end ? BoundaryId(at - end + 1)
                                      : ids[static_cast<size_t>(at * columns_ + position.column)];
      value = id == kUnknown ? kUnknown : first ? id : combine(value, id);
      first = false;
      if (value == kUnknown) break;
    }
    if (value != kUnknown) emit(space_[j], value);
  }
}

std::vector<std::string> FeatureMap::LabelNames(const data::ColumnText& text, const std::vector<int32_t>& rows) {
  std::vector<bool> there(static_cast<size_t>(text.label_names.size()), false);
  for (const int32_t i : rows) {
    for (int64_t t = text.sequence_start[static_cast<size_t>(i)]; t < text.sequence_start[static_cast<size_t>(i) + 1];
         ++t) {
      there[static_cast<size_t>(text.label[static_cast<size_t>(t)])] = true;
    }
  }
  std::vector<std::string> names;
  for (size_t k = 0; k < there.size(); ++k) {
    if (there[k]) names.push_back(text.label_names.text(static_cast<int32_t>(k)));
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status FeatureMap::Check(const data::ColumnText& text, const std::vector<int32_t>& rows,
                               const FeatureOptions& options) {
  if (rows.empty()) return absl::InvalidArgumentError(absl::StrCat(text.name, ": no sequences to train on"));
  for (const notation::Template& one : options.templates) {
    for (const notation::Position& position : one.positions) {
      if (position.column >= text.columns && !one.optional) {
        return absl::InvalidArgumentError(absl::StrCat("template ", base::Quote(one.space), " needs column ",
                                                       position.column, ", but ", text.name, " has ", text.columns,
                                                       " beside the label (counted from 0)"));
      }
    }
  }
  const std::vector<std::string> names = LabelNames(text, rows);
  if (names.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(text.name, ": all labels are the same: nothing is to be learned"));
  }
  return absl::OkStatus();
}

absl::StatusOr<FeatureMap> FeatureMap::Fit(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                           FeatureOptions options, const base::StopToken& stop) {
  LUTHIER_CHECK(options.min_count >= 1);
  LUTHIER_RETURN_IF_ERROR(Check(text, rows, options));
  // Drops the optional templates whose columns do not exist; the others were checked.
  std::erase_if(options.templates, [&](const notation::Template& one) {
    return std::any_of(one.positions.begin(), one.positions.end(),
                       [&](const notation::Position& position) { return position.column >= text.columns; });
  });
  FeatureMap map(std::move(options), text.columns);
  map.label_names_ = LabelNames(text, rows);
  if (map.options_.hash_bits > 0) {
    LUTHIER_RETURN_IF_ERROR(map.FitHashing(text, rows, stop));
  } else {
    LUTHIER_RETURN_IF_ERROR(map.FitDictionary(text, rows, stop));
  }
  map.CountAttributes();
  return map;
}

absl::Status FeatureMap::FitDictionary(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                       const base::StopToken& stop) {
  const std::vector<uint64_t> ids = CellIds(text, true);
  std::vector<int64_t> count;
  const auto combine = [&](uint64_t a, uint64_t b) {
    return pairs_.try_emplace(Key(a, b), kCombined + pairs_.size()).first->second;
  };
  const auto emit = [&](uint64_t space, uint64_t id) {
    const int32_t row = row_.try_emplace(Key(space, id), static_cast<int32_t>(count.size())).first->second;
    if (static_cast<size_t>(row) == count.size()) count.push_back(0);
    ++count[static_cast<size_t>(row)];
  };
  for (const int32_t i : rows) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const int64_t begin = text.sequence_start[static_cast<size_t>(i)];
    const int64_t end = text.sequence_start[static_cast<size_t>(i) + 1];
    for (int64_t t = begin; t < end; ++t) Visit(ids, begin, end, t, combine, emit);
    if (count.size() > static_cast<size_t>(kMaxAttributes)) {
      return absl::InvalidArgumentError(
          absl::StrCat(text.name, ": has more than ", kMaxAttributes, " attributes; set hash_bits"));
    }
  }
  std::vector<int32_t> order(count.size());
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](int32_t r) { return count[static_cast<size_t>(r)] < options_.min_count; });
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto count_a = count[static_cast<size_t>(a)], count_b = count[static_cast<size_t>(b)];
    return count_a != count_b ? count_a > count_b : a < b;
  });
  std::vector<int32_t> renumbered(count.size(), -1);
  for (size_t k = 0; k < order.size(); ++k) renumbered[static_cast<size_t>(order[k])] = static_cast<int32_t>(k);
  for (auto& [key, row] : row_) row = renumbered[static_cast<size_t>(row)];
  template_rows_ = static_cast<int32_t>(order.size());
  return absl::OkStatus();
}

int32_t FeatureMap::HashRow(uint64_t space, uint64_t id) const {
  return static_cast<int32_t>(HashPair(space, id) >> (64 - options_.hash_bits));
}

absl::Status FeatureMap::FitHashing(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                    const base::StopToken& stop) {
  const std::vector<uint64_t> ids = CellIds(text, false);
  template_rows_ = int32_t{1} << options_.hash_bits;
  absl::flat_hash_set<uint64_t> distinct;
  // Number of attributes of each row: none, one, more.
  std::vector<uint8_t> load(static_cast<size_t>(template_rows_), 0);
  int64_t shared = 0;
  for (const int32_t i : rows) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const int64_t begin = text.sequence_start[static_cast<size_t>(i)];
    const int64_t end = text.sequence_start[static_cast<size_t>(i) + 1];
    for (int64_t t = begin; t < end; ++t) {
      Visit(ids, begin, end, t, HashPair, [&](uint64_t space, uint64_t id) {
        if (!distinct.insert(HashPair(space, id)).second) return;
        uint8_t& there = load[static_cast<size_t>(HashRow(space, id))];
        // The first attribute of a row shares it as soon as there is a second.
        shared += there == 1 ? 2 : there == 2 ? 1 : 0;
        if (there < 2) ++there;
      });
    }
  }
  collision_rate_ = distinct.empty() ? 0.0 : static_cast<double>(shared) / static_cast<double>(distinct.size());
  return absl::OkStatus();
}

std::vector<int32_t> FeatureMap::RowSources() const {
  std::vector<int32_t> sources(static_cast<size_t>(template_rows_), 0);
  for (const auto& [key, row] : row_) {
    if (row < 0) continue;
    const auto first = std::find(space_.begin(), space_.end(), key.first);
    sources[static_cast<size_t>(row)] = static_cast<int32_t>(first - space_.begin());
  }
  if (options_.bias) sources.push_back(kBias);
  if (options_.ends) sources.insert(sources.end(), 2, kEnds);
  return sources;
}

absl::StatusOr<ChainData> FeatureMap::Encode(const data::ColumnText& text, const std::vector<int32_t>& rows,
                                             UnknownLabels unknown, const base::StopToken& stop) const {
  if (text.columns != columns_) {
    return absl::InvalidArgumentError(
        absl::StrCat(text.name, ": has ", text.columns + 1, " columns, but the training data have ", columns_ + 1));
  }
  ChainData data;
  data.name = text.name;
  data.attributes = attributes_;
  data.label_names = label_names_;
  std::vector<int32_t> label(static_cast<size_t>(text.label_names.size()), -1);
  for (size_t k = 0; k < label_names_.size(); ++k) {
    const int32_t id = text.label_names.Find(label_names_[k]);
    if (id >= 0) label[static_cast<size_t>(id)] = static_cast<int32_t>(k);
  }
  const std::vector<uint64_t> ids = CellIds(text);
  const auto combine = [&](uint64_t a, uint64_t b) {
    if (options_.hash_bits > 0) return HashPair(a, b);
    const auto found = pairs_.find(Key(a, b));
    return found == pairs_.end() ? kUnknown : found->second;
  };
  const int32_t bias = template_rows_;
  const int32_t ends = template_rows_ + (options_.bias ? 1 : 0);
  for (const int32_t i : rows) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const int64_t begin = text.sequence_start[static_cast<size_t>(i)];
    const int64_t end = text.sequence_start[static_cast<size_t>(i) + 1];
    for (int64_t t = begin; t < end; ++t) {
      const auto first = data.attribute.end() - data.attribute.begin();
      Visit(ids, begin, end, t, combine, [&](uint64_t space, uint64_t id) {
        int32_t row = -1;
        if (options_.hash_bits > 0) {
          row = HashRow(space, id);
        } else if (const auto found = row_.find(Key(space, id)); found != row_.end()) {
          row = found->second;
        }
        if (row >= 0 && std::find(data.attribute.begin() + first, data.attribute.end(), row) == data.attribute.end()) {
          data.attribute.push_back(row);
        }
      });
      if (options_.bias) data.attribute.push_back(bias);
      if (options_.ends && t == begin) data.attribute.push_back(ends);
      if (options_.ends && t + 1 == end) data.attribute.push_back(ends + 1);
      data.token_start.push_back(static_cast<int64_t>(data.attribute.size()));
      int32_t& k = label[static_cast<size_t>(text.label[static_cast<size_t>(t)])];
      if (k < 0 && unknown == UnknownLabels::kKeep) {
        k = data.labels() + static_cast<int32_t>(data.unknown_names.size());
        data.unknown_names.push_back(text.label_names.text(text.label[static_cast<size_t>(t)]));
      } else if (k < 0) {
        return absl::InvalidArgumentError(absl::StrCat(text.name, ":", text.line[static_cast<size_t>(t)],
                                                       ": its label does not occur in the training data"));
      }
      data.label.push_back(k);
    }
    data.sequence_start.push_back(data.tokens());
  }
  return data;
}

}  // namespace luthier::crf
