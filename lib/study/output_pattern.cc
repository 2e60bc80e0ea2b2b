#include "lib/study/output_pattern.h"

#include <re2/re2.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/printable.h"

namespace luthier::study {
namespace {

constexpr char kNonFinite[] =
    R"([ \t]*([-+]?(?:\b(?i:nan)(?:\([a-zA-Z]*\)|\b)|\b(?i:inf(?:inity)?)\b|[0-9]\.#[A-Za-z]+[0-9]*|\xE2\x88\x9E)))";
constexpr char kAnything[] = "(.*?)";
constexpr int kLetters = 2;  // With fewer letters before the group, a pattern names nothing: ": ([0-9]+)".

std::unique_ptr<const RE2> Regex(absl::string_view pattern) {
  RE2::Options options(RE2::Latin1);
  options.set_log_errors(false);
  return std::make_unique<const RE2>(re2::StringPiece(pattern.data(), pattern.size()), options);
}

// Returns the end of the character class that begins at `text[at]`, behind its bracket.
size_t EndOfClass(absl::string_view text, size_t at) {
  ++at;
  if (at < text.size() && text[at] == '^') ++at;
  if (at < text.size() && text[at] == ']') ++at;  // As the first character it stands for itself.
  while (at < text.size() && text[at] != ']') {
    if (text[at] == '\\') {
      ++at;
    } else if (absl::StartsWith(text.substr(at), "[:")) {
      const size_t end = text.find(":]", at);
      if (end != absl::string_view::npos) at = end + 1;
    }
    ++at;
  }
  return std::min(at + 1, text.size());
}

// Returns the end of the escape that begins at `text[at]`.
size_t EndOfEscape(absl::string_view text, size_t at) {
  const size_t quoted = absl::StartsWith(text.substr(at), "\\Q") ? text.find("\\E", at) : at;
  return quoted == absl::string_view::npos ? text.size() : std::min(quoted + 2, text.size());
}

// Returns the end of the group that begins at `text[at]`, behind its parenthesis.
size_t EndOfGroup(absl::string_view text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    if (text[at] == '\\') {
      at = EndOfEscape(text, at);
      continue;
    }
    if (text[at] == '[') {
      at = EndOfClass(text, at);
      continue;
    }
    if (text[at] == '(') ++depth;
    if (text[at] == ')' && --depth == 0) return at + 1;
    ++at;
  }
  return text.size();
}

// The position of the first group of a pattern, and whether the text before it is such that the value begins at its
// end.
struct FirstGroup {
  size_t begin = 0, end = 0;  // Bounds of the group with its parentheses.
  bool after_literal = false;
};

// The kind of the last element of the text so far, blanks and quantifiers aside.
enum class Last { kNothing, kLiteral, kWildcard };

Last KindOfEscape(char c, Last before) {
  if (absl::StrContains("dDwWSpP", absl::string_view(&c, 1))) return Last::kWildcard;
  if (absl::StrContains("sbBAztnrfv", absl::string_view(&c, 1))) return before;
  return Last::kLiteral;
}

Last KindOfClass(absl::string_view text, Last before) {
  if (text.find_first_not_of("[]\\st ") == absl::string_view::npos) return before;  // Blanks.
  const bool few = !absl::StartsWith(text, "[^") && !absl::StrContains(text, '-') && !absl::StrContains(text, "[:") &&
                   !absl::StrContains(text, '\\');
  return few ? Last::kLiteral : Last::kWildcard;
}

// Finds the first group of a pattern that RE2 accepts and that has a group.
FirstGroup FindFirstGroup(absl::string_view text) {
  FirstGroup found;
  Last last = Last::kNothing;
  int letters = 0;  // Number of letters of the literal text up to here.
  const auto ends_with = [&](Last kind) {
    last = kind;
    if (kind != Last::kLiteral) letters = 0;
  };
  size_t at = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '\\') {
      ends_with(KindOfEscape(at + 1 < text.size() ? text[at + 1] : '\0', last));
      at = EndOfEscape(text, at) - 1;
    } else if (c == '[') {
      const size_t end = EndOfClass(text, at);
      ends_with(KindOfClass(text.substr(at, end - at), last));
      at = end - 1;
    } else if (c == '(') {
      const absl::string_view rest = text.substr(at + 1);
      if (!absl::StartsWith(rest, "?") || absl::StartsWith(rest, "?P<") || absl::StartsWith(rest, "?<")) break;
      at += std::min(rest.find_first_of(":)"), rest.size());  // Flags are no text.
    } else if (c == '.' || c == '|') {
      ends_with(c == '.' ? Last::kWildcard : Last::kNothing);
    } else if (c == '{') {
      at = std::min(text.find('}', at), text.size());
    } else if (!absl::StrContains("*+?^$() \t", absl::string_view(&c, 1))) {
      ends_with(Last::kLiteral);
      letters += absl::ascii_isalnum(static_cast<unsigned char>(c)) ? 1 : 0;
    }
  }
  found.begin = std::min(at, text.size());
  found.end = EndOfGroup(text, found.begin);
  found.after_literal = last == Last::kLiteral && letters >= kLetters;
  return found;
}

