#include "server/coordinator/studies/waiters.h"

#include "lib/base/check.h"

namespace luthier::coordinator {
namespace {

const Waiters::Queue& Empty() {
  static const auto* const empty = new Waiters::Queue();
  return *empty;
}

template <typename Map>
const Waiters::Queue& QueueOf(const Map& queues, const typename Map::key_type& key) {
  const auto found = queues.find(key);
  return found == queues.end() ? Empty() : found->second;
}

template <typename Map>
void Drop(Map& queues, const typename Map::key_type& key, uint64_t number) {
  const auto found = queues.find(key);
  found->second.erase(number);
  if (found->second.empty()) queues.erase(found);
}

}  // namespace

uint64_t Waiters::Add(Waiter waiter) {
  const uint64_t number = ++last_;
  if (waiter.study != 0)
    by_study_[waiter.study].insert(number);
  else
    by_pool_[waiter.pool].insert(number);
  if (!waiter.op.request_id.empty()) LUTHIER_CHECK(by_request_.emplace(waiter.op.request_id, number).second);
  deadlines_.emplace(waiter.op.deadline, number);
  all_.emplace_hint(all_.end(), number, std::move(waiter));
  return number;
}

Waiter Waiters::Take(uint64_t number) {
  auto node = all_.extract(number);
  LUTHIER_CHECK(!node.empty());
  Waiter& waiter = node.mapped();
  if (waiter.study != 0)
    Drop(by_study_, waiter.study, number);
  else
    Drop(by_pool_, waiter.pool, number);
  if (!waiter.op.request_id.empty()) by_request_.erase(waiter.op.request_id);
  deadlines_.erase({waiter.op.deadline, number});
  return std::move(waiter);
}

Waiter* Waiters::Find(uint64_t number) {
  const auto found = all_.find(number);
  return found == all_.end() ? nullptr : &found->second;
}

uint64_t Waiters::FindRequest(const std::string& request_id) const {
  const auto found = by_request_.find(request_id);
  return found == by_request_.end() ? 0 : found->second;
}

const Waiters::Queue& Waiters::Of(storage::StudyKey study) const {
  return QueueOf(by_study_, study);
}

const Waiters::Queue& Waiters::OfPool(const std::string& pool) const {
  return QueueOf(by_pool_, pool);
}

std::vector<uint64_t> Waiters::Due(absl::Duration now) const {
  std::vector<uint64_t> due;
  for (auto it = deadlines_.begin(); it != deadlines_.end() && it->first <= now; ++it) due.push_back(it->second);
  return due;
}

absl::Duration Waiters::NextDeadline() const {
  return deadlines_.empty() ? absl::InfiniteDuration() : deadlines_.begin()->first;
}

std::vector<std::pair<uint64_t, const Waiter*>> Waiters::Behind(uint64_t number, size_t count) const {
  std::vector<std::pair<uint64_t, const Waiter*>> asks;
  for (auto it = all_.upper_bound(number); it != all_.end() && asks.size() < count; ++it) {
    asks.emplace_back(it->first, &it->second);
  }
  return asks;
}

}  // namespace luthier::coordinator
