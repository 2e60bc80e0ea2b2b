#ifndef LUTHIER_CLIENT_CPP_CLIENT_H_
#define LUTHIER_CLIENT_CPP_CLIENT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/study/parameters.h"
#include "lib/wire/channel.h"
#include "lib/wire/retry.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/trial.pb.h"
#include "luthier/v1/worker_service.pb.h"

namespace grpc {
class Channel;
}

namespace luthier::client {

struct ClientOptions {
  // Seed of request ids and jitter. Two clients that may live at the same time need different ones: programs take it
  // from the kernel (EntropySeed), tests fix it.
  uint64_t seed = 0;
  // Deadline of each attempt of a call; Suggest and WatchStudy have their own.
  absl::Duration timeout = absl::Seconds(30);
  // Attempts of calls other than Report, Complete, Fail and Release.
  int max_attempts = 5;
  // Longest time of such a call in all, with the waits that the server asks for (base/backoff.h). After that its answer
  // is returned at once.
  absl::Duration patience = absl::InfiniteDuration();
  // Time for which those four are repeated while their outcome is unknown.
  absl::Duration finish_patience = absl::Hours(24);
  // Null: the system's clock, and real sleeps that Interrupt() ends. Both must outlive the client.
  const base::Clock* clock = nullptr;
  wire::Sleeper* sleeper = nullptr;
  // TLS and the token, for clients that are created by address.
  wire::ChannelSecurity security;
};

// One setting for EnqueueTrials.
struct NewTrial {
  study::Parameters parameters;
  std::map<std::string, std::string> attributes;
};

// The right to report on a trial: both fields come with its Lease.
struct LeaseRef {
  std::string study;
  int64_t trial = 0;
  std::string token;
};

// A typed client of both services. Studies and trials are named by id and number; resource names stay inside. Every
// call has a deadline. A call whose outcome is unknown (base/retry_advice.h) is sent again, with the same request id,
// after a jittered wait; what is returned is the last answer, with its base::ErrorDetail. UNAVAILABLE without a reason
// means that no server was reached. Thread-safe.
class Client {
 public:
  // `address`: one, or several of one coordinator ("a:1,b:1", lib/wire/addresses.h), of which each call tries the one
  // that answered last, and then the others. INVALID_ARGUMENT for a bad one. Does not connect: the first call does.
  static absl::StatusOr<std::unique_ptr<Client>> Create(absl::string_view address, const ClientOptions& options);
  Client(std::shared_ptr<grpc::Channel> channel, const ClientOptions& options);
  // Channels to several addresses of one coordinator, with these.
  Client(std::vector<std::pair<std::string, std::shared_ptr<grpc::Channel>>> channels, const ClientOptions& options);
  ~Client();

  // Ends calls in flight, and later ones, with CANCELLED. For shutting down; not for signal handlers.
  void Interrupt();

  // --- Studies ---
  absl::StatusOr<v1::Study> CreateStudy(const std::string& id, const v1::StudySpec& spec);
  absl::StatusOr<v1::Study> GetStudy(const std::string& id);
  // Returns the study with the trial that is recommended where its results are noisy.
  absl::StatusOr<v1::Study> GetRecommendation(const std::string& id);
  // Returns the study with its certificate, if there is one, with what the stages of its algorithm learnt, and with the
  // recommended trial.
  absl::StatusOr<v1::Study> GetStudy(const std::string& id, const v1::CertificateRequest& certificate);
  // Returns which parameters a metric depends on. `request` is complete but for the study's name.
  absl::StatusOr<v1::GetImportanceResponse> GetImportance(const std::string& id, v1::GetImportanceRequest request);
  // Returns all pages: of the studies that there are, or of the deleted ones that can be brought back.
  absl::StatusOr<std::vector<v1::Study>> ListStudies(const std::string& project = "", bool deleted = false);
  // `fields` are paths within the spec: "budget.max_trials".
  absl::StatusOr<v1::Study> UpdateStudy(const std::string& id, const v1::StudySpec& spec,
                                        const std::vector<std::string>& fields);
  absl::StatusOr<v1::Study> PauseStudy(const std::string& id);
  absl::StatusOr<v1::Study> ResumeStudy(const std::string& id);
  absl::StatusOr<v1::Study> StopStudy(const std::string& id);
  absl::StatusOr<v1::Study> CancelStudy(const std::string& id);
  absl::Status DeleteStudy(const std::string& id);
  // Brings back a deleted study, with the short id `new_id` unless that is empty.
  absl::StatusOr<v1::Study> UndeleteStudy(const std::string& id, const std::string& new_id = "");

