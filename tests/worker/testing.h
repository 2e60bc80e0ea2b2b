#ifndef LUTHIER_TESTS_WORKER_TESTING_H_
#define LUTHIER_TESTS_WORKER_TESTING_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "lib/study/study_spec.h"
#include "worker/objective.h"

namespace luthier::worker {

// A new empty directory, removed at the end.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : path_("/tmp/luthier-test-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  std::string Write(const std::string& name, const std::string& content) const {
    std::ofstream(path_ + "/" + name) << content;
    return path_ + "/" + name;
  }
  std::vector<std::string> Files() const {
    std::vector<std::string> out;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) out.push_back(entry.path().filename());
    return out;
  }

 private:
  std::string path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ostringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

// Records what a run reports. `on_report` runs on the run's thread.
class RecordingSink final : public RunSink {
 public:
  const StopSignal& stop() const override { return stop_; }
  void Report(study::Measurement measurement, std::string checkpoint) override {
    reports.push_back(std::move(measurement));
    if (!checkpoint.empty()) checkpoints.push_back(std::move(checkpoint));
    if (on_report) on_report();
  }
  void Checkpoint(std::string checkpoint) override { checkpoints.push_back(std::move(checkpoint)); }

  StopSignal stop_;
  std::vector<study::Measurement> reports;
  std::vector<std::string> checkpoints;
  std::function<void()> on_report;
};

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_WORKER_TESTING_H_
