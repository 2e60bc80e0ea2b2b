#include "lib/linear/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <atomic>
#include <cmath>
#include <numeric>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "tests/lib/linear/linear_testing.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = MarginLoss::Kind;

LinearTrainer Make(const LinearProblem& problem, const LinearTrainOptions& options) {
  absl::StatusOr<LinearTrainer> made = LinearTrainer::Create(&problem, options);
  LUTHIER_CHECK(made.ok());
  return *std::move(made);
}

TrainOutcome RunToEnd(LinearTrainer& trainer) {
  while (trainer.Advance({}).value() == TrainOutcome::kRunning) {
  }
  return trainer.outcome();
}

std::string Bytes(const LinearTrainer& trainer) {
  base::CheckpointWriter writer("test/1");
  trainer.Save(&writer, "id");
  return std::move(writer).Finish();
}

struct Case {
  const char* name;
  LinearTrainOptions options;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const LinearSolver solver : {LinearSolver::kLbfgs, LinearSolver::kNewtonCg, LinearSolver::kNewtonCholesky,
                                    LinearSolver::kDual, LinearSolver::kSvrg}) {
    Case c{LinearSolverNames()[static_cast<size_t>(solver)].c_str(), {}};
    c.options.solver = solver;
    cases.push_back(c);
  }
  const Case base = cases.back();
  const auto add = [&](const char* name, auto&& change) {
    cases.push_back(base);
    cases.back().name = name;
    change(cases.back().options.svrg);
  };
  add("svrg 1/L", [](SvrgOptions& o) { o.step = SvrgOptions::Step::kLargest; });
  add("svrg full", [](SvrgOptions& o) { o.batch = SvrgOptions::Batch::kFull; });
  add("svrg mixed", [](SvrgOptions& o) { o.batch = SvrgOptions::Batch::kMixed; });
  add("svrg option II", [](SvrgOptions& o) { o.random_iterate = true; });
  add("svrg lipschitz", [](SvrgOptions& o) { o.sampling = SvrgOptions::Sampling::kLipschitz; });
  add("svrg skip", [](SvrgOptions& o) { o.skip = SvrgOptions::Skip::kAfterThree; });
  add("svrg literal skip", [](SvrgOptions& o) {
    o.skip = SvrgOptions::Skip::kLiteral;
    o.keep_slopes = false;
  });
  return cases;
}

TEST(LinearTrainerTest, AllSolversFindTheOptimum) {
  const data::Dataset dataset = MakeData(150, 8, 0.4, 21);
  const std::vector<int32_t> rows = AllRows(dataset);
  for (const bool standardize : {false, true}) {
    const data::Standardization s =
        standardize ? data::FitStandardization(dataset.x, rows).value() : data::Standardization();
    for (const Bias bias : {Bias::kNone, Bias::kPenalized, Bias::kFree}) {
      const LinearData data = LinearData::Create(dataset, rows, s, bias).value();
      for (const Kind kind : {Kind::kLogistic, Kind::kSquaredHinge, Kind::kHuberizedHinge}) {
        const LinearProblem problem(&data, MarginLoss{kind, 0.5}, 3.0);
        LinearTrainOptions reference;
        reference.tolerance = 1e-11;
        LinearTrainer first = Make(problem, reference);
        RunToEnd(first);
        const double optimum = problem.Value(first.Weights(), nullptr).value();
        for (Case& c : Cases()) {
          c.options.tolerance = 1e-8;
          c.options.max_iterations = 3000;
          LinearTrainer trainer = Make(problem, c.options);
          EXPECT_EQ(RunToEnd(trainer), TrainOutcome::kConverged)
              << c.name << " standardize " << standardize << " bias " << static_cast<int>(bias) << " loss "
              << static_cast<int>(kind);
          const double value = problem.Value(trainer.Weights(), nullptr).value();
          EXPECT_NEAR(value, optimum, 1e-9 * (1.0 + optimum)) << c.name;
          EXPECT_LT((trainer.Weights() - first.Weights()).norm(), 1e-4) << c.name;
          if (c.options.solver == LinearSolver::kDual && bias != Bias::kFree) {
            EXPECT_LT(trainer.DualityGap(), 1e-9 * (1.0 + optimum));
            EXPECT_GT(trainer.DualityGap(), -1e-11 * (1.0 + optimum));
          }
        }
      }
    }
  }
}

