#include "client/cpp/client.h"

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/backoff.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/mutex.h"
#include "lib/base/random.h"
#include "lib/base/retry_advice.h"
#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/wire/addresses.h"
#include "lib/wire/channel.h"
#include "lib/wire/convert.h"
#include "lib/wire/deadline.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/status.h"
#include "luthier/v1/admin_service.grpc.pb.h"
#include "luthier/v1/study_service.grpc.pb.h"
#include "luthier/v1/worker_service.grpc.pb.h"

namespace luthier::client {
namespace {

constexpr int kPageSize = 1000;
constexpr absl::Duration kHeartbeatTimeout = absl::Seconds(10);
// A watch is renewed now and then, so that it can't hang for ever if the server forgot it.
constexpr absl::Duration kWatchTimeout = absl::Minutes(30);

// Makes a UUID: RFC 9562, version 4.
std::string Uuid(base::RandomStream random) {
  const uint64_t high = (random.NextU64() & ~uint64_t{0xF000}) | 0x4000;
  const uint64_t low = (random.NextU64() & ~(uint64_t{0xC} << 60)) | (uint64_t{0x8} << 60);
  return absl::StrFormat("%08x-%04x-%04x-%04x-%012x", high >> 32, (high >> 16) & 0xFFFF, high & 0xFFFF, low >> 48,
                         low & 0xFFFFFFFFFFFF);
}

}  // namespace

class Client::Impl {
 public:
  using Channels = std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>>;

  Impl(const Channels& channels, const ClientOptions& options)
      : options_(options),
        clock_(options.clock != nullptr ? *options.clock : system_clock_),
        sleeper_(options.sleeper != nullptr ? *options.sleeper : own_sleeper_),
        turns_(AddressesOf(channels)) {
    for (const auto& [address, channel] : channels) {
      stubs_.push_back({v1::StudyService::NewStub(channel), v1::WorkerService::NewStub(channel),
                        v1::AdminService::NewStub(channel)});
    }
  }

  // The stubs of one address.
  struct Stubs {
    std::unique_ptr<v1::StudyService::Stub> studies;
    std::unique_ptr<v1::WorkerService::Stub> workers;
    std::unique_ptr<v1::AdminService::Stub> admin;
  };

  const ClientOptions& options() const { return options_; }

  std::string RequestId() { return Uuid(base::RandomStream(options_.seed, "client.request_id", next_request_++)); }

  wire::RetryPolicy Policy() {
    return {.max_attempts = options_.max_attempts, .give_up_after = options_.patience, .budget = &budget_};
  }

