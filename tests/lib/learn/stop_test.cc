// Where work is given up once asked to, how much of it there is between two looks at the flag, and that whoever goes on
// gets the same bits.
#include "lib/learn/stop.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <memory>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/learn/checkpoint.h"
#include "lib/learn/linear_trainer.h"
#include "lib/learn/logistic.h"
#include "lib/learn/readers.h"
#include "lib/learn/split.h"
#include "lib/learn/trainer.h"
#include "tests/lib/learn/linear_testing.h"
#include "tests/lib/learn/look_meter.h"

namespace luthier::learn {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::LookMeter;
using Kind = MarginLoss::Kind;

TEST(PaceTest, LooksOnceAtFirstAndThenOnceInSoManyOperations) {
  const std::atomic<bool> stop = false;
  LookMeter meter([] {});
  Pace pace(&stop);
  EXPECT_FALSE(pace.Stopped(1));
  EXPECT_EQ(meter.looks(), 1);
  for (int64_t k = 1; k < Pace::kOperations; ++k) pace.Stopped(1);
  EXPECT_EQ(meter.looks(), 1);
  pace.Stopped(1);
  EXPECT_EQ(meter.looks(), 2);
  EXPECT_EQ(meter.operations(), Pace::kOperations);
  // What is more than that by itself is looked at before and after.
  pace.Stopped(5 * Pace::kOperations);
  pace.Stopped(1);
  EXPECT_EQ(meter.looks(), 4);
  EXPECT_EQ(meter.most(), 5 * Pace::kOperations);
}

TEST(PaceTest, PiecesAreAllOfItAndEndWhereAsked) {
  std::atomic<bool> stop = false;
  LookMeter meter([&] { stop = true; });
  for (const int64_t count : {int64_t{0}, int64_t{1}, Pace::kOperations / 3, 5 * Pace::kOperations / 3 + 7}) {
    int64_t next = 0;
    EXPECT_TRUE(InPieces(count, 3, &stop, [&](int64_t begin, int64_t end) {
      EXPECT_EQ(begin, next);
      EXPECT_LE(3 * (end - begin), Pace::kOperations);
      next = end;
    }));
    EXPECT_EQ(next, count);
  }
  meter.Restart(3);
  int pieces = 0;
  EXPECT_FALSE(InPieces(5 * Pace::kOperations, 1, &stop, [&](int64_t, int64_t) { ++pieces; }));
  EXPECT_EQ(pieces, 2);
}

TEST(PaceTest, VectorsAreFilledCopiedAndGrownAsTheyWouldBeAtOnce) {
  std::atomic<bool> stop = false;
  const size_t count = static_cast<size_t>(Pace::kOperations) * 2 + 5;
  std::vector<int32_t> filled, copied, grown;
  EXPECT_TRUE(FillInPieces(count, 7, &stop, &filled));
  EXPECT_EQ(filled, std::vector<int32_t>(count, 7));
  for (size_t k = 0; k < count; ++k) {
    ASSERT_TRUE(MakeRoom(1, &stop, &grown));
    grown.push_back(static_cast<int32_t>(k));
  }
  const std::string shifted = "x" + std::string(reinterpret_cast<const char*>(grown.data()), count * sizeof(int32_t));
  EXPECT_TRUE(CopyInPieces(shifted.data() + 1, count, &stop, &copied));
  EXPECT_EQ(copied, grown);
  std::vector<int32_t> shuffled = grown, expected = grown;
  base::RandomStream once(3, "test.shuffle"), again(3, "test.shuffle");
  once.Shuffle(expected);
  EXPECT_TRUE(ShuffleInPieces(&stop, again, &shuffled));
  EXPECT_EQ(shuffled, expected);
  stop = true;
  EXPECT_FALSE(ShuffleInPieces(&stop, again, &shuffled));
  EXPECT_FALSE(FillInPieces(count, 7, &stop, &filled));
  EXPECT_FALSE(CopyInPieces(shifted.data() + 1, count, &stop, &copied));
  EXPECT_TRUE(MakeRoom(copied.capacity() - copied.size(), &stop, &copied));
  EXPECT_FALSE(MakeRoom(2 * count, &stop, &grown));
  EXPECT_EQ(grown.size(), count);
}

// Two or three pieces a pass, and rows that are no divisor of one.
Dataset SomeData(int classes = 2) {
  SynthSpec spec;
  spec.rows = 4001;
  spec.cols = 60;
  spec.classes = classes;
  spec.density = 0.9;
  spec.noise = 0.1;
  spec.seed = 31;
  return Synthesize(spec).value();
}

struct Problem {
  explicit Problem(Bias bias, Kind kind = Kind::kLogistic)
      : dataset(SomeData()),
        rows(AllRows(dataset)),
        data(dataset, rows, FitStandardization(dataset.x, rows), bias),
        problem(&data, MarginLoss{kind, 0.5}, 1.0) {}
  const Dataset dataset;
  const std::vector<int32_t> rows;
  const LinearData data;
  const LinearProblem problem;
};

// Of `run`, which goes over the data `times` times: as many operations between looks as that, no more than a piece and
// a row at once, and none at all once the flag was seen, at whichever look.
template <typename F>
void CheckPace(const char* what, double operations, int64_t row, F&& run) {
  std::atomic<bool> stop = false;
  LookMeter meter([&] { stop = true; });
  run(&stop);
  const int64_t looks = meter.looks();
  EXPECT_LE(meter.most(), Pace::kOperations + row) << what;
  // What comes after the last look of a loop is not counted.
  EXPECT_GE(static_cast<double>(meter.operations()), 0.5 * operations) << what;
  EXPECT_GE(static_cast<double>(looks), 0.9 * operations / static_cast<double>(Pace::kOperations + row)) << what;
  for (int64_t at = 1; at <= looks; at += 1 + looks / 8) {
    meter.Restart(at);
    run(&stop);
    EXPECT_TRUE(stop) << what << " " << at;
    EXPECT_EQ(meter.after(), 0) << what << " " << at;
    EXPECT_LE(meter.looks() - at, 6) << what << " " << at;
    stop = false;
  }
}

TEST(StopTest, EverythingThatGoesOverTheRowsOfTwoClassesLooksOften) {
  const Problem p(Bias::kFree);
  const auto pass = static_cast<double>(p.data.nonzeros());
  const VectorXd w = VectorXd::Constant(p.data.dim(), 0.01);
  VectorXd gradient, curvature;
  p.problem.Value(w, &gradient, &curvature);
  const VectorXd r = VectorXd::Constant(p.data.rows(), 0.5);
  const int64_t row = 3 * (60 + LinearData::kRowWork);
  CheckPace("layout", 3.0 * pass, row, [&](const std::atomic<bool>* stop) {
    LinearData(p.dataset, p.rows, FitStandardization(p.dataset.x, p.rows), Bias::kFree, stop);
  });
  CheckPace("standardization", 2.0 * pass, row,
            [&](const std::atomic<bool>* stop) { FitStandardization(p.dataset.x, p.rows, stop); });
  CheckPace("value", pass, row, [&](const std::atomic<bool>* stop) { p.problem.Value(w, nullptr, nullptr, stop); });
  CheckPace("gradient", 2.0 * pass, row, [&](const std::atomic<bool>* stop) {
    const double value = p.problem.Value(w, &gradient, &curvature, stop);
    EXPECT_EQ(std::isnan(value), stop->load());
  });
  p.problem.Value(w, &gradient, &curvature);
  CheckPace("product", 2.0 * pass, row,
            [&](const std::atomic<bool>* stop) { p.problem.HessianVector(curvature, w, stop); });
  CheckPace("diagonal", pass, row, [&](const std::atomic<bool>* stop) { p.problem.HessianDiagonal(curvature, stop); });
  CheckPace("hessian", 8.0 * 25.0 * pass, 8 * 60 * 61 / 2, [&](const std::atomic<bool>* stop) {
    const bool empty = p.problem.Hessian(curvature, stop).size() == 0;
    EXPECT_EQ(empty, stop->load());
  });
  CheckPace("correct", pass, row, [&](const std::atomic<bool>* stop) { p.data.CountCorrect(w, stop); });
  CheckPace("fingerprint", 12.0 * pass, 0, [&](const std::atomic<bool>* stop) { Fingerprint(p.dataset, stop); });
}

TEST(StopTest, EverythingThatGoesOverTheRowsOfMoreClassesLooksOften) {
  const Dataset dataset = SomeData(3);
  const std::vector<int32_t> rows = AllRows(dataset);
  const Standardization s = FitStandardization(dataset.x, rows);
  const LogisticData data(&dataset, rows, s, true);
  const double pass = 3.0 * static_cast<double>(dataset.x.nonzeros());
  const VectorXd w = VectorXd::Constant(data.dim(), 0.01);
  const int64_t row = 2 * 3 * (60 + 16);
  VectorXd gradient;
  const LogisticData::Curvature curvature = data.CurvatureAt(w);
  CheckPace("layout", pass / 3.0, row,
            [&](const std::atomic<bool>* stop) { LogisticData(&dataset, rows, s, true, stop); });
  CheckPace("loss", pass, row, [&](const std::atomic<bool>* stop) { data.Loss(w, nullptr, stop); });
  CheckPace("gradient", 2.0 * pass, row, [&](const std::atomic<bool>* stop) { data.Loss(w, &gradient, stop); });
  CheckPace("curvature", pass, row, [&](const std::atomic<bool>* stop) { data.CurvatureAt(w, stop); });
  CheckPace("product", 2.0 * pass, row, [&](const std::atomic<bool>* stop) { data.HessianVector(curvature, w, stop); });
  CheckPace("diagonal", pass, row, [&](const std::atomic<bool>* stop) { data.HessianDiagonal(curvature, stop); });
  CheckPace("correct", pass, row, [&](const std::atomic<bool>* stop) { data.CountCorrect(w, stop); });
}

TEST(StopTest, WhatMakesAndSplitsRowsLooksOften) {
  SynthSpec spec;
  spec.rows = 40'000;
  spec.cols = 5;
  const Dataset dataset = Synthesize(spec).value();
  const double rows = static_cast<double>(dataset.x.rows);
  const auto cancelled = [](const absl::Status& status, const std::atomic<bool>* stop) {
    EXPECT_EQ(status.ok(), !*stop);
    EXPECT_EQ(absl::IsCancelled(status), stop->load());
  };
  CheckPace("synth", 5.0 * 32.0 * rows, 64,
            [&](const std::atomic<bool>* stop) { cancelled(Synthesize(spec, stop).status(), stop); });
  CheckPace("images", 3000.0 * 64.0 * 32.0, 64 * 32, [&](const std::atomic<bool>* stop) {
    cancelled(SynthesizeRows("synth:images?rows=3000&side=8", stop).status(), stop);
  });
  CheckPace("validation", 8.0 * rows, 8, [&](const std::atomic<bool>* stop) {
    cancelled(SplitValidation(dataset.label, 2, 0.3, 5, stop).status(), stop);
  });
  CheckPace("folds", 8.0 * rows, 8,
            [&](const std::atomic<bool>* stop) { cancelled(SplitFolds(dataset.label, 2, 3, 5, stop).status(), stop); });
  for (const char* name : {"12", "no number"}) {
    std::vector<std::string> labels(static_cast<size_t>(dataset.x.rows), name);
    labels[3] = "13";
    CheckPace("labels", 128.0 * rows, 64, [&](const std::atomic<bool>* stop) {
      Dataset named;
      cancelled(AssignClasses(labels, &named, stop), stop);
    });
  }
}

// A line may be as long as a file.
TEST(StopTest, LongLinesAreLookedAtInside) {
  std::string libsvm = "1", csv = "1";
  for (int j = 1; j <= 20'000; ++j) {
    libsvm += absl::StrCat(" ", j, ":0.5");
    csv += ",0.5";
  }
  const std::string twice[] = {libsvm + "\n0" + libsvm.substr(1) + "\n", csv + "\n0" + csv.substr(1) + "\n"};
  for (const std::string& text : twice) {
    const bool is_csv = text[1] == ',';
    CheckPace(is_csv ? "csv" : "libsvm", 2.0 * 20'000.0 * 64.0, 128, [&](const std::atomic<bool>* stop) {
      ReadOptions options;
      options.limits.stop = stop;
      LineReader lines(BytesOf(text), "a", options.limits);
      const absl::StatusOr<RawRows> rows = is_csv ? ReadCsv(lines, options, nullptr) : ReadLibsvm(lines, nullptr);
      EXPECT_EQ(rows.ok(), !*stop);
      EXPECT_EQ(absl::IsCancelled(rows.status()), stop->load());
    });
  }
}

