#include "server/coordinator/writer/coordinator.h"

#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "lib/search/registry.h"
#include "server/coordinator/messages/size.h"
#include "server/storage/damage.h"
#include "server/storage/held_files.h"

namespace luthier::coordinator {
namespace {

constexpr int kLoadedWhenIdle = 16;                        // Studies that are read at once while no operation waits.
constexpr int kErasedWhenIdle = 1000;                      // Rows of deleted studies that are then erased: some 15 ms.
constexpr absl::Duration kEraseAnyway = absl::Seconds(1);  // Time between erasures while operations always wait.

absl::Status Unavailable(absl::string_view reason, absl::string_view message, absl::Duration retry) {
  base::ErrorDetail detail;
  detail.reason = std::string(reason);
  detail.retry_delay = retry;
  return base::MakeError(absl::StatusCode::kUnavailable, message, std::move(detail));
}

absl::Status StorageLow() {
  return Unavailable(base::reason::kStorageLow,
                     "the server's disk is nearly full; results are taken, but no new work is given",
                     absl::Seconds(30));
}

OperationClass ClassOf(const Operation& operation) {
  const bool results = std::holds_alternative<FinishOp>(operation) || std::holds_alternative<ReportOp>(operation) ||
                       std::holds_alternative<DeclareOp>(operation) || std::holds_alternative<HeartbeatOp>(operation) ||
                       std::holds_alternative<KeepAnswerOp>(operation) ||
                       std::holds_alternative<ProposalsOp>(operation);
  return results ? OperationClass::kResults : OperationClass::kRequests;
}

}  // namespace

absl::Status Draining() {
  return Unavailable(base::reason::kDraining, "the server is shutting down", absl::Seconds(2));
}

absl::Status QueueFull(absl::string_view what, absl::Duration retry_delay) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kQueueFull;
  detail.retry_delay = retry_delay;
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("too many ", what, " wait already; try again shortly"), std::move(detail));
}

Coordinator::Coordinator(storage::Storage* storage, const base::Clock* clock, Options options)
    : storage_(storage), clock_(clock), options_(std::move(options)), watchers_(options_.tick) {}

absl::StatusOr<std::unique_ptr<Coordinator>> Coordinator::Start(storage::Storage* storage, const base::Clock* clock,
                                                                Options options) {
  auto coordinator = std::unique_ptr<Coordinator>(new Coordinator(storage, clock, std::move(options)));
  Coordinator& c = *coordinator;
  c.core_ = std::make_unique<Core>(storage, clock, &c.leases_, c.options_.core);
  LUTHIER_RETURN_IF_ERROR(c.core_->Load(Extent::kUnfinished));
  c.committed_seq_ = c.core_->last_seq();
  c.NoteForReaders();
  c.inline_proposer_ = std::make_unique<Proposer>(storage, c.options_.designers);
  SuggestionQueue::Options queue;
  queue.threads = c.options_.suggest_threads;
  queue.designers = c.options_.designers;
  queue.quotas = c.options_.core.quotas;
  queue.max_idle_bytes = c.options_.max_idle_designer_bytes;
  c.suggestions_ = std::make_unique<SuggestionQueue>(
      storage, clock, std::move(queue), [&c](ProposalsOp op) { c.Submit(std::move(op)); },
      [&c](const study::StudySpec& spec, absl::Duration took) { c.ObserveSuggestion(spec, took); });
  c.writer_ = std::thread([&c] { c.WriterLoop(); });
  return coordinator;
}

Coordinator::~Coordinator() {
  Drain();
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  if (writer_.joinable()) writer_.join();
  suggestions_ = nullptr;
}

void Coordinator::Drain() {
  draining_ = true;
  changed_.Signal();
}