TEST(LinearTrainerTest, TheGapBoundsTheErrorAllAlong) {
  const data::Dataset dataset = MakeData(200, 10, 0.6, 22);
  const std::vector<int32_t> rows = AllRows(dataset);
  const LinearData data =
      LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), Bias::kPenalized).value();
  for (const Kind kind : {Kind::kLogistic, Kind::kSquaredHinge, Kind::kHuberizedHinge}) {
    const LinearProblem problem(&data, MarginLoss{kind, 0.2}, 0.5);
    LinearTrainOptions options;
    LinearTrainer newton = Make(problem, options);
    RunToEnd(newton);
    const double optimum = problem.Value(newton.Weights(), nullptr).value();
    options.solver = LinearSolver::kDual;
    LinearTrainer dual = Make(problem, options);
    dual.Advance({}).value();
    double first = INFINITY, last = INFINITY;
    for (int k = 0; k < 100; ++k) {
      dual.Advance({}).value();
      const double error = problem.Value(dual.Weights(), nullptr).value() - optimum;
      EXPECT_GE(dual.DualityGap(), error - 1e-9);
      const double dual_value = problem.Value(dual.Weights(), nullptr).value() - dual.DualityGap();
      EXPECT_LE(dual_value, optimum + 1e-9);
      last = dual.DualityGap();
      if (k == 0) first = last;
    }
    EXPECT_LT(last, 0.05 * first);
  }
}

// Another thread requests stops again and again, so passes are cut between any two blocks of rows; each time the state
// goes through bytes.
TEST(LinearTrainerTest, StopsInTheMiddleOfAPassAndGoesOn) {
  const data::Dataset dataset = MakeData(3000, 5, 0.8, 24);
  const std::vector<int32_t> rows = AllRows(dataset);
  const LinearData data =
      LinearData::Create(dataset, rows, data::FitStandardization(dataset.x, rows).value(), Bias::kPenalized).value();
  const LinearProblem problem(&data, MarginLoss{Kind::kHuberizedHinge, 0.5}, 1.0);
  for (Case& c : Cases()) {
    if (c.options.solver != LinearSolver::kDual && c.options.solver != LinearSolver::kSvrg) continue;
    c.options.tolerance = 0.0;
    c.options.max_iterations = 25;
    LinearTrainer straight = Make(problem, c.options);
    RunToEnd(straight);
    base::Mutex mutex;
    base::StopSource source;  // Guarded by mutex.
    std::atomic<bool> done{false};
    std::thread nagger([&] {
      uint64_t spins = 0;
      while (!done) {
        if (++spins % 4096 != 0) continue;
        const base::MutexLock lock(&mutex);
        source.RequestStop();
      }
    });
    std::string bytes = Bytes(Make(problem, c.options));
    while (!done) {
      LinearTrainer part = Make(problem, c.options);
      absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, "test/1");
      LUTHIER_CHECK(reader.ok());
      EXPECT_TRUE(part.Load(&*reader, "id").ok());
      base::StopToken stop;
      {
        const base::MutexLock lock(&mutex);
        source = base::StopSource();
        stop = source.token();
      }
      const absl::StatusOr<TrainOutcome> outcome = part.Advance(stop);
      bytes = Bytes(part);
      if (!outcome.ok() || *outcome == TrainOutcome::kRunning) continue;
      done = true;
      EXPECT_EQ(part.Weights(), straight.Weights()) << c.name;
    }
    nagger.join();
  }
}

