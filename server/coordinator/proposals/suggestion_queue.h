#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSALS_SUGGESTION_QUEUE_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSALS_SUGGESTION_QUEUE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/study/quotas.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/coordinator/proposals/timeline.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Computes the suggestions of all studies on threads of low priority, one suggestion at a time. Thread-safe.
//
// The next suggestion is for the project that has had the least computing time, and in it for the study that has had
// the least for its weight. One that comes back after a pause starts level with the others (start-time fair queueing,
// Goyal, Vin & Cheng 1996; projects above studies as in Goyal, Guo & Vin 1996). Two threads never compute for one study
// at once. A project whose quota of processors is used up pauses. A study whose last suggestion was quick is light. One
// thread serves light studies alone, so that these never wait for the models of the others.
class SuggestionQueue {
 public:
  struct Options {
    int threads = 2;  // Threads besides the one for light studies.
    DesignerFactory designers = search::CreateDesigner;
    // A study is light if its last suggestion took less than this. Zero: none is.
    absl::Duration light = absl::Milliseconds(50);
    // Bytes that designers of idle studies may hold (StudyProposer::bytes). Beyond it, the designer that was asked the
    // longest ago is dropped. It is made again from storage.
    int64_t max_idle_bytes = int64_t{256} << 20;
    const study::QuotaTable* quotas = nullptr;  // Must outlive the queue. Null: no project has any.
  };
  // Receives suggestions, on the queue's threads: those of one request in order, the last of them without `more`.
  using Deliver = std::function<void(ProposalsOp)>;
  // Receives the time that a suggestion took. May be null.
  using Observe = std::function<void(const study::StudySpec&, absl::Duration)>;

  // `storage` and `clock` must outlive it.
  SuggestionQueue(storage::Storage* storage, const base::Clock* clock, Options options, Deliver deliver,
                  Observe observe);
  // Stops computations and drops waiting requests: after a restart they are made again.
  ~SuggestionQueue();

  // Calls about one study must come in the order of its changes: requests see the updates that were told before them,
  // and no others.
  void Request(const ProposalRequest& request, std::shared_ptr<const study::StudySpec> spec);
  void Update(HistoryUpdate update);
  // Drops the study's designer; its next request makes a new one. A computation under way is stopped, and not
  // delivered.
  void Forget(storage::StudyKey study);

 private:
  using Task = std::variant<HistoryUpdate, ProposalRequest>;
  // A designer with the updates and requests that it has not seen yet. The thread that computes shares it, while the
  // study may have another one already.
  struct Work {
    std::shared_ptr<const study::StudySpec> spec;
    std::unique_ptr<StudyProposer> proposer;  // Null: not made yet.
    std::deque<Task> tasks;
    base::StopSource stop;
    int64_t bytes = 0;  // StudyProposer::bytes
  };
  // Studies that can be computed for, in order of virtual time.
  using Ready = std::set<std::pair<double, storage::StudyKey>>;
  struct Project {
    std::string name;
    double time = 0.0;  // Virtual: seconds computed.
    Ready light, heavy;
    int64_t lines = 0;  // Number of studies; 0: the project is forgotten.
  };
  // Computing time of a project: `seconds` at the time `at`. It grows with time, to at most kBurst times the quota.
  struct Credit {
    double seconds;
    absl::Duration at;
  };
  struct Line {
    Project* project = nullptr;  // The entry in `projects_`.
    std::shared_ptr<Work> work;  // Null: forgotten while a thread computed.
    bool busy = false;           // A thread computes for this study.
    double time = 0.0;           // Virtual: seconds computed ÷ weight.
    std::optional<bool> light;   // Not known until a suggestion was computed.
    uint64_t idle_since = 0;     // Its place in `idle_`; 0: not there.
  };
  void Loop(bool light_only);
  // Computes for the study at the head of a line, which leaves the line. Unlocks the mutex meanwhile.
  void RunOne(storage::StudyKey study) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the study to compute for. Nullopt: there is none; look again at `again`.
  std::optional<storage::StudyKey> Next(bool light_only, absl::Duration* again) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Take the project out of the orders of projects, and put it back where it belongs.
  void Leave(Project& project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enter(Project& project) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns when the project may compute, by its quota: `now`, or later.
  absl::Duration MayCompute(const Project& project, absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Erases the line, which is not busy, and its project with the last one.
  void Erase(storage::StudyKey study) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts the study where it belongs after a change.
  void Place(storage::StudyKey study, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Puts the study where it belongs within its project, which is in no order meanwhile.
  void PlaceWithin(storage::StudyKey study, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the study, once nobody computes for it.
  void Drop(storage::StudyKey study, Line& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsLight(const Line& line) const;
  void SetIdle(storage::StudyKey study, Line& line, bool idle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  storage::Storage* const storage_;
  const base::Clock* const clock_;
  const Options options_;
  const Deliver deliver_;
  const Observe observe_;

  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<storage::StudyKey, Line> lines_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Project> projects_ ABSL_GUARDED_BY(mutex_);
  // Credits of the projects that have a quota, by name. They outlive the projects' studies: deleting these does not
  // give back the time that they used.
  std::map<std::string, Credit> credits_ ABSL_GUARDED_BY(mutex_);
  // Projects with light studies, and projects with any, that can be computed for, in order of virtual time.
  std::set<std::pair<double, Project*>> light_ ABSL_GUARDED_BY(mutex_);
  std::set<std::pair<double, Project*>> ready_ ABSL_GUARDED_BY(mutex_);
  double now_ ABSL_GUARDED_BY(mutex_) = 0.0;           // Virtual time of the study begun last.
  double projects_now_ ABSL_GUARDED_BY(mutex_) = 0.0;  // Virtual time of its project.
  std::map<uint64_t, storage::StudyKey> idle_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_idle_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t idle_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSALS_SUGGESTION_QUEUE_H_
