#ifndef LUTHIER_LIB_BASE_STOP_TOKEN_H_
#define LUTHIER_LIB_BASE_STOP_TOKEN_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "lib/base/status_macros.h"

// The one way to stop work that may take long. The owner of the work raises a StopSource; the work asks its StopToken.
//
//   absl::StatusOr<double> Sum(const Rows& rows, const base::StopToken& stop) {
//     double sum = 0.0;
//     for (const Row& row : rows) {
//       LUTHIER_RETURN_IF_ERROR(stop.Poll());
//       sum += row.value;
//     }
//     return sum;
//   }
//
// Every function that can be stopped keeps these rules:
//  - It takes `const base::StopToken& stop` and returns absl::Status or absl::StatusOr.
//  - Once it sees the stop it returns what Poll said, CANCELLED, and nothing else is a sign of a stop: no empty result,
//    no NaN, no value of an enum. Arguments that it fills have no meaning then.
//  - A class that works by iterations gives up the one that was interrupted and is as before it. It may be called again
//    with another token, and then does what it would have done without the stop, bit for bit.
//  - Loops that cannot return a status (kernels, the tasks of a Team) ask stop_requested(), and whoever started them
//    returns CANCELLED.
// pace.h has loops that poll as often as the work calls for.
namespace luthier::base {

// Hook that only tests define: it counts the polls of this thread, and may raise the stop at one of them. `operations`:
// the operations that the caller has counted since its last poll.
[[gnu::weak]] void OnStopLook(int64_t operations);

// Returns the CANCELLED error that Poll returns once the stop is requested.
absl::Status StoppedError();

// A token asks whether its source was raised. Copies are cheap and may outlive the source. Thread-safe.
class StopToken {
 public:
  // Makes a token that never stops.
  StopToken() = default;

  bool stop_requested(int64_t operations = 0) const {
    if (state_ == nullptr) return false;
    if (OnStopLook != nullptr) OnStopLook(operations);
    return state_->requested.load(std::memory_order_relaxed);
  }
  // Returns OK, or CANCELLED once the stop is requested.
  absl::Status Poll(int64_t operations = 0) const {
    return stop_requested(operations) ? StoppedError() : absl::OkStatus();
  }
  // Waits for `duration`, or until the stop is requested. Returns true if it is.
  bool WaitFor(absl::Duration duration) const;

 private:
  friend class StopSource;
  struct State {
    std::atomic<bool> requested{false};
    mutable Mutex mutex;
    mutable CondVar changed;
  };
  explicit StopToken(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  std::shared_ptr<const State> state_;  // Null: the token never stops.
};

// Asks work to end soon, and wakes it when it waits. This cannot be taken back. Copies are of the same stop.
// Thread-safe.
class StopSource {
 public:
  StopSource() : state_(std::make_shared<StopToken::State>()) {}

  void RequestStop() const;
  bool stop_requested() const { return state_->requested.load(std::memory_order_acquire); }
  StopToken token() const { return StopToken(state_); }

 private:
  std::shared_ptr<StopToken::State> state_;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_STOP_TOKEN_H_