  // Makes one logical call: attempts of `timeout` each, by `policy`, none after the time at which it gives up. An
  // attempt tries each address once at most.
  template <typename Stub, typename Request, typename Response>
  absl::StatusOr<Response> Call(std::unique_ptr<Stub> Stubs::* stub,
                                grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                                const Request& request, absl::Duration timeout, const wire::RetryPolicy& policy) {
    Response response;
    const absl::Duration begin = clock_.Monotonic();
    const auto attempt = [&](size_t address) {
      grpc::ClientContext context;
      SetDeadline(&context, std::min(timeout, policy.give_up_after - (clock_.Monotonic() - begin)));
      const Active active(this, &context);
      response.Clear();
      return wire::FromGrpc(((*(stubs_[address].*stub)).*method)(&context, request, &response));
    };
    const absl::Status status =
        wire::Retry(policy, NewBackoff(), clock_, sleeper_, [&] { return turns_.Try(attempt); });
    if (absl::IsUnimplemented(status) && base::GetReason(status).empty()) return OfAnotherVersion();
    LUTHIER_RETURN_IF_ERROR(status);
    return response;
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Ask(grpc::Status (v1::StudyService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                              Response*),
                               const Request& request) {
    return Call(&Stubs::studies, method, request, options_.timeout, Policy());
  }

  template <typename Request, typename Response>
  absl::StatusOr<Response> Finish(grpc::Status (v1::WorkerService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                                  Response*),
                                  const Request& request) {
    wire::RetryPolicy policy = wire::RetryPolicy::Finish();
    policy.give_up_after = options_.finish_patience;
    return Call(&Stubs::workers, method, request, options_.timeout, policy);
  }

  absl::Status Watch(const std::string& study, const WatchOptions& options,
                     absl::FunctionRef<bool(const v1::Event&)> visit);

  void Interrupt() {
    own_sleeper_.Interrupt();
    const base::MutexLock lock(&mutex_);
    interrupted_ = true;
    for (grpc::ClientContext* context : active_) context->TryCancel();
  }

 private:
  // Registers a call so that Interrupt finds it.
  class Active {
   public:
    Active(Impl* impl, grpc::ClientContext* context) : impl_(impl), context_(context) {
      const base::MutexLock lock(&impl_->mutex_);
      impl_->active_.insert(context);
      if (impl_->interrupted_) context->TryCancel();
    }
    ~Active() {
      const base::MutexLock lock(&impl_->mutex_);
      impl_->active_.erase(context_);
    }
    Active(const Active&) = delete;
    Active& operator=(const Active&) = delete;

   private:
    Impl* const impl_;
    grpc::ClientContext* const context_;
  };

  static void SetDeadline(grpc::ClientContext* context, absl::Duration timeout) {
    context->set_deadline(wire::DeadlineIn(timeout));
  }

  // Returns the error of a call that the server lacks, to which gRPC itself answers without a message.
  absl::Status OfAnotherVersion() {
    grpc::ClientContext context;
    SetDeadline(&context, options_.timeout);
    const Active active(this, &context);
    v1::ServerInfo info;
    const bool known = stubs_[turns_.now()].workers->GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok();
    return absl::UnimplementedError(absl::StrCat(
        "the server, version ", known ? info.version() : "unknown", ", lacks a call that this program, version ",
        base::kVersion, ", needs: upgrade the server, or use a program of the server's version"));
  }

  static std::vector<std::string> AddressesOf(const Channels& channels) {
    std::vector<std::string> addresses;
    for (const auto& [address, channel] : channels) addresses.push_back(address);
    return addresses;
  }

  base::Backoff NewBackoff() {
    return base::Backoff(base::RandomStream(options_.seed, "client.backoff", next_backoff_++));
  }

  bool interrupted() {
    const base::MutexLock lock(&mutex_);
    return interrupted_;
  }

  const ClientOptions options_;
  const base::SystemClock system_clock_;
  wire::InterruptibleSleeper own_sleeper_;
  const base::Clock& clock_;
  wire::Sleeper& sleeper_;
  wire::RetryBudget budget_;
  std::atomic<uint64_t> next_request_{0};
  std::atomic<uint64_t> next_backoff_{0};

  base::Mutex mutex_;
  bool interrupted_ ABSL_GUARDED_BY(mutex_) = false;
  std::set<grpc::ClientContext*> active_ ABSL_GUARDED_BY(mutex_);

  // Stubs are thread-safe.
  std::vector<Stubs> stubs_;  // By address; never changes.
  wire::Turns turns_;
};

absl::Status Client::Impl::Watch(const std::string& study, const WatchOptions& options,
                                 absl::FunctionRef<bool(const v1::Event&)> visit) {
  v1::WatchStudyRequest request;
  request.set_name(wire::StudyName(study));
  request.set_after_seq(options.after_seq);
  request.set_until_finished(options.until_finished);
  base::Backoff backoff = NewBackoff();
  absl::Duration heard = clock_.Monotonic();
  while (true) {
    grpc::ClientContext context;
    SetDeadline(&context, kWatchTimeout);
    const Active active(this, &context);
    const size_t address = turns_.now();
    const std::unique_ptr<grpc::ClientReader<v1::Event>> reader =
        stubs_[address].studies->WatchStudy(&context, request);
    v1::Event event;
    bool wanted = true;
    while (wanted && reader->Read(&event)) {
      // Events come at least once: those from before a broken connection may come again.
      if (event.seq() <= request.after_seq()) continue;
      request.set_after_seq(event.seq());
      backoff.Reset();
      heard = clock_.Monotonic();
      wanted = visit(event);
    }
    if (!wanted) context.TryCancel();
    const absl::Status status = wire::FromGrpc(reader->Finish());
    if (!wanted || (status.ok() && options.until_finished)) return absl::OkStatus();
    if (wire::MayDoBetterElsewhere(status)) turns_.PassOn(address);
    if (interrupted()) return absl::CancelledError("interrupted");
    if (!status.ok() && !base::MayRepeat(base::AdviceFor(status))) return status;
    if (status.code() == absl::StatusCode::kDeadlineExceeded) heard = clock_.Monotonic();  // It was silent, not gone.
    if (clock_.Monotonic() - heard > options.patience) return status;
    if (!sleeper_.Sleep(backoff.Next(status))) return absl::CancelledError("interrupted");
  }
}

absl::StatusOr<std::unique_ptr<Client>> Client::Create(absl::string_view address, const ClientOptions& options) {
  LUTHIER_ASSIGN_OR_RETURN(Impl::Channels channels, wire::CreateChannels(address, options.security));
  return std::make_unique<Client>(std::move(channels), options);
}

Client::Client(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options)
    : Client(Impl::Channels{{"", std::move(channel)}}, options) {}

Client::Client(std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>> channels,
               const ClientOptions& options)
    : impl_(std::make_unique<Impl>(channels, options)) {}

Client::~Client() = default;

void Client::Interrupt() {
  impl_->Interrupt();
}

// --- Studies ---

absl::StatusOr<v1::Study> Client::CreateStudy(const std::string& id, const v1::StudySpec& spec) {
  v1::CreateStudyRequest request;
  request.set_study_id(std::string(study::ShortId(id)));
  if (const absl::string_view project = study::ProjectOf(id); project != study::kDefaultProject) {
    request.set_parent(wire::ProjectName(project));
  }
  *request.mutable_spec() = spec;
  return impl_->Ask(&v1::StudyService::Stub::CreateStudy, request);
}

absl::StatusOr<v1::Study> Client::GetStudy(const std::string& id) {
  v1::GetStudyRequest request;
  request.set_name(wire::StudyName(id));
  return impl_->Ask(&v1::StudyService::Stub::GetStudy, request);
}

absl::StatusOr<v1::Study> Client::GetRecommendation(const std::string& id) {
  v1::GetStudyRequest request;
  request.set_name(wire::StudyName(id));
  request.set_recommendation(true);
  return impl_->Ask(&v1::StudyService::Stub::GetStudy, request);
}

absl::StatusOr<v1::Study> Client::GetStudy(const std::string& id, const v1::CertificateRequest& certificate) {
  v1::GetStudyRequest request;
  request.set_name(wire::StudyName(id));
  *request.mutable_certificate() = certificate;
  request.set_harmonica_stages(true);
  request.set_recommendation(true);
  return impl_->Ask(&v1::StudyService::Stub::GetStudy, request);
}

absl::StatusOr<v1::GetImportanceResponse> Client::GetImportance(const std::string& id,
                                                                v1::GetImportanceRequest request) {
  request.set_name(wire::StudyName(id));
  return impl_->Ask(&v1::StudyService::Stub::GetImportance, request);
}

absl::StatusOr<std::vector<v1::Study>> Client::ListStudies(const std::string& project, bool deleted) {
  std::vector<v1::Study> all;
  v1::ListStudiesRequest request;
  if (!project.empty()) request.set_parent(wire::ProjectName(project));
  request.set_page_size(kPageSize);
  request.set_deleted(deleted);
  do {
    LUTHIER_ASSIGN_OR_RETURN(const v1::ListStudiesResponse page,
                             impl_->Ask(&v1::StudyService::Stub::ListStudies, request));
    all.insert(all.end(), page.studies().begin(), page.studies().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return all;
}

namespace {

v1::ControlStudyRequest ControlRequest(const std::string& id, const std::string& request_id) {
  v1::ControlStudyRequest request;
  request.set_name(wire::StudyName(id));
  request.set_request_id(request_id);
  return request;
}

}  // namespace

absl::StatusOr<v1::Study> Client::UpdateStudy(const std::string& id, const v1::StudySpec& spec,
                                              const std::vector<std::string>& fields) {
  v1::UpdateStudyRequest request;
  request.set_name(wire::StudyName(id));
  *request.mutable_spec() = spec;
  for (const std::string& field : fields) request.mutable_update_mask()->add_paths(field);
  request.set_request_id(impl_->RequestId());
  return impl_->Ask(&v1::StudyService::Stub::UpdateStudy, request);
}

absl::StatusOr<v1::Study> Client::PauseStudy(const std::string& id) {
  return impl_->Ask(&v1::StudyService::Stub::PauseStudy, ControlRequest(id, impl_->RequestId()));
}

absl::StatusOr<v1::Study> Client::ResumeStudy(const std::string& id) {
  return impl_->Ask(&v1::StudyService::Stub::ResumeStudy, ControlRequest(id, impl_->RequestId()));
}

absl::StatusOr<v1::Study> Client::StopStudy(const std::string& id) {
  return impl_->Ask(&v1::StudyService::Stub::StopStudy, ControlRequest(id, impl_->RequestId()));
}

absl::StatusOr<v1::Study> Client::CancelStudy(const std::string& id) {
  return impl_->Ask(&v1::StudyService::Stub::CancelStudy, ControlRequest(id, impl_->RequestId()));
}

absl::Status Client::DeleteStudy(const std::string& id) {
  return impl_->Ask(&v1::StudyService::Stub::DeleteStudy, ControlRequest(id, impl_->RequestId())).status();
}

absl::StatusOr<v1::Study> Client::UndeleteStudy(const std::string& id, const std::string& new_id) {
  v1::UndeleteStudyRequest request;
  request.set_name(wire::StudyName(id));
  request.set_new_id(new_id);
  request.set_request_id(impl_->RequestId());
  return impl_->Ask(&v1::StudyService::Stub::UndeleteStudy, request);
}

// --- Trials ---

namespace {

// Returns the error of a later call, whose predecessors took effect. Fields count from `first` on.
absl::Status AfterSome(const absl::Status& status, size_t imported, size_t first) {
  if (imported == 0) return status;
  const std::string what =
      absl::StrCat(imported, " trials are imported; of those from number ", first + 1, " on: ", status.message());
  std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  return detail ? base::MakeError(status.code(), what, *std::move(detail)) : absl::Status(status.code(), what);
}

}  // namespace

absl::StatusOr<v1::Trial> Client::GetTrial(const std::string& study, int64_t number, bool with_measurements) {
  v1::GetTrialRequest request;
  request.set_name(wire::TrialName(study, number));
  request.set_with_measurements(with_measurements);
  return impl_->Ask(&v1::StudyService::Stub::GetTrial, request);
}

absl::Status Client::ListTrials(const std::string& study, const std::vector<v1::Trial::State>& states,
                                absl::FunctionRef<bool(const v1::Trial&)> visit) {
  WhichTrials which;
  which.states = states;
  return FindTrials(study, which, visit);
}

absl::Status Client::FindTrials(const std::string& study, const WhichTrials& which,
                                absl::FunctionRef<bool(const v1::Trial&)> visit) {
  v1::ListTrialsRequest request;
  request.set_parent(wire::StudyName(study));
  request.set_page_size(kPageSize);
  for (const v1::Trial::State state : which.states) request.add_states(state);
  request.set_filter(which.filter);
  request.set_order_by(which.order_by);
  do {
    LUTHIER_ASSIGN_OR_RETURN(const v1::ListTrialsResponse page,
                             impl_->Ask(&v1::StudyService::Stub::ListTrials, request));
    for (const v1::Trial& trial : page.trials()) {
      if (!visit(trial)) return absl::OkStatus();
    }
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

absl::Status Client::GetTrialTable(const std::string& study, const std::vector<std::string>& columns,
                                   absl::FunctionRef<absl::Status(const v1::GetTrialTableResponse&)> visit) {
  v1::GetTrialTableRequest request;
  request.set_name(wire::StudyName(study));
  for (const std::string& column : columns) request.add_columns(column);
  do {
    LUTHIER_ASSIGN_OR_RETURN(const v1::GetTrialTableResponse page,
                             impl_->Ask(&v1::StudyService::Stub::GetTrialTable, request));
    LUTHIER_RETURN_IF_ERROR(visit(page));
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<v1::Trial>> Client::EnqueueTrials(const std::string& study,
                                                             const std::vector<NewTrial>& trials) {
  v1::EnqueueTrialsRequest request;
  request.set_parent(wire::StudyName(study));
  request.set_request_id(impl_->RequestId());
  for (const NewTrial& trial : trials) {
    v1::EnqueueTrialsRequest::NewTrial* out = request.add_trials();
    *out->mutable_parameters() = wire::ToProto(trial.parameters);
    for (const auto& [key, value] : trial.attributes) (*out->mutable_attributes())[key] = value;
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::EnqueueTrialsResponse response,
                           impl_->Ask(&v1::StudyService::Stub::EnqueueTrials, request));
  return std::vector<v1::Trial>(response.trials().begin(), response.trials().end());
}

absl::StatusOr<std::vector<int64_t>> Client::ImportTrials(const std::string& study,
                                                          const std::vector<v1::Trial>& trials,
                                                          const std::string& source) {
  constexpr size_t kMostTrials = 1000, kMostBytes = size_t{3} << 20;
  std::vector<int64_t> numbers;
  for (size_t next = 0; next < trials.size();) {
    v1::ImportTrialsRequest request;
    request.set_parent(wire::StudyName(study));
    request.set_request_id(impl_->RequestId());
    request.set_source(source);
    const size_t first = next;
    for (size_t bytes = 0; next < trials.size() && next - first < kMostTrials; ++next) {
      bytes += trials[next].ByteSizeLong();
      if (next > first && bytes > kMostBytes) break;
      *request.add_trials() = trials[next];
    }
    const absl::StatusOr<v1::ImportTrialsResponse> response =
        impl_->Ask(&v1::StudyService::Stub::ImportTrials, request);
    if (!response.ok()) return AfterSome(response.status(), numbers.size(), first);
    numbers.insert(numbers.end(), response->numbers().begin(), response->numbers().end());
  }
  return numbers;
}

absl::StatusOr<std::vector<v1::Trial>> Client::RetryTrials(const std::string& study,
                                                           const std::vector<int64_t>& numbers) {
  v1::RetryTrialsRequest request;
  request.set_parent(wire::StudyName(study));
  request.set_request_id(impl_->RequestId());
  request.mutable_numbers()->Assign(numbers.begin(), numbers.end());
  LUTHIER_ASSIGN_OR_RETURN(const v1::EnqueueTrialsResponse response,
                           impl_->Ask(&v1::StudyService::Stub::RetryTrials, request));
  return std::vector<v1::Trial>(response.trials().begin(), response.trials().end());
}

absl::StatusOr<std::vector<v1::Trial>> Client::RetryFailedTrials(const std::string& study) {
  std::vector<v1::Trial> all;
  while (true) {
    v1::RetryTrialsRequest request;
    request.set_parent(wire::StudyName(study));
    request.set_request_id(impl_->RequestId());
    request.set_all_failed(true);
    LUTHIER_ASSIGN_OR_RETURN(const v1::EnqueueTrialsResponse response,
                             impl_->Ask(&v1::StudyService::Stub::RetryTrials, request));
    if (response.trials().empty()) return all;
    all.insert(all.end(), response.trials().begin(), response.trials().end());
    if (response.trials_size() < 1000) return all;
  }
}

absl::Status Client::DeleteTrial(const std::string& study, int64_t number) {
  v1::DeleteTrialRequest request;
  request.set_name(wire::TrialName(study, number));
  return impl_->Ask(&v1::StudyService::Stub::DeleteTrial, request).status();
}

absl::StatusOr<v1::Trial> Client::SetAttributes(const std::string& study, int64_t number,
                                                const std::map<std::string, std::string>& attributes) {
  v1::SetAttributesRequest request;
  request.set_name(wire::TrialName(study, number));
  for (const auto& [key, value] : attributes) (*request.mutable_attributes())[key] = value;
  return impl_->Ask(&v1::StudyService::Stub::SetAttributes, request);
}

absl::StatusOr<v1::Trial> Client::CancelTrial(const std::string& study, int64_t number) {
  v1::CancelTrialRequest request;
  request.set_name(wire::TrialName(study, number));
  return impl_->Ask(&v1::StudyService::Stub::CancelTrial, request);
}

absl::StatusOr<v1::PredictResponse> Client::Predict(const v1::PredictRequest& request) {
  return impl_->Ask(&v1::StudyService::Stub::Predict, request);
}

absl::StatusOr<v1::ExplainTrialResponse> Client::ExplainTrial(const std::string& study, int64_t number) {
  v1::ExplainTrialRequest request;
  request.set_name(wire::TrialName(study, number));
  return impl_->Ask(&v1::StudyService::Stub::ExplainTrial, request);
}

absl::StatusOr<v1::Trial> Client::StopTrial(const std::string& study, int64_t number) {
  v1::StopTrialRequest request;
  request.set_name(wire::TrialName(study, number));
  return impl_->Ask(&v1::StudyService::Stub::StopTrial, request);
}

absl::StatusOr<std::vector<v1::Worker>> Client::ListWorkers(const std::string& project) {
  v1::ListWorkersRequest request;
  if (!project.empty()) request.set_parent(wire::ProjectName(project));
  request.set_page_size(kPageSize);
  std::vector<v1::Worker> workers;
  do {
    LUTHIER_ASSIGN_OR_RETURN(const v1::ListWorkersResponse page,
                             impl_->Ask(&v1::StudyService::Stub::ListWorkers, request));
    workers.insert(workers.end(), page.workers().begin(), page.workers().end());
    request.set_page_token(page.next_page_token());
  } while (!request.page_token().empty());
  return workers;
}

absl::Status Client::WatchStudy(const std::string& study, const WatchOptions& options,
                                absl::FunctionRef<bool(const v1::Event&)> event) {
  return impl_->Watch(study, options, event);
}

// --- Ask and tell ---

absl::StatusOr<v1::SuggestResponse> Client::Suggest(const std::string& study, const std::string& worker, int count,
                                                    absl::Duration wait, bool fail_if_paused) {
  v1::SuggestRequest request;
  if (!study.empty()) request.set_study(wire::StudyName(study));
  request.set_worker(worker);
  request.set_count(count);
  request.set_request_id(impl_->RequestId());
  request.set_fail_if_paused(fail_if_paused);
  const absl::Duration poll = std::clamp(wait, absl::Seconds(1), absl::Seconds(60));
  wire::RetryPolicy policy = impl_->Policy();
  policy.give_up_after = std::min(policy.give_up_after, poll);
  return impl_->Call(&Client::Impl::Stubs::workers, &v1::WorkerService::Stub::Suggest, request, poll, policy);
}

absl::StatusOr<v1::HeartbeatResponse> Client::Heartbeat(const std::string& worker,
                                                        const std::vector<std::string>& tokens) {
  v1::HeartbeatRequest request;
  request.set_worker(worker);
  for (const std::string& token : tokens) request.add_tokens(token);
  return impl_->Call(&Client::Impl::Stubs::workers, &v1::WorkerService::Stub::Heartbeat, request, kHeartbeatTimeout,
                     impl_->Policy());
}

absl::StatusOr<v1::ReportResponse> Client::Report(const LeaseRef& lease,
                                                  const std::vector<v1::Measurement>& measurements,
                                                  const std::string& checkpoint) {
  v1::ReportRequest request;
  request.set_trial(wire::TrialName(lease.study, lease.trial));
  request.set_token(lease.token);
  for (const v1::Measurement& m : measurements) *request.add_measurements() = m;
  request.set_checkpoint(checkpoint);
  return impl_->Finish(&v1::WorkerService::Stub::Report, request);
}

absl::StatusOr<v1::FinishResponse> Client::Complete(const LeaseRef& lease, const v1::Measurement& measurement,
                                                    bool pruned) {
  v1::CompleteRequest request;
  request.set_trial(wire::TrialName(lease.study, lease.trial));
  request.set_token(lease.token);
  *request.mutable_measurement() = measurement;
  request.set_pruned(pruned);
  return impl_->Finish(&v1::WorkerService::Stub::Complete, request);
}

absl::StatusOr<v1::FinishResponse> Client::Pause(const LeaseRef& lease, const v1::Measurement& measurement,
                                                 const std::string& checkpoint) {
  v1::CompleteRequest request;
  request.set_trial(wire::TrialName(lease.study, lease.trial));
  request.set_token(lease.token);
  *request.mutable_measurement() = measurement;
  request.set_paused(true);
  request.set_checkpoint(checkpoint);
  return impl_->Finish(&v1::WorkerService::Stub::Complete, request);
}

absl::StatusOr<v1::FinishResponse> Client::Fail(const LeaseRef& lease, const v1::Failure& failure) {
  v1::FailRequest request;
  request.set_trial(wire::TrialName(lease.study, lease.trial));
  request.set_token(lease.token);
  *request.mutable_failure() = failure;
  return impl_->Finish(&v1::WorkerService::Stub::Fail, request);
}

absl::StatusOr<v1::FinishResponse> Client::Release(const LeaseRef& lease, const std::string& checkpoint) {
  v1::ReleaseRequest request;
  request.set_trial(wire::TrialName(lease.study, lease.trial));
  request.set_token(lease.token);
  request.set_checkpoint(checkpoint);
  return impl_->Finish(&v1::WorkerService::Stub::Release, request);
}

absl::StatusOr<v1::ServerInfo> Client::GetServerInfo() {
  return impl_->Call(&Client::Impl::Stubs::workers, &v1::WorkerService::Stub::GetServerInfo, v1::GetServerInfoRequest(),
                     impl_->options().timeout, impl_->Policy());
}

// --- Tokens and projects ---

absl::StatusOr<v1::CreateTokenResponse> Client::CreateToken(v1::CreateTokenRequest request) {
  request.set_request_id(impl_->RequestId());
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::CreateToken, request,
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<v1::CreateTokenResponse> Client::RotateToken(v1::RotateTokenRequest request) {
  request.set_request_id(impl_->RequestId());
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::RotateToken, request,
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<std::vector<v1::Token>> Client::ListTokens(const std::string& project) {
  v1::ListTokensRequest request;
  request.set_project(project);
  LUTHIER_ASSIGN_OR_RETURN(const v1::ListTokensResponse response,
                           impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::ListTokens, request,
                                       impl_->options().timeout, impl_->Policy()));
  return std::vector<v1::Token>(response.tokens().begin(), response.tokens().end());
}

absl::StatusOr<v1::OpenPageResponse> Client::OpenPage() {
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::OpenPage, v1::OpenPageRequest(),
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<v1::Token> Client::RevokeToken(const std::string& id) {
  v1::RevokeTokenRequest request;
  request.set_id(id);
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::RevokeToken, request,
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<v1::Project> Client::CreateProject(const std::string& id, const v1::Quotas& quotas) {
  v1::CreateProjectRequest request;
  request.set_id(id);
  *request.mutable_quotas() = quotas;
  request.set_request_id(impl_->RequestId());
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::CreateProject, request,
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<v1::Project> Client::UpdateProject(const std::string& id, const v1::Quotas& quotas) {
  v1::UpdateProjectRequest request;
  request.set_id(id);
  *request.mutable_quotas() = quotas;
  request.set_request_id(impl_->RequestId());
  return impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::UpdateProject, request,
                     impl_->options().timeout, impl_->Policy());
}

absl::StatusOr<std::vector<v1::Project>> Client::ListProjects() {
  LUTHIER_ASSIGN_OR_RETURN(const v1::ListProjectsResponse response,
                           impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::ListProjects,
                                       v1::ListProjectsRequest(), impl_->options().timeout, impl_->Policy()));
  return std::vector<v1::Project>(response.projects().begin(), response.projects().end());
}

absl::StatusOr<std::vector<v1::AuditEntry>> Client::ListAudit(int64_t before, int count, v1::AuditKind kind) {
  v1::ListAuditRequest request;
  request.set_before(before);
  request.set_kind(kind);
  request.set_page_size(count);
  LUTHIER_ASSIGN_OR_RETURN(const v1::ListAuditResponse response,
                           impl_->Call(&Client::Impl::Stubs::admin, &v1::AdminService::Stub::ListAudit, request,
                                       impl_->options().timeout, impl_->Policy()));
  return std::vector<v1::AuditEntry>(response.entries().begin(), response.entries().end());
}

uint64_t EntropySeed() {
  uint64_t seed = 0;
  LUTHIER_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  return seed;
}

}  // namespace luthier::client
