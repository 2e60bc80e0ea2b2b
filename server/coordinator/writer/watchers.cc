#include "server/coordinator/writer/watchers.h"

#include "lib/base/check.h"

namespace luthier::coordinator {

Watchers::Watchers(absl::Duration tick) : tick_(tick) {
  LUTHIER_CHECK(tick > absl::ZeroDuration());
}

uint64_t Watchers::Add(storage::StudyKey study, absl::Duration now, std::function<void(Wake)> wake) {
  base::MutexLock lock(&mutex_);
  const uint64_t number = ++last_;
  all_[number] = {study, now + tick_, std::move(wake)};
  by_study_[study].insert(number);
  ticks_.emplace(now + tick_, number);
  return number;
}

void Watchers::Remove(uint64_t number) {
  base::MutexLock lock(&mutex_);
  const auto found = all_.find(number);
  if (found == all_.end()) return;
  const auto study = by_study_.find(found->second.study);
  study->second.erase(number);
  if (study->second.empty()) by_study_.erase(study);
  ticks_.erase({found->second.tick, number});
  all_.erase(found);
}

size_t Watchers::Notify(const std::set<storage::StudyKey>& changed, absl::Duration now) {
  base::MutexLock lock(&mutex_);
  size_t calls = 0;
  for (const storage::StudyKey study : changed) {
    const auto found = by_study_.find(study);
    if (found == by_study_.end()) continue;
    for (const uint64_t number : found->second) all_.at(number).wake(Wake::kCommit);
    calls += found->second.size();
  }
  while (!ticks_.empty() && ticks_.begin()->first <= now) {
    const uint64_t number = ticks_.begin()->second;
    ticks_.erase(ticks_.begin());
    Watcher& watcher = all_.at(number);
    watcher.tick = now + tick_;
    ticks_.emplace(watcher.tick, number);
    ++calls;
    if (changed.count(watcher.study) == 0) watcher.wake(Wake::kTick);
  }
  return calls;
}

void Watchers::TickAll() {
  base::MutexLock lock(&mutex_);
  for (const auto& [number, watcher] : all_) watcher.wake(Wake::kTick);
}

}  // namespace luthier::coordinator
