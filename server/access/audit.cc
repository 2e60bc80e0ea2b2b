#include "server/access/audit.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"

namespace luthier::access {
namespace {

constexpr size_t kMaxWaiting = 10'000;

}  // namespace

Audit::Audit(AccessStore* store, const base::Clock* clock)
    : store_(store), clock_(clock), thread_([this] { Loop(); }) {}

Audit::~Audit() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void Audit::Add(AuditRecord entry) {
  entry.time = clock_->Wall();
  base::MutexLock lock(&mutex_);
  if (waiting_.size() >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(entry));
  changed_.Signal();
}

void Audit::NoteUse(const std::string& token) {
  const absl::Time now = absl::FromUnixSeconds(absl::ToUnixSeconds(clock_->Wall()) / 60 * 60);
  base::MutexLock lock(&mutex_);
  absl::Time& last = last_uses_[token];
  if (last == now) return;
  last = now;
  uses_[token] = now;
  changed_.Signal();
}

void Audit::Flush() {
  base::MutexLock lock(&mutex_);
  while (writing_ || !waiting_.empty() || !uses_.empty()) written_.Wait(&mutex_);
}

void Audit::Loop() {
  base::MutexLock lock(&mutex_);
  while (true) {
    while (waiting_.empty() && uses_.empty() && !stopping_) changed_.Wait(&mutex_);
    if (waiting_.empty() && uses_.empty()) return;
    std::vector<AuditRecord> entries = std::exchange(waiting_, {});
    const std::map<std::string, absl::Time> uses = std::exchange(uses_, {});
    if (const int64_t dropped = std::exchange(dropped_, 0); dropped > 0) {
      AuditRecord note;
      note.time = clock_->Wall();
      note.method = "audit";
      note.outcome = "DROPPED";
      note.times = dropped;
      entries.push_back(std::move(note));
    }
    writing_ = true;
    mutex_.Unlock();
    absl::Status status = entries.empty() ? absl::OkStatus() : store_->Append(entries);
    if (status.ok() && !uses.empty()) status = store_->NoteUse({uses.begin(), uses.end()});
    if (!status.ok()) {
      base::LogError("audit_not_written",
                     {{"entries", absl::StrCat(entries.size())}, {"error", std::string(status.message())}});
    }
    mutex_.Lock();
    writing_ = false;
    written_.SignalAll();
  }
}

}  // namespace luthier::access