void Coordinator::Submit(Operation operation, absl::Duration deadline, std::shared_ptr<const base::Permit> permit) {
  const OperationClass operation_class = ClassOf(operation);
  const bool finish = operation_class == OperationClass::kResults;
  if (!finish) {
    if (draining_) {
      TurnAway(operation, Draining());
      return;
    }
    const bool frees = std::holds_alternative<ControlOp>(operation) ||
                       std::holds_alternative<CancelTrialOp>(operation) ||
                       std::holds_alternative<StopTrialOp>(operation);
    if (storage_low_ && !frees) {
      TurnAway(operation, StorageLow());
      return;
    }
    if (std::holds_alternative<SuggestOp>(operation) && waiting_asks_ >= options_.max_waiting_asks) {
      TurnAway(operation, QueueFull("asks"));
      return;
    }
  }
  const size_t bytes = BytesOf(operation);
  const absl::Duration now = clock_->Monotonic();
  absl::Duration delay;
  {
    base::MutexLock lock(&mutex_);
    RefusalDelay& refusals = refusal_delays_[static_cast<size_t>(operation_class)];
    Load& load = loads_[static_cast<size_t>(operation_class)];
    // Asks wait behind results, which therefore count against their limit, too. Calls that pause or end a study have
    // their own.
    const bool ask = std::holds_alternative<SuggestOp>(operation);
    const size_t before = load.ops + (ask ? loads_[static_cast<size_t>(OperationClass::kResults)].ops : 0);
    const bool room = before < (finish ? options_.max_finish_ops : options_.max_ask_ops) &&
                      (load.ops == 0 || load.bytes + bytes <= options_.max_queued_bytes);
    const bool internal =
        std::holds_alternative<ProposalsOp>(operation) || std::holds_alternative<KeepAnswerOp>(operation);
    if (!stopping_ && (internal || room)) {
      refusals.Taken(now);
      ++load.ops;
      load.bytes += bytes;
      queue_.push_back({std::move(operation), deadline, std::move(permit), bytes});
      if (queue_.size() == 1) changed_.Signal();
      return;
    }
    if (stopping_) draining_ = true;
    delay = refusals.Refused(now);
  }
  TurnAway(operation, draining_ ? Draining() : QueueFull(finish ? "results" : "requests", delay));
}

void Coordinator::TurnAway(Operation& operation, const absl::Status& status) {
  if (options_.observer != nullptr) options_.observer->OnRefused(ClassOf(operation), status);
  Refuse(operation, status);
}

void Coordinator::ObserveSuggestion(const study::StudySpec& spec, absl::Duration took) {
  if (options_.observer != nullptr) options_.observer->OnSuggestions(study::AlgorithmName(spec.algorithm), took);
}

void Coordinator::Heartbeat(const std::string& worker, std::vector<std::string> tokens, Done<HeartbeatReply> done,
                            std::shared_ptr<const base::Permit> permit) {
  LeaseTable::Renewal renewal = leases_.Renew(tokens, clock_->Monotonic(), /*take_back=*/false);
  if (!renewal.any_expired) {
    done(HeartbeatReply{std::move(renewal.directives)});
    return;
  }
  Submit(HeartbeatOp{worker, std::move(tokens), std::move(done)}, absl::InfiniteDuration(), std::move(permit));
}

bool Coordinator::AwaitBatch(absl::Duration timeout) {
  const absl::Duration end = clock_->Monotonic() + timeout;
  base::MutexLock lock(&mutex_);
  const uint64_t begun = batches_begun_;
  while (batches_ended_ < begun) {
    const absl::Duration left = end - clock_->Monotonic();
    if (left <= absl::ZeroDuration() || batch_ended_.WaitFor(&mutex_, left)) return batches_ended_ >= begun;
  }
  return true;
}

