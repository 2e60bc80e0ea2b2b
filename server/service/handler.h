#ifndef LUTHIER_SERVER_SERVICE_HANDLER_H_
#define LUTHIER_SERVER_SERVICE_HANDLER_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "lib/wire/deadline.h"
#include "lib/wire/status.h"
#include "server/access/access.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/service/memory_guard.h"
#include "server/service/worker_log.h"
#include "server/storage/storage.h"

// The base of the gRPC services. A handler checks, converts and hands over; it decides nothing and never blocks.
namespace luthier::service {

// The server that handlers work for; all of it outlives the services.
struct Backend {
  coordinator::Coordinator* coordinator = nullptr;
  storage::Storage* storage = nullptr;
  base::Executor* readers = nullptr;  // Get, List, Watch: SQLite must not run on gRPC's threads.
  const base::Clock* clock = nullptr;
  const MemoryGuard* memory = nullptr;         // Null: there is no limit.
  coordinator::Observer* observer = nullptr;   // Is told of refusals. Null: nobody is.
  const std::atomic<bool>* closing = nullptr;  // True when connections are about to end. Null: never.
  const access::Access* access = nullptr;      // Null: all callers are equal.
  WorkerLog* workers = nullptr;                // Is told of workers that call. Null: nobody is.
  // Threads of low priority for reads that look at all of a study, so that results are accepted beside them. Null:
  // `readers`.
  base::Executor* scanners = nullptr;

  // Returns the caller of a call that was admitted.
  access::Caller CallerOf(const grpc::CallbackServerContext& context) const {
    return access == nullptr ? access::Caller() : access::Access::CallerOf(context);
  }
  // Returns the caller's right to have the call go on; null: none is needed.
  access::PermitPtr PermitOf(const grpc::CallbackServerContext& context) const {
    return access == nullptr ? nullptr : access::Access::PermitOf(context);
  }
  absl::Status StillAllowed(const access::PermitPtr& permit) const {
    return permit == nullptr ? absl::OkStatus() : permit->Check(clock->Wall());
  }
  // As Access::OnTokenEnd.
  access::Access::Ending OnTokenEnd(const grpc::CallbackServerContext& context,
                                    access::WaitingCalls::Listener ended) const {
    return access == nullptr ? nullptr : access->OnTokenEnd(context, std::move(ended));
  }
  // Returns the caller's name for events: "alice@ipv4:10.0.0.7", or the address alone of a caller without a token.
  std::string ActorOf(const grpc::CallbackServerContext& context) const {
    const access::Caller caller = CallerOf(context);
    const std::string address = access::AddressOf(context);
    return caller.token.empty() ? address : absl::StrCat(study::IdWithin(caller.project, caller.name), "@", address);
  }

  // Admits asks, creates and reads. As MemoryGuard; UNAVAILABLE DRAINING when `closing`.
  absl::Status AdmitWork() const {
    return Admit(coordinator::OperationClass::kRequests, memory == nullptr ? absl::OkStatus() : memory->AdmitWork());
  }
  // Admits calls that end studies or trials, and results and heartbeats, likewise.
  absl::Status AdmitEnding() const { return AdmitLast(coordinator::OperationClass::kRequests); }
  absl::Status AdmitResult() const { return AdmitLast(coordinator::OperationClass::kResults); }

  // Reserves memory for what a call makes. RESOURCE_EXHAUSTED MEMORY. No call gets more than a sixteenth of the limit
  // promised; otherwise a small limit would admit none.
  absl::StatusOr<MemoryGuard::Promise> TakeMemory(int64_t bytes) const {
    if (memory == nullptr || memory->limit() == 0) return MemoryGuard::Promise();
    return memory->Take(MemoryGuard::Kind::kWork, std::min(bytes, memory->limit() / 16));
  }

  // Reserves memory for the history of a study and what a designer makes of it. Errors as Storage, and as above.
  absl::StatusOr<MemoryGuard::Promise> TakeForHistory(const storage::StudyRecord& study) const {
    if (memory == nullptr || memory->limit() == 0) return MemoryGuard::Promise();
    const absl::StatusOr<storage::Storage::Summary> summary = storage->Summarize(study);
    if (!summary.ok()) return summary.status();
    constexpr int64_t kTrial = 1024, kParameter = 256;  // Twice what a history takes of each, for the time it is read.
    const int64_t trials = std::accumulate(summary->by_state.begin(), summary->by_state.end(), int64_t{0});
    return memory->Take(MemoryGuard::Kind::kWork, trials * (kTrial + kParameter * study.spec.space.scalars()));
  }

  // Tells the observer of a request that is refused unread. Returns `why`.
  absl::Status Refused(absl::Status why) const {
    return Refused(coordinator::OperationClass::kRequests, std::move(why));
  }

