#include "lib/data/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <type_traits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/data/growth.h"
#include "lib/data/nearest_column.h"
#include "lib/data/number_words.h"
#include "lib/notation/number.h"

namespace luthier::data {
namespace {

constexpr int64_t kLabelWork = 64;  // Operations of parsing or finding a label, for Pace.

template <typename T>
absl::StatusOr<std::string> HashOf(const std::vector<T>& v, const base::StopToken& stop) {
  base::Sha256Parts hash;
  LUTHIER_RETURN_IF_ERROR(
      base::InPieces(static_cast<int64_t>(v.size()), sizeof(T), stop, [&](int64_t begin, int64_t end) {
        hash.Add(absl::string_view(reinterpret_cast<const char*>(v.data() + begin),
                                   static_cast<size_t>(end - begin) * sizeof(T)));
      }));
  return std::move(hash).Hex();
}

std::string Shortest(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value == 0.0 ? 0.0 : value);  // -0 is 0
  return std::string(buffer, result.ptr);
}

absl::Status TooManyClasses(const std::string& name) {
  return absl::InvalidArgumentError(absl::StrCat(
      name, ": the labels have more than ", kMaxClasses,
      " different values; this model classifies: name the right label column or bin the target into classes"));
}

// Numbers the classes in the order of their keys; `key(i)` is the key of row i, and `name` gives their names. The
// containers are ordered: class indices depend on the labels alone.
template <typename Key, typename KeyOf, typename Name>
absl::Status NumberClasses(KeyOf key, Name name, base::Pace* pace, Dataset* dataset) {
  std::map<Key, int32_t> index;
  const size_t rows = dataset->label.size();
  for (size_t i = 0; i < rows; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace->Poll(kLabelWork));
    index.emplace(key(i), 0);
    if (index.size() > kMaxClasses) return TooManyClasses(dataset->name);
  }
  for (auto& [value, i] : index) {
    i = static_cast<int32_t>(dataset->classes.size());
    dataset->classes.push_back(name(value));
  }
  for (size_t i = 0; i < rows; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace->Poll(kLabelWork));
    dataset->label[i] = index.find(key(i))->second;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AssignClasses(const std::vector<std::string>& label_texts, Dataset* dataset, const base::StopToken& stop) {
  if (label_texts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(dataset->name, ": has no rows of data"));
  }
  const size_t rows = label_texts.size();
  std::vector<double> numbers;
  dataset->classes.clear();
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(rows, 0.0, stop, &numbers));
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(rows, 0, stop, &dataset->label));
  base::Pace pace(stop);
  bool numeric = true;
  for (size_t i = 0; i < rows && numeric; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kLabelWork));
    numeric = notation::ParseNumber(label_texts[i], &numbers[i]) && std::isfinite(numbers[i]);
  }
  const auto as_text = [](const std::string& text) { return text; };
  LUTHIER_RETURN_IF_ERROR(
      numeric ? NumberClasses<double>([&](size_t i) { return numbers[i]; }, Shortest, &pace, dataset)
              : NumberClasses<std::string>([&](size_t i) -> const std::string& { return label_texts[i]; }, as_text,
                                           &pace, dataset));
  if (dataset->classes.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(dataset->name, ": all rows have the same label; at least two classes are needed"));
  }
  return absl::OkStatus();
}

absl::Status AssignTargets(const std::vector<std::string>& texts, Dataset* dataset, const base::StopToken& stop) {
  if (texts.empty()) return absl::InvalidArgumentError(absl::StrCat(dataset->name, ": has no rows of data"));
  base::Pace pace(stop);
  dataset->target.clear();
  for (size_t i = 0; i < texts.size(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kLabelWork));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &dataset->target));
    double value = 0.0;
    if (!notation::ParseNumber(texts[i], &value) || !std::isfinite(value)) {
      const absl::string_view why = WhyNoNumber(texts[i]);
      const bool plain = std::isinf(value) || std::isnan(value) || absl::StartsWith(why, "is not a number");
      return absl::InvalidArgumentError(absl::StrCat(
          dataset->name, ": row ", i + 1, " of the data: the target ",
          plain ? "is not a finite number; this model predicts numbers (is the label in the right column?)" : why));
    }
    dataset->target.push_back(value);
  }
  return absl::OkStatus();
}

absl::Status AssignKeys(const std::vector<std::string>& texts, Dataset* dataset, const base::StopToken& stop) {
  base::Pace pace(stop);
  std::vector<double> numbers;
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(texts.size(), 0.0, stop, &numbers));
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(texts.size(), 0, stop, &dataset->key));
  bool numeric = true;
  for (size_t i = 0; i < texts.size() && numeric; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kLabelWork));
    numeric = notation::ParseNumber(texts[i], &numbers[i]) && std::isfinite(numbers[i]);
  }
  const auto rank = [&](auto value) -> absl::Status {
    std::map<std::decay_t<decltype(value(size_t{0}))>, int32_t> ranks;
    for (size_t i = 0; i < texts.size(); ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kLabelWork));
      ranks.emplace(value(i), 0);
    }
    int32_t next = 0;
    for (auto& [unused, r] : ranks) r = next++;
    for (size_t i = 0; i < texts.size(); ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kLabelWork));
      dataset->key[i] = ranks.find(value(i))->second;
    }
    return absl::OkStatus();
  };
  return numeric ? rank([&](size_t i) { return numbers[i]; })
                 : rank([&](size_t i) { return absl::string_view(texts[i]); });
}

