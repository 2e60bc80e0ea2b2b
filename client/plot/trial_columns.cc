#include "client/plot/trial_columns.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"

namespace luthier::plot {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are little endian");

constexpr double kNoNumber = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::vector<T> Decoded(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

}  // namespace

absl::Status TrialColumns::Add(const v1::GetTrialTableResponse& page) {
  const auto added = static_cast<std::size_t>(page.rows());
  const auto misfit = [](const v1::TrialColumn& column) {
    return absl::InternalError(absl::StrCat("the server's table has a column ", column.name(), " of another length"));
  };
  for (const v1::TrialColumn& column : page.columns()) {
    if (column.has_words()) {
      const std::vector<std::uint32_t> indexes = Decoded<std::uint32_t>(column.words().indexes());
      if (indexes.size() != added) return misfit(column);
      Words& words = words_[column.name()];
      if (words.texts.empty()) words.texts.emplace_back();
      words.indexes.resize(rows_, 0);
      std::map<std::string, std::uint32_t> places;
      for (std::size_t i = 0; i < words.texts.size(); ++i) places.emplace(words.texts[i], i);
      std::vector<std::uint32_t> joined;  // Places of the page's texts.
      for (const std::string& text : column.words().words()) {
        const auto [place, fresh] = places.emplace(text, words.texts.size());
        if (fresh) words.texts.push_back(text);
        joined.push_back(place->second);
      }
      for (const std::uint32_t index : indexes) words.indexes.push_back(index < joined.size() ? joined[index] : 0);
    } else {
      const std::vector<double> values = Decoded<double>(column.numbers());
      if (values.size() != added) return misfit(column);
      std::vector<double>& numbers = numbers_[column.name()];
      numbers.resize(rows_, kNoNumber);
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
  }
  rows_ += added;
  // A column that a page lacks has no values there.
  for (auto& [name, numbers] : numbers_) numbers.resize(rows_, kNoNumber);
  for (auto& [name, words] : words_) words.indexes.resize(rows_, 0);
  none_.assign(rows_, kNoNumber);
  return absl::OkStatus();
}

const std::vector<double>& TrialColumns::Numbers(const std::string& column) const {
  const auto found = numbers_.find(column);
  return found == numbers_.end() ? none_ : found->second;
}

const std::string& TrialColumns::Word(const std::string& column, std::size_t row) const {
  static const auto* const kNoText = new std::string();
  const auto found = words_.find(column);
  return found == words_.end() ? *kNoText : found->second.texts[found->second.indexes[row]];
}

void TrialColumns::KeepLast(std::size_t count) {
  if (count >= rows_) return;
  const auto gone = static_cast<std::ptrdiff_t>(rows_ - count);
  for (auto& [name, numbers] : numbers_) numbers.erase(numbers.begin(), numbers.begin() + gone);
  for (auto& [name, words] : words_) words.indexes.erase(words.indexes.begin(), words.indexes.begin() + gone);
  none_.erase(none_.begin(), none_.begin() + gone);
  rows_ = count;
}

}  // namespace luthier::plot
