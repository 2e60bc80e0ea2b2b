#include "server/service/watch.h"

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"
#include "server/service/lookup.h"
#include "server/service/methods.h"

namespace luthier::service {
namespace {

using coordinator::Coordinator;

constexpr int kPage = 100;
constexpr int kMaxWatchers = 1000;
constexpr absl::Duration kLastWrite = absl::Seconds(1);  // Longest time of a write that began before the end.

// Kept alive by the call until it is finished, and by tasks under way on the readers' threads.
class Watch final : public Call::Lasting, public std::enable_shared_from_this<Watch> {
 public:
  Watch(CallPtr call, const v1::WatchStudyRequest& request)
      : call_(std::move(call)),
        backend_(call_->backend()),
        until_finished_(request.until_finished()),
        after_(request.after_seq()) {
    ++call_->kept().watchers;
  }
  ~Watch() override { --call_->kept().watchers; }

  void Start() {
    call_->Keep(shared_from_this());
    call_->OnTokenEnd([weak = weak_from_this()](const absl::Status& why) {
      if (const std::shared_ptr<Watch> self = weak.lock()) self->FinishOnce(why);
    });
    if (!backend_.readers->Schedule([self = shared_from_this()] { self->Open(); })) {
      FinishOnce(Busy(backend_, "reads"));
    }
  }

  void OnCancel() override { FinishOnce(absl::CancelledError()); }

 private:
  void Open() {
    const absl::StatusOr<std::string> id = call_->name().Study();
    if (!id.ok()) return FinishOnce(id.status());
    const absl::StatusOr<storage::StudyRecord> record = FindStudy(backend_.storage, *id);
    if (!record.ok()) return FinishOnce(record.status());
    key_ = record->key;
    id_ = *id;
    backend_.coordinator->Subscribe(key_, [weak = weak_from_this()](Coordinator::Wake why) {
      const std::shared_ptr<Watch> self = weak.lock();
      return self != nullptr && self->Wake(why);
    });
    Wake(Coordinator::Wake::kCommit);  // There are stored events.
  }

  // May be called on any thread. Returns true until the end.
  bool Wake(Coordinator::Wake why) {
    if (why == Coordinator::Wake::kCommit) {
      base::MutexLock lock(&mutex_);
      woken_ = true;
    }
    Continue();
    CutOff();
    base::MutexLock lock(&mutex_);
    return !finished_;
  }

  // Writes the next event, or reads the next page, or waits.
  void Continue() {
    // The caller resumes from its last event once the server is back.
    if (backend_.coordinator->draining()) return FinishOnce(coordinator::Draining());
    if (const absl::Status allowed = call_->StillAllowed(); !allowed.ok()) return FinishOnce(allowed);
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
      return call_->Write(*write, [self = shared_from_this()](bool ok) { self->OnWritten(ok); });
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
          if (event.type == storage::EventType::kStudyUndeleted) deleted_ = false;
        }
        if (!events->empty()) woken_ = true;  // There may be more.
      }
      if (page_.empty() && deleted_) finished = true;
    }
    if (!events.ok())
      FinishOnce(events.status());
    else if (finished)
      FinishOnce(absl::OkStatus());
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

  void OnWritten(bool ok) {
    std::optional<absl::Status> finish;
    {
      const base::MutexLock cutting(&cutting_);
      base::MutexLock lock(&mutex_);
      writing_ = false;
      page_.pop_front();
      if (!ok) ended_ = true;
      if (ended_ && !finished_) {
        finished_ = true;
        finish = ok && final_status_ ? *final_status_ : absl::CancelledError();
      }
    }
    if (finish)
      call_->Finish(*finish);
    else
      Continue();
  }

  // A write under way must end first: then OnWritten finishes the call.
  void FinishOnce(const absl::Status& status) {
    {
      const base::MutexLock cutting(&cutting_);
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
    call_->Finish(status);
  }

  // A write ends when the caller reads. A caller that does not would hold the call for ever, so it is cut off.
  void CutOff() {
    const base::MutexLock cutting(&cutting_);
    {
      base::MutexLock lock(&mutex_);
      if (finished_ || cut_ || !final_status_ || backend_.clock->Monotonic() - ended_at_ < kLastWrite) return;
      cut_ = true;
    }
    call_->Abort();
  }

  const CallPtr call_;
  const Backend& backend_;
  const bool until_finished_;
  storage::StudyKey key_ = 0;
  std::string id_;

  base::Mutex cutting_ ABSL_ACQUIRED_BEFORE(mutex_);  // While it is held, the call is not finished.
  base::Mutex mutex_;
  std::deque<v1::Event> page_ ABSL_GUARDED_BY(mutex_);  // The front one is being written.
  uint64_t after_;                                      // Used by one reader at a time.
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool deleted_ ABSL_GUARDED_BY(mutex_) = false;
  bool cut_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration ended_at_ ABSL_GUARDED_BY(mutex_);  // Set with the final status.
  std::optional<absl::Status> final_status_ ABSL_GUARDED_BY(mutex_);
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

void WatchStudy(const CallPtr& call, const v1::WatchStudyRequest& request) {
  const auto watch = std::make_shared<Watch>(call, request);
  if (call->kept().watchers > kMaxWatchers) {
    return call->Finish(call->backend().Refused(coordinator::QueueFull("watchers", absl::Seconds(5))));
  }
  watch->Start();
}

}  // namespace luthier::service