// A match. Offsets are those of the text.
struct Hit {
  size_t begin = 0, end = 0;
  size_t value = 0, value_end = 0;  // The first group.
  bool has_value = false;           // False: the group took no part.
};

std::optional<Hit> HitFrom(const RE2& regex, absl::string_view text, size_t from) {
  const re2::StringPiece piece(text.data(), text.size());
  re2::StringPiece groups[2];  // The whole match, the first group.
  if (from > text.size() || !regex.Match(piece, from, text.size(), RE2::UNANCHORED, groups, 2)) return std::nullopt;
  Hit hit;
  hit.begin = static_cast<size_t>(groups[0].data() - text.data());
  hit.end = hit.begin + groups[0].size();
  hit.has_value = groups[1].data() != nullptr;
  if (hit.has_value) {
    hit.value = static_cast<size_t>(groups[1].data() - text.data());
    hit.value_end = hit.value + groups[1].size();
  }
  return hit;
}

std::optional<Hit> LastHit(const RE2& regex, absl::string_view text) {
  std::optional<Hit> last;
  size_t from = 0;
  while (const std::optional<Hit> hit = HitFrom(regex, text, from)) {
    last = hit;
    from = hit->end > hit->begin ? hit->end : hit->end + 1;
  }
  return last;
}

// Returns the last place where a value may begin. As matches take anything for the value, they overlap.
std::optional<Hit> LastPlace(const RE2& regex, absl::string_view text) {
  std::optional<Hit> last;
  size_t from = 0;
  while (const std::optional<Hit> hit = HitFrom(regex, text, from)) {
    if (hit->has_value) last = hit;
    from = std::max(hit->has_value ? hit->value : 0, hit->begin + 1);
  }
  return last;
}

bool IsNumber(absl::string_view text) {
  double value = 0.0;
  return absl::SimpleAtod(text, &value);
}

// Returns the number of bytes at the head of `rest` that belong to the number `read` before them.
size_t NumberGoesOn(absl::string_view read, absl::string_view rest) {
  const size_t digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
  size_t end = digits;
  const bool exponent_begun = !read.empty() && absl::ascii_tolower(static_cast<unsigned char>(read.back())) == 'e';
  if (exponent_begun) {
    const size_t sign = !rest.empty() && (rest[0] == '-' || rest[0] == '+') ? 1 : 0;
    const size_t last = std::min(rest.find_first_not_of("0123456789", sign), rest.size());
    return last > sign && IsNumber(absl::StrCat(read, rest.substr(0, last))) ? last : 0;
  }
  const bool point = absl::StrContains(read, '.');
  if (!point && end + 1 < rest.size() && rest[end] == '.' &&
      absl::ascii_isdigit(static_cast<unsigned char>(rest[end + 1]))) {
    end = std::min(rest.find_first_not_of("0123456789", end + 1), rest.size());
  }
  if (end < rest.size() && (rest[end] == 'e' || rest[end] == 'E')) {
    const size_t sign = end + 1 < rest.size() && (rest[end + 1] == '-' || rest[end + 1] == '+') ? 1 : 0;
    const size_t last = std::min(rest.find_first_not_of("0123456789", end + 1 + sign), rest.size());
    if (last > end + 1 + sign) end = last;
  }
  return IsNumber(absl::StrCat(read, rest.substr(0, end))) ? end : 0;
}

