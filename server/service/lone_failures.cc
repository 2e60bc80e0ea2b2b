#include "server/service/lone_failures.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/trials/alike_failures.h"

namespace luthier::service {
namespace {

// Event::detail is "REASON: message". A failure that is not the setting's (kTrialRetried) may be the machine's as well.
study::Failure FailureOf(const storage::Event& event) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(event.detail, absl::MaxSplits(": ", 1));
  study::Failure failure;
  failure.kind = study::FailureKind::kConfig;
  failure.reason = std::string(parts.first);
  failure.message = std::string(parts.second);
  return failure;
}

}  // namespace

bool LoneFailures::Failed(const std::string& worker, const storage::Event& event, bool at_once, absl::Duration now) {
  const study::Failure failure = FailureOf(event);
  const Key key(worker, event.study);
  auto found = streaks_.find(key);
  const bool ends = found != streaks_.end() && (!at_once || !coordinator::AreAlike(found->second.newest, failure));
  if (ends) {
    Erase(found);
    found = streaks_.end();
  }
  if (!at_once || !coordinator::AreAlike(failure, failure)) return false;
  if (found == streaks_.end()) {
    Study& study = studies_[event.study];
    ++study.streaks;
    found = streaks_.try_emplace(key).first;
    found->second.study_id = event.study_id;
    found->second.successes = study.successes;
    order_.push_front(key);
    found->second.place = order_.begin();
  }
  Streak& streak = found->second;
  order_.splice(order_.begin(), order_, streak.place);
  streak.newest = failure;
  streak.text = event.detail;
  ++streak.alike;
  const int64_t successes = studies_.at(event.study).successes;
  // Those that were under way when the rest began do not prolong it.
  const bool rests = streak.alike >= kAlikeToRest && successes > streak.successes && now >= streak.until;
  if (rests) {
    streak.until = now + streak.next_rest;
    streak.next_rest = std::min(2 * streak.next_rest, kLongestRest);
    streak.successes = successes;
  }
  if (streaks_.size() > kMaxWorkers) Erase(streaks_.find(order_.back()));
  return rests;
}

void LoneFailures::Succeeded(const std::string& worker, storage::StudyKey study) {
  if (const auto own = streaks_.find(Key(worker, study)); own != streaks_.end()) Erase(own);
  if (const auto known = studies_.find(study); known != studies_.end()) ++known->second.successes;
}

void LoneFailures::Forget(const std::string& worker) {
  auto next = streaks_.lower_bound(Key(worker, 0));
  while (next != streaks_.end() && next->first.first == worker) Erase(next++);
}

void LoneFailures::ForgetStudy(storage::StudyKey study) {
  if (studies_.count(study) == 0) return;
  for (auto next = streaks_.begin(); next != streaks_.end();) {
    const auto streak = next++;
    if (streak->first.second == study) Erase(streak);
  }
}

std::vector<LoneFailures::Rest> LoneFailures::RestsOf(const std::string& worker, absl::Duration now) const {
  std::vector<Rest> rests;
  for (auto it = streaks_.lower_bound(Key(worker, 0)); it != streaks_.end() && it->first.first == worker; ++it) {
    const Streak& streak = it->second;
    if (now < streak.until) rests.push_back({it->first.second, streak.study_id, streak.until, streak.text});
  }
  return rests;
}

void LoneFailures::Erase(Streaks::iterator streak) {
  const auto study = studies_.find(streak->first.second);
  if (--study->second.streaks == 0) studies_.erase(study);
  order_.erase(streak->second.place);
  streaks_.erase(streak);
}

}  // namespace luthier::service
