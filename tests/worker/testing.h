#ifndef LUTHIER_TESTS_WORKER_TESTING_H_
#define LUTHIER_TESTS_WORKER_TESTING_H_

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lib/study/study_spec.h"
#include "tests/testing/temporary_directory.h"
#include "worker/run/runner.h"

namespace luthier::worker {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::TemporaryDirectory;

inline std::string ReadFile(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Records what a run reports. The functions run on the run's thread.
class RecordingSink final : public RunSink {
 public:
  const StopSignal& stop() const override { return stop_; }
  void Report(study::Measurement measurement, std::string checkpoint) override {
    reports.push_back(std::move(measurement));
    if (!checkpoint.empty()) checkpoints.push_back(std::move(checkpoint));
    if (on_report) on_report();
  }
  void Checkpoint(std::string checkpoint) override {
    checkpoints.push_back(std::move(checkpoint));
    if (on_checkpoint) on_checkpoint();
  }
  void Started(int64_t step, const std::string& why) override {
    started.push_back(step);
    why_afresh = why;
  }

  StopSignal stop_;
  std::vector<study::Measurement> reports;
  std::vector<std::string> checkpoints;
  std::vector<int64_t> started;
  std::string why_afresh;
  std::function<void()> on_report, on_checkpoint;
};

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_TESTING_H_
