#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_FUTURE_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_FUTURE_H_

#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/mutex.h"
#include "server/coordinator/writer/coordinator.h"

namespace luthier::coordinator::testing {

// An answer that another thread gives; it must come once.
template <typename Reply>
class Future {
 public:
  Done<Reply> done() {
    return [state = state_](absl::StatusOr<Reply> reply) {
      base::MutexLock lock(&state->mutex);
      LUTHIER_CHECK(!state->reply.has_value());
      state->reply = std::move(reply);
      state->changed.SignalAll();
    };
  }
  absl::StatusOr<Reply> Wait() {
    base::MutexLock lock(&state_->mutex);
    while (!state_->reply) state_->changed.Wait(&state_->mutex);
    return *state_->reply;
  }
  bool ready() {
    base::MutexLock lock(&state_->mutex);
    return state_->reply.has_value();
  }

 private:
  struct State {
    base::Mutex mutex;
    base::CondVar changed;
    std::optional<absl::StatusOr<Reply>> reply ABSL_GUARDED_BY(mutex);
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

template <typename Reply, typename Op>
Future<Reply> Send(Coordinator& coordinator, Op op, absl::Duration deadline = absl::InfiniteDuration()) {
  Future<Reply> future;
  op.done = future.done();
  coordinator.Submit(std::move(op), deadline);
  return future;
}

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_FUTURE_H_
