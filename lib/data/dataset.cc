#include "lib/data/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
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

// Classes in the order of their keys, of which `key(i)` is that of row i, and `name` their names. Ordered containers:
// class indices depend on the labels alone.
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
    return absl::InvalidArgumentError(absl::StrCat(dataset->name, ": all rows have the label ",
                                                   base::Quote(dataset->classes[0]),
                                                   "; at least two classes are needed"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Fingerprint(const Dataset& d, const base::StopToken& stop) {
  std::string text = absl::StrCat("luthier-dataset-1\n", d.x.rows, " ", d.x.cols, " ", d.classes.size(), "\n");
  for (const std::string& name : d.classes) absl::StrAppend(&text, name.size(), ":", name, "\n");
  LUTHIER_ASSIGN_OR_RETURN(const std::string row_start, HashOf(d.x.row_start, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string column, HashOf(d.x.column, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string value, HashOf(d.x.value, stop));
  LUTHIER_ASSIGN_OR_RETURN(const std::string label, HashOf(d.label, stop));
  absl::StrAppend(&text, row_start, "\n", column, "\n", value, "\n", label, "\n");
  return base::Sha256Hex(text);
}

}  // namespace luthier::data
