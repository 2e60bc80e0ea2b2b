#include "worker/runtime.h"

#include <algorithm>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/retry_advice.h"
#include "worker/active_run.h"

namespace luthier::worker {
namespace {

constexpr absl::Duration kShortestAsk = absl::Milliseconds(200);  // Shortest time between two asks without a trial.
constexpr absl::Duration kLongestAsk = absl::Minutes(5);
constexpr absl::Duration kSpoolRetry = absl::Seconds(5);  // Time between tries while results could not be kept.

// Returns which of the service's limits was exceeded; "" for other errors.
std::string LimitOf(const absl::Status& status) {
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  if (!detail || detail->reason != base::reason::kLimitExceeded) return "";
  const auto limit = detail->metadata.find("limit");
  return limit == detail->metadata.end() ? "" : limit->second;
}

// True for errors of a call by the asker that waiting does not mend.
bool EndsAsking(const absl::Status& status) {
  if (base::GetReason(status) == base::reason::kRequestIdReused) return false;  // The next request has another id.
  const base::RetryAdvice advice = base::AdviceFor(status);
  return advice == base::RetryAdvice::kMend || advice == base::RetryAdvice::kForbidden;
}

}  // namespace

Runtime::Runtime(RuntimeOptions options, CoordinatorApi* api, Runner* runner, const Spool* spool, WaitClock* clock)
    : options_(std::move(options)), api_(api), runner_(runner), spool_(spool), clock_(clock) {
  LUTHIER_CHECK(options_.slots >= 1 && options_.slots <= kMaxSlots);
}

Runtime::~Runtime() = default;

absl::Status Runtime::Run() {
  base::LogInfo("worker_start", {{"worker", options_.worker},
                                 {"study", options_.study.empty() ? "any" : options_.study},
                                 {"slots", absl::StrCat(options_.slots)}});
  std::vector<std::thread> threads;
  threads.emplace_back([this] { HeartbeatLoop(); });
  threads.emplace_back([this] { ReportLoop(); });
  threads.emplace_back([this] { AskLoop(); });
  for (int slot = 0; slot < options_.slots; ++slot) threads.emplace_back([this, slot] { SlotLoop(slot); });
  {
    const base::MutexLock lock(&mutex_);
    bool stopped = false;
    while (!asker_done_ || !active_.empty()) {
      const bool waiting = draining_ && !stopped;
      if (waiting && clock_->Monotonic() >= drain_deadline_) {
        for (auto& [token, run] : active_) run->stop_signal().Request(StopReason::kDrain);
        stopped = true;
        continue;
      }
      clock_->WaitUntil(&mutex_, &changed_, waiting ? drain_deadline_ : absl::InfiniteDuration());
    }
    finished_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads) thread.join();
  const base::MutexLock lock(&mutex_);
  base::LogInfo("worker_end", {{"worker", options_.worker}, {"status", std::string(fatal_.ToString())}});
  return fatal_;
}

void Runtime::Drain() {
  {
    const base::MutexLock lock(&mutex_);
    if (draining_) return;
    draining_ = true;
    drain_deadline_ = clock_->Monotonic() + options_.drain_timeout;
    ++hurry_;
    changed_.SignalAll();
  }
  base::LogInfo("worker_draining", {{"timeout", absl::FormatDuration(options_.drain_timeout)}});
  api_->CancelSuggest();
}

// --- Asking ---

std::string Runtime::NewRequestId() {
  base::RandomStream random(options_.seed, "request_id", requests_++);
  const uint64_t high = random.NextU64(), low = random.NextU64();
  // A version 4 UUID.
  return absl::StrFormat("%08x-%04x-4%03x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFF,
                         0x8000 | ((low >> 48) & 0x3FFF), low & 0xFFFFFFFFFFFF);
}

int Runtime::Wanted() const {
  const auto active = static_cast<int64_t>(active_.size());
  const int64_t free = options_.slots - active;
  return static_cast<int>(options_.max_trials > 0 ? std::min(free, options_.max_trials - ended_ - active) : free);
}

void Runtime::AskLoop() {
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 0));
  DeliverLeftovers();
  absl::Duration next = absl::ZeroDuration();
  bool fresh = true;
  uint64_t hurry = 0;
  open_ = options_.study.empty();
  while (next != -absl::InfiniteDuration()) {
    int free = 0;
    {
      const base::MutexLock lock(&mutex_);
      const auto all_ended = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
        return options_.max_trials > 0 && ended_ >= options_.max_trials;
      };
      free = Wanted();
      while (!draining_ && !all_ended() && (free == 0 || (clock_->Monotonic() < next && hurry == hurry_))) {
        clock_->WaitUntil(&mutex_, &changed_, free == 0 ? absl::InfiniteDuration() : next);
        free = Wanted();
      }
      if (draining_ || all_ended()) break;
      hurry = hurry_;
    }
    next = !CanKeepResults() ? clock_->Monotonic() + kSpoolRetry
           : open_           ? AskOnce(free, &backoff, &fresh)
                             : OpenStudy(&backoff);
  }
  const base::MutexLock lock(&mutex_);
  asker_done_ = true;
  changed_.SignalAll();
}

