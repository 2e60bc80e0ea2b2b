#include "worker/runtime/runtime.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/backoff.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "worker/runtime/asker.h"

namespace luthier::worker {
namespace {

constexpr absl::Duration kShortestWait = absl::Seconds(1);  // An ask waits for trials for so long at least.

}  // namespace

Runtime::Runtime(RuntimeOptions options, CoordinatorApi* api, Runner* runner, const Spool* spool, WaitClock* clock)
    : options_(std::move(options)),
      api_(api),
      runner_(runner),
      spool_(spool),
      clock_(clock),
      contact_(&options_, clock, [this] { roster_.Wake(); }),
      roster_(&options_, &contact_, clock) {
  LUTHIER_CHECK(options_.slots >= 1 && options_.slots <= kMaxSlots);
}

absl::Status Runtime::Run() {
  base::LogInfo("worker_start", {{"worker", options_.worker},
                                 {"study", options_.study.empty() ? "any" : options_.study},
                                 {"slots", absl::StrCat(options_.slots)}});
  std::vector<std::thread> threads;
  threads.emplace_back([this] { HeartbeatLoop(); });
  threads.emplace_back([this] { ReportLoop(); });
  threads.emplace_back([this] { AskLoop(); });
  for (int slot = 0; slot < options_.slots; ++slot) threads.emplace_back([this, slot] { SlotLoop(slot); });
  roster_.AwaitEnd();
  for (std::thread& thread : threads) thread.join();
  base::LogInfo("worker_end", {{"worker", options_.worker}, {"status", std::string(fatal_.ToString())}});
  return fatal_;
}

void Runtime::Drain() {
  if (!contact_.Drain()) return;
  base::LogInfo("worker_draining", {{"timeout", absl::FormatDuration(options_.drain_timeout)}});
  api_->CancelSuggest();
}

Delivery Runtime::NewDelivery(int thread) {
  return {api_, spool_, &contact_, clock_, base::RandomStream(options_.seed, "backoff", static_cast<uint64_t>(thread))};
}

absl::Status Runtime::CheckObjectives(const std::vector<Lease>& leases) {
  for (const Lease& lease : leases) {
    if (!std::holds_alternative<study::ExternalObjective>(lease.run.spec.objective)) continue;
    return absl::FailedPreconditionError(
        absl::StrCat("study ", base::Quote(lease.run.study),
                     " has an external objective: its trials are evaluated by whoever asks and tells, not by workers; "
                     "give it a command or builtin objective"));
  }
  return absl::OkStatus();
}

void Runtime::AskLoop() {
  Delivery delivery = NewDelivery(1);
  delivery.SendLeftovers();
  Asker asker(&options_, api_, runner_, spool_, &contact_, clock_);
  absl::Duration next = absl::ZeroDuration();
  uint64_t hurry = 0;
  while (next < absl::InfiniteDuration()) {
    const int count = roster_.AwaitFreeSlots(next, &hurry);
    if (count == 0) break;
    Asker::Answer answer = asker.Ask(count, std::max(kShortestWait, roster_.IdleUntil() - clock_->Monotonic()));
    next = answer.next;
    fatal_ = answer.error.ok() ? CheckObjectives(answer.leases) : answer.error;
    if (!fatal_.ok() && answer.error.ok()) Drain();
    for (const Lease& lease : roster_.Add(std::move(answer.leases))) delivery.GiveBack(lease);
    if (!answer.nothing) continue;
    const absl::Duration leave = roster_.IdleUntil();
    if (clock_->Monotonic() >= leave) {
      base::LogInfo("worker_idle", {{"for", absl::FormatDuration(options_.exit_when_idle)}});
      break;
    }
    next = std::min(next, leave);
  }
  if (contact_.draining()) {
    for (const Lease& lease : roster_.Add(asker.Recall())) delivery.GiveBack(lease);
  }
  roster_.EndAsking();
}

void Runtime::HeartbeatLoop() {
  base::RandomStream jitter(options_.seed, "heartbeat");
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 2));
  std::optional<absl::Duration> next;
  for (;;) {
    const std::vector<std::string> tokens = roster_.AwaitBeat(next, 0.9 + 0.2 * jitter.Uniform());
    if (tokens.empty()) return;
    absl::StatusOr<std::vector<study::Directive>> directives;
    try {
      directives = api_->Heartbeat(options_.worker, tokens);
    } catch (const std::exception& e) {  // The next heartbeat is sent even so.
      directives = absl::InternalError(e.what());
    }
    contact_.Note(directives.status());
    next.reset();
    if (directives.ok()) {
      backoff.Reset();
      roster_.Follow(tokens, *directives);
    } else {
      next = clock_->Monotonic() + backoff.Next(directives.status());
    }
  }
}

void Runtime::ReportLoop() {
  Delivery delivery = NewDelivery(3);
  base::Backoff backoff(base::RandomStream(options_.seed, "backoff", 3));
  absl::Duration next = absl::ZeroDuration();
  uint64_t hurry = 0;
  std::string last;
  while (const auto report = roster_.AwaitReport(next, &hurry, &last)) {
    const absl::Status sent = delivery.Send(report->first, report->second);
    if (sent.ok()) {
      backoff.Reset();
    } else {
      next = clock_->Monotonic() + backoff.Next(sent);
    }
  }
}

void Runtime::SlotLoop(int slot) {
  Delivery delivery = NewDelivery(16 + slot);
  while (Attempt* const attempt = roster_.AwaitAttempt()) {
    const bool ended = delivery.End(attempt, attempt->Run(runner_, slot));
    if (ended) runner_->Discard(attempt->lease().run);
    roster_.Remove(attempt, ended);
  }
}

}  // namespace luthier::worker
