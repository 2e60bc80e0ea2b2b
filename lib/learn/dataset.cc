#include "lib/learn/dataset.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"

namespace luthier::learn {
namespace {

template <typename T>
std::string HashOf(const std::vector<T>& v) {
  return base::Sha256Hex(absl::string_view(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T)));
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

}  // namespace

bool ParseNumber(absl::string_view text, double* value) {
  const char* begin = text.data();
  const char* end = begin + text.size();
  if (begin != end && *begin == '+') {
    ++begin;
    if (begin != end && (*begin == '-' || *begin == '+')) return false;
  }
  if (begin == end) return false;
  const std::from_chars_result result = std::from_chars(begin, end, *value);
  if (result.ptr != end) return false;
  if (result.ec == std::errc()) return true;
  if (result.ec != std::errc::result_out_of_range) return false;
  // Out of range covers underflow too: a number that rounds to zero is zero; one too large is refused.
  const absl::string_view digits(begin, static_cast<size_t>(end - begin));
  const size_t exponent = digits.find_first_of("eE");
  if (exponent == absl::string_view::npos || exponent + 1 >= digits.size() || digits[exponent + 1] != '-') return false;
  *value = 0.0;
  return true;
}

absl::Status AssignClasses(const std::vector<std::string>& label_texts, Dataset* dataset) {
  if (label_texts.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(dataset->name, ": has no rows of data"));
  }
  std::vector<double> numbers(label_texts.size());
  bool numeric = true;
  for (size_t i = 0; i < label_texts.size() && numeric; ++i) {
    numeric = ParseNumber(label_texts[i], &numbers[i]) && std::isfinite(numbers[i]);
  }
  dataset->classes.clear();
  dataset->label.assign(label_texts.size(), 0);
  // Ordered containers: class indices depend on the labels alone.
  if (numeric) {
    std::map<double, int32_t> index;
    for (const double v : numbers) {
      index.emplace(v, 0);
      if (index.size() > kMaxClasses) return TooManyClasses(dataset->name);
    }
    for (auto& [value, i] : index) {
      i = static_cast<int32_t>(dataset->classes.size());
      dataset->classes.push_back(Shortest(value));
    }
    for (size_t i = 0; i < numbers.size(); ++i) dataset->label[i] = index.find(numbers[i])->second;
  } else {
    std::map<std::string, int32_t> index;
    for (const std::string& text : label_texts) {
      index.emplace(text, 0);
      if (index.size() > kMaxClasses) return TooManyClasses(dataset->name);
    }
    for (auto& [text, i] : index) {
      i = static_cast<int32_t>(dataset->classes.size());
      dataset->classes.push_back(text);
    }
    for (size_t i = 0; i < label_texts.size(); ++i) dataset->label[i] = index.find(label_texts[i])->second;
  }
  if (dataset->classes.size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(dataset->name, ": all rows have the label ",
                                                   base::Quote(dataset->classes[0]),
                                                   "; at least two classes are needed"));
  }
  return absl::OkStatus();
}

std::string Fingerprint(const Dataset& d) {
  std::string text = absl::StrCat("luthier-dataset-1\n", d.x.rows, " ", d.x.cols, " ", d.classes.size(), "\n");
  for (const std::string& name : d.classes) absl::StrAppend(&text, name.size(), ":", name, "\n");
  absl::StrAppend(&text, HashOf(d.x.row_start), "\n", HashOf(d.x.column), "\n", HashOf(d.x.value), "\n",
                  HashOf(d.label), "\n");
  return base::Sha256Hex(text);
}

}  // namespace luthier::learn