bool Runtime::CanKeepResults() {
  const absl::Status ready = spool_ == nullptr ? absl::OkStatus() : spool_->Ready();
  if (!ready.ok() && !spool_failed_) {
    base::LogError("spool_unusable", {{"error", Text(ready)}, {"effect", "no more trials are taken until it is"}});
  }
  if (ready.ok() && spool_failed_) base::LogInfo("spool_usable_again");
  spool_failed_ = !ready.ok();
  return ready.ok();
}

absl::Duration Runtime::OpenStudy(base::Backoff* backoff) {
  const absl::StatusOr<study::StudySpec> spec = api_->GetSpec(options_.study);
  if (!spec.ok() && !absl::IsFailedPrecondition(spec.status())) return AfterError(spec.status(), backoff);
  NoteContact(absl::OkStatus());
  backoff->Reset();
  not_found_logged_ = false;
  const absl::Status opened = spec.ok() ? runner_->Open(*spec) : spec.status();
  if (opened.ok()) {
    open_ = true;
    return absl::ZeroDuration();
  }
  base::LogError("study_not_opened", {{"study", options_.study}, {"error", Text(opened)}});
  const base::MutexLock lock(&mutex_);
  fatal_ = absl::FailedPreconditionError(
      absl::StrCat("study ", base::Quote(options_.study), " can't be evaluated by this worker: ", Text(opened)));
  return -absl::InfiniteDuration();
}

absl::Duration Runtime::AfterError(const absl::Status& status, base::Backoff* backoff) {
  if (EndsAsking(status)) {
    base::LogError("ask_refused", {{"code", absl::StatusCodeToString(status.code())}, {"error", Text(status)}});
    const base::MutexLock lock(&mutex_);
    fatal_ = status;
    return -absl::InfiniteDuration();
  }
  if (absl::IsNotFound(status)) {  // The study may be created in a moment.
    if (!not_found_logged_) base::LogWarning("study_not_found", {{"study", options_.study}, {"error", Text(status)}});
    not_found_logged_ = true;
  } else {
    NoteContact(status);
  }
  return clock_->Monotonic() + backoff->Next(status);
}

absl::Duration Runtime::AskOnce(int count, base::Backoff* backoff, bool* fresh) {
  // A repetition is the same request, count included: meanwhile slots may have become free, but none was taken.
  if (*fresh) request_ = {options_.study, options_.worker, count, NewRequestId()};
  absl::StatusOr<SuggestReply> reply = api_->Suggest(request_);
  const absl::Duration now = clock_->Monotonic();
  if (!reply.ok()) {
    const absl::Status& status = reply.status();
    *fresh = !base::OutcomeUnknown(base::AdviceFor(status));
    // A long poll without a trial, as it seems; a dead connection is UNAVAILABLE.
    if (absl::IsDeadlineExceeded(status)) return now + kShortestAsk;
    return AfterError(status, backoff);
  }
  NoteContact(absl::OkStatus());
  backoff->Reset();
  *fresh = true;
  not_found_logged_ = false;
  if (!reply->leases.empty()) {
    StartRuns(std::move(reply->leases));
    return absl::ZeroDuration();
  }
  if (reply->study_done && options_.exit_when_done) {
    base::LogInfo("study_done", {{"study", options_.study}});
    runner_->DiscardStudy(options_.study);
    return -absl::InfiniteDuration();
  }
  return now + std::clamp(reply->retry_after, kShortestAsk, kLongestAsk);
}

void Runtime::StartRuns(std::vector<Lease> leases) {
  std::vector<Lease> unwanted;
  {
    const base::MutexLock lock(&mutex_);
    for (Lease& lease : leases) {
      const bool external = std::holds_alternative<study::ExternalObjective>(lease.spec.objective);
      if (external) {
        fatal_ = absl::FailedPreconditionError(
            absl::StrCat("study ", base::Quote(lease.study),
                         " has an external objective: its trials are evaluated by whoever asks and tells, not by "
                         "workers; give it a command or builtin objective"));
        draining_ = true;
        drain_deadline_ = clock_->Monotonic() + options_.drain_timeout;
      }
      if (active_.count(lease.token) != 0) continue;  // It is held already: the service repeated an earlier answer.
      if (draining_ || static_cast<int>(active_.size()) >= options_.slots) {
        unwanted.push_back(std::move(lease));
        continue;
      }
      const std::string token = lease.token;
      auto run = std::make_unique<ActiveRun>(this, std::move(lease));
      ready_.push_back(run.get());
      active_[token] = std::move(run);
    }
    changed_.SignalAll();
  }
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 1));
  for (const Lease& lease : unwanted) ReturnLease(lease, lease.resume_checkpoint, lease.resume_step, &backoff);
}

