#ifndef LUTHIER_LIB_BASE_PACE_H_
#define LUTHIER_LIB_BASE_PACE_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

// Loops that poll a stop (stop_token.h) as often as their work calls for. All of them return CANCELLED once the stop is
// requested; otherwise their result is that of the plain loop.
namespace luthier::base {

// Polls the stop once at first, then every kOperations, some tenths of a millisecond, whatever the rows are. Sums are
// as if there were no pieces.
class Pace {
 public:
  static constexpr int64_t kOperations = int64_t{1} << 17;

  explicit Pace(StopToken stop) : stop_(std::move(stop)) {}

  // Call it before the next `operations`, at least one. Returns CANCELLED if the work must be given up.
  absl::Status Poll(int64_t operations) {
    left_ -= operations;
    return left_ < 0 ? Look(operations) : absl::OkStatus();
  }

 private:
  absl::Status Look(int64_t operations) {
    const int64_t done = given_ - (left_ + operations);
    given_ = kOperations;
    left_ = kOperations - operations;
    return stop_.Poll(done);
  }

  const StopToken stop_;
  int64_t given_ = 0;  // Operations that were left at the last poll.
  int64_t left_ = 0;
};

// Cost, in operations, of drawing a number, or of reading or writing at a random place.
inline constexpr int64_t kRandomAccess = 8;

// Calls work(begin, end) for pieces of [0, count) in turn. `cost`: operations for each number.
template <typename F>
absl::Status InPieces(int64_t count, int64_t cost, const StopToken& stop, F&& work) {
  const int64_t piece = std::max<int64_t>(1, Pace::kOperations / cost);
  for (int64_t begin = 0; begin < count; begin += piece) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(begin == 0 ? 0 : piece * cost));
    work(begin, std::min(count, begin + piece));
  }
  return absl::OkStatus();
}

// The system clears memory when it is first written to, which takes longer than the writing. So large vectors, too, are
// filled and copied by pieces.

// *v = std::vector<T>(count, value)
template <typename T>
absl::Status FillInPieces(size_t count, T value, const StopToken& stop, std::vector<T>* v) {
  v->clear();
  v->reserve(count);
  return InPieces(static_cast<int64_t>(count), 1, stop,
                  [&](int64_t, int64_t end) { v->resize(static_cast<size_t>(end), value); });
}

// Copies `count` numbers from `bytes`, which may be at any address.
template <typename T>
absl::Status CopyInPieces(const char* bytes, size_t count, const StopToken& stop, std::vector<T>* v) {
  v->clear();
  v->reserve(count);
  return InPieces(static_cast<int64_t>(count), 1, stop, [&](int64_t begin, int64_t end) {
    v->resize(static_cast<size_t>(end));
    std::memcpy(v->data() + begin, bytes + static_cast<size_t>(begin) * sizeof(T),
                static_cast<size_t>(end - begin) * sizeof(T));
  });
}

// Makes room for `more` at the end of a vector that grows.
template <typename T>
absl::Status MakeRoom(size_t more, const StopToken& stop, std::vector<T>* v) {
  if (v->capacity() - v->size() >= more) return absl::OkStatus();
  std::vector<T> larger;
  larger.reserve(std::max(2 * v->capacity(), v->size() + more));
  LUTHIER_RETURN_IF_ERROR(InPieces(static_cast<int64_t>(v->size()), 1, stop, [&](int64_t begin, int64_t end) {
    larger.insert(larger.end(), std::make_move_iterator(v->begin() + begin), std::make_move_iterator(v->begin() + end));
  }));
  *v = std::move(larger);
  return absl::OkStatus();
}

// random.Shuffle(*v): the same order.
template <typename T>
absl::Status ShuffleInPieces(const StopToken& stop, RandomStream& random, std::vector<T>* v) {
  Pace pace(stop);
  for (size_t k = v->size(); k > 1; --k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kRandomAccess));
    std::swap((*v)[k - 1], (*v)[random.UniformInt(k)]);
  }
  return absl::OkStatus();
}

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_PACE_H_