template <typename Trainer>
std::string Bytes(const Trainer& trainer) {
  CheckpointWriter writer("test/1");
  trainer.Save(&writer, "id");
  return std::move(writer).Finish();
}

VectorXd WeightsOf(const LinearTrainer& trainer) {
  return trainer.Weights();
}
VectorXd WeightsOf(const LogisticTrainer& trainer) {
  return trainer.w();
}

// Stopped at look after look, each time through bytes; `make` gives a trainer that has not started.
template <typename Make>
void CheckTrainer(const std::string& name, int64_t row, Make&& make) {
  std::atomic<bool> stop = false;
  LookMeter meter([&] { stop = true; });
  auto straight = make();
  while (straight->Advance(&stop) == TrainOutcome::kRunning) continue;
  const int64_t looks = meter.looks();
  EXPECT_LE(meter.most(), Pace::kOperations + row) << name;
  base::RandomStream random(11, "test.stop");  // Of this name and these seeds in every run.
  for (int run = 0; run < 4; ++run) {
    // Work that is given up is done again: from some look on it must get through.
    const auto next = [&] { return 1 + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(looks))); };
    int64_t at = run == 0 ? 1 : next();
    meter.Restart(at);
    auto trainer = make();
    int stops = 0;
    while (true) {
      const TrainOutcome outcome = trainer->Advance(&stop);
      if (stop) {
        EXPECT_EQ(meter.after(), 0) << name;
        EXPECT_LE(meter.looks() - at, 8) << name << " " << at;
        stop = false;
        ++stops;
        meter.Restart(at = next());
        const std::string bytes = Bytes(*trainer);
        CheckpointReader reader = CheckpointReader::Open(bytes, "test/1").value();
        trainer = make();
        ASSERT_TRUE(trainer->Load(&reader, "id").ok()) << name;
        ASSERT_TRUE(reader.Done());
      } else {
        ASSERT_NE(outcome, TrainOutcome::kStopped);
      }
      if (outcome != TrainOutcome::kRunning && outcome != TrainOutcome::kStopped) break;
    }
    EXPECT_GE(stops, 1) << name;
    EXPECT_EQ(trainer->outcome(), straight->outcome()) << name;
    EXPECT_EQ(WeightsOf(*trainer), WeightsOf(*straight)) << name;
    EXPECT_EQ(trainer->passes(), straight->passes()) << name;
    EXPECT_EQ(trainer->iteration(), straight->iteration()) << name;
  }
}

