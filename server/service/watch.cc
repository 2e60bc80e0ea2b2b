#include "server/service/watch.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"

namespace luthier::service {
namespace {

using coordinator::Coordinator;

constexpr int kPage = 100;
constexpr absl::Duration kLastWrite = absl::Seconds(1);  // Longest time of a write that began before the end.

// Kept alive by the call (until OnDone) and by tasks under way on the readers' threads.
class Watch final : public grpc::ServerWriteReactor<v1::Event>, public std::enable_shared_from_this<Watch> {
 public:
  Watch(const Backend& backend, grpc::CallbackServerContext* context, const v1::WatchStudyRequest& request,
        std::atomic<int>* watchers)
      : backend_(backend),
        context_(context),
        permit_(backend.PermitOf(*context)),
        until_finished_(request.until_finished()),
        watchers_(watchers),
        after_(request.after_seq()) {}

  // To be called before gRPC sees the reactor.
  void Start(const std::string& name) {
    self_ = shared_from_this();
    access::Access::Ending ending = backend_.OnTokenEnd(*context_, [weak = weak_from_this()](const absl::Status& why) {
      if (const std::shared_ptr<Watch> self = weak.lock()) self->FinishOnce(wire::ToGrpc(why));
    });
    {
      base::MutexLock lock(&mutex_);
      ending_ = std::move(ending);
    }
    if (!backend_.readers->Schedule([self = shared_from_this(), name] { self->Open(name); })) {
      FinishOnce(wire::ToGrpc(backend_.Refused(coordinator::QueueFull("reads", kReadRetry))));
    }
  }
  void Refuse(const absl::Status& status) {
    self_ = shared_from_this();
    FinishOnce(wire::ToGrpc(status));
  }

  void OnCancel() override { FinishOnce(grpc::Status::CANCELLED); }

  void OnWriteDone(bool ok) override {
    std::optional<grpc::Status> finish;
    {
      base::MutexLock lock(&mutex_);
      writing_ = false;
      page_.pop_front();
      if (!ok) ended_ = true;
      if (ended_ && !finished_) {
        finished_ = true;
        finish = ok && final_status_ ? *final_status_ : grpc::Status::CANCELLED;
      }
    }
    if (finish)
      Finish(*finish);
    else
      Continue();
  }

  void OnDone() override {
    uint64_t subscription;
    access::Access::Ending ending;
    {
      const base::MutexLock cutting(&cutting_);  // The context is destroyed with the call.
      base::MutexLock lock(&mutex_);
      done_ = true;
      subscription = subscription_;
      ending = std::exchange(ending_, nullptr);
    }
    if (subscription != 0) backend_.coordinator->Unsubscribe(subscription);
    --*watchers_;
    self_.reset();  // May delete this.
  }

  // May be called on any thread.
  void Wake(Coordinator::Wake why) {
    if (why == Coordinator::Wake::kCommit) {
      base::MutexLock lock(&mutex_);
      woken_ = true;
    }
    Continue();
    CutOff();
  }

 private:
  void Open(const std::string& name) {
    const absl::StatusOr<std::string> id = wire::ParseStudyName("name", name);
    if (!id.ok()) {
      FinishOnce(wire::ToGrpc(id.status()));
      return;
    }
    const absl::StatusOr<storage::StudyRecord> record = backend_.storage->GetStudy(*id);
    if (!record.ok()) {
      FinishOnce(wire::ToGrpc(record.status().code() == absl::StatusCode::kNotFound
                                  ? base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                                                    absl::StrCat("study ", base::Quote(*id), " does not exist"))
                                  : record.status()));
      return;
    }
    key_ = record->key;
    id_ = *id;
    const uint64_t subscription =
        backend_.coordinator->Subscribe(key_, [weak = weak_from_this()](Coordinator::Wake why) {
          if (const std::shared_ptr<Watch> self = weak.lock()) self->Wake(why);
        });
    bool done;
    {
      base::MutexLock lock(&mutex_);
      done = done_;
      if (!done) subscription_ = subscription;
    }
    if (done)
      backend_.coordinator->Unsubscribe(subscription);
    else
      Wake(Coordinator::Wake::kCommit);  // There are stored events.
  }

  // Writes the next event, or reads the next page, or waits.
  void Continue() {
    // The caller resumes from its last event once the server is back.
    if (backend_.coordinator->draining()) {
      FinishOnce(wire::ToGrpc(coordinator::Draining()));
      return;
    }
    if (const absl::Status allowed = backend_.StillAllowed(permit_); !allowed.ok()) {
      FinishOnce(wire::ToGrpc(allowed));
      return;
    }
    const v1::Event* write = nullptr;
    {
      base::MutexLock lock(&mutex_);
      if (ended_ || writing_ || reading_) return;
      if (!page_.empty()) {
        writing_ = true;
        write = &page_.front();
      } else if (woken_) {
        woken_ = false;
        reading_ = true;
      } else {
        return;
      }
    }
    if (write != nullptr) {
      StartWrite(write);
      return;
    }
    if (!backend_.readers->Schedule([self = shared_from_this()] { self->ReadPage(); })) {
      // Readers are busy: the next wake-up tries again.
      base::MutexLock lock(&mutex_);
      reading_ = false;
      woken_ = true;
    }
  }

