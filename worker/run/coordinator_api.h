#ifndef LUTHIER_WORKER_RUN_COORDINATOR_API_H_
#define LUTHIER_WORKER_RUN_COORDINATOR_API_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/study/directive.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "worker/run/runner.h"

// The coordinator as a worker needs it: proto/luthier/v1/worker_service.proto in domain types. Implemented over gRPC
// by worker/grpc_coordinator.h, and in tests by a fake.
namespace luthier::worker {

// The right to evaluate a trial and to report on it, and all that its evaluation takes.
struct Lease {
  RunRequest run;  // All but its seed and slot, which the runtime knows.
  std::string token;
  absl::Duration ttl = absl::Seconds(60);
};

struct SuggestRequest {
  std::string study;  // Id; empty: any study.
  std::string worker;
  int32_t count = 1;
  std::string request_id;
  absl::Duration longest_wait = absl::InfiniteDuration();  // The call may wait for trials for so long.
  bool last = false;                                       // Sent even after CancelSuggest.
};

struct SuggestAnswer {
  std::vector<Lease> leases;
  absl::Duration retry_after;
  bool study_done = false;
};

struct ReportRequest {
  std::string study;
  int64_t trial = 0;
  std::string token;
  std::vector<study::Measurement> measurements;
  std::string checkpoint;
  std::optional<int64_t> start_step;  // RunSink::Started; absent: not said.
  int64_t checkpoint_step = 0;        // The step at which `checkpoint` was saved.
};

// The end of an attempt with a result, as the spool keeps it.
struct FinalResult {
  std::string study;
  int64_t trial = 0;
  std::string token;
  bool failed = false;
  study::Measurement measurement;  // Unless failed.
  bool pruned = false;             // Unless failed.
  bool paused = false;             // Unless failed or pruned: the lease's target was reached.
  std::optional<int64_t> start_step;
  study::Failure failure;  // If failed.
  std::string checkpoint;  // Unless failed.
  std::optional<int64_t> checkpoint_step =
      std::nullopt;  // The step at which it was saved; absent: of an older program's spool.
  std::string output_tail;
  friend bool operator==(const FinalResult&, const FinalResult&) = default;
};

struct FinishAnswer {
  study::TrialState state = study::TrialState::kComplete;
  std::vector<std::string> warnings;
};

// Thread-safe. Every call returns within a bounded time (Suggest: about a minute, or longest_wait if that is less;
// others: about ten seconds), with the statuses and base::reason of proto/luthier/v1/errors.proto.
class CoordinatorApi {
 public:
  virtual ~CoordinatorApi() = default;
  // Returns NOT_FOUND, or FAILED_PRECONDITION if this program can't read the spec.
  virtual absl::StatusOr<study::StudySpec> GetSpec(const std::string& study) = 0;
  // Returns the worker's own project for the coordinator: that of its token.
  virtual absl::StatusOr<std::vector<std::string>> OwnProjects() = 0;
  virtual absl::StatusOr<SuggestAnswer> Suggest(const SuggestRequest& request) = 0;
  // Makes the running and all later calls of Suggest return CANCELLED at once, but for a last one. Trials may have been
  // granted to the running one all the same: a last one with its id returns them.
  virtual void CancelSuggest() = 0;
  // Returns one directive for each token, in order.
  virtual absl::StatusOr<std::vector<study::Directive>> Heartbeat(const std::string& worker,
                                                                  const std::vector<std::string>& tokens) = 0;
  virtual absl::StatusOr<study::Directive> Report(const ReportRequest& request) = 0;
  // Sends Complete or Fail.
  virtual absl::StatusOr<FinishAnswer> Finish(const FinalResult& result) = 0;
  virtual absl::StatusOr<FinishAnswer> Release(const std::string& study, int64_t trial, const std::string& token,
                                               const std::string& checkpoint, int64_t checkpoint_step) = 0;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUN_COORDINATOR_API_H_
