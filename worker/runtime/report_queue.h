#ifndef LUTHIER_WORKER_RUNTIME_REPORT_QUEUE_H_
#define LUTHIER_WORKER_RUNTIME_REPORT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <vector>

#include "lib/study/measurement.h"

namespace luthier::worker {

// Points of one attempt's learning curve that wait to be sent. Training never waits for the network, and even a day
// without a coordinator costs bounded memory. Not thread-safe.
class ReportQueue {
 public:
  // Limits of the service: points an attempt, points a call.
  static constexpr int kMaxPoints = 10'000;
  static constexpr int kMaxBatch = 1'000;
  // Largest number of bytes of waiting gradients; the oldest gradients are dropped first, and their points are kept.
  static constexpr size_t kMaxGradientBytes = 16 << 20;
  // Largest number of bytes of one call, well below the 4 MiB of a message.
  static constexpr size_t kMaxBatchBytes = 1 << 20;

  enum class Added { kYes, kRepeatedStep, kTooMany };
  // Adds a point. Each step is added once: the service would refuse it with other content.
  Added Add(study::Measurement measurement);
  // `step` is the one at which the checkpoint was saved.
  void SetCheckpoint(std::string checkpoint, int64_t step) {
    checkpoint_ = std::move(checkpoint);
    checkpoint_step_ = step;
  }
  const std::string& checkpoint() const { return checkpoint_; }
  int64_t checkpoint_step() const { return checkpoint_step_; }

  bool empty() const { return points_.empty(); }
  // Returns the oldest points, as many as one call takes; they stay until Pop.
  std::vector<study::Measurement> Front() const;
  void Pop(size_t count);
  void Clear();
  // Removes the gradients of waiting points, and of later ones, which keep their values: the service accepts no more.
  void DropGradients();
  // Ends the queue: no more points are accepted.
  void Close() {
    Clear();
    closed_ = true;
  }

 private:
  std::deque<study::Measurement> points_;
  std::set<int64_t> steps_;  // All ever added.
  size_t gradient_bytes_ = 0;
  std::string checkpoint_;
  int64_t checkpoint_step_ = 0;
  bool closed_ = false;
  bool without_gradients_ = false;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_REPORT_QUEUE_H_
