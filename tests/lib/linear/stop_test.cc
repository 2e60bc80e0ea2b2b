// Where work is given up once asked to, how much of it there is between two looks at the stop, and that whoever goes on
// gets the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/data/readers.h"
#include "lib/data/split.h"
#include "lib/linear/logistic.h"
#include "lib/linear/trainer.h"
#include "lib/notation/synth_specs.h"
#include "tests/lib/base/look_meter.h"
#include "tests/lib/linear/linear_testing.h"

namespace luthier::linear {
namespace {

using base::Pace;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using testing::LookMeter;
using Kind = MarginLoss::Kind;

// Two or three pieces a pass, and rows that are no divisor of one.
data::Dataset SomeData(int classes = 2, double density = 0.9) {
  notation::SynthSpec spec;
  spec.rows = 4001;
  spec.cols = 60;
  spec.classes = classes;
  spec.density = density;
  spec.noise = 0.1;
  spec.seed = 31;
  return data::Synthesize(spec).value();
}

struct Problem {
  explicit Problem(Bias bias, Kind kind = Kind::kLogistic, double density = 0.9)
      : dataset(SomeData(2, density)),
        rows(AllRows(dataset)),
        data(LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), bias).value()),
        problem(&data, MarginLoss{kind, 0.5}, 1.0) {}
  const data::Dataset dataset;
  const std::vector<int32_t> rows;
  const LinearData data;
  const LinearProblem problem;
};

// Checks `run`, which does so many `operations`: it looks that often, no more than a piece and a row lies between two
// looks, and at whichever look it sees the stop, it returns CANCELLED without another one.
template <typename F>
void CheckPace(const char* what, double operations, int64_t row, F&& run) {
  base::StopSource source;
  LookMeter meter([&] { source.RequestStop(); });
  EXPECT_EQ(run(source.token()), absl::OkStatus()) << what;
  const int64_t looks = meter.looks();
  EXPECT_LE(meter.most(), Pace::kOperations + row) << what;
  // What comes after the last look of a loop is not counted.
  EXPECT_GE(static_cast<double>(meter.operations()), 0.5 * operations) << what;
  EXPECT_GE(static_cast<double>(looks), 0.9 * operations / static_cast<double>(Pace::kOperations + row)) << what;
  for (int64_t at = 1; at <= looks; at += 1 + looks / 8) {
    meter.Restart(at);
    source = base::StopSource();
    EXPECT_EQ(run(source.token()), base::StoppedError()) << what << " " << at;
    EXPECT_EQ(meter.looks(), at) << what;
  }
}

TEST(StopTest, BinaryPassesPollOften) {
  const Problem p(Bias::kFree);
  const auto pass = static_cast<double>(p.data.nonzeros());
  const VectorXd w = VectorXd::Constant(p.data.dim(), 0.01);
  VectorXd gradient, curvature;
  ASSERT_TRUE(p.problem.Value(w, &gradient, &curvature).ok());
  const VectorXd r = VectorXd::Constant(p.data.rows(), 0.5);
  const int64_t row = 3 * (60 + LinearData::kRowWork);
  CheckPace("layout", 3.0 * pass, row, [&](const base::StopToken& stop) {
    return LinearData::Create(p.dataset, p.rows, data::FitStandardization(p.dataset.x, p.rows).value(), Bias::kFree,
                              stop)
        .status();
  });
  CheckPace("standardization", 2.0 * pass, row,
            [&](const base::StopToken& stop) { return data::FitStandardization(p.dataset.x, p.rows, stop).status(); });
  CheckPace("value", pass, row,
            [&](const base::StopToken& stop) { return p.problem.Value(w, nullptr, nullptr, stop).status(); });
  CheckPace("gradient", 2.0 * pass, row,
            [&](const base::StopToken& stop) { return p.problem.Value(w, &gradient, &curvature, stop).status(); });
  ASSERT_TRUE(p.problem.Value(w, &gradient, &curvature).ok());
  CheckPace("product", 2.0 * pass, row,
            [&](const base::StopToken& stop) { return p.problem.HessianVector(curvature, w, stop).status(); });
  CheckPace("diagonal", pass, row,
            [&](const base::StopToken& stop) { return p.problem.HessianDiagonal(curvature, stop).status(); });
  // Products of matrices do eight multiplications at once; sums all over a matrix do one in the time of eight.
  CheckPace("hessian", 2.0 * 60.0 * pass / 8.0, 0,
            [&](const base::StopToken& stop) { return p.problem.Hessian(curvature, stop).status(); });
  const Problem sparse(Bias::kFree, Kind::kLogistic, 0.2);
  CheckPace("sparse hessian", 8.0 * 6.0 * static_cast<double>(sparse.data.nonzeros()), 8 * 60 * 61 / 2,
            [&](const base::StopToken& stop) { return sparse.problem.Hessian(curvature, stop).status(); });
  CheckPace("correct", pass, row, [&](const base::StopToken& stop) { return p.data.CountCorrect(w, stop).status(); });
  CheckPace("fingerprint", 12.0 * pass, 0,
            [&](const base::StopToken& stop) { return data::Fingerprint(p.dataset, stop).status(); });
}

