#include "worker/runtime/roster.h"

#include <algorithm>

namespace luthier::worker {

void Roster::Wait(absl::Duration deadline) {
  clock_->WaitUntil(&mutex_, &changed_, deadline);
}

void Roster::Wake() {
  const base::MutexLock lock(&mutex_);
  changed_.SignalAll();
}

void Roster::AwaitEnd() {
  const base::MutexLock lock(&mutex_);
  bool stopped = false;
  while (asking_ || !active_.empty()) {
    const absl::Duration stop_at = stopped ? absl::InfiniteDuration() : contact_->drain_deadline();
    if (clock_->Monotonic() < stop_at) {
      Wait(stop_at);
      continue;
    }
    for (auto& [token, attempt] : active_) attempt->Drain();
    stopped = true;
  }
  finished_ = true;
  changed_.SignalAll();
}

// --- Asker and slots ---

int Roster::AwaitFreeSlots(absl::Duration next, uint64_t* hurry) {
  const base::MutexLock lock(&mutex_);
  for (;;) {
    if (options_.max_trials > 0 && ended_ >= options_.max_trials) return 0;
    drained_ = contact_->draining();
    if (drained_) return 0;
    const auto active = static_cast<int64_t>(active_.size());
    int64_t free = options_.slots - active;
    if (options_.max_trials > 0) free = std::min(free, options_.max_trials - ended_ - active);
    const uint64_t reasons = contact_->hurry();
    if (free > 0 && (clock_->Monotonic() >= next || reasons != *hurry)) {
      *hurry = reasons;
      return static_cast<int>(free);
    }
    Wait(free == 0 ? absl::InfiniteDuration() : next);
  }
}

std::vector<Lease> Roster::Add(std::vector<Lease> leases) {
  std::vector<Lease> unwanted;
  const base::MutexLock lock(&mutex_);
  for (Lease& lease : leases) {
    if (active_.contains(lease.token)) continue;  // It is held already: the service repeated an earlier answer.
    if (contact_->draining() || static_cast<int>(active_.size()) >= options_.slots) {
      unwanted.push_back(std::move(lease));
      continue;
    }
    const std::string token = lease.token;
    auto attempt = std::make_unique<Attempt>(std::move(lease), clock_, [this] { Wake(); });
    ready_.push_back(attempt.get());
    active_[token] = std::move(attempt);
  }
  changed_.SignalAll();
  return unwanted;
}

absl::Duration Roster::IdleUntil() {
  const base::MutexLock lock(&mutex_);
  return (active_.empty() ? idle_since_ : clock_->Monotonic()) + options_.exit_when_idle;
}

bool Roster::Drained() {
  const base::MutexLock lock(&mutex_);
  return drained_;
}

void Roster::EndAsking() {
  const base::MutexLock lock(&mutex_);
  asking_ = false;
  changed_.SignalAll();
}

Attempt* Roster::AwaitAttempt() {
  const base::MutexLock lock(&mutex_);
  while (ready_.empty() && !finished_) Wait(absl::InfiniteDuration());
  if (ready_.empty()) return nullptr;
  Attempt* const attempt = ready_.front();
  ready_.pop_front();
  return attempt;
}

void Roster::Remove(Attempt* attempt, bool ended) {
  // A trial that was stopped leaves reports behind, one of which may be on its way: the reporter still uses it.
  attempt->LeaveReporter();
  const base::MutexLock lock(&mutex_);
  if (ended) ++ended_;
  active_.erase(attempt->lease().token);
  idle_since_ = clock_->Monotonic();
  changed_.SignalAll();
}

// --- Reporter ---

std::optional<std::pair<Attempt*, ReportRequest>> Roster::NextReport(std::string* last) {
  auto it = active_.upper_bound(*last);
  for (size_t k = 0; k < active_.size(); ++k, ++it) {
    if (it == active_.end()) it = active_.begin();
    std::optional<ReportRequest> report = it->second->NextReportOfReporter();
    if (!report) continue;
    *last = it->first;
    return std::pair(it->second.get(), *std::move(report));
  }
  return std::nullopt;
}

std::optional<std::pair<Attempt*, ReportRequest>> Roster::AwaitReport(absl::Duration next, uint64_t* hurry,
                                                                      std::string* last) {
  const base::MutexLock lock(&mutex_);
  while (!finished_) {
    const uint64_t reasons = contact_->hurry();
    const bool may_send = clock_->Monotonic() >= next || reasons != *hurry;
    if (may_send) {
      if (auto report = NextReport(last)) {
        *hurry = reasons;
        return report;
      }
    }
    Wait(may_send ? absl::InfiniteDuration() : next);
  }
  return std::nullopt;
}

// --- Heartbeat ---

std::vector<std::string> Roster::AwaitBeat(std::optional<absl::Duration> next, double jitter) {
  const base::MutexLock lock(&mutex_);
  while (!finished_) {
    if (active_.empty()) {
      next.reset();
      Wait(absl::InfiniteDuration());
      continue;
    }
    std::vector<std::string> tokens;
    absl::Duration ttl = absl::InfiniteDuration();
    for (const auto& [token, attempt] : active_) {
      tokens.push_back(token);
      ttl = std::min(ttl, attempt->lease().ttl);
    }
    const absl::Duration interval = std::max(ttl / 3, absl::Milliseconds(100));
    const absl::Duration now = clock_->Monotonic();
    if (!next) next = now + interval * jitter;
    next = std::min(*next, now + interval * 1.1);  // A lease with a shorter time may have come meanwhile.
    if (now >= *next) return tokens;
    Wait(*next);
  }
  return {};
}

void Roster::Follow(const std::vector<std::string>& tokens, const std::vector<study::Directive>& directives) {
  const base::MutexLock lock(&mutex_);
  for (size_t i = 0; i < std::min(tokens.size(), directives.size()); ++i) {
    if (const auto held = active_.find(tokens[i]); held != active_.end()) held->second->Follow(directives[i]);
  }
}

}  // namespace luthier::worker