// Returns the length of the text that a decimal comma or thousands separators add to the digits `read`: ",5" or
// ",234.5"; 0 for a list of numbers with commas between them.
size_t CommaGoesOn(absl::string_view read, absl::string_view rest) {
  if (read.empty() ||
      read.find_first_not_of("0123456789", read[0] == '-' || read[0] == '+' ? 1 : 0) != absl::string_view::npos) {
    return 0;
  }
  static const RE2* const thousands = new RE2("((?:,[0-9]{3})+(?:\\.[0-9]+)?)(?:[^0-9.,]|[.,](?:[^0-9]|$)|$)");
  static const RE2* const decimal = new RE2("(,[0-9]+)(?:[^0-9.,]|[.,](?:[^0-9]|$)|$)");
  const re2::StringPiece piece(rest.data(), rest.size());
  for (const RE2* const regex : {thousands, decimal}) {
    re2::StringPiece groups[2];
    if (regex->Match(piece, 0, piece.size(), RE2::ANCHOR_START, groups, 2)) return groups[1].size();
  }
  return 0;
}

// The length of what makes of the number `read` one that is written otherwise than numbers are here: 1.5D-03 of
// Fortran, 0x1p3, 1_000, 1'000.5, 1.234,5.
size_t OtherwiseGoesOn(absl::string_view read, absl::string_view rest) {
  static const RE2* const other =
      new RE2("([dD][-+]?[0-9]+|[xX][0-9a-fA-F.]+(?:[pP][-+]?[0-9]+)?|(?:[_'][0-9]{3})+(?:[.,][0-9]+)?)");
  static const RE2* const points = new RE2("[-+]?[1-9][0-9]{0,2}(?:\\.[0-9]{3})+");
  static const RE2* const comma = new RE2("(,[0-9]+)(?:[^0-9.,]|$)");
  if (!IsNumber(read) && !RE2::FullMatch(re2::StringPiece(read.data(), read.size()), *points)) return 0;
  const bool european = RE2::FullMatch(re2::StringPiece(read.data(), read.size()), *points);
  const re2::StringPiece piece(rest.data(), rest.size());
  for (const RE2* const regex : {other, comma}) {
    re2::StringPiece groups[2];
    if (regex == comma && !european) continue;
    if (regex->Match(piece, 0, piece.size(), RE2::ANCHOR_START, groups, 2)) return groups[1].size();
  }
  return 0;
}

// True if a sentence goes on with `word`, rather than a value of some kind being there.
bool IsProse(absl::string_view word, absl::string_view rest) {
  const absl::string_view blanks = absl::StripLeadingAsciiWhitespace(rest);
  if (blanks.size() == rest.size() || blanks.empty() || !absl::ascii_isalpha(static_cast<unsigned char>(blanks[0])))
    return false;
  if (word.empty() || !std::all_of(word.begin(), word.end(), [](unsigned char c) { return absl::ascii_isalpha(c); }))
    return false;
  static const auto* const values =
      new std::vector<std::string>{"none",    "null",  "nil",    "na",      "true",     "false",    "undefined",
                                   "missing", "error", "failed", "invalid", "diverged", "overflow", "unknown"};
  return std::find(values->begin(), values->end(), absl::AsciiStrToLower(word)) == values->end();
}