TEST(StopTest, MulticlassPassesPollOften) {
  const data::Dataset dataset = SomeData(3);
  const std::vector<int32_t> rows = AllRows(dataset);
  const data::Standardization s = data::FitStandardization(dataset.x, rows).value();
  const LogisticData data = LogisticData::Create(&dataset, rows, s, true).value();
  const double pass = 3.0 * static_cast<double>(dataset.x.nonzeros());
  const VectorXd w = VectorXd::Constant(data.dim(), 0.01);
  const int64_t row = 2 * 3 * (60 + 16);
  VectorXd gradient;
  const LogisticData::Curvature curvature = data.CurvatureAt(w).value();
  CheckPace("layout", pass / 3.0, row,
            [&](const base::StopToken& stop) { return LogisticData::Create(&dataset, rows, s, true, stop).status(); });
  CheckPace("loss", pass, row, [&](const base::StopToken& stop) { return data.Loss(w, nullptr, stop).status(); });
  CheckPace("gradient", 2.0 * pass, row,
            [&](const base::StopToken& stop) { return data.Loss(w, &gradient, stop).status(); });
  CheckPace("curvature", pass, row, [&](const base::StopToken& stop) { return data.CurvatureAt(w, stop).status(); });
  CheckPace("product", 2.0 * pass, row,
            [&](const base::StopToken& stop) { return data.HessianVector(curvature, w, stop).status(); });
  CheckPace("diagonal", pass, row,
            [&](const base::StopToken& stop) { return data.HessianDiagonal(curvature, stop).status(); });
  CheckPace("correct", pass, row, [&](const base::StopToken& stop) { return data.CountCorrect(w, stop).status(); });
}

TEST(StopTest, GeneratorsAndSplitsPollOften) {
  notation::SynthSpec spec;
  spec.rows = 40'000;
  spec.cols = 5;
  const data::Dataset dataset = data::Synthesize(spec).value();
  const double rows = static_cast<double>(dataset.x.rows);
  CheckPace("synth", 5.0 * 32.0 * rows, 64,
            [&](const base::StopToken& stop) { return data::Synthesize(spec, stop).status(); });
  CheckPace("images", 3000.0 * 64.0 * 32.0, 64 * 32, [&](const base::StopToken& stop) {
    return data::SynthesizeRows("synth:images?rows=3000&side=8", data::Task::kClassification, stop).status();
  });
  CheckPace("validation", 8.0 * rows, 8, [&](const base::StopToken& stop) {
    return data::SplitValidation(dataset.label, 2, 0.3, 5, stop).status();
  });
  CheckPace("folds", 8.0 * rows, 8,
            [&](const base::StopToken& stop) { return data::SplitFolds(dataset.label, 2, 3, 5, stop).status(); });
  for (const char* name : {"12", "no number"}) {
    std::vector<std::string> labels(static_cast<size_t>(dataset.x.rows), name);
    labels[3] = "13";
    CheckPace("labels", 128.0 * rows, 64, [&](const base::StopToken& stop) {
      data::Dataset named;
      return data::AssignClasses(labels, &named, stop);
    });
  }
}

// A line may be as long as a file.
TEST(StopTest, ReadersPollInsideLongLines) {
  std::string libsvm = "1", csv = "1";
  for (int j = 1; j <= 20'000; ++j) {
    libsvm += absl::StrCat(" ", j, ":0.5");
    csv += ",0.5";
  }
  const std::string twice[] = {libsvm + "\n0" + libsvm.substr(1) + "\n", csv + "\n0" + csv.substr(1) + "\n"};
  for (const std::string& text : twice) {
    const bool is_csv = text[1] == ',';
    CheckPace(is_csv ? "csv" : "libsvm", 2.0 * 20'000.0 * 64.0, 128, [&](const base::StopToken& stop) {
      data::ReadOptions options;
      options.limits.stop = stop;
      data::LineReader lines(data::BytesOf(text), "a", options.limits);
      return (is_csv ? data::ReadCsv(lines, options, nullptr) : data::ReadLibsvm(lines, nullptr)).status();
    });
  }
}

