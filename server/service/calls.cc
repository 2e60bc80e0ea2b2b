#include "server/service/calls.h"

#include <grpcpp/alarm.h>

#include <algorithm>
#include <map>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/wire/deadline.h"
#include "server/service/call.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

constexpr absl::Duration kDefaultDeadline = absl::Seconds(30);
constexpr absl::Duration kLongestDeadline = absl::Seconds(60);
constexpr absl::Duration kReadRetry = absl::Milliseconds(200);
// Bytes that a request may take once it is parsed. The largest that our programs send, an import of long curves, takes
// 60 MiB. A message of 4 MiB may stand for gigabytes.
constexpr int64_t kMostRequestMemory = int64_t{96} << 20;
// Requests below this size get no promise, since they take hardly any memory.
constexpr int64_t kSmallRequest = int64_t{32} << 10;
// The copies are the request, the objects made from it, and what is written of these.
constexpr int64_t kRequestCopies = 3;
// Bytes that a read may take while its reply is made, rows from storage included: a page of 3 MiB, as messages and
// bytes.
constexpr int64_t kReadMemory = int64_t{24} << 20;

absl::Status TooLarge(int64_t most) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kLimitExceeded;
  detail.metadata["limit"] = "request_memory";
  detail.metadata["value"] = absl::StrCat(most);
  return base::MakeError(absl::StatusCode::kInvalidArgument,
                         absl::StrCat("the request would take more than ", most >> 20,
                                      " MiB of memory, as many small parts do; send fewer entries at a time"),
                         std::move(detail));
}

MemoryGuard::Kind MemoryKindOf(Admission admission) {
  return admission == Admission::kEnding || admission == Admission::kResult ? MemoryGuard::Kind::kEnding
                                                                            : MemoryGuard::Kind::kWork;
}

absl::Status Admit(const Backend& backend, Admission admission) {
  if (admission == Admission::kAlways) return absl::OkStatus();
  if (admission == Admission::kRead && backend.coordinator->draining()) {
    return backend.Refused(coordinator::Draining());
  }
  const bool result = admission == Admission::kResult;
  return backend.Admit(result ? coordinator::OperationClass::kResults : coordinator::OperationClass::kRequests,
                       MemoryKindOf(admission));
}

}  // namespace

const std::vector<Method>& Methods() {
  static const auto* const all = [] {
    auto* const methods = new std::vector<Method>;
    for (const auto& part : {StudyMethods, TrialMethods, StudyReadMethods, WorkerMethods, AdminMethods}) {
      for (Method& method : part()) methods->push_back(std::move(method));
    }
    return methods;
  }();
  return *all;
}

const Method* Find(absl::string_view path) {
  static const auto* const by_path = [] {
    auto* const found = new std::map<std::string, const Method*, std::less<>>;
    for (const Method& method : Methods()) found->emplace(method.path, &method);
    return found;
  }();
  const auto found = by_path->find(path);
  return found == by_path->end() ? nullptr : found->second;
}

Calls::Calls(const Backend& backend) : backend_(backend), kept_(std::make_unique<Kept>(backend)) {}
Calls::~Calls() = default;

std::shared_ptr<OpenCall> Calls::Start(const Method& method, Arrival arrival, absl::string_view request,
                                       Responder* responder) const {
  const auto call = std::make_shared<Call>(backend_, kept_.get(), method, std::move(arrival), responder);
  // A request that can't be parsed is refused once its caller is known; its content is not used.
  const absl::Status parsed = call->Read(request);
  Target target = method.target(method, *call->request_);
  call->name_ = std::move(target.name);
  if (backend_.access != nullptr) {
    const access::Refusal refusal = backend_.access->Admit(call->peer_, target.request, &call->admission_);
    if (!refusal.status.ok()) {
      call->FinishRefused(refusal);
      return call;
    }
  }
  const absl::Status admitted = parsed.ok() ? Admit(backend_, method.admission) : backend_.Refused(parsed);
  if (admitted.ok())
    method.run(call);
  else
    call->Finish(admitted);
  return call;
}

Call::Call(const Backend& backend, Kept* kept, const Method& method, Arrival arrival, Responder* responder)
    : backend_(backend),
      kept_(kept),
      method_(method),
      peer_(std::move(arrival.peer)),
      deadline_(backend.clock->Monotonic() +
                // gRPC may give a call without deadline one that is decades away.
                (arrival.time_left > absl::Hours(24 * 365) ? kDefaultDeadline
                                                           : std::min(arrival.time_left, kLongestDeadline))),
      responder_(responder),
      request_(method.request->New()),
      reply_(method.reply->New()) {}

