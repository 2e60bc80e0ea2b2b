#include "server/access/waiting_calls.h"

namespace luthier::access {

WaitingCalls::WaitingCalls(const base::Clock* clock, absl::Duration tick)
    : clock_(clock), tick_(tick), thread_([this] { Loop(); }) {}

WaitingCalls::~WaitingCalls() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

uint64_t WaitingCalls::Add(std::shared_ptr<const Standing> standing, Listener ended) {
  uint64_t number;
  {
    base::MutexLock lock(&mutex_);
    number = ++last_;
    const Standing* const key = standing.get();
    all_[number] = key;
    const auto [found, fresh] = groups_.try_emplace(key);
    Group& group = found->second;
    group.listeners.emplace(number, std::move(ended));
    if (fresh) {
      group.standing = std::move(standing);
      group.end = group.standing->end();
      by_end_.emplace(group.end, key);
      if (groups_.size() == 1) changed_.Signal();
    }
  }
  // The secret may have ended before the call was added.
  Tick();
  return number;
}

void WaitingCalls::Remove(uint64_t number) {
  base::MutexLock lock(&mutex_);
  const auto found = all_.find(number);
  if (found == all_.end()) return;
  const auto group = groups_.find(found->second);
  all_.erase(found);
  group->second.listeners.erase(number);
  if (!group->second.listeners.empty()) return;
  by_end_.erase({group->second.end, group->first});
  groups_.erase(group);
}

void WaitingCalls::Look(const Standing* standing) {
  {
    base::MutexLock lock(&mutex_);
    const auto found = groups_.find(standing);
    if (found == groups_.end()) return;
    by_end_.erase({found->second.end, standing});
    found->second.end = standing->end();
    by_end_.emplace(found->second.end, standing);
  }
  Tick();
}

void WaitingCalls::Tick() {
  std::vector<std::pair<Listener, absl::Status>> ended;
  {
    base::MutexLock lock(&mutex_);
    TakeEnded(clock_->Wall(), &ended);
  }
  for (const auto& [listener, why] : ended) listener(why);
}

void WaitingCalls::TakeEnded(absl::Time now, std::vector<std::pair<Listener, absl::Status>>* ended) {
  while (!by_end_.empty() && by_end_.begin()->first <= now) {
    const Standing* const key = by_end_.begin()->second;
    by_end_.erase(by_end_.begin());
    Group& group = groups_.at(key);
    const absl::Status why = group.standing->Check(now);
    if (why.ok()) {  // The end was moved; a later Look handles it.
      group.end = group.standing->end();
      by_end_.emplace(group.end, key);
      continue;
    }
    for (auto& [number, listener] : group.listeners) {
      ended->emplace_back(std::move(listener), why);
      all_.erase(number);
    }
    groups_.erase(key);
  }
}

size_t WaitingCalls::size() const {
  base::MutexLock lock(&mutex_);
  return all_.size();
}

void WaitingCalls::Loop() {
  base::MutexLock lock(&mutex_);
  while (!stopping_) {
    if (groups_.empty()) {
      changed_.Wait(&mutex_);
      continue;
    }
    changed_.WaitFor(&mutex_, tick_);
    mutex_.Unlock();
    Tick();
    mutex_.Lock();
  }
}

}  // namespace luthier::access