 private:
  absl::Status AdmitLast(coordinator::OperationClass operation_class) const {
    return Admit(operation_class, memory == nullptr ? absl::OkStatus() : memory->AdmitResult());
  }
  absl::Status Admit(coordinator::OperationClass operation_class, absl::Status within_memory) const {
    if (closing != nullptr && *closing) return Refused(operation_class, coordinator::Draining());
    return within_memory.ok() ? within_memory : Refused(operation_class, std::move(within_memory));
  }
  absl::Status Refused(coordinator::OperationClass operation_class, absl::Status why) const {
    if (observer != nullptr) observer->OnRefused(operation_class, why);
    return why;
  }
};

inline constexpr absl::Duration kDefaultDeadline = absl::Seconds(30);
inline constexpr absl::Duration kLongestDeadline = absl::Seconds(60);
inline constexpr absl::Duration kReadRetry = absl::Milliseconds(200);

// Returns the caller's deadline on Clock::Monotonic(): 30 s if it gave none, at most 60 s.
inline absl::Duration DeadlineOf(const grpc::CallbackServerContext& context, const base::Clock& clock) {
  absl::Duration remaining = wire::TimeUntil(context.raw_deadline());
  // gRPC may give a call without deadline one that is decades away.
  if (remaining > absl::Hours(24 * 365)) remaining = kDefaultDeadline;
  return clock.Monotonic() + std::min(remaining, kLongestDeadline);
}

inline grpc::ServerUnaryReactor* FinishWith(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(wire::ToGrpc(status));
  return reactor;
}

// Checks that `id` has 1 to 64 printable ASCII characters, or is empty where that is allowed.
inline absl::Status CheckRequestId(const std::string& id, bool required) {
  if (id.empty() && !required) return absl::OkStatus();
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
  if (!id.empty() && id.size() <= 64 && printable) return absl::OkStatus();
  return base::BadField("request_id",
                        id.empty() ? std::string("is required: a fresh UUID for each call")
                                   : absl::StrCat(base::Quote(id), " is not 1 to 64 printable ASCII characters"));
}

// Submits an operation with the deadline and the permit of the call.
inline void SubmitFor(const Backend& backend, const grpc::CallbackServerContext& context,
                      coordinator::Operation operation) {
  backend.coordinator->Submit(std::move(operation), DeadlineOf(context, *backend.clock), backend.PermitOf(context));
}

// Kinds of work on the readers' threads.
enum class Work {
  kRead,    // The permit is checked again before the reply is sent.
  kChange,  // The work checks the permit itself, and its reply is sent in any case.
};

// Bytes that a read may take while its reply is made, rows from storage included: a page of 3 MiB, as messages and
// bytes.
inline constexpr int64_t kReadMemory = int64_t{24} << 20;

// Runs `work` on `threads` and finishes the call with its status.
inline grpc::ServerUnaryReactor* OnThreads(base::Executor* threads, const Backend& backend,
                                           grpc::CallbackServerContext* context, Work kind,
                                           std::function<absl::Status()> work) {
  if (backend.coordinator->draining()) return FinishWith(context, backend.Refused(coordinator::Draining()));
  if (const absl::Status admitted = backend.AdmitWork(); !admitted.ok()) return FinishWith(context, admitted);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Duration deadline = DeadlineOf(*context, *backend.clock);
  const access::PermitPtr permit = backend.PermitOf(*context);
  const bool taken = threads->Schedule([reactor, deadline, backend, permit, kind, work = std::move(work)] {
    if (backend.clock->Monotonic() >= deadline) {
      const absl::Status late = absl::DeadlineExceededError("the deadline passed while the request waited");
      reactor->Finish(wire::ToGrpc(backend.Refused(late)));
      return;
    }
    absl::Status status = backend.StillAllowed(permit);
    absl::StatusOr<MemoryGuard::Promise> memory = MemoryGuard::Promise();
    if (status.ok()) {
      memory = backend.TakeMemory(kReadMemory);
      if (!memory.ok()) status = backend.Refused(memory.status());
    }
    if (status.ok()) {
      status = work();
      const absl::Status still = kind == Work::kRead ? backend.StillAllowed(permit) : absl::OkStatus();
      if (!still.ok()) status = still;
    }
    reactor->Finish(wire::ToGrpc(status));
  });
  if (!taken) {
    reactor->Finish(wire::ToGrpc(backend.Refused(coordinator::QueueFull("reads", kReadRetry))));
  }
  return reactor;
}

inline grpc::ServerUnaryReactor* OnReaders(const Backend& backend, grpc::CallbackServerContext* context, Work kind,
                                           std::function<absl::Status()> work) {
  return OnThreads(backend.readers, backend, context, kind, std::move(work));
}

inline grpc::ServerUnaryReactor* Read(const Backend& backend, grpc::CallbackServerContext* context,
                                      std::function<absl::Status()> read) {
  return OnThreads(backend.readers, backend, context, Work::kRead, std::move(read));
}

// Does the same for calls that look at all of a study, or compute: they wait for each other, and yield to all others.
inline grpc::ServerUnaryReactor* Scan(const Backend& backend, grpc::CallbackServerContext* context,
                                      std::function<absl::Status()> read) {
  return OnThreads(backend.scanners != nullptr ? backend.scanners : backend.readers, backend, context, Work::kRead,
                   std::move(read));
}

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_HANDLER_H_