  // --- Trials ---
  absl::StatusOr<v1::Trial> GetTrial(const std::string& study, int64_t number, bool with_measurements = false);
  // Reads page after page in order of number, until there are no more or `page` returns false. Empty `states`: all.
  absl::Status ListTrials(const std::string& study, const std::vector<v1::Trial::State>& states,
                          absl::FunctionRef<bool(const v1::Trial&)> visit);
  struct WhichTrials {
    std::vector<v1::Trial::State> states;  // Empty: all.
    std::string filter, order_by;          // As in v1::ListTrialsRequest.
  };
  absl::Status FindTrials(const std::string& study, const WhichTrials& which,
                          absl::FunctionRef<bool(const v1::Trial&)> visit);
  // Reads page after page of the study's table of trials. Empty `columns`: all but attributes.
  absl::Status GetTrialTable(const std::string& study, const std::vector<std::string>& columns,
                             absl::FunctionRef<absl::Status(const v1::GetTrialTableResponse&)> visit);
  absl::StatusOr<std::vector<v1::Trial>> EnqueueTrials(const std::string& study, const std::vector<NewTrial>& trials);
  // Makes as many calls as the limits need, each of which adds all of its trials or none. Returns their numbers; an
  // error says how many were added.
  absl::StatusOr<std::vector<int64_t>> ImportTrials(const std::string& study, const std::vector<v1::Trial>& trials,
                                                    const std::string& source);
  absl::StatusOr<std::vector<v1::Trial>> RetryTrials(const std::string& study, const std::vector<int64_t>& numbers);
  // Retries all trials that failed, however many.
  absl::StatusOr<std::vector<v1::Trial>> RetryFailedTrials(const std::string& study);
  absl::Status DeleteTrial(const std::string& study, int64_t number);
  absl::StatusOr<v1::Trial> SetAttributes(const std::string& study, int64_t number,
                                          const std::map<std::string, std::string>& attributes);
  absl::StatusOr<v1::Trial> CancelTrial(const std::string& study, int64_t number);
  absl::StatusOr<v1::PredictResponse> Predict(const v1::PredictRequest& request);
  absl::StatusOr<v1::ExplainTrialResponse> ExplainTrial(const std::string& study, int64_t number);
  absl::StatusOr<v1::Trial> StopTrial(const std::string& study, int64_t number);
  // Lists workers in order of name.
  absl::StatusOr<std::vector<v1::Worker>> ListWorkers(const std::string& project = "");

  struct WatchOptions {
    uint64_t after_seq = 0;
    // True returns OK after the event that finishes the study and its last trial.
    bool until_finished = true;
    // Time for which a server may be out of reach.
    absl::Duration patience = absl::Minutes(5);
  };
  // Passes on every event once and in order of seq, across broken connections and restarts of the server, until the
  // study is finished or `event` returns false (OK both).
  absl::Status WatchStudy(const std::string& study, const WatchOptions& options,
                          absl::FunctionRef<bool(const v1::Event&)> event);

  // --- Ask and tell ---
  // One long poll of at most `wait` (1 s to 60 s), repetitions included. Without leases the answer has retry_after or
  // study_done.
  absl::StatusOr<v1::SuggestResponse> Suggest(const std::string& study, const std::string& worker, int count,
                                              absl::Duration wait, bool fail_if_paused = false);
  absl::StatusOr<v1::HeartbeatResponse> Heartbeat(const std::string& worker, const std::vector<std::string>& tokens);
  absl::StatusOr<v1::ReportResponse> Report(const LeaseRef& lease, const std::vector<v1::Measurement>& measurements,
                                            const std::string& checkpoint = "");
  absl::StatusOr<v1::FinishResponse> Complete(const LeaseRef& lease, const v1::Measurement& measurement,
                                              bool pruned = false);
  // Reports that the lease's target is reached and the trial can go on from `checkpoint` (empty: it would begin
  // afresh).
  absl::StatusOr<v1::FinishResponse> Pause(const LeaseRef& lease, const v1::Measurement& measurement,
                                           const std::string& checkpoint = "");
  absl::StatusOr<v1::FinishResponse> Fail(const LeaseRef& lease, const v1::Failure& failure);
  absl::StatusOr<v1::FinishResponse> Release(const LeaseRef& lease, const std::string& checkpoint = "");

  absl::StatusOr<v1::ServerInfo> GetServerInfo();

  // --- Tokens and projects: for admins ---

  // Sends changes again if their answer got lost; `request_id` is set here.
  absl::StatusOr<v1::CreateTokenResponse> CreateToken(v1::CreateTokenRequest request);
  absl::StatusOr<v1::CreateTokenResponse> RotateToken(v1::RotateTokenRequest request);
  // `project` "": tokens of all projects.
  absl::StatusOr<std::vector<v1::Token>> ListTokens(const std::string& project);
  absl::StatusOr<v1::Token> RevokeToken(const std::string& id);
  absl::StatusOr<v1::Project> CreateProject(const std::string& id, const v1::Quotas& quotas = {});
  absl::StatusOr<v1::Project> UpdateProject(const std::string& id, const v1::Quotas& quotas);
  absl::StatusOr<std::vector<v1::Project>> ListProjects();
  // Lists entries newest first, before the entry of that number (0: from the newest); at most 1,000.
  absl::StatusOr<std::vector<v1::AuditEntry>> ListAudit(int64_t before, int count,
                                                        v1::AuditKind kind = v1::AUDIT_KIND_UNSPECIFIED);
  absl::StatusOr<v1::OpenPageResponse> OpenPage();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Returns a seed from the kernel's random numbers.
uint64_t EntropySeed();

}  // namespace luthier::client

#endif  // LUTHIER_CLIENT_CPP_CLIENT_H_
