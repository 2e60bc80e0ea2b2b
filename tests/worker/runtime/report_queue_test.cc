#include "worker/runtime/report_queue.h"

#include <gmock/gmock.h>

#include <vector>

namespace luthier::worker {
namespace {

using ::testing::SizeIs;

study::Measurement QueuedPoint(int64_t step, size_t gradient = 0) {
  study::Measurement m;
  m.step = step;
  m.metrics["loss"] = 1.0;
  if (gradient > 0) m.gradient = study::Gradient{std::vector<double>(gradient, 1.0), {}, 0.0, {}};
  return m;
}

TEST(ReportQueue, GoesOnWithoutGradientsOnceTheServiceTakesNoMore) {
  ReportQueue queue;
  study::Measurement m;
  m.gradient.emplace().values = {1.0, 2.0};
  queue.Add(m);
  queue.DropGradients();
  m.step = 1;
  queue.Add(m);
  const std::vector<study::Measurement> points = queue.Front();
  ASSERT_THAT(points, SizeIs(2));
  for (const study::Measurement& point : points) EXPECT_FALSE(point.gradient.has_value());
}

TEST(ReportQueue, TakesEachStepOnceUpToTheLimit) {
  ReportQueue queue;
  EXPECT_EQ(queue.Add(QueuedPoint(5)), ReportQueue::Added::kYes);
  EXPECT_EQ(queue.Add(QueuedPoint(5)), ReportQueue::Added::kRepeatedStep);
  queue.Pop(1);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Add(QueuedPoint(5)), ReportQueue::Added::kRepeatedStep) << "also after it was sent";
  for (int k = 1; k < ReportQueue::kMaxPoints; ++k)
    ASSERT_EQ(queue.Add(QueuedPoint(100 + k)), ReportQueue::Added::kYes);
  EXPECT_EQ(queue.Add(QueuedPoint(1)), ReportQueue::Added::kTooMany);
  EXPECT_THAT(queue.Front(), SizeIs(ReportQueue::kMaxBatch));
}

TEST(ReportQueue, BatchesStayBelowAMessage) {
  ReportQueue queue;
  for (int k = 0; k < 40; ++k) queue.Add(QueuedPoint(k, 10000));  // 80 KB each.
  EXPECT_THAT(queue.Front(), SizeIs(13));                         // 13 * 80,084 < 2^20
  queue.Clear();
  queue.Add(QueuedPoint(100, 200000));
  EXPECT_THAT(queue.Front(), SizeIs(1)) << "one point always goes";
}

TEST(ReportQueue, DropsTheOldestGradientsFirst) {
  ReportQueue queue;
  constexpr int kPoints = 30;  // Of 800 KB; 20 fit.
  for (int k = 0; k < kPoints; ++k) queue.Add(QueuedPoint(k, 100000));
  int with = 0;
  bool seen = false;
  for (int k = 0; k < kPoints; ++k) {
    const study::Measurement point = queue.Front().front();
    EXPECT_EQ(point.step, k);
    EXPECT_TRUE(!seen || point.gradient);
    seen = seen || point.gradient;
    with += point.gradient.has_value();
    queue.Pop(1);
  }
  EXPECT_EQ(with, 20);
}

}  // namespace
}  // namespace luthier::worker
