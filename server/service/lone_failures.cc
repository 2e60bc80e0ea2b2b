#include "server/service/lone_failures.h"

#include <algorithm>

#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/studies/alike_failures.h"

namespace luthier::service {
namespace {

// Event::detail is "REASON: message". A failure that is not the setting's (kTrialRetried) may also be the machine's.
study::Failure FailureOf(const storage::Event& event) {
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(event.detail, absl::MaxSplits(": ", 1));
  study::Failure failure;
  failure.kind = study::FailureKind::kConfig;
  failure.reason = std::string(parts.first);
  failure.message = std::string(parts.second);
  return failure;
}

}  // namespace

LoneFailures::Entry& LoneFailures::Touch(const Key& key) {
  const auto [found, fresh] = entries_.try_emplace(key);
  if (!fresh) {
    order_.splice(order_.begin(), order_, found->second.place);
    return found->second;
  }
  ++studies_[key.second].entries;
  order_.push_front(key);
  found->second.place = order_.begin();
  if (entries_.size() > kMaxWorkers) Erase(entries_.find(order_.back()));
  return found->second;
}

void LoneFailures::AddCause(Study* study, const std::string& worker, const study::Failure& failure) {
  for (const auto& [who, cause] : study->causes) {
    if (who == worker && coordinator::AreAlike(cause, failure)) return;
  }
  study->causes.emplace_back(worker, failure);
  if (study->causes.size() > kMaxCauses) study->causes.pop_front();
}

bool LoneFailures::Failed(const std::string& worker, const storage::Event& event, bool at_once, absl::Duration now) {
  const study::Failure failure = FailureOf(event);
  Entry& entry = Touch(Key(worker, event.study));
  Study& study = studies_.at(event.study);
  const bool counts = at_once && coordinator::AreAlike(failure, failure);
  if (!counts || (entry.alike > 0 && !coordinator::AreAlike(entry.newest, failure))) {
    entry.alike = 0;
    entry.next_rest = kFirstRest;
  }
  if (!counts) return false;
  if (entry.alike == 0) entry.successes = study.successes;
  ++entry.alike;
  entry.newest = failure;
  entry.study_id = event.study_id;
  entry.text = event.detail;
  if (entry.succeeded) AddCause(&study, worker, failure);
  const bool of_settings = std::any_of(study.causes.begin(), study.causes.end(), [&](const auto& cause) {
    return cause.first != worker && coordinator::AreAlike(cause.second, failure);
  });
  // Failures of attempts that were under way when the rest began do not prolong it.
  const bool rests = !of_settings && entry.alike >= (entry.succeeded ? kAlikeAfterSuccess : kAlikeToRest) &&
                     study.successes > entry.successes && now >= entry.until;
  if (rests) {
    entry.until = now + entry.next_rest;
    entry.next_rest = std::min(2 * entry.next_rest, kLongestRest);
    entry.successes = study.successes;
  }
  return rests;
}

void LoneFailures::Succeeded(const std::string& worker, storage::StudyKey study) {
  Entry& entry = Touch(Key(worker, study));
  Study& known = studies_.at(study);
  ++known.successes;
  if (entry.alike > 0) AddCause(&known, worker, entry.newest);
  entry.succeeded = true;
  entry.alike = 0;
  entry.until = -absl::InfiniteDuration();
  entry.next_rest = kFirstRest;
}

void LoneFailures::Forget(const std::string& worker) {
  auto next = entries_.lower_bound(Key(worker, 0));
  while (next != entries_.end() && next->first.first == worker) Erase(next++);
}

void LoneFailures::ForgetStudy(storage::StudyKey study) {
  if (studies_.count(study) == 0) return;
  for (auto next = entries_.begin(); next != entries_.end();) {
    const auto entry = next++;
    if (entry->first.second == study) Erase(entry);
  }
}

std::vector<LoneFailures::Rest> LoneFailures::RestsOf(const std::string& worker, absl::Duration now) const {
  std::vector<Rest> rests;
  for (auto it = entries_.lower_bound(Key(worker, 0)); it != entries_.end() && it->first.first == worker; ++it) {
    const Entry& entry = it->second;
    if (now < entry.until) rests.push_back({it->first.second, entry.study_id, entry.until, entry.text});
  }
  return rests;
}

void LoneFailures::Erase(Entries::iterator entry) {
  const auto study = studies_.find(entry->first.second);
  if (--study->second.entries == 0) studies_.erase(study);
  order_.erase(entry->second.place);
  entries_.erase(entry);
}

}  // namespace luthier::service