void Coordinator::WriterLoop() {
  bool all_loaded = false, erasing = true;
  while (true) {
    std::deque<Queued> queued;
    bool stopping;
    {
      base::MutexLock lock(&mutex_);
      if (queue_.empty() && !stopping_ && all_loaded && !erasing) changed_.WaitFor(&mutex_, options_.tick);
      stopping = stopping_;
      if (queue_.size() <= options_.max_batch) {
        queued.swap(queue_);
      } else {
        for (size_t i = 0; i < options_.max_batch; ++i) {
          queued.push_back(std::move(queue_.front()));
          queue_.pop_front();
        }
      }
      for (const Queued& q : queued) {
        Load& load = loads_[static_cast<size_t>(ClassOf(q.operation))];
        --load.ops;
        load.bytes -= q.bytes;
      }
      ++batches_begun_;
    }
    const bool last = stopping && queued.empty();
    const bool idle = queued.empty();
    if (!last) RunBatch(std::move(queued));
    {
      base::MutexLock lock(&mutex_);
      batches_ended_ = batches_begun_;
    }
    batch_ended_.SignalAll();
    if (idle && !all_loaded) {
      const absl::StatusOr<bool> more = core_->LoadMore(kLoadedWhenIdle);
      if (!more.ok()) Fail(more.status());
      all_loaded = !*more;
      NoteForReaders();
    }
    erasing = EraseSome(idle);
    if (draining_) {
      core_->RefuseWaiting(Draining());
      waiting_asks_ = 0;
    }
    if (last) return;
  }
}

bool Coordinator::EraseSome(bool idle) {
  const absl::Duration now = clock_->Monotonic();
  if (!storage_ok_ || (!idle && now < next_erasure_)) return false;
  next_erasure_ = now + kEraseAnyway;
  const absl::StatusOr<bool> left = storage_->EraseSome(kErasedWhenIdle);
  NoteStorage(left.status(), left.value_or(true), /*probe=*/false, now);
  return left.value_or(false);
}

void Coordinator::RunBatch(std::deque<Queued> queued) {
  const absl::Duration now = clock_->Monotonic();
  if (options_.free_bytes && now >= next_space_check_) {
    next_space_check_ = now + absl::Seconds(10);
    const bool low = options_.free_bytes() < options_.min_free_bytes;
    if (low != storage_low_) base::LogWarning(low ? "storage_low" : "storage_no_longer_low");
    storage_low_ = low;
  }
  // While storage can't be written no lease expires.
  if (unwritable_since_ != absl::InfiniteDuration()) {
    core_->ExtendLeases(now - unwritable_since_);
    unwritable_since_ = now;
  }
  const size_t operations = queued.size();
  core_->BeginBatch();
  for (Queued& q : queued) {
    if (q.deadline <= now) {
      TurnAway(q.operation,
               absl::DeadlineExceededError("the deadline passed while the request waited; nothing was done"));
      continue;
    }
    core_->Apply(std::move(q.operation), q.permit);
  }
  if (storage_low_) core_->RefuseWaiting(StorageLow());
  const auto ignores_history = [&](storage::StudyKey key) {
    const auto spec = core_->SpecOf(key);
    return !UsesHistory(*spec);
  };
  while (true) {
    core_->ServeWaiting();
    const std::vector<ProposalRequest> requests = core_->TakeProposalRequests(ignores_history);
    if (requests.empty()) break;
    for (const ProposalRequest& request : requests) {
      const std::shared_ptr<const study::StudySpec> spec = core_->SpecOf(request.study);
      const absl::Duration begin = clock_->Monotonic();
      ProposalsOp proposals = inline_proposer_->Propose(request, spec);
      ObserveSuggestion(*spec, clock_->Monotonic() - begin);
      core_->Apply(std::move(proposals));
    }
  }
  CommitAndAnswer(now, operations);
  waiting_asks_ = core_->waiting();
  AfterCommit(now);
}

void Coordinator::CommitAndAnswer(absl::Duration now, size_t operations) {
  const storage::WriteBatch& batch = core_->Seal();
  const absl::Duration begin = clock_->Monotonic();
  const absl::Status status = batch.empty() ? absl::OkStatus() : storage_->Commit(batch);
  if (!batch.empty() && options_.observer != nullptr)
    options_.observer->OnCommit(clock_->Monotonic() - begin, operations, status);
  // A server that can't write gets no more calls, so it must find out by itself when it can write again.
  const bool probe = batch.empty() && !storage_ok_;
  if (storage::DamagedStudy(status) == 0) {  // Otherwise the study is at fault, not the disk.
    NoteStorage(probe ? storage_->Commit({storage::SetFence{core_->fence()}}) : status, probe || !batch.empty(), probe,
                now);
  }
  if (status.ok()) committed_seq_ = core_->last_seq();
  NoteForReaders();  // Before the answers, so that a caller who is told that a damaged study is deleted finds it gone.
  // If storage can't be read, only a restart helps.
  if (const absl::Status restored = core_->EndBatch(status); !restored.ok()) Fail(restored);
}

