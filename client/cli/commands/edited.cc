#include "client/cli/commands/edited.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "client/cli/show.h"
#include "lib/base/hash.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {
namespace {

constexpr size_t kDigits = 12;
constexpr uintmax_t kMostBytes = uintmax_t{16} << 20;  // Limit of a file that is read: no program is larger.
constexpr size_t kShownRanges = 8;

// Returns the contents of a file that an argument names; "" if it names none.
std::string Contents(const std::string& argument) {
  std::error_code error;
  const std::filesystem::path path(argument);
  if (!std::filesystem::is_regular_file(path, error) || std::filesystem::file_size(path, error) > kMostBytes) return "";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Returns "trials 1 to 15 and 17".
std::string TrialsText(const std::vector<int64_t>& numbers) {
  std::vector<std::string> ranges;
  for (size_t i = 0; i < numbers.size();) {
    size_t end = i;
    while (end + 1 < numbers.size() && numbers[end + 1] == numbers[end] + 1) ++end;
    ranges.push_back(end == i ? absl::StrCat(numbers[i]) : absl::StrCat(numbers[i], " to ", numbers[end]));
    i = end + 1;
  }
  if (ranges.size() > kShownRanges) {
    const size_t more = ranges.size() - kShownRanges;
    ranges.resize(kShownRanges);
    ranges.push_back(absl::StrCat(more, more == 1 ? " range more" : " ranges more"));
  }
  const std::string last = ranges.back();
  ranges.pop_back();
  return absl::StrCat(numbers.size() == 1 ? "trial " : "trials ", absl::StrJoin(ranges, ", "),
                      ranges.empty() ? "" : " and ", last);
}

// The trials of a study with another fingerprint.
struct Others {
  std::vector<int64_t> numbers;
  bool newest = false;  // True if the newest trial with a fingerprint is one of them.
};

absl::StatusOr<Others> OthersIn(client::Client& client, const std::string& study, const std::string& fingerprint) {
  Others others;
  int64_t newest = 0;
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(study, {}, [&](const v1::Trial& trial) {
    if (trial.attempts().empty()) return true;
    const std::string found = FingerprintIn(trial.attempts().rbegin()->worker());
    if (found.empty()) return true;
    if (found != fingerprint) others.numbers.push_back(trial.number());
    if (trial.number() > newest) others.newest = found != fingerprint;
    newest = std::max(newest, trial.number());
    return true;
  }));
  std::sort(others.numbers.begin(), others.numbers.end());
  return others;
}

}  // namespace

std::string FingerprintOf(const v1::Objective& objective) {
  if (!objective.has_command()) return "";
  const v1::Objective::Command& command = objective.command();
  std::string text;
  for (const std::string& argument : command.argv()) {
    const std::string contents = Contents(argument);
    absl::StrAppend(&text, argument.size(), ":", argument, contents.size(), ":", contents);
    if (!contents.empty()) continue;
    // The argument of a shell has file names as words: sh -c "python3 train.py --lr {lr}".
    for (const absl::string_view word :
         absl::StrSplit(argument, absl::ByAnyChar(" \t\n;&|()<>'\""), absl::SkipWhitespace())) {
      if (word.size() == argument.size()) continue;
      const std::string named = Contents(std::string(word));
      if (!named.empty()) absl::StrAppend(&text, named.size(), ":", named);
    }
  }
  const std::map<std::string, std::string> variables(command.environment().begin(), command.environment().end());
  for (const auto& [name, value] : variables) absl::StrAppend(&text, name.size(), ":", name, value.size(), ":", value);
  return base::Sha256Hex(text).substr(0, kDigits);
}

std::string FingerprintIn(absl::string_view worker) {
  const size_t dot = worker.rfind('.');
  if (!absl::StartsWith(worker, "local-") || dot == absl::string_view::npos || worker.size() - dot - 1 != kDigits)
    return "";
  const absl::string_view digits = worker.substr(dot + 1);
  return digits.find_first_not_of("0123456789abcdef") == absl::string_view::npos ? std::string(digits) : "";
}

absl::StatusOr<std::string> LookForEdit(Context& context, client::Client& client, const std::string& study,
                                        const std::string& fingerprint) {
  const std::string& wish = context.options().if_changed;
  if (fingerprint.empty() || wish == "continue") return study;
  const absl::StatusOr<Others> others = OthersIn(client, study, fingerprint);
  if (absl::IsNotFound(others.status())) return study;  // The study will be created.
  LUTHIER_RETURN_IF_ERROR(others.status());
  // A user who was warned, and went on, is not warned again.
  if (others->numbers.empty() || (wish.empty() && !others->newest)) return study;
  const std::string said =
      absl::StrCat("the objective is another one than that of ", TrialsText(others->numbers), " of study ", study);
  if (wish == "raise") {
    return absl::FailedPreconditionError(absl::StrCat(
        said, "; --if-changed fresh goes on in a study of its own, --if-changed continue lets those trials count"));
  }
  if (wish != "fresh") {
    context.err() << "warning: " << said << "; the search learns from them, and the best may be one of them; "
                  << "--if-changed continue says that they count, fresh goes on in a study of its own, raise refuses\n";
    return study;
  }
  for (int i = 2;; ++i) {
    const std::string name = absl::StrCat(study, "-", i);
    const absl::StatusOr<Others> there = OthersIn(client, name, fingerprint);
    if (!absl::IsNotFound(there.status())) {
      LUTHIER_RETURN_IF_ERROR(there.status());
      if (!there->numbers.empty()) continue;
    }
    context.err() << said << "; study " << name << " goes on with it\n";
    return name;
  }
}

}  // namespace luthier::cli
