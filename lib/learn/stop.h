#ifndef LUTHIER_LIB_LEARN_STOP_H_
#define LUTHIER_LIB_LEARN_STOP_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <utility>
#include <vector>

#include "lib/base/random.h"

// Work ends soon after it was asked to. It looks at a flag (of objectives::Cancellation, say) before each piece. Once
// the flag is set, it gives up what it was at before anything has changed, and does that again when it goes on. Flags
// may be null: never set.
namespace luthier::learn {

// Defined by tests, which count looks and raise a flag at one of them; in programs there is none. `operations`: those
// that the caller has counted since it looked last.
[[gnu::weak]] void OnStopLook(const std::atomic<bool>* stop, int64_t operations);

inline bool StopRequested(const std::atomic<bool>* stop, int64_t operations = 0) {
  if (stop == nullptr) return false;
  if (OnStopLook != nullptr) OnStopLook(stop, operations);
  return stop->load(std::memory_order_relaxed);
}

// Looks at the flag as often as the work calls for, whatever its rows are: once at first, then every kOperations, some
// tenths of a millisecond. Sums go on as if there were no pieces.
class Pace {
 public:
  static constexpr int64_t kOperations = int64_t{1} << 17;

  explicit Pace(const std::atomic<bool>* stop) : stop_(stop) {}

  // Before so many more operations, at least one: whether to give up.
  bool Stopped(int64_t operations) {
    left_ -= operations;
    return left_ < 0 && Look(operations);
  }

 private:
  bool Look(int64_t operations) {
    const int64_t done = given_ - (left_ + operations);
    given_ = kOperations;
    left_ = kOperations - operations;
    return StopRequested(stop_, done);
  }

  const std::atomic<bool>* const stop_;
  int64_t given_ = 0;  // At the last look.
  int64_t left_ = 0;
};

// Operations of drawing a number, and of reading or writing at random.
inline constexpr int64_t kRandomAccess = 8;

// work(begin, end) for pieces of [0, count) in turn, `cost` operations each number; false once `stop` is set.
template <typename F>
bool InPieces(int64_t count, int64_t cost, const std::atomic<bool>* stop, F&& work) {
  const int64_t piece = std::max<int64_t>(1, Pace::kOperations / cost);
  for (int64_t begin = 0; begin < count; begin += piece) {
    if (StopRequested(stop, begin == 0 ? 0 : piece * cost)) return false;
    work(begin, std::min(count, begin + piece));
  }
  return true;
}

// Memory is cleared by the system when it is first written to, which takes longer than the writing: so also what fills
// and copies large vectors goes by pieces. False once `stop` is set; *v is then of no use.

template <typename T>
bool FillInPieces(size_t count, T value, const std::atomic<bool>* stop, std::vector<T>* v) {
  v->clear();
  v->reserve(count);
  return InPieces(static_cast<int64_t>(count), 1, stop,
                  [&](int64_t, int64_t end) { v->resize(static_cast<size_t>(end), value); });
}

// Copies `count` numbers from `bytes`, which may be at any address.
template <typename T>
bool CopyInPieces(const char* bytes, size_t count, const std::atomic<bool>* stop, std::vector<T>* v) {
  v->clear();
  v->reserve(count);
  return InPieces(static_cast<int64_t>(count), 1, stop, [&](int64_t begin, int64_t end) {
    v->resize(static_cast<size_t>(end));
    std::memcpy(v->data() + begin, bytes + static_cast<size_t>(begin) * sizeof(T),
                static_cast<size_t>(end - begin) * sizeof(T));
  });
}

// Room for `more` at the end, of a vector that grows.
template <typename T>
bool MakeRoom(size_t more, const std::atomic<bool>* stop, std::vector<T>* v) {
  if (v->capacity() - v->size() >= more) return true;
  std::vector<T> larger;
  larger.reserve(std::max(2 * v->capacity(), v->size() + more));
  const bool whole = InPieces(static_cast<int64_t>(v->size()), 1, stop, [&](int64_t begin, int64_t end) {
    larger.insert(larger.end(), std::make_move_iterator(v->begin() + begin), std::make_move_iterator(v->begin() + end));
  });
  if (whole) *v = std::move(larger);
  return whole;
}

// random.Shuffle(*v), by pieces: the same order.
template <typename T>
bool ShuffleInPieces(const std::atomic<bool>* stop, base::RandomStream& random, std::vector<T>* v) {
  Pace pace(stop);
  for (size_t k = v->size(); k > 1; --k) {
    if (pace.Stopped(kRandomAccess)) return false;
    std::swap((*v)[k - 1], (*v)[random.UniformInt(k)]);
  }
  return true;
}

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_STOP_H_
