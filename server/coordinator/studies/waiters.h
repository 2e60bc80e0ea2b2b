#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_WAITERS_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_WAITERS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "server/coordinator/messages/operations.h"
#include "server/storage/storage.h"

namespace luthier::coordinator {

// An ask that was not answered yet.
struct Waiter {
  SuggestOp op;
  std::string digest;           // Digest of the request's content.
  storage::StudyKey study = 0;  // 0: any of the pool.
  std::string pool;
  storage::StudyKey counted_for = 0;  // The study whose designer computes for the ask; 0: none does.
  int64_t counted = 0;                // The part of that study's `demand` that is for the ask.
};

// The asks that wait, numbered in order of arrival. Every call costs at most the logarithm of their number.
class Waiters {
 public:
  // Numbers of asks that wait for the same, in order of arrival.
  using Queue = std::set<uint64_t>;

  // Returns the ask's number. Its request id, if it has one, must not wait yet.
  uint64_t Add(Waiter waiter);
  // Removes an ask, which must wait, and returns it.
  Waiter Take(uint64_t number);

  // Null: no such ask waits.
  Waiter* Find(uint64_t number);
  const Waiter* Find(uint64_t number) const { return const_cast<Waiters*>(this)->Find(number); }
  // Returns the number of the ask with this request id; 0: none waits.
  uint64_t FindRequest(const std::string& request_id) const;

  // Asks that name the study, and asks of any study of the pool. The reference holds until the next Add or Take.
  const Queue& Of(storage::StudyKey study) const;
  const Queue& OfPool(const std::string& pool) const;

  // Returns the numbers of the asks whose deadline has passed.
  std::vector<uint64_t> Due(absl::Duration now) const;
  // Returns the earliest deadline; InfiniteDuration if no ask waits.
  absl::Duration NextDeadline() const;
  // Returns the first asks behind `number`, at most `count`.
  std::vector<std::pair<uint64_t, const Waiter*>> Behind(uint64_t number, size_t count) const;
  size_t size() const { return all_.size(); }

 private:
  std::map<uint64_t, Waiter> all_;
  std::unordered_map<storage::StudyKey, Queue> by_study_;
  std::map<std::string, Queue> by_pool_;
  std::unordered_map<std::string, uint64_t> by_request_;
  std::set<std::pair<absl::Duration, uint64_t>> deadlines_;
  uint64_t last_ = 0;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_WAITERS_H_
