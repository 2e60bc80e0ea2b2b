#include "server/coordinator/writer/watchers.h"

#include <vector>

#include "lib/base/check.h"

namespace luthier::coordinator {

Watchers::Watchers(absl::Duration tick) : tick_(tick) {
  LUTHIER_CHECK(tick > absl::ZeroDuration());
}

void Watchers::Add(storage::StudyKey study, absl::Duration now, std::function<bool(Wake)> wake) {
  base::MutexLock lock(&mutex_);
  const uint64_t number = ++last_;
  all_[number] = {study, now + tick_, std::move(wake)};
  by_study_[study].insert(number);
  ticks_.emplace(now + tick_, number);
}

void Watchers::WakeOne(uint64_t number, Wake why) {
  const auto found = all_.find(number);
  if (found->second.wake(why)) return;
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
    const std::vector<uint64_t> numbers(found->second.begin(), found->second.end());
    for (const uint64_t number : numbers) WakeOne(number, Wake::kCommit);
    calls += numbers.size();
  }
  while (!ticks_.empty() && ticks_.begin()->first <= now) {
    const uint64_t number = ticks_.begin()->second;
    ticks_.erase(ticks_.begin());
    Watcher& watcher = all_.at(number);
    watcher.tick = now + tick_;
    ticks_.emplace(watcher.tick, number);
    ++calls;
    if (changed.count(watcher.study) == 0) WakeOne(number, Wake::kTick);
  }
  return calls;
}

void Watchers::TickAll() {
  base::MutexLock lock(&mutex_);
  std::vector<uint64_t> numbers;
  for (const auto& [number, watcher] : all_) numbers.push_back(number);
  for (const uint64_t number : numbers) WakeOne(number, Wake::kTick);
}

}  // namespace luthier::coordinator