  void ReadPage() {
    const absl::StatusOr<std::vector<storage::Event>> events = backend_.storage->ListEvents(key_, after_, kPage);
    bool finished = false;
    if (events.ok() && events->empty() && until_finished_) finished = StudyHasFinished();
    {
      base::MutexLock lock(&mutex_);
      reading_ = false;
      if (events.ok()) {
        for (const storage::Event& event : *events) {
          page_.push_back(ToMessage(event));
          after_ = event.seq;
          if (event.type == storage::EventType::kStudyDeleted) deleted_ = true;
        }
        if (!events->empty()) woken_ = true;  // There may be more.
      }
      if (page_.empty() && deleted_) finished = true;
    }
    if (!events.ok())
      FinishOnce(wire::ToGrpc(events.status()));
    else if (finished)
      FinishOnce(grpc::Status::OK);
    else
      Continue();
  }

  // True if the study and its trials have ended, and `after_` is its last event.
  bool StudyHasFinished() {
    const absl::StatusOr<storage::StudyRecord> record = backend_.storage->GetStudy(id_);
    const bool gone = record.ok() ? record->key != key_ : record.status().code() == absl::StatusCode::kNotFound;
    if (!gone) {
      if (!record.ok() || !study::IsFinished(record->state)) return false;
      const absl::StatusOr<storage::Storage::Summary> summary = backend_.storage->Summarize(*record);
      if (!summary.ok() || summary->by_state[0] > 0 || summary->by_state[1] > 0) return false;
    }
    // Read last: the event that ended the study may have been committed since the page was read.
    const absl::StatusOr<std::vector<storage::Event>> more = backend_.storage->ListEvents(key_, after_, 1);
    if (more.ok() && more->empty()) return true;
    base::MutexLock lock(&mutex_);
    woken_ = true;
    return false;
  }

  // A write under way must end first: then OnWriteDone finishes the call.
  void FinishOnce(const grpc::Status& status) {
    {
      base::MutexLock lock(&mutex_);
      ended_ = true;
      if (finished_) return;
      if (writing_) {
        if (!final_status_) {
          final_status_ = status;
          ended_at_ = backend_.clock->Monotonic();
        }
        return;
      }
      finished_ = true;
    }
    Finish(status);
  }

  // A write ends when the caller reads. A caller that does not would hold the call for ever, so it is cut off. This
  // runs on the writer's thread, where gRPC makes no callback before TryCancel returns.
  void CutOff() {
    const base::MutexLock cutting(&cutting_);
    {
      base::MutexLock lock(&mutex_);
      if (done_ || cut_ || !final_status_ || backend_.clock->Monotonic() - ended_at_ < kLastWrite) return;
      cut_ = true;
    }
    context_->TryCancel();
  }

  const Backend backend_;
  grpc::CallbackServerContext* const context_;  // Valid until OnDone returns.
  const access::PermitPtr permit_;
  const bool until_finished_;
  std::atomic<int>* const watchers_;
  storage::StudyKey key_ = 0;
  std::string id_;
  std::shared_ptr<Watch> self_;

  base::Mutex cutting_ ABSL_ACQUIRED_BEFORE(mutex_);  // While it is held, the call is not over.
  base::Mutex mutex_;
  std::deque<v1::Event> page_ ABSL_GUARDED_BY(mutex_);  // The front one is being written.
  uint64_t after_;                                      // Used by one reader at a time.
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool deleted_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration ended_at_ ABSL_GUARDED_BY(mutex_);  // Set with the final status.
  access::Access::Ending ending_ ABSL_GUARDED_BY(mutex_);
  uint64_t subscription_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<grpc::Status> final_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

v1::Event ToMessage(const storage::Event& event) {
  v1::Event message;
  message.set_seq(event.seq);
  *message.mutable_time() = wire::ToProto(event.time);
  message.set_study(wire::StudyName(event.study_id));
  message.set_trial(event.trial);
  message.set_attempt(event.attempt);
  message.set_type(static_cast<v1::Event::Type>(event.type));
  message.set_actor(event.actor);
  message.set_detail(event.detail);
  if (event.value) message.set_value(*event.value);
  return message;
}

grpc::ServerWriteReactor<v1::Event>* StartWatch(const Backend& backend, grpc::CallbackServerContext* context,
                                                const v1::WatchStudyRequest& request, std::atomic<int>* watchers,
                                                int max_watchers) {
  const auto watch = std::make_shared<Watch>(backend, context, request, watchers);
  absl::Status admitted = backend.AdmitWork();
  const bool room = ++*watchers <= max_watchers;
  if (admitted.ok() && !room) admitted = backend.Refused(coordinator::QueueFull("watchers", absl::Seconds(5)));
  if (!admitted.ok()) {
    watch->Refuse(admitted);
    return watch.get();
  }
  watch->Start(request.name());
  return watch.get();
}

}  // namespace luthier::service