TEST(StopTest, EachSolverStopsAtAnyLookAndGoesOnToTheSameBits) {
  for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
    const Problem p(Bias::kPenalized, kind);
    for (int form = 0; form < 9; ++form) {
      for (const bool warm : {false, true}) {
        if (warm && form > 4) continue;
        LinearTrainOptions options;
        options.solver = static_cast<LinearSolver>(std::min(form, 4));
        options.tolerance = 1e-5;
        options.max_iterations =
            options.solver == LinearSolver::kNewtonCholesky ? 3 : 18;  // The dual begins anew at 16.
        if (form == 5) options.svrg.batch = SvrgOptions::Batch::kMixed;
        if (form == 6) options.svrg.sampling = SvrgOptions::Sampling::kLipschitz;
        if (form == 7) options.svrg.skip = SvrgOptions::Skip::kAfterThree;
        if (form == 8) options.svrg.random_iterate = true;
        const std::string name =
            absl::StrCat(LinearSolverNames()[std::min(form, 4)], " ", form, " ", warm, " ", static_cast<int>(kind));
        CheckTrainer(name, 61 * 64 * 64, [&] {
          auto trainer = std::make_unique<LinearTrainer>(LinearTrainer::Create(&p.problem, options).value());
          if (warm) trainer->WarmStart(VectorXd::Constant(p.data.dim(), 0.01));
          return trainer;
        });
      }
    }
  }
}