absl::Status Call::Read(absl::string_view bytes) {
  const auto size = static_cast<int>(bytes.size());
  google::protobuf::io::CodedInputStream in(reinterpret_cast<const uint8_t*>(bytes.data()), size);
  const int64_t weight = method_.weight->Of(&in, kMostRequestMemory + 1);
  const int64_t limit = backend_.memory == nullptr ? 0 : backend_.memory->limit();
  // With a small limit, a request gets at most a share that leaves room for others.
  const int64_t most = limit == 0 ? kMostRequestMemory : std::min(kMostRequestMemory, limit / (2 * kRequestCopies));
  if (weight > most) return TooLarge(most);
  if (backend_.memory != nullptr && weight > kSmallRequest) {
    LUTHIER_ASSIGN_OR_RETURN(memory_, backend_.memory->Take(MemoryKindOf(method_.admission), kRequestCopies * weight));
  }
  if (request_->ParseFromArray(bytes.data(), size)) return absl::OkStatus();
  request_->Clear();
  return base::BadField("request", absl::StrCat("is not a ", method_.request->GetTypeName()));
}

absl::StatusOr<std::string> Call::Project() const {
  return name_.empty() ? caller().project : name_.Project();
}

std::string Call::actor(const std::string& of) const {
  if (caller().token.empty()) return peer_.address;
  return absl::StrCat(study::IdWithin(caller().has(of) ? of : caller().project, caller().name), "@", peer_.address);
}

absl::Status Call::StillAllowed() const {
  return admission_.standing == nullptr ? absl::OkStatus() : admission_.standing->Check(backend_.clock->Wall());
}

void Call::Finish(const absl::Status& status) {
  access::Registry::Ending ending;
  std::shared_ptr<Lasting> lasting;
  {
    const base::MutexLock lock(&mutex_);
    if (std::exchange(finished_, true)) return;
    ending = std::exchange(ending_, nullptr);
    lasting = std::exchange(lasting_, nullptr);
  }
  if (backend_.access != nullptr) backend_.access->Ended(&admission_, status);
  responder_->Finish(status, *reply_);
}

void Call::FinishRefused(const access::Refusal& refusal) {
  if (refusal.delay <= absl::ZeroDuration()) return Finish(refusal.status);
  auto* const alarm = new grpc::Alarm;
  alarm->Set(wire::DeadlineIn(refusal.delay), [alarm, self = shared_from_this(), status = refusal.status](bool) {
    const std::unique_ptr<grpc::Alarm> owner(alarm);
    self->Finish(status);
  });
}

void Call::OnTokenEnd(access::WaitingCalls::Listener ended) {
  if (backend_.access == nullptr) return;
  access::Registry::Ending ending = backend_.access->registry().OnEnd(admission_.standing, std::move(ended));
  const base::MutexLock lock(&mutex_);
  if (!finished_) ending_.swap(ending);
}

void Call::EndWithToken() {
  OnTokenEnd([weak = weak_from_this()](const absl::Status& why) {
    const CallPtr self = weak.lock();
    if (self == nullptr) return;
    self->gone_.RequestStop();
    self->Finish(why);
  });
}

void Call::Keep(std::shared_ptr<Lasting> lasting) {
  const base::MutexLock lock(&mutex_);
  if (!finished_) lasting_.swap(lasting);
}

void Call::Cancel() {
  gone_.RequestStop();
  std::shared_ptr<Lasting> lasting;
  {
    const base::MutexLock lock(&mutex_);
    lasting = lasting_;
  }
  if (lasting != nullptr) lasting->OnCancel();
}

void OnThreads(const CallPtr& call, Work kind, std::function<absl::Status()> work) {
  const Backend& backend = call->backend();
  base::Executor* const threads =
      kind == Work::kScan && backend.scanners != nullptr ? backend.scanners : backend.readers;
  const bool taken = threads->Schedule([call, kind, &backend, work = std::move(work)] {
    if (backend.clock->Monotonic() >= call->deadline()) {
      return call->Finish(backend.Refused(absl::DeadlineExceededError("the deadline passed while the request waited")));
    }
    absl::Status status = call->StillAllowed();
    if (!status.ok()) return call->Finish(status);
    const absl::StatusOr<MemoryGuard::Promise> memory = backend.TakeMemory(kReadMemory);
    if (!memory.ok()) return call->Finish(backend.Refused(memory.status()));
    status = work();
    const absl::Status still = kind == Work::kChange ? absl::OkStatus() : call->StillAllowed();
    call->Finish(still.ok() ? status : still);
  });
  if (!taken) call->Finish(Busy(backend, "reads"));
}

absl::Status CheckRequestId(const std::string& id, bool required) {
  if (id.empty() && !required) return absl::OkStatus();
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 127; });
  if (!id.empty() && id.size() <= 64 && printable) return absl::OkStatus();
  return base::BadField("request_id",
                        id.empty() ? std::string("is required: a fresh UUID for each call")
                                   : absl::StrCat(base::Quote(id), " is not 1 to 64 printable ASCII characters"));
}

absl::Status Busy(const Backend& backend, absl::string_view what) {
  return backend.Refused(coordinator::QueueFull(what, kReadRetry));
}

}  // namespace luthier::service