template <typename Trainer>
std::string Bytes(const Trainer& trainer) {
  base::CheckpointWriter writer("test/1");
  trainer.Save(&writer, "id");
  return std::move(writer).Finish();
}

VectorXd WeightsOf(const LinearTrainer& trainer) {
  return trainer.Weights();
}

// Stopped at look after look, each time through bytes; `make` gives a trainer that has not started.
template <typename Make>
void CheckTrainer(const std::string& name, int64_t row, Make&& make) {
  base::StopSource source;
  LookMeter meter([&] { source.RequestStop(); });
  auto straight = make();
  while (straight->Advance(source.token()).value() == TrainOutcome::kRunning) continue;
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
      const absl::StatusOr<TrainOutcome> outcome = trainer->Advance(source.token());
      if (source.stop_requested()) {
        EXPECT_EQ(outcome.status(), base::StoppedError()) << name;
        EXPECT_EQ(meter.looks(), at) << name;
        source = base::StopSource();
        ++stops;
        meter.Restart(at = next());
        const std::string bytes = Bytes(*trainer);
        base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test/1").value();
        trainer = make();
        ASSERT_TRUE(trainer->Load(&reader, "id").ok()) << name;
        ASSERT_TRUE(reader.Done());
        continue;
      }
      ASSERT_TRUE(outcome.ok()) << name;
      if (*outcome != TrainOutcome::kRunning) break;
    }
    EXPECT_GE(stops, 1) << name;
    EXPECT_EQ(trainer->outcome(), straight->outcome()) << name;
    EXPECT_EQ(WeightsOf(*trainer), WeightsOf(*straight)) << name;
    EXPECT_EQ(trainer->passes(), straight->passes()) << name;
    EXPECT_EQ(trainer->iteration(), straight->iteration()) << name;
  }
}

TEST(StopTest, BinarySolversStopAtAnyPollAndResumeToTheSameBits) {
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

TEST(StopTest, MulticlassSolversStopToo) {
  const data::Dataset dataset = SomeData(3);
  const std::vector<int32_t> rows = AllRows(dataset);
  const LogisticData data =
      LogisticData::Create(&dataset, rows, data::FitStandardization(dataset.x, rows).value(), true).value();
  const LogisticProblem problem(&data, 1.0);
  for (const LinearSolver solver : {LinearSolver::kLbfgs, LinearSolver::kNewtonCg, LinearSolver::kNewtonCholesky}) {
    for (const bool warm : {false, true}) {
      const int64_t panel = data.dim() * 64 * 64;  // Of a factor.
      const bool lbfgs = solver == LinearSolver::kLbfgs;
      CheckTrainer(LinearSolverNames()[static_cast<size_t>(solver)], lbfgs ? 2 * 3 * (60 + 16) : panel, [&] {
        LinearTrainOptions options;
        options.solver = solver;
        options.tolerance = 1e-4;
        options.max_iterations = 6;
        auto trainer = std::make_unique<LinearTrainer>(LinearTrainer::Create(&problem, options).value());
        if (warm) trainer->WarmStart(VectorXd::Constant(data.dim(), 0.01));
        return trainer;
      });
    }
  }
}

// As Eigen does it, without pieces.
TEST(StopTest, APiecewiseFactorHasTheBitsOfTheWhole) {
  for (const int32_t cols : {3, 63, 65, 130, 311}) {
    notation::SynthSpec spec;
    spec.rows = 400;
    spec.cols = cols;
    const data::Dataset dataset = data::Synthesize(spec).value();
    const std::vector<int32_t> rows = AllRows(dataset);
    const LinearData data = LinearData::Create(dataset, rows, data::Standardization(), Bias::kPenalized).value();
    const LinearProblem problem(&data, MarginLoss{Kind::kLogistic, 0.5}, 2.0);
    LinearFunction function(&problem, true);
    const VectorXd w = VectorXd::Constant(data.dim(), 0.02);
    VectorXd gradient, curvature;
    ASSERT_TRUE(problem.Value(w, &gradient, &curvature).ok());
    ASSERT_TRUE(function.SetPoint(w, {}).ok());
    const VectorXd x = function.SolveHessian(gradient, {}).value();
    MatrixXd factor = problem.Hessian(curvature, {}).value();
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
}  // namespace luthier::linear