// Conjugate gradients with the factor of a sample's Hessian: the same optimum, in few products though columns are
// nearly dependent, and the same bits after a resume.
TEST(LinearTrainerTest, ASampleMakesNewtonSystemsEasy) {
  data::Dataset dataset = MakeData(2000, 12, 0.7, 33);
  // The last column is next to the first.
  for (int64_t i = 0; i < dataset.x.rows; ++i) {
    const auto begin = static_cast<size_t>(dataset.x.row_start[i]);
    const auto end = static_cast<size_t>(dataset.x.row_start[i + 1]);
    if (begin == end || dataset.x.column[begin] != 0 || dataset.x.column[end - 1] != 11) continue;
    dataset.x.value[end - 1] = dataset.x.value[begin] + 1e-3 * dataset.x.value[end - 1];
  }
  for (const Bias bias : {Bias::kNone, Bias::kPenalized, Bias::kFree}) {
    const LinearData data = LinearData::Create(dataset, AllRows(dataset), {}, bias).value();
    EXPECT_EQ(SampleEvery(data), 16);
    for (const Kind kind : {Kind::kLogistic, Kind::kSquaredHinge, Kind::kHuberizedHinge}) {
      const LinearProblem problem(&data, MarginLoss{kind, 0.5}, 0.1);
      LinearTrainOptions options;
      options.tolerance = 1e-9;
      options.solver = LinearSolver::kNewtonCholesky;
      LinearTrainer direct = Make(problem, options);
      EXPECT_EQ(RunToEnd(direct), TrainOutcome::kConverged);
      options.solver = LinearSolver::kNewtonCg;
      LinearTrainer sampled = Make(problem, options);
      EXPECT_EQ(RunToEnd(sampled), TrainOutcome::kConverged);
      EXPECT_NEAR(problem.Value(sampled.Weights(), nullptr).value(), problem.Value(direct.Weights(), nullptr).value(),
                  1e-9);
      EXPECT_LT(sampled.passes(), 150.0) << static_cast<int>(kind);
      LinearTrainer half = Make(problem, options), rest = Make(problem, options);
      for (int k = 0; k < 3; ++k) half.Advance({}).value();
      const std::string bytes = Bytes(half);
      absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, "test/1");
      ASSERT_TRUE(reader.ok() && rest.Load(&*reader, "id").ok());
      RunToEnd(rest);
      EXPECT_EQ(rest.Weights(), sampled.Weights());
    }
  }
  EXPECT_EQ(SampleEvery(LinearData::Create(MakeData(100, 12, 0.7, 34), {0, 1, 2}, {}, Bias::kNone).value()), 0);
}

TEST(LinearTrainerTest, HardInputEndsWell) {
  data::Dataset dataset = MakeData(50, 4, 0.9, 27);
  const std::vector<int32_t> rows = AllRows(dataset);
  std::vector<int32_t> one_class;
  for (const int32_t i : rows) {
    if (dataset.label[i] == 1) one_class.push_back(i);
  }
  data::Dataset huge = dataset;
  for (double& v : huge.x.value) v *= 1e200;
  struct Input {
    const char* name;
    const data::Dataset* dataset;
    std::vector<int32_t> rows;
    double l2;
  };
  for (const Input& input :
       {Input{"one class", &dataset, one_class, 1.0}, Input{"no rows", &dataset, {}, 1.0},
        Input{"one row", &dataset, {3}, 1.0}, Input{"small penalty", &dataset, rows, 1e-10},
        Input{"hardly a penalty", &dataset, rows, 1e-300}, Input{"large penalty", &dataset, rows, 1e300},
        Input{"huge values", &huge, rows, 1.0}, Input{"no penalty", &dataset, rows, 0.0}}) {
    for (const bool standardize : {false, true}) {
      if (standardize && input.rows.empty()) continue;
      const data::Standardization s =
          standardize ? data::FitStandardization(input.dataset->x, input.rows).value() : data::Standardization();
      const LinearData data = LinearData::Create(*input.dataset, input.rows, s, Bias::kPenalized).value();
      for (const Kind kind : {Kind::kLogistic, Kind::kSquaredHinge, Kind::kHuberizedHinge}) {
        const LinearProblem problem(&data, MarginLoss{kind, 0.5}, input.l2);
        for (Case& c : Cases()) {
          c.options.max_iterations = 50;
          absl::StatusOr<LinearTrainer> trainer = LinearTrainer::Create(&problem, c.options);
          if (!trainer.ok()) {
            EXPECT_EQ(input.l2, 0.0) << trainer.status();
            EXPECT_THAT(std::string(trainer.status().message()), testing::HasSubstr("needs l2 above 0"));
            continue;
          }
          const TrainOutcome outcome = RunToEnd(*trainer);
          EXPECT_TRUE(trainer->Weights().allFinite()) << input.name << " " << c.name << " " << static_cast<int>(kind);
          // Numbers beyond doubles: the outcome may be kDiverged, with the last finite weights.
          if (input.dataset == &huge || input.l2 == 1e-300) continue;
          EXPECT_NE(outcome, TrainOutcome::kDiverged) << input.name << " " << c.name << " " << static_cast<int>(kind);
        }
      }
    }
  }
}

