#include "worker/objectives/patterns.h"

#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "worker/objectives/result_line.h"

namespace luthier::worker {
namespace {

constexpr size_t kMaxLine = 4096;

// std::regex reports everything by throwing; nothing leaves this file.
absl::StatusOr<std::regex> Compile(const std::string& pattern) {
#ifdef __GLIBCXX__
  // libstdc++'s usual matcher recurses once a character and can take exponential time; this one does neither, but knows
  // no back-references.
  try {
    return std::regex(pattern, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error&) {
  }
#endif
  try {
    return std::regex(pattern, std::regex::ECMAScript);
  } catch (const std::regex_error& e) {
    return absl::InvalidArgumentError(e.what());
  }
}

}  // namespace

struct PatternMatcher::State {
  struct Entry {
    std::string metric;
    std::regex regex;
    std::optional<std::string> last;
  };
  std::vector<Entry> entries;
};

PatternMatcher::PatternMatcher(std::unique_ptr<State> state) : state_(std::move(state)) {}
PatternMatcher::PatternMatcher(PatternMatcher&&) noexcept = default;
PatternMatcher& PatternMatcher::operator=(PatternMatcher&&) noexcept = default;
PatternMatcher::~PatternMatcher() = default;

absl::StatusOr<PatternMatcher> PatternMatcher::Create(const std::map<std::string, std::string>& patterns) {
  auto state = std::make_unique<State>();
  for (const auto& [metric, pattern] : patterns) {
    absl::StatusOr<std::regex> regex = Compile(pattern);
    if (!regex.ok() || regex->mark_count() < 1) {
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(metric), ", ",
                                                     base::Quote(pattern),
                                                     regex.ok() ? ", has no group" : ", is no regular expression"));
    }
    state->entries.push_back({metric, *std::move(regex), std::nullopt});
  }
  return PatternMatcher(std::move(state));
}

void PatternMatcher::AddLine(absl::string_view line) {
  for (absl::string_view piece : absl::StrSplit(line, '\r')) {
    piece = piece.substr(0, kMaxLine);
    for (State::Entry& entry : state_->entries) {
      try {
        const std::cregex_iterator end;
        for (std::cregex_iterator it(piece.data(), piece.data() + piece.size(), entry.regex); it != end; ++it) {
          entry.last = (*it)[1].str();
        }
      } catch (const std::regex_error&) {
        // Too complex for this line: no match.
      }
    }
  }
}

absl::StatusOr<std::map<std::string, double>> PatternMatcher::Values() const {
  std::map<std::string, double> out;
  for (const State::Entry& entry : state_->entries) {
    if (!entry.last) continue;
    const std::optional<double> value = ParseNumber(*entry.last);
    if (!value) {
      return absl::InvalidArgumentError(absl::StrCat("the pattern for ", base::Quote(entry.metric), " matched ",
                                                     base::Quote(*entry.last), ", which is no number"));
    }
    out[entry.metric] = *value;
  }
  return out;
}

}  // namespace luthier::worker