// Returns the word at the head of `text`, or the number with the text behind it that makes it none.
absl::string_view WordAt(absl::string_view text) {
  constexpr size_t kShown = 64;
  absl::string_view word = text.substr(0, std::min(text.find_first_of(" \t"), kShown));
  const absl::string_view bare = word.substr(0, word.find_last_not_of(",;:)]}|.") + 1);
  return IsNumber(bare) ? bare : word;
}

}  // namespace

OutputPattern::OutputPattern(std::unique_ptr<const re2::RE2> regex) : regex_(std::move(regex)) {}
OutputPattern::OutputPattern(OutputPattern&&) noexcept = default;
OutputPattern& OutputPattern::operator=(OutputPattern&&) noexcept = default;
OutputPattern::~OutputPattern() = default;

absl::StatusOr<OutputPattern> OutputPattern::Compile(const std::string& pattern) {
  std::unique_ptr<const RE2> regex = Regex(pattern);
  if (!regex->ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("is not a regular expression of RE2, which has no back-references and no look-ahead: ",
                     base::Printable(regex->error())));
  }
  if (regex->NumberOfCapturingGroups() < 1) {
    return absl::InvalidArgumentError("has no group; put parentheses around the number");
  }
  OutputPattern out(std::move(regex));
  const FirstGroup group = FindFirstGroup(pattern);
  const absl::string_view before = absl::string_view(pattern).substr(0, group.begin);
  const absl::string_view after = absl::string_view(pattern).substr(group.end);
  out.non_finite_ = Regex(absl::StrCat(before, kNonFinite, after));
  if (!out.non_finite_->ok()) out.non_finite_.reset();
  if (group.after_literal) out.anything_ = Regex(absl::StrCat(before, kAnything, after));
  if (out.anything_ != nullptr && !out.anything_->ok()) out.anything_.reset();
  return out;
}

std::optional<std::string> OutputPattern::LastMatch(absl::string_view text) const {
  const std::optional<Hit> hit = LastHit(*regex_, text);
  if (!hit) return std::nullopt;
  return std::string(text.substr(hit->value, hit->value_end - hit->value));
}

std::optional<std::string> OutputPattern::LastValue(absl::string_view text) const {
  const std::optional<Hit> hit = LastHit(*regex_, text);
  const std::optional<Hit> non_finite = non_finite_ != nullptr ? LastHit(*non_finite_, text) : std::nullopt;
  const bool diverged = non_finite && non_finite->has_value && (!hit || non_finite->value >= hit->value);
  const std::optional<Hit>& newest = diverged ? non_finite : hit;
  const std::optional<Hit> place = anything_ != nullptr ? LastPlace(*anything_, text) : std::nullopt;
  // If both begin together it is the same value, whatever the pattern took before it.
  if (place && (!newest || (place->begin > newest->begin && place->value > newest->value))) {
    const absl::string_view rest = absl::StripLeadingAsciiWhitespace(text.substr(place->value));
    const absl::string_view word = WordAt(rest);
    if (!IsProse(word, rest.substr(word.size()))) return std::string(word);
  }
  if (!newest) return std::nullopt;
  const absl::string_view read = text.substr(newest->value, newest->value_end - newest->value);
  if (diverged || newest->end != newest->value_end) return std::string(read);
  const absl::string_view rest = text.substr(newest->value_end);
  if (!IsNumber(read) && !rest.empty() && absl::ascii_isalnum(static_cast<unsigned char>(rest[0]))) {
    // Example: the "e" of "error".
    const absl::string_view word = WordAt(text.substr(newest->value));
    if (IsProse(word, text.substr(newest->value + word.size()))) return std::nullopt;
    if (NumberGoesOn(read, rest) == 0) return std::string(word);
  }
  if (const size_t other = OtherwiseGoesOn(read, rest); other > 0) return absl::StrCat(read, rest.substr(0, other));
  const size_t more = NumberGoesOn(read, rest);
  return absl::StrCat(read, rest.substr(0, more > 0 ? more : CommaGoesOn(read, rest)));
}

}  // namespace luthier::study