// --- Heartbeats ---

void Runtime::HeartbeatLoop() {
  base::RandomStream jitter(options_.seed, "heartbeat");
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 2));
  std::optional<absl::Duration> next;
  for (;;) {
    {
      const base::MutexLock lock(&mutex_);
      if (finished_) return;
      if (active_.empty()) {
        next.reset();
        clock_->WaitUntil(&mutex_, &changed_, absl::InfiniteDuration());
        continue;
      }
      absl::Duration ttl = absl::InfiniteDuration();
      for (const auto& [token, run] : active_) ttl = std::min(ttl, run->lease().ttl);
      const absl::Duration interval = std::max(ttl / 3, absl::Milliseconds(100));
      const absl::Duration now = clock_->Monotonic();
      // A lease with a shorter time may have come meanwhile.
      if (!next) next = now + interval * (0.9 + 0.2 * jitter.Uniform());
      next = std::min(*next, now + interval * 1.1);
      if (now < *next) {
        clock_->WaitUntil(&mutex_, &changed_, *next);
        continue;
      }
    }
    absl::Status status;
    try {
      status = Beat();
    } catch (const std::exception& e) {  // Whatever fails here, the next heartbeat is sent.
      status = absl::InternalError(e.what());
    }
    if (status.ok()) {
      backoff.Reset();
      next.reset();
    } else {
      next = clock_->Monotonic() + backoff.Next(status);
    }
  }
}

absl::Status Runtime::Beat() {
  std::vector<std::string> tokens;
  {
    const base::MutexLock lock(&mutex_);
    for (const auto& [token, run] : active_) tokens.push_back(token);
  }
  if (tokens.empty()) return absl::OkStatus();  // The last lease has just been settled.
  const absl::StatusOr<std::vector<study::Directive>> directives = api_->Heartbeat(options_.worker, tokens);
  NoteContact(directives.status());
  if (!directives.ok()) return directives.status();
  const base::MutexLock lock(&mutex_);
  for (size_t i = 0; i < std::min(tokens.size(), directives->size()); ++i) {
    const auto it = active_.find(tokens[i]);
    if (it == active_.end() || (*directives)[i] == study::Directive::kContinue) continue;
    if ((*directives)[i] == study::Directive::kPause) {
      it->second->stop_signal().Request(StopReason::kPause);
      continue;
    }
    if ((*directives)[i] == study::Directive::kFinish) {
      it->second->stop_signal().Request(StopReason::kFinish);
      continue;
    }
    const bool lost = (*directives)[i] == study::Directive::kLost;
    if (!it->second->stop().requested()) {
      base::LogInfo(lost ? "lease_lost" : "trial_stopped", {{"trial", it->second->text()}});
    }
    it->second->stop_signal().Request(lost ? StopReason::kLost : StopReason::kCancelled);
  }
  return absl::OkStatus();
}

// --- Learning curves ---

void Runtime::ReportLoop() {
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 3));
  absl::Duration retry_at = absl::ZeroDuration();
  uint64_t hurry = 0;
  std::string last;  // The trial served last: others come first.
  const base::MutexLock lock(&mutex_);
  while (!finished_) {
    ActiveRun* chosen = nullptr;
    for (int pass = 0; pass < 2 && chosen == nullptr; ++pass) {
      for (auto it = pass == 0 ? active_.upper_bound(last) : active_.begin(); it != active_.end(); ++it) {
        if (it->second->queue_.empty() || it->second->flushing_) continue;
        chosen = it->second.get();
        break;
      }
    }
    const absl::Duration now = clock_->Monotonic();
    if (chosen == nullptr || (now < retry_at && hurry == hurry_)) {
      clock_->WaitUntil(&mutex_, &changed_, chosen == nullptr ? absl::InfiniteDuration() : retry_at);
      continue;
    }
    last = chosen->lease().token;
    hurry = hurry_;
    const absl::Status status = SendReports(chosen);
    if (status.ok())
      backoff.Reset();
    else
      retry_at = clock_->Monotonic() + backoff.Next(status);
  }
}

