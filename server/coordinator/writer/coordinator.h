#ifndef LUTHIER_SERVER_COORDINATOR_WRITER_COORDINATOR_H_
#define LUTHIER_SERVER_COORDINATOR_WRITER_COORDINATOR_H_

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/coordinator/proposals/suggestion_queue.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/writer/core.h"
#include "server/coordinator/writer/disk_trouble.h"
#include "server/coordinator/writer/observer.h"
#include "server/coordinator/writer/refusal_delay.h"
#include "server/coordinator/writer/watchers.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// Temporary refusals: UNAVAILABLE DRAINING and RESOURCE_EXHAUSTED QUEUE_FULL, each with a retry delay. `what`: "asks".
absl::Status Draining();
absl::Status QueueFull(absl::string_view what, absl::Duration retry_delay = absl::Milliseconds(100));

// The core with its threads: one writer that owns the core and commits batches, and threads of low priority that
// compute suggestions beside it. Thread-safe.
//
// Answers are called on the writer's thread (refusals on the caller's) and must not block.
class Coordinator {
 public:
  struct Options {
    Core::Options core;
    int suggest_threads = 2;
    DesignerFactory designers = search::CreateDesigner;
    size_t max_finish_ops = 4096;                // Complete, Fail, Release, Report waiting for the writer.
    size_t max_ask_ops = 256;                    // Suggest, enqueue, create, control waiting for the writer.
    size_t max_queued_bytes = size_t{64} << 20;  // Content of waiting operations. One alone always fits.
    int max_waiting_asks = 100'000;              // Long polls.
    // Bytes that designers of idle studies may hold (SuggestionQueue::Options).
    int64_t max_idle_designer_bytes = SuggestionQueue::Options().max_idle_bytes;
    size_t max_batch = 1024;
    absl::Duration tick = absl::Milliseconds(100);
    // Returns the free bytes of the disk that holds the database; below `min_free_bytes` no new work is granted. Null:
    // not watched.
    std::function<int64_t()> free_bytes;
    int64_t min_free_bytes = int64_t{256} << 20;
    // Is told what happens; must outlive the coordinator. Null: nobody is.
    Observer* observer = nullptr;
    // Called when storage can't be trusted any more; must not return. Default: exits the process with 74.
    std::function<void(const absl::Status&)> on_fatal;
  };

  // Reads the studies that are not over, then starts the threads. The others are read while the writer has nothing else
  // to do, or when somebody asks for them. `storage` and `clock` must outlive it. Errors as Storage.
  static absl::StatusOr<std::unique_ptr<Coordinator>> Start(storage::Storage* storage, const base::Clock* clock,
                                                            Options options);
  // Commits what is queued, refuses waiting asks with UNAVAILABLE DRAINING, joins the threads.
  ~Coordinator();

  // Queues an operation, which is answered exactly once. RESOURCE_EXHAUSTED QUEUE_FULL with a retry delay when too many
  // wait; UNAVAILABLE DRAINING after Drain; UNAVAILABLE STORAGE_FULL, STORAGE_LOW. `deadline` (Clock::Monotonic()): an
  // operation still queued then is dropped, DEADLINE_EXCEEDED. `permit`: as Core::Apply.
  void Submit(Operation operation, absl::Duration deadline = absl::InfiniteDuration(),
              std::shared_ptr<const base::Permit> permit = nullptr);
  // DATA_LOSS naming the damage, if the study was set aside for it. Nothing of such a study is written any more; it can
  // be deleted.
  absl::Status DamageOf(const std::string& id);
  // True if asks of the project wait until fewer of its trials run, because of its quota.
  bool HeldBack(const std::string& project);
  // Renews leases in memory alone, unless one of them had expired.
  void Heartbeat(const std::string& worker, std::vector<std::string> tokens, Done<HeartbeatReply> done,
                 std::shared_ptr<const base::Permit> permit = nullptr);
  // Waits until every batch that began before is stored or has failed. True: all effects of permits that are over by
  // now have happened. False: it takes longer than `timeout`.
  bool AwaitBatch(absl::Duration timeout);

