#include "server/access/audit.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"

namespace luthier::access {
namespace {

constexpr size_t kMaxWaiting = 10'000;
constexpr absl::Duration kMinute = absl::Minutes(1);
constexpr absl::Duration kFoldedFor = absl::Seconds(1);  // Longest time until a number that grew is written.
constexpr char kOthers[] = "OTHERS";

}  // namespace

Audit::Audit(AccessStore* store, const base::Clock* clock)
    : store_(store), clock_(clock), forgotten_(clock->Monotonic()), thread_([this] { Loop(); }) {}

Audit::~Audit() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.SignalAll();
  thread_.join();
}

void Audit::Add(AuditRecord entry) {
  entry.time = entry.last_time = clock_->Wall();
  base::MutexLock lock(&mutex_);
  if (entry.refused) {
    AddRefusal(std::move(entry));
    return;
  }
  if (waiting_.size() >= kMaxWaiting) {
    ++dropped_;
    return;
  }
  waiting_.push_back(std::move(entry));
  changed_.Signal();
}

void Audit::AddRefusal(AuditRecord entry) {
  Minute& minute = MinuteOf(&entry);
  const bool known = minute.folds.count({entry.method, entry.outcome}) > 0;
  if (!known && minute.folds.size() >= kMaxAlike) {
    entry.method = "";
    entry.outcome = kOthers;
  }
  std::shared_ptr<Fold>& fold = minute.folds[{entry.method, entry.outcome}];
  const bool first = fold == nullptr;
  if (first) {
    fold = std::make_shared<Fold>(Fold{std::move(entry)});
  } else {
    fold->entry.last_time = entry.last_time;
    fold->entry.times += entry.times;
  }
  if (!fold->waits) folded_.push_back(fold);
  fold->waits = true;
  if (first) urgent_ = true;
  if (first || folded_.size() == 1) changed_.Signal();
}

Audit::Minute& Audit::MinuteOf(AuditRecord* entry) {
  const absl::Duration now = clock_->Monotonic();
  ForgetMinutes(now);
  const bool address = entry->token.empty();
  const auto key = [&] { return address ? absl::StrCat("@", entry->peer) : entry->token; };
  if (address && addresses_ >= kMaxAddresses && minutes_.count(key()) == 0) entry->peer = "";
  const auto [found, fresh] = minutes_.try_emplace(key());
  Minute& minute = found->second;
  if (fresh && address) ++addresses_;
  if (fresh || now - minute.begin >= kMinute) minute = {now, address, {}};
  return minute;
}

void Audit::ForgetMinutes(absl::Duration now) {
  if (now - forgotten_ < kMinute) return;
  forgotten_ = now;
  for (auto it = minutes_.begin(); it != minutes_.end();) {
    if (now - it->second.begin < kMinute) {
      ++it;
      continue;
    }
    if (it->second.address) --addresses_;
    it = minutes_.erase(it);
  }
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

void Audit::NoteClaim(const std::string& token, const std::string& hash) {
  base::MutexLock lock(&mutex_);
  claims_.emplace_back(token, hash);
  changed_.Signal();
}

bool Audit::Idle() const {
  return waiting_.empty() && uses_.empty() && claims_.empty() && folded_.empty();
}

void Audit::Flush() {
  base::MutexLock lock(&mutex_);
  urgent_ = urgent_ || !folded_.empty();
  changed_.Signal();
  while (writing_ || !Idle()) written_.Wait(&mutex_);
}

void Audit::Loop() {
  base::MutexLock lock(&mutex_);
  while (true) {
    while (Idle() && !stopping_) changed_.Wait(&mutex_);
    if (Idle()) return;
    // Growing numbers are written once a second.
    while (waiting_.empty() && uses_.empty() && claims_.empty() && !urgent_ && !stopping_) {
      if (changed_.WaitFor(&mutex_, kFoldedFor)) break;
    }
    WriteOut();
  }
}

void Audit::WriteOut() {
  std::vector<AuditRecord> entries = std::exchange(waiting_, {});
  const std::map<std::string, absl::Time> uses = std::exchange(uses_, {});
  const std::vector<std::pair<std::string, std::string>> claims = std::exchange(claims_, {});
  const std::vector<std::shared_ptr<Fold>> folded = std::exchange(folded_, {});
  urgent_ = false;
  if (const int64_t dropped = std::exchange(dropped_, 0); dropped > 0) {
    AuditRecord note;
    note.time = note.last_time = clock_->Wall();
    note.method = "audit";
    note.outcome = "DROPPED";
    note.times = dropped;
    entries.push_back(std::move(note));
  }
  const size_t changes = entries.size();
  for (const std::shared_ptr<Fold>& fold : folded) {
    fold->waits = false;
    entries.push_back(fold->entry);
  }
  writing_ = true;
  mutex_.Unlock();
  absl::Status status = entries.empty() ? absl::OkStatus() : store_->Append(&entries);
  const bool appended = status.ok();
  if (status.ok() && !claims.empty()) status = store_->NoteClaims(claims);
  if (status.ok() && !uses.empty()) status = store_->NoteUse({uses.begin(), uses.end()});
  if (!status.ok()) {
    base::LogError("audit_not_written",
                   {{"entries", absl::StrCat(entries.size())}, {"error", std::string(status.message())}});
  }
  mutex_.Lock();
  for (size_t i = 0; appended && i < folded.size(); ++i) folded[i]->entry.number = entries[changes + i].number;
  writing_ = false;
  written_.SignalAll();
}

}  // namespace luthier::access
