// A stop of a linear trial anywhere between its lease and its result.
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "tests/lib/base/look_meter.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using testing::LookMeter;

class LinearStopTest : public ::testing::Test {
 protected:
  LinearStopTest()
      : cache_(
            data::DataCache::Open(dir_.path() + "/cache", {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000})
                .value()),
        root_(data::DataRoot::Open(dir_.path()).value()) {}

  // Rows of two or more classes, as text.
  void WriteRows(int rows, int cols, int classes) {
    base::RandomStream random(5, "test.rows");
    std::string text;
    for (int i = 0; i < rows; ++i) {
      double score = 0.0;
      for (int j = 0; j < cols; ++j) {
        const double value = random.Normal();
        if (j < 3) score += value;
        absl::StrAppend(&text, value, ",");
      }
      const int label = score + random.Normal() > 0.0 ? 1 : 0;
      absl::StrAppend(&text, i % 7 == 0 ? i % classes : label, "\n");
    }
    dir_.Write("rows.csv", text);
  }

  BuiltinObjective Spec(const std::string& solver, int folds) const {
    BuiltinObjective objective =
        Logistic({{"solver", solver}, {"report_every", 1.0}, {"max_iterations", 400.0}}, folds);
    if (solver == "dual" || solver == "svrg") objective.options["penalize_intercept"] = true;
    objective.data = "rows.csv";
    return objective;
  }

  // One attempt from the lease on, with its own process's objective; nothing: given up before there was anything to
  // save.
  struct Attempt {
    std::optional<EvaluationResult> result;
    std::string checkpoint;
  };
  Attempt Run(const BuiltinObjective& spec, const std::string& checkpoint, const base::StopSource* source,
              std::vector<Measurement>* curve) const {
    Attempt attempt;
    const absl::StatusOr<std::unique_ptr<Objective>> made =
        CreateObjective(spec, L2Space(), kLoss, &root_, &cache_, source->token());
    if (!made.ok()) {
      EXPECT_TRUE(absl::IsCancelled(made.status())) << made.status();
      return attempt;
    }
    EvaluationContext context = At({{"l2", 0.5}});
    context.stop = source->token();
    context.checkpoint = checkpoint;
    context.save_checkpoint = [&](std::string bytes) { attempt.checkpoint = std::move(bytes); };
    context.report = [&](const Measurement& m) {
      curve->push_back(m);
      return true;
    };
    attempt.result = (*made)->Evaluate(context).value();
    EXPECT_EQ(attempt.result->resumed, !checkpoint.empty());
    return attempt;
  }

  int64_t CacheFiles() const {
    int64_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path() + "/cache")) {
      EXPECT_EQ(entry.path().extension(), ".lcache") << "a half file was left behind";
      ++files;
    }
    return files;
  }

  testing::TemporaryDirectory dir_;
  const data::DataCache cache_;
  const data::DataRoot root_;
};

TEST_F(LinearStopTest, AStopAtAnyLookIsSeenAtOnceAndChangesNothing) {
  base::RandomStream random(9, "test.stop");
  for (const int classes : {2, 3}) {
    WriteRows(300, 12, classes);
    for (const char* solver : {"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
      if (classes > 2 && std::string(solver) != "lbfgs" && std::string(solver) != "newton_cg") continue;
      const int folds = std::string(solver) == "svrg" ? 0 : 2;
      const BuiltinObjective spec = Spec(solver, folds);
      const std::string name = absl::StrCat(solver, " ", classes);
      base::StopSource never;
      std::vector<Measurement> expected;
      int64_t looks = 0;
      std::optional<EvaluationResult> whole;
      {
        LookMeter meter([] {});
        whole = Run(spec, "", &never, &expected).result;
        looks = meter.looks();
      }
      ASSERT_EQ(whole->outcome, EvaluationOutcome::kComplete);
      ASSERT_TRUE(whole->measurement->gradient) << name;
      for (int k = 0; k < 24; ++k) {
        const bool cold = k % 3 == 0;  // The data are parsed, else found in the cache.
        if (cold) std::filesystem::remove_all(dir_.path() + "/cache");
        if (cold) std::filesystem::create_directory(dir_.path() + "/cache");
        const auto at = 1 + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(looks)));
        base::StopSource source;
        std::vector<Measurement> curve;
        Attempt stopped;
        {
          LookMeter meter([&] { source.RequestStop(); }, at);
          stopped = Run(spec, "", &source, &curve);
          EXPECT_EQ(meter.after(), 0) << name << " " << at;
          // With all folds, those that look once more what became of it.
          EXPECT_LE(meter.looks() - at, 16) << name << " " << at;
        }
        CacheFiles();
        if (!source.stop_requested()) continue;  // Found in the cache there is less to look at.
        ASSERT_TRUE(!stopped.result || stopped.result->outcome == EvaluationOutcome::kCancelled) << name << " " << at;
        base::StopSource again;
        const Attempt resumed = Run(spec, stopped.checkpoint, &again, &curve);
        EXPECT_EQ(*resumed.result->measurement, *whole->measurement) << name << " " << at;
        EXPECT_EQ(curve, expected) << name << " " << at;
        EXPECT_EQ(CacheFiles(), 1);
      }
    }
  }
}

}  // namespace
}  // namespace luthier::objectives
