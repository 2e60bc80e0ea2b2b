#include "server/coordinator/trials/alike_failures.h"

#include <algorithm>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "server/coordinator/batch/find.h"
#include "server/coordinator/trials/curve.h"

namespace luthier::coordinator {

using study::TrialState;

namespace {

// Largest number of failures that are compared. A study with more, which was resumed again and again, is left to the
// rule for many failures in a row.
constexpr size_t kMostFailures = 50;

std::string WithoutDigits(absl::string_view line) {
  std::string out;
  for (const char c : line) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      out += c;
    } else if (out.empty() || out.back() != '#') {
      out += '#';
    }
  }
  return out;
}

bool AnySucceeded(const StudyState& s) {
  const auto count = [&](TrialState state) { return s.counts[static_cast<size_t>(state)]; };
  return count(TrialState::kComplete) + count(TrialState::kPruned) + count(TrialState::kPaused) > 0;
}

// Returns true if the trial ended before it did any work that could depend on its setting.
bool FailedAtOnce(Context& c, const StudyState& s, TrialSlot& slot) {
  const study::Trial& trial = slot.record->trial;
  if (!trial.failure || trial.attempts.empty()) return false;
  const storage::GrantRecord& last = slot.record->grants.back();
  const study::Attempt& labels = trial.attempts.back();
  const bool known = last.end_uptime > absl::ZeroDuration();  // Not in rows of older programs.
  const absl::Duration took = known ? last.end_uptime - last.uptime : labels.end - labels.start;
  if (took > c.options.alike_within) return false;
  return LoadCurve(c, s, slot).ok() && slot.curve->digests.empty();
}

}  // namespace

std::string LastLine(absl::string_view message) {
  const std::vector<absl::string_view> lines = absl::StrSplit(message, '\n');
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    const absl::string_view text = absl::StripAsciiWhitespace(*line);
    if (!text.empty()) return std::string(text);
  }
  return "";
}

bool AreAlike(const study::Failure& a, const study::Failure& b) {
  if (a.kind != study::FailureKind::kConfig || b.kind != study::FailureKind::kConfig || a.reason != b.reason)
    return false;
  for (const char* of_settings : {study::failure::kNonFinite, study::failure::kMemoryLimit, study::failure::kTimeout}) {
    if (a.reason == of_settings) return false;
  }
  return WithoutDigits(LastLine(a.message)) == WithoutDigits(LastLine(b.message));
}

std::optional<study::Failure> CommonFailure(Context& c, StudyState& s) {
  if (s.failures_in_row != c.options.alike_to_pause) return std::nullopt;
  if (!std::holds_alternative<study::CommandObjective>(s.spec->objective) || AnySucceeded(s)) return std::nullopt;
  std::vector<int64_t> failed;
  for (size_t i = 0; i < s.trials.size(); ++i) {
    if (s.trials[i].state == TrialState::kFailed) failed.push_back(static_cast<int64_t>(i) + 1);
  }
  if (failed.size() > kMostFailures) return std::nullopt;
  std::vector<const storage::TrialRecord*> seen;
  for (const int64_t number : failed) {
    const absl::StatusOr<TrialSlot*> slot = FindTrial(c, s, number);
    if (!slot.ok()) return std::nullopt;  // The row is damaged, which calls that need it report.
    const storage::TrialRecord& record = *(*slot)->record;
    if (record.finish_seq <= s.record.resume_seq || study::IsRemoved(record.trial)) continue;
    if (!FailedAtOnce(c, s, **slot)) return std::nullopt;
    for (const storage::TrialRecord* other : seen) {
      if (other->trial.parameters == record.trial.parameters) return std::nullopt;
      if (!AreAlike(*other->trial.failure, *record.trial.failure)) return std::nullopt;
    }
    seen.push_back(&record);
  }
  if (static_cast<int>(seen.size()) != s.failures_in_row) return std::nullopt;
  const auto newest = std::max_element(seen.begin(), seen.end(),
                                       [](const auto* a, const auto* b) { return a->finish_seq < b->finish_seq; });
  return (*newest)->trial.failure;
}

}  // namespace luthier::coordinator