namespace {

// Returns, for each column of `second`, the matching column of `first`.
absl::StatusOr<std::vector<int32_t>> MatchColumns(const Dataset& first, const Dataset& second) {
  std::vector<int32_t> column(static_cast<size_t>(second.x.cols));
  if (first.features.empty() || second.features.empty()) {
    if (second.x.cols != first.x.cols && !(first.open_columns && second.open_columns)) {
      return absl::InvalidArgumentError(
          absl::StrCat(second.name, ": has ", second.x.cols, " features; ", first.name, " has ", first.x.cols));
    }
    for (size_t j = 0; j < column.size(); ++j) column[j] = static_cast<int32_t>(j);
    return column;
  }
  std::map<absl::string_view, int32_t> index;
  for (size_t j = 0; j < first.features.size(); ++j) index.emplace(first.features[j], static_cast<int32_t>(j));
  for (size_t j = 0; j < column.size(); ++j) {
    const auto found = index.find(second.features[j]);
    if (found == index.end()) {
      return absl::InvalidArgumentError(absl::StrCat(second.name, ": feature ", j + 1, " has a name that is not in ",
                                                     first.name, NearestColumn(second.features[j], first.features)));
    }
    column[j] = found->second;
    index.erase(found);
  }
  if (!index.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(second.name, ": lacks the column of feature ", index.begin()->second + 1, " of ", first.name));
  }
  return column;
}

}  // namespace

absl::StatusOr<Dataset> Concatenate(Dataset first, const Dataset& second, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int32_t> column, MatchColumns(first, second));
  if (first.regression() != second.regression()) {
    return absl::InvalidArgumentError(absl::StrCat(second.name, ": has classes, or targets, other than ", first.name));
  }
  std::vector<int32_t> class_of;
  for (const std::string& name : second.classes) {
    const auto found = std::find(first.classes.begin(), first.classes.end(), name);
    if (found == first.classes.end()) {
      const auto number = static_cast<int32_t>(class_of.size());
      const auto row = std::find(second.label.begin(), second.label.end(), number) - second.label.begin();
      return absl::InvalidArgumentError(absl::StrCat(second.name, ": row ", row + 1,
                                                     " of the data has a class that is not in ", first.name,
                                                     "; nothing can be learned of it"));
    }
    class_of.push_back(static_cast<int32_t>(found - first.classes.begin()));
  }
  if (first.x.rows + second.x.rows >= kMaxRows) {
    return absl::InvalidArgumentError(absl::StrCat(second.name, ": there are more than ", kMaxRows - 1, " rows"));
  }
  first.key.clear();
  first.x.cols = std::max(first.x.cols, second.x.cols);
  base::Pace pace(stop);
  std::vector<std::pair<int32_t, double>> entries;
  for (int64_t i = 0; i < second.x.rows; ++i) {
    const auto begin = static_cast<size_t>(second.x.row_start[static_cast<size_t>(i)]);
    const auto end = static_cast<size_t>(second.x.row_start[static_cast<size_t>(i) + 1]);
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * static_cast<int64_t>(end - begin + 1)));
    entries.clear();
    for (size_t e = begin; e < end; ++e) {
      entries.emplace_back(column[static_cast<size_t>(second.x.column[e])], second.x.value[e]);
    }
    std::sort(entries.begin(), entries.end());
    LUTHIER_RETURN_IF_ERROR(GrowBy(entries.size(), stop, &first.x.column));
    LUTHIER_RETURN_IF_ERROR(GrowBy(entries.size(), stop, &first.x.value));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &first.x.row_start));
    for (const auto& [j, value] : entries) {
      first.x.column.push_back(j);
      first.x.value.push_back(value);
    }
    first.x.row_start.push_back(first.x.nonzeros());
    if (first.regression()) {
      LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &first.target));
      first.target.push_back(second.target[static_cast<size_t>(i)]);
    } else {
      LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &first.label));
      first.label.push_back(class_of[static_cast<size_t>(second.label[static_cast<size_t>(i)])]);
    }
  }
  first.x.rows += second.x.rows;
  first.appended += second.x.rows;
  return first;
}

absl::StatusOr<std::string> Fingerprint(const Dataset& d, const base::StopToken& stop) {
  std::string text = absl::StrCat("luthier-dataset-1\n", d.x.rows, " ", d.x.cols, " ", d.classes.size(), "\n");
  for (const std::string& name : d.classes) absl::StrAppend(&text, name.size(), ":", name, "\n");
  LUTHIER_ASSIGN_OR_RETURN(const std::string row_start, HashOf(d.x.row_start, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string column, HashOf(d.x.column, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string value, HashOf(d.x.value, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string label, HashOf(d.label, stop));
  absl::StrAppend(&text, row_start, "\n", column, "\n", value, "\n", label, "\n");
  for (const auto& [name, empty, hash] : {std::tuple("target", d.target.empty(), HashOf(d.target, stop)),
                                          std::tuple("key", d.key.empty(), HashOf(d.key, stop))}) {
    LUTHIER_RETURN_IF_ERROR(hash.status());
    if (!empty) absl::StrAppend(&text, name, " ", *hash, "\n");
  }
  return base::Sha256Hex(text);
}

}  // namespace luthier::data
