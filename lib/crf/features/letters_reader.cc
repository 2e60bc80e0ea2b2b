#include "lib/crf/features/letters_reader.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/status_macros.h"
#include "lib/data/column_text.h"

namespace luthier::crf {
namespace {

constexpr size_t kBitmapFields = 5;                       // letters.tsv
constexpr size_t kPixelFields = 6 + data::kLetterPixels;  // letter.data
constexpr size_t kBitmapDigits = data::kLetterPixels / 4;
constexpr int32_t kEvery = data::kLetterPixels, kFirst = data::kLetterPixels + 1, kLast = data::kLetterPixels + 2;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

class LettersParser {
 public:
  explicit LettersParser(data::LineReader* lines) : lines_(*lines) {}

  absl::StatusOr<Letters> Parse() {
    letters_.data.name = lines_.name();
    letters_.data.attributes = data::kLetterPixels + 3;
    while (true) {
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<absl::string_view> next, lines_.Next());
      if (!next) break;
      if (next->empty()) continue;
      std::vector<absl::string_view> fields = absl::StrSplit(*next, '\t');
      if (fields.size() > 1 && fields.back().empty()) fields.pop_back();  // letter.data ends its lines with a tab.
      if (fields_ == 0) {
        if (fields.size() != kBitmapFields && fields.size() != kPixelFields) {
          return Error(1, absl::StrCat("has ", fields.size(), " fields between tabs; letters have ", kBitmapFields,
                                       " (fold word position letter bitmap) or ", kPixelFields, " (letter.data)"));
        }
        fields_ = fields.size();
      } else if (fields.size() != fields_) {
        return Error(1, absl::StrCat("has ", fields.size(), " fields between tabs; the first line has ", fields_));
      }
      LUTHIER_RETURN_IF_ERROR(fields_ == kBitmapFields ? AddBitmap(*next, fields) : AddPixels(*next, fields));
    }
    if (letter_.empty()) return absl::InvalidArgumentError(absl::StrCat(lines_.name(), ": has no letters"));
    if (fields_ == kPixelFields && !ended_) {
      return absl::DataLossError(absl::StrCat(lines_.name(), ": the last word is cut off (no next_id of -1)"));
    }
    EndWord();
    return Finish();
  }

 private:
  absl::Status Error(size_t column, const std::string& what) const {
    return absl::InvalidArgumentError(absl::StrCat(lines_.name(), ":", lines_.line_number(), ":", column, ": ", what));
  }

  absl::Status AddBitmap(absl::string_view line, const std::vector<absl::string_view>& fields) {
    const std::string key = absl::StrCat(fields[0], "\t", fields[1]);
    if (key != word_key_) {
      EndWord();
      word_key_ = key;
      letters_.fold.emplace_back(fields[0]);
    }
    const absl::string_view bitmap = fields[4];
    const auto column = static_cast<size_t>(bitmap.data() - line.data()) + 1;
    if (bitmap.size() != kBitmapDigits) {
      return Error(column, absl::StrCat("the bitmap has ", bitmap.size(), " digits, not ", kBitmapDigits));
    }
    LUTHIER_RETURN_IF_ERROR(BeginToken(fields[3]));
    for (size_t d = 0; d < kBitmapDigits; ++d) {
      const int digit = HexDigit(bitmap[d]);
      if (digit < 0) {
        return Error(column + d, "what is here is not a hexadecimal digit");
      }
      for (int bit = 0; bit < 4; ++bit) {
        if ((digit >> (3 - bit)) & 1) letters_.data.attribute.push_back(static_cast<int32_t>(4 * d) + bit);
      }
    }
    EndToken();
    return absl::OkStatus();
  }

  absl::Status AddPixels(absl::string_view line, const std::vector<absl::string_view>& fields) {
    if (ended_) {
      EndWord();
      letters_.fold.emplace_back(fields[5]);
    }
    LUTHIER_RETURN_IF_ERROR(BeginToken(fields[1]));
    for (size_t p = 0; p < data::kLetterPixels; ++p) {
      const absl::string_view field = fields[6 + p];
      if (field == "1") {
        letters_.data.attribute.push_back(static_cast<int32_t>(p));
      } else if (field != "0") {
        return Error(static_cast<size_t>(field.data() - line.data()) + 1, absl::StrCat("pixel ", p, " is not 0 or 1"));
      }
    }
    EndToken();
    ended_ = fields[2] == "-1";
    return absl::OkStatus();
  }

  absl::Status BeginToken(absl::string_view letter) {
    if (letter.empty()) return Error(1, "the letter is missing");
    const int64_t length = letters_.data.tokens() - letters_.data.sequence_start.back();
    if (length >= data::kMaxSequenceTokens) {
      return Error(1, absl::StrCat("the word has more than ", data::kMaxSequenceTokens, " letters"));
    }
    letters_.data.label.push_back(0);  // The true number is set once all labels are known.
    letter_.emplace_back(letter);
    names_.emplace(letter);
    if (names_.size() > data::kMaxLabels)
      return Error(1, absl::StrCat("there are more than ", data::kMaxLabels, " letters"));
    return absl::OkStatus();
  }

  void EndToken() {
    std::vector<int32_t>& attribute = letters_.data.attribute;
    attribute.push_back(kEvery);
    if (letters_.data.tokens() - 1 == letters_.data.sequence_start.back()) attribute.push_back(kFirst);
    letters_.data.token_start.push_back(static_cast<int64_t>(attribute.size()));
  }

  void EndWord() {
    ChainData& data = letters_.data;
    if (data.tokens() == data.sequence_start.back()) return;
    data.attribute.push_back(kLast);
    data.token_start.back() = static_cast<int64_t>(data.attribute.size());
    data.sequence_start.push_back(data.tokens());
  }

  absl::StatusOr<Letters> Finish() {
    ChainData& data = letters_.data;
    std::map<std::string, int32_t> index;
    for (const std::string& name : names_) {
      index[name] = static_cast<int32_t>(data.label_names.size());
      data.label_names.push_back(name);
    }
    for (size_t t = 0; t < letter_.size(); ++t) data.label[t] = index[letter_[t]];
    LUTHIER_RETURN_IF_ERROR(CheckChainData(data));
    return std::move(letters_);
  }

  data::LineReader& lines_;
  Letters letters_;
  size_t fields_ = 0;
  std::string word_key_;
  bool ended_ = true;  // letter.data: true if the last letter was its word's last.
  std::vector<std::string> letter_;
  std::set<std::string> names_;
};

}  // namespace

absl::StatusOr<Letters> ReadLetters(data::LineReader& lines) {
  return LettersParser(&lines).Parse();
}

}  // namespace luthier::crf
