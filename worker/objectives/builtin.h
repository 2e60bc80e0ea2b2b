#ifndef LUTHIER_WORKER_OBJECTIVES_BUILTIN_H_
#define LUTHIER_WORKER_OBJECTIVES_BUILTIN_H_

#include <deque>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/objectives/create.h"
#include "lib/objectives/objective.h"
#include "worker/disk/checkpoint_store.h"
#include "worker/run/runner.h"

namespace luthier::worker {

// Runs `builtin` objectives of lib/objectives. Data is loaded once and kept for the last kCached studies, shared by all
// slots.
//
// Open loads the data. So a worker of one study ends before it takes a trial if data can't be read. For other workers
// failures are of two kinds: an error that every worker would meet (an unknown model, a damaged file) is FAILED(CONFIG,
// BAD_OBJECTIVE); one that may be this worker's own (a missing file, no right to read it) is FAILED(INFRA,
// BAD_OBJECTIVE).
class BuiltinRunner final : public Runner {
 public:
  static constexpr size_t kCached = 4;

  // Makes the objective of a study, until it is stopped; objectives::CreateObjective but for tests.
  using Factory = std::function<absl::StatusOr<std::unique_ptr<objectives::Objective>>(
      const study::BuiltinObjective&, const study::SearchSpace&, const study::MetricSpec&, const base::StopToken&)>;
  // `root` is the directory of data files, and may be null. `checkpoints` may be null: then an interrupted trial starts
  // afresh. `cache` may be null: then every worker parses data. All must outlive the runner.
  BuiltinRunner(const data::DataRoot* root, const CheckpointStore* checkpoints, const data::DataCache* cache = nullptr);
  BuiltinRunner(Factory factory, const CheckpointStore* checkpoints);

  absl::Status Open(const study::StudySpec& spec) override { return Find(spec, {}).status(); }
  RunOutcome Run(const RunRequest& request, RunSink* sink) override;
  // Removes the trial's checkpoint files.
  void Discard(const RunRequest& request) override;
  void DiscardStudy(const std::string& study) override;

 private:
  struct Entry {
    study::BuiltinObjective objective;
    study::SearchSpace space;
    study::MetricSpec metric;
    std::shared_ptr<const objectives::Objective> made;
  };

  // Returns the objective of a study. CANCELLED when stopped, also while another slot loads it.
  absl::StatusOr<std::shared_ptr<const objectives::Objective>> Find(const study::StudySpec& spec,
                                                                    const base::StopToken& stop);

  const base::SystemClock clock_;
  const Factory factory_;
  const CheckpointStore* const checkpoints_;
  base::Mutex mutex_;
  base::CondVar loaded_;
  bool loading_ ABSL_GUARDED_BY(mutex_) = false;       // One slot makes an objective; the others wait.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // Used last comes first.
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_BUILTIN_H_