void Coordinator::Fail(const absl::Status& status) {
  if (options_.on_fatal) {
    base::LogError("storage_failed", {{"error", std::string(status.message())}});
    options_.on_fatal(status);
  }
  storage::EndForStorage(status);
}

void Coordinator::NoteStorage(const absl::Status& status, bool tried, bool probe, absl::Duration now) {
  if (status.ok()) {
    if (!tried) return;
    if (!probe && disk_trouble_.Succeeded(now)) base::LogInfo("storage_writable_again");
    if (storage_ok_) return;
    storage_ok_ = true;
    unwritable_since_ = absl::InfiniteDuration();
    return;
  }
  if (status.code() != absl::StatusCode::kUnavailable) Fail(status);
  if (disk_trouble_.Failed(now)) base::LogError("storage_unwritable", {{"error", std::string(status.message())}});
  storage_ok_ = false;
  unwritable_since_ = now;
}

void Coordinator::NoteForReaders() {
  if (damaged_version_ == core_->damaged_version() && held_back_version_ == core_->held_back_version()) return;
  base::MutexLock lock(&mutex_);
  if (held_back_version_ != core_->held_back_version()) held_back_ = core_->held_back();
  held_back_version_ = core_->held_back_version();
  if (damaged_version_ == core_->damaged_version()) return;
  damaged_version_ = core_->damaged_version();
  damaged_.clear();
  for (const auto& [id, study] : core_->damaged()) damaged_[id] = study.damage;
}

bool Coordinator::HeldBack(const std::string& project) {
  base::MutexLock lock(&mutex_);
  return held_back_.contains(project);
}

absl::Status Coordinator::DamageOf(const std::string& id) {
  base::MutexLock lock(&mutex_);
  const auto found = damaged_.find(id);
  return found == damaged_.end() ? absl::OkStatus() : found->second;
}

void Coordinator::AfterCommit(absl::Duration now) {
  NoteForReaders();
  for (const storage::StudyKey key : core_->TakeInvalidated()) {
    inline_proposer_->Forget(key);
    suggestions_->Forget(key);
  }
  for (HistoryUpdate& update : core_->TakeHistoryUpdates()) suggestions_->Update(std::move(update));
  for (const ProposalRequest& request : core_->TakeProposalRequests([](storage::StudyKey) { return true; })) {
    suggestions_->Request(request, core_->SpecOf(request.study));
  }
  const std::vector<storage::Event> events = core_->TakeEvents();
  Observe(now, events);
  std::set<storage::StudyKey> changed;
  for (const storage::Event& event : events) changed.insert(event.study);
  watchers_.Notify(changed, now);
  if (draining_) watchers_.TickAll();
}

void Coordinator::Observe(absl::Duration now, const std::vector<storage::Event>& events) {
  if (options_.observer == nullptr) return;
  for (const storage::Event& event : events) options_.observer->OnEvent(event);
  if (now < next_census_) return;
  next_census_ = now + absl::Seconds(1);
  Census census;
  census.trials = core_->CountTrials();
  census.leases = leases_.size();
  census.waiting_asks = core_->waiting();
  census.slots = core_->CountSlots();
  {
    base::MutexLock lock(&mutex_);
    census.queues = loads_;
  }
  options_.observer->OnCensus(census);
}

void Coordinator::Subscribe(storage::StudyKey study, std::function<bool(Wake)> wake) {
  watchers_.Add(study, clock_->Monotonic(), std::move(wake));
}

}  // namespace luthier::coordinator