TEST(LinearTrainerTest, DamagedCheckpointsAreRefused) {
  const data::Dataset dataset = MakeData(60, 4, 0.9, 28);
  const LinearData data = LinearData::Create(dataset, AllRows(dataset), {}, Bias::kPenalized).value();
  const LinearProblem problem(&data, MarginLoss{}, 1.0);
  for (Case& c : Cases()) {
    LinearTrainer trainer = Make(problem, c.options);
    trainer.Advance({}).value();
    trainer.Advance({}).value();
    const std::string bytes = Bytes(trainer);
    absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, "test/1");
    LinearTrainer other = Make(problem, c.options);
    EXPECT_EQ(other.Load(&*reader, "another id").code(), absl::StatusCode::kFailedPrecondition);
    // A trainer of another problem: sizes do not fit.
    const data::Dataset small = MakeData(40, 3, 0.9, 29);
    const LinearData small_data = LinearData::Create(small, AllRows(small), {}, Bias::kPenalized).value();
    const LinearProblem small_problem(&small_data, MarginLoss{}, 1.0);
    LinearTrainer misfit = Make(small_problem, c.options);
    reader = base::CheckpointReader::Open(bytes, "test/1");
    EXPECT_EQ(misfit.Load(&*reader, "id").code(), absl::StatusCode::kDataLoss) << c.name;
  }
}

// Two columns, one of them very far out: refused before any vector of them is made.
TEST(LinearTrainerTest, VectorsArePlannedBeforeTheyAreTaken) {
  data::Dataset dataset;
  dataset.x.rows = 2;
  dataset.x.cols = 1 << 20;
  dataset.x.row_start = {0, 1, 2};
  dataset.x.column = {0, (1 << 20) - 1};
  dataset.x.value = {1.0, 1.0};
  dataset.label = {0, 1};
  dataset.classes = {"0", "1"};
  const LinearData data = LinearData::Create(dataset, {0, 1}, data::Standardization(), Bias::kNone).value();
  const LinearProblem problem(&data, MarginLoss(), 1.0);
  LinearTrainOptions options;
  options.max_memory_bytes = int64_t{100} << 20;
  const absl::Status status = LinearTrainer::Create(&problem, options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("solver lbfgs would need 240 MiB for vectors of 1048576 weights"),
                    HasSubstr("the limit is 100 MiB")));
  options.solver = LinearSolver::kDual;
  EXPECT_TRUE(LinearTrainer::Create(&problem, options).ok());
  options.max_memory_bytes = 1 << 20;
  EXPECT_EQ(LinearTrainer::Create(&problem, options).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(CheckVectors(LinearSolver::kLbfgs, int64_t{1} << 60, int64_t{1} << 40).code(),
            absl::StatusCode::kResourceExhausted);
}

TEST(LinearTrainerTest, TheChoiceSaysWhy) {
  const data::Dataset narrow = MakeData(500, 10, 0.5, 30);
  const LinearData free_bias = LinearData::Create(narrow, AllRows(narrow), {}, Bias::kFree).value();
  const SolverChoice narrow_choice = ChooseSolver(LinearProblem(&free_bias, MarginLoss{}, 1.0));
  EXPECT_EQ(narrow_choice.solver, LinearSolver::kLbfgs);
  EXPECT_THAT(narrow_choice.reason,
              AllOf(HasSubstr("500 rows, 10 columns, 5 entries a row, l2 1; estimated passes: lbfgs "),
                    HasSubstr(", newton_cholesky ")));
  const data::Dataset thin = MakeData(700, 60, 0.08, 30);
  const LinearData thin_data = LinearData::Create(thin, AllRows(thin), {}, Bias::kFree).value();
  EXPECT_EQ(ChooseSolver(LinearProblem(&thin_data, MarginLoss{}, 1.0)).solver, LinearSolver::kNewtonCholesky);
  const data::Dataset wide = MakeData(300, 5000, 0.01, 31);
  const LinearData text = LinearData::Create(wide, AllRows(wide), {}, Bias::kPenalized).value();
  EXPECT_EQ(ChooseSolver(LinearProblem(&text, MarginLoss{}, 1.0)).solver, LinearSolver::kDual);
  const LinearData free_text = LinearData::Create(wide, AllRows(wide), {}, Bias::kFree).value();
  EXPECT_EQ(ChooseSolver(LinearProblem(&free_text, MarginLoss{}, 1.0)).solver, LinearSolver::kDual);
}

}  // namespace
}  // namespace luthier::linear