absl::Status Runtime::SendReports(ActiveRun* run) {
  const ReportRequest request = {run->lease().study,           run->lease().trial.number, run->lease().token,
                                 run->queue_.Front(),          run->queue_.checkpoint(),  run->start_step_,
                                 run->queue_.checkpoint_step()};
  run->sending_ = true;
  mutex_.Unlock();
  const absl::StatusOr<study::Directive> reply = api_->Report(request);
  NoteContact(reply.status());
  mutex_.Lock();
  run->sending_ = false;
  changed_.SignalAll();
  if (reply.ok()) {
    run->queue_.Pop(request.measurements.size());
    if (*reply == study::Directive::kStop) run->stop_signal().Request(StopReason::kCancelled);
    if (*reply == study::Directive::kLost) run->stop_signal().Request(StopReason::kLost);
    if (*reply == study::Directive::kFinish) run->stop_signal().Request(StopReason::kFinish);
    if (*reply == study::Directive::kPause) run->stop_signal().Request(StopReason::kPause);
    return absl::OkStatus();
  }
  const absl::Status& status = reply.status();
  switch (base::AdviceFor(status)) {
    case base::RetryAdvice::kRepeat:
    case base::RetryAdvice::kFewTimes:
    case base::RetryAdvice::kLater:
    case base::RetryAdvice::kForbidden:
    case base::RetryAdvice::kFault:
      return status;
    case base::RetryAdvice::kAskForLess:
    case base::RetryAdvice::kMend:
      base::LogWarning("report_refused", {{"trial", run->text()}, {"error", Text(status)}});
      if (LimitOf(status) == "gradient_bytes") {
        run->Note(absl::StrCat("the curve goes on without gradients: ", Text(status)));
        run->queue_.DropGradients();
        return absl::OkStatus();
      }
      run->Note(absl::StrCat("points were refused: ", Text(status)));
      // One of several points may be invalid, or all together too large; the curve is not worth finding out which.
      run->queue_.Pop(request.measurements.size());
      if (base::GetReason(status) == base::reason::kLimitExceeded) run->queue_.Close();
      return absl::OkStatus();
    case base::RetryAdvice::kRefused:
      break;
  }
  if (base::GetReason(status) == base::reason::kConflictingReport) {
    base::LogWarning("report_refused", {{"trial", run->text()}, {"error", Text(status)}});
    run->queue_.Pop(request.measurements.size());
    return absl::OkStatus();
  }
  if (!run->stop().requested()) {
    base::LogInfo("lease_lost", {{"trial", run->text()}, {"error", Text(status)}});
  }
  run->stop_signal().Request(StopReason::kLost);
  run->queue_.Close();
  return absl::OkStatus();
}

// --- Running ---

void Runtime::SlotLoop(int slot) {
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 16 + static_cast<uint64_t>(slot)));
  for (;;) {
    ActiveRun* run = nullptr;
    {
      const base::MutexLock lock(&mutex_);
      while (ready_.empty() && !finished_) clock_->WaitUntil(&mutex_, &changed_, absl::InfiniteDuration());
      if (ready_.empty()) return;
      run = ready_.front();
      ready_.pop_front();
    }
    run->SetSlot(slot);
    const bool ended = Execute(run, &backoff);
    const base::MutexLock lock(&mutex_);
    if (ended) ++ended_;
    // A trial that was stopped leaves reports behind, one of which may be on its way: the reporter still uses `run`.
    run->flushing_ = true;
    while (run->sending_) clock_->WaitUntil(&mutex_, &changed_, absl::InfiniteDuration());
    active_.erase(run->lease().token);
    changed_.SignalAll();
  }
}

// --- Time ---

absl::Duration Runtime::GiveUpTime(absl::Duration start) const {
  const absl::Duration usual = start + options_.delivery_timeout;
  if (!draining_) return usual;
  return std::min(usual, std::max(start, drain_deadline_) + options_.drain_delivery_timeout);
}

uint64_t Runtime::Hurry() {
  const base::MutexLock lock(&mutex_);
  return hurry_;
}

bool Runtime::WaitToRetry(absl::Duration start, uint64_t hurry, absl::Duration wait) {
  const base::MutexLock lock(&mutex_);
  const absl::Duration until = clock_->Monotonic() + wait;
  for (;;) {
    const absl::Duration now = clock_->Monotonic();
    const absl::Duration give_up = GiveUpTime(start);
    if (now >= give_up) return false;
    if (now >= until || hurry_ != hurry) return true;
    clock_->WaitUntil(&mutex_, &changed_, std::min(until, give_up));
  }
}

void Runtime::NoteContact(const absl::Status& status) {
  const bool away = base::NobodyAnswered(status);
  if (!away && !status.ok()) return;
  {
    const base::MutexLock lock(&mutex_);
    if (away_ == away) return;
    away_ = away;
    if (!away) {
      ++hurry_;
      changed_.SignalAll();
    }
  }
  if (away)
    base::LogWarning("coordinator_away", {{"error", Text(status)}});
  else
    base::LogInfo("coordinator_back");
}

}  // namespace luthier::worker
