#include "worker/runtime/report_queue.h"

#include <utility>

#include "lib/study/gradients.h"

namespace luthier::worker {
namespace {

size_t BytesOfGradients(const study::Measurement& m) {
  return static_cast<size_t>(study::GradientBytes(m));
}

size_t Bytes(const study::Measurement& m) {
  size_t bytes = 64 + BytesOfGradients(m);
  for (const auto& [name, value] : m.metrics) bytes += name.size() + 16;
  return bytes;
}

}  // namespace

ReportQueue::Added ReportQueue::Add(study::Measurement measurement) {
  if (closed_ || steps_.size() >= kMaxPoints) return Added::kTooMany;
  if (!steps_.insert(measurement.step).second) return Added::kRepeatedStep;
  if (without_gradients_) study::ClearGradients(&measurement);
  gradient_bytes_ += BytesOfGradients(measurement);
  points_.push_back(std::move(measurement));
  for (study::Measurement& oldest : points_) {
    if (gradient_bytes_ <= kMaxGradientBytes) break;
    gradient_bytes_ -= BytesOfGradients(oldest);
    study::ClearGradients(&oldest);
  }
  return Added::kYes;
}

std::vector<study::Measurement> ReportQueue::Front() const {
  std::vector<study::Measurement> batch;
  size_t bytes = 0;
  for (const study::Measurement& point : points_) {
    bytes += Bytes(point);
    if (!batch.empty() && (bytes > kMaxBatchBytes || batch.size() == kMaxBatch)) break;
    batch.push_back(point);
  }
  return batch;
}

void ReportQueue::Pop(size_t count) {
  for (; count > 0 && !points_.empty(); --count) {
    gradient_bytes_ -= BytesOfGradients(points_.front());
    points_.pop_front();
  }
}

void ReportQueue::DropGradients() {
  without_gradients_ = true;
  gradient_bytes_ = 0;
  for (study::Measurement& point : points_) study::ClearGradients(&point);
}

void ReportQueue::Clear() {
  points_.clear();
  gradient_bytes_ = 0;
}

}  // namespace luthier::worker