  // Refuses new asks and answers waiting ones; results are still accepted.
  void Drain();

  using Wake = Watchers::Wake;
  // Calls `wake` after each commit with events of `study`, and every now and then, on the writer's thread, until it
  // returns false. It must not subscribe.
  void Subscribe(storage::StudyKey study, std::function<bool(Wake)> wake);

  uint64_t committed_seq() const { return committed_seq_.load(); }
  // Returns how long coordinators have run on this database, all added up (storage::Storage::LastUptime).
  absl::Duration uptime() const { return clock_->Monotonic() + core_->uptime_offset(); }
  bool draining() const { return draining_.load(); }
  bool serving() const { return !draining_.load() && storage_ok_.load(); }
  size_t live_leases() const { return leases_.size(); }
  // As LeaseTable::CountByWorker.
  std::unordered_map<std::string, int> CountLeases() const { return leases_.CountByWorker(clock_->Monotonic()); }
  storage::Storage* storage() { return storage_; }

 private:
  struct Queued {
    Operation operation;
    absl::Duration deadline;
    std::shared_ptr<const base::Permit> permit;
    size_t bytes = 0;
  };
  Coordinator(storage::Storage* storage, const base::Clock* clock, Options options);
  void WriterLoop();
  void RunBatch(std::deque<Queued> queued);
  // Erases some rows of deleted studies. True: others are left, and nothing is in the way.
  bool EraseSome(bool idle);
  void CommitAndAnswer(absl::Duration now, size_t operations);
  // `tried`: true if a commit succeeded or failed.
  void NoteStorage(const absl::Status& status, bool tried, bool probe, absl::Duration now);
  // Storage can't be trusted any more: ends the process.
  [[noreturn]] void Fail(const absl::Status& status);
  void AfterCommit(absl::Duration now);
  // Copies what DamageOf and HeldBack return from the core.
  void NoteForReaders();
  void Observe(absl::Duration now, const std::vector<storage::Event>& events);
  // Refuses the operation.
  void TurnAway(Operation& operation, const absl::Status& status);
  void ObserveSuggestion(const study::StudySpec& spec, absl::Duration took);

  storage::Storage* const storage_;
  const base::Clock* const clock_;
  const Options options_;
  LeaseTable leases_;

  // Owned by the writer thread after Start.
  std::unique_ptr<Core> core_;
  std::unique_ptr<Proposer> inline_proposer_;  // For designers that ignore history: computed in passing.
  absl::Duration next_space_check_ = absl::ZeroDuration();
  absl::Duration next_erasure_ = absl::ZeroDuration();
  absl::Duration next_census_ = absl::ZeroDuration();
  absl::Duration unwritable_since_ = absl::InfiniteDuration();
  DiskTrouble disk_trouble_;
  uint64_t held_back_version_ = 0;
  uint64_t damaged_version_ = 0;  // Core::damaged_version, as noted.

  base::Mutex mutex_;
  base::CondVar changed_;
  std::deque<Queued> queue_ ABSL_GUARDED_BY(mutex_);
  std::array<Load, kOperationClassCount> loads_ ABSL_GUARDED_BY(mutex_);  // Index: OperationClass.
  std::array<RefusalDelay, kOperationClassCount> refusal_delays_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t batches_begun_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t batches_ended_ ABSL_GUARDED_BY(mutex_) = 0;
  base::CondVar batch_ended_;
  std::set<std::string> held_back_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, absl::Status> damaged_ ABSL_GUARDED_BY(mutex_);  // By id of the study.

  Watchers watchers_;

  std::atomic<uint64_t> committed_seq_{0};
  std::atomic<bool> draining_{false};
  std::atomic<bool> storage_ok_{true};
  std::atomic<bool> storage_low_{false};
  std::atomic<int> waiting_asks_{0};

  std::unique_ptr<SuggestionQueue> suggestions_;
  std::thread writer_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_WRITER_COORDINATOR_H_
