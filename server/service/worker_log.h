#ifndef LUTHIER_SERVER_SERVICE_WORKER_LOG_H_
#define LUTHIER_SERVER_SERVICE_WORKER_LOG_H_

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/writer/observer.h"
#include "server/service/lone_failures.h"

namespace luthier::service {

// Knows which workers were seen since the server started, and how their attempts ended; nothing is stored. Keeps the
// names that were seen last, and the holders of RUNNING trials, which are as many as the coordinator's leases.
// Thread-safe.
class WorkerLog final : public coordinator::Observer {
 public:
  static constexpr size_t kMaxNames = 1000;

  enum class Outcome { kCompleted, kPruned, kPaused, kFailed, kReleased, kExpired, kCancelled };
  static constexpr size_t kOutcomes = 7;
  struct Worker {
    std::string name;
    absl::Time first_seen, last_seen;
    int64_t granted = 0;
    std::array<int64_t, kOutcomes> ended{};  // Index: Outcome.
    std::vector<LoneFailures::Rest> rests;
  };

  // Passes on everything to `next`, which may be null. Both must outlive it.
  WorkerLog(const base::Clock* clock, coordinator::Observer* next) : clock_(clock), next_(next) {}

  // An attempt that fails later than this, or after it reported a step, did work that depends on its setting.
  static constexpr absl::Duration kAtOnce = absl::Seconds(5);

  // Notes that the worker asked or sent a heartbeat. `instance` is unique per process; empty: not said. A new one ends
  // the worker's rests.
  void Seen(const std::string& name, const std::string& instance = "");
  // Notes that a worker which is known sent a heartbeat; returns whether it is.
  bool SeenAgain(const std::string& name);
  // Notes that it asked for trials of a pool (study::PoolKey), only of `study` if that is not empty.
  void Asked(const std::string& name, const std::string& pool, const std::string& study);
  // Returns why no worker takes trials of an ACTIVE study that has none running, for people: "waiting: no worker of
  // pool gpus has asked since the coordinator started"; "" if a worker that asks for such trials was seen within the
  // last minute and holds no trial, nor does its process under the name that it has in another project.
  std::string WhyNobodyTakes(const std::string& study, const std::string& pool) const;
  // Returns the studies of which the worker gets no trials now (LoneFailures).
  std::vector<coordinator::Rest> RestsOf(const std::string& name) const;
  // Returns the workers of a project with names above `after`, in order, at most `limit`.
  std::vector<Worker> List(const std::string& project, const std::string& after, size_t limit) const;

  void OnRefused(coordinator::OperationClass operation_class, const absl::Status& status) override;
  void OnCommit(absl::Duration took, size_t operations, const absl::Status& status) override;
  void OnEvent(const storage::Event& event) override;
  void OnSuggestions(absl::string_view algorithm, absl::Duration took) override;
  void OnCensus(const coordinator::Census& census) override;

 private:
  struct Entry {
    Worker worker;
    std::string instance;
    // Pools that its process asked for, with the study if one was named.
    std::set<std::pair<std::string, std::string>> asked;
    std::list<std::string>::iterator place;  // In `order_`.
  };
  struct Holder {
    std::string worker;
    absl::Duration since;  // Clock::Monotonic().
    bool reported = false;
  };
  Worker& Touch(const std::string& name, absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the trials that a worker holds.
  void Hold(const std::string& worker, int change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the end of an attempt of the trial's holder, or of `actor` if the holder is not known.
  void End(const storage::Event& event, Outcome outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock* const clock_;
  coordinator::Observer* const next_;
  mutable base::Mutex mutex_;
  std::map<std::string, Entry> workers_ ABSL_GUARDED_BY(mutex_);
  std::list<std::string> order_ ABSL_GUARDED_BY(mutex_);  // The worker that was seen last comes first.
  std::map<std::pair<storage::StudyKey, int64_t>, Holder> holders_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int> held_ ABSL_GUARDED_BY(mutex_);  // Number of trials that each worker holds, above 0.
  LoneFailures lone_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_WORKER_LOG_H_
