#include "server/service/worker_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/log.h"
#include "lib/study/project.h"

namespace luthier::service {

using storage::EventType;

namespace {

// A worker that has been silent for longer may be gone: a waiting one asks again before that, a working one sends
// heartbeats.
constexpr absl::Duration kSilent = absl::Minutes(1);

}  // namespace

void WorkerLog::Seen(const std::string& name, const std::string& instance) {
  base::MutexLock lock(&mutex_);
  Touch(name, clock_->Wall());
  if (instance.empty()) return;
  std::string& known = workers_.at(name).instance;
  if (known == instance) return;
  known = instance;
  workers_.at(name).asked.clear();
  lone_.Forget(name);
}

bool WorkerLog::SeenAgain(const std::string& name) {
  base::MutexLock lock(&mutex_);
  if (workers_.count(name) == 0) return false;
  Touch(name, clock_->Wall());
  return true;
}

void WorkerLog::Asked(const std::string& name, const std::string& pool, const std::string& study) {
  base::MutexLock lock(&mutex_);
  const auto known = workers_.find(name);
  if (known == workers_.end()) return;
  constexpr size_t kMostAsked = 64;
  std::set<std::pair<std::string, std::string>>& asked = known->second.asked;
  if (asked.size() >= kMostAsked) asked.clear();
  asked.emplace(pool, study);
}

std::string WorkerLog::WhyNobodyTakes(const std::string& study, const std::string& pool) const {
  const absl::Duration now = clock_->Monotonic();
  const absl::Time wall = clock_->Wall();
  const std::string project(study::ProjectOfPool(pool));
  const std::string named =
      pool == study::PoolKey(project, study::kDefaultPool)
          ? absl::StrCat("the default pool of project ", project)
          : absl::StrCat("pool ", absl::StripPrefix(pool, study::PoolKey(project, "")), " of project ", project);
  absl::Duration newest = absl::InfiniteDuration();
  std::string rest, busy;
  base::MutexLock lock(&mutex_);
  std::set<std::string> busy_processes;
  for (const auto& [name, trials] : held_) {
    if (const auto known = workers_.find(name); known != workers_.end()) busy_processes.insert(known->second.instance);
  }
  busy_processes.erase("");
  for (const auto& [name, entry] : workers_) {
    if (entry.asked.count({pool, ""}) + entry.asked.count({pool, study}) == 0) continue;
    const absl::Duration ago = wall - entry.worker.last_seen;
    const std::vector<LoneFailures::Rest> rests = lone_.RestsOf(name, now);
    const auto resting = std::find_if(rests.begin(), rests.end(), [&](const auto& r) { return r.study_id == study; });
    if (resting == rests.end() && ago <= kSilent) {
      if (held_.count(name) + busy_processes.count(entry.instance) == 0) return "";
      busy = name;
    }
    if (resting != rests.end()) rest = absl::StrCat("waiting: worker ", name, " rests from it: ", resting->failure);
    newest = std::min(newest, ago);
  }
  if (!busy.empty()) {
    return absl::StrCat("waiting: each worker of ", named, " is busy with other studies, as ", busy, " is");
  }
  if (!rest.empty()) return rest;
  if (newest == absl::InfiniteDuration()) {
    return absl::StrCat("waiting: no worker of ", named, " has asked since the coordinator started");
  }
  return absl::StrCat("waiting: no worker of ", named, " has been heard of for ",
                      absl::FormatDuration(absl::Trunc(newest, absl::Seconds(1))));
}

std::vector<coordinator::Rest> WorkerLog::RestsOf(const std::string& name) const {
  const absl::Duration now = clock_->Monotonic();
  std::vector<coordinator::Rest> rests;
  base::MutexLock lock(&mutex_);
  for (const LoneFailures::Rest& rest : lone_.RestsOf(name, now)) rests.push_back({rest.study, rest.until - now});
  return rests;
}

namespace {

// Returns the project of a worker's name, as access::Caller::Worker makes it.
absl::string_view ProjectOfWorker(absl::string_view name) {
  return std::count(name.begin(), name.end(), '/') < 2 ? study::kDefaultProject : name.substr(0, name.find('/'));
}

}  // namespace

std::vector<WorkerLog::Worker> WorkerLog::List(const std::string& project, const std::string& after,
                                               size_t limit) const {
  const absl::Duration now = clock_->Monotonic();
  base::MutexLock lock(&mutex_);
  std::vector<Worker> workers;
  for (auto it = workers_.upper_bound(after); it != workers_.end() && workers.size() < limit; ++it) {
    if (ProjectOfWorker(it->first) != project) continue;
    workers.push_back(it->second.worker);
    workers.back().rests = lone_.RestsOf(it->first, now);
  }
  return workers;
}

WorkerLog::Worker& WorkerLog::Touch(const std::string& name, absl::Time now) {
  auto [found, fresh] = workers_.try_emplace(name);
  Entry& entry = found->second;
  if (fresh) {
    order_.push_front(name);
    entry.place = order_.begin();
    entry.worker.name = name;
    entry.worker.first_seen = now;
  } else {
    order_.splice(order_.begin(), order_, entry.place);
  }
  entry.worker.last_seen = now;
  if (workers_.size() > kMaxNames) {
    workers_.erase(order_.back());
    order_.pop_back();
  }
  return entry.worker;
}

void WorkerLog::Hold(const std::string& worker, int change) {
  const auto held = held_.try_emplace(worker, 0).first;
  held->second += change;
  if (held->second <= 0) held_.erase(held);
}

void WorkerLog::End(const storage::Event& event, Outcome outcome) {
  std::string name = event.actor;
  if (const auto holder = holders_.find({event.study, event.trial}); holder != holders_.end()) {
    const Holder held = holder->second;
    name = held.worker;
    holders_.erase(holder);
    Hold(name, -1);
    // A trial that fails without a word of its holder had a holder that fell silent in the last attempt.
    if (outcome == Outcome::kFailed && event.actor.empty()) outcome = Outcome::kExpired;
    const absl::Duration now = clock_->Monotonic();
    const bool at_once = !held.reported && now - held.since <= kAtOnce;
    if (outcome == Outcome::kCompleted || outcome == Outcome::kPruned || outcome == Outcome::kPaused) {
      lone_.Succeeded(name, event.study);
    } else if (outcome == Outcome::kFailed && lone_.Failed(name, event, at_once, now)) {
      base::LogWarning("worker_rests", {{"worker", name}, {"study", event.study_id}, {"failure", event.detail}});
    }
  } else if (outcome == Outcome::kCancelled) {
    return;  // The actor is a user.
  }
  if (name.empty()) return;
  // A worker whose attempt was cancelled or expired was not seen thereby.
  const bool seen = outcome != Outcome::kExpired && outcome != Outcome::kCancelled;
  const auto known = workers_.find(name);
  if (!seen && known == workers_.end()) return;
  Worker& worker = seen ? Touch(name, event.time) : known->second.worker;
  ++worker.ended[static_cast<size_t>(outcome)];
}

void WorkerLog::OnEvent(const storage::Event& event) {
  if (next_ != nullptr) next_->OnEvent(event);
  base::MutexLock lock(&mutex_);
  switch (event.type) {
    case EventType::kTrialGranted: {
      Holder& holder = holders_[{event.study, event.trial}];
      // Another worker had the trial, and its lease ran out.
      if (const auto before = workers_.find(holder.worker); !holder.worker.empty() && before != workers_.end()) {
        ++before->second.worker.ended[static_cast<size_t>(Outcome::kExpired)];
      }
      if (!holder.worker.empty()) Hold(holder.worker, -1);
      holder = Holder{event.actor, clock_->Monotonic()};
      Hold(event.actor, +1);
      ++Touch(event.actor, event.time).granted;
      return;
    }
    case EventType::kMeasurement:
      if (const auto holder = holders_.find({event.study, event.trial}); holder != holders_.end()) {
        holder->second.reported = true;
      }
      return;
    case EventType::kTrialCompleted:
      return End(event, Outcome::kCompleted);
    case EventType::kTrialPruned:
      return End(event, Outcome::kPruned);
    case EventType::kTrialPaused:
      return End(event, Outcome::kPaused);
    case EventType::kTrialFailed:
    case EventType::kTrialRetried:
      return End(event, Outcome::kFailed);
    case EventType::kTrialReleased:
      return End(event, Outcome::kReleased);
    case EventType::kTrialCancelled:
      return End(event, Outcome::kCancelled);
    case EventType::kStudyDeleted:
      for (auto it = holders_.lower_bound({event.study, 0}); it != holders_.end() && it->first.first == event.study;) {
        Hold(it->second.worker, -1);
        it = holders_.erase(it);
      }
      lone_.ForgetStudy(event.study);
      return;
    default:
      return;
  }
}

void WorkerLog::OnRefused(coordinator::OperationClass operation_class, const absl::Status& status) {
  if (next_ != nullptr) next_->OnRefused(operation_class, status);
}

void WorkerLog::OnCommit(absl::Duration took, size_t operations, const absl::Status& status) {
  if (next_ != nullptr) next_->OnCommit(took, operations, status);
}

void WorkerLog::OnSuggestions(absl::string_view algorithm, absl::Duration took) {
  if (next_ != nullptr) next_->OnSuggestions(algorithm, took);
}

void WorkerLog::OnCensus(const coordinator::Census& census) {
  if (next_ != nullptr) next_->OnCensus(census);
}

}  // namespace luthier::service