TEST(StopTest, SoDoThoseOfMoreClasses) {
  const Dataset dataset = SomeData(3);
  const std::vector<int32_t> rows = AllRows(dataset);
  const LogisticData data(&dataset, rows, FitStandardization(dataset.x, rows), true);
  const LogisticProblem problem(&data, 1.0);
  for (const Solver solver : {Solver::kLbfgs, Solver::kNewtonCg}) {
    for (const bool warm : {false, true}) {
      CheckTrainer(solver == Solver::kLbfgs ? "lbfgs" : "newton_cg", 2 * 3 * (60 + 16), [&] {
        TrainOptions options;
        options.solver = solver;
        options.tolerance = 1e-4;
        options.max_iterations = 6;
        auto trainer = std::make_unique<LogisticTrainer>(&problem, options);
        if (warm) trainer->WarmStart(VectorXd::Constant(data.dim(), 0.01));
        return trainer;
      });
    }
  }
}

// As Eigen does it, without pieces.
TEST(StopTest, AFactorByPiecesHasTheBitsOfOneAtOnce) {
  for (const int32_t cols : {3, 63, 65, 130, 311}) {
    SynthSpec spec;
    spec.rows = 400;
    spec.cols = cols;
    const Dataset dataset = Synthesize(spec).value();
    const std::vector<int32_t> rows = AllRows(dataset);
    const LinearData data(dataset, rows, Standardization(), Bias::kPenalized);
    const LinearProblem problem(&data, MarginLoss{Kind::kLogistic, 0.5}, 2.0);
    LinearFunction function(&problem, true);
    const VectorXd w = VectorXd::Constant(data.dim(), 0.02);
    VectorXd gradient, curvature;
    problem.Value(w, &gradient, &curvature);
    function.SetPoint(w, nullptr);
    const VectorXd x = function.SolveHessian(gradient, nullptr);
    MatrixXd factor = problem.Hessian(curvature, nullptr);
    const Eigen::Index n = factor.rows();
    for (Eigen::Index k = 0; k < n; k += 64) {
      const Eigen::Index width = std::min<Eigen::Index>(64, n - k), rest = n - k - width;
      const MatrixXd lower = Eigen::LLT<MatrixXd>(factor.block(k, k, width, width)).matrixL();
      factor.block(k, k, width, width) = lower;
      auto below = factor.block(k + width, k, rest, width);
      if (rest == 0) break;
      lower.triangularView<Eigen::Lower>().transpose().solveInPlace<Eigen::OnTheRight>(below);
      factor.bottomRightCorner(rest, rest).selfadjointView<Eigen::Lower>().rankUpdate(below, -1.0);
    }
    VectorXd expected = gradient;
    factor.triangularView<Eigen::Lower>().solveInPlace(expected);
    factor.triangularView<Eigen::Lower>().transpose().solveInPlace(expected);
    EXPECT_EQ(x, expected) << cols;
  }
}

}  // namespace
}  // namespace luthier::learn
