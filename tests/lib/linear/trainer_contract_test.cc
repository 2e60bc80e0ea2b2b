#include "tests/contract/trainer_contract.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/linear/problem.h"
#include "lib/linear/trainer.h"
#include "tests/lib/linear/linear_testing.h"

namespace luthier::linear {
namespace {

using contract::TrainerCase;
using contract::TrainerContract;
using contract::TrainingEnd;
using Eigen::VectorXd;
using Kind = MarginLoss::Kind;

// 900 rows of two classes, and problems with them that live as long as the program.
struct Rows {
  explicit Rows(int32_t cols)
      : dataset(MakeData(900, cols, 0.5, 23)),
        rows(AllRows(dataset)),
        data(LinearData::Create(dataset, rows, luthier::data::FitStandardization(dataset.x, rows).value(),
                                Bias::kPenalized)
                 .value()) {}
  const luthier::data::Dataset dataset;
  const std::vector<int32_t> rows;
  const LinearData data;
};
const LinearProblem& Problem(Kind kind, bool other) {
  static const Rows& usual = *new Rows(7);
  static const Rows& wider = *new Rows(8);
  static const auto make = [](const Rows& rows, Kind k) {
    return new LinearProblem(&rows.data, MarginLoss{k, 0.5}, 1.0);
  };
  static const LinearProblem* const logistic[] = {make(usual, Kind::kLogistic), make(wider, Kind::kLogistic)};
  static const LinearProblem* const hinge[] = {make(usual, Kind::kHuberizedHinge), make(wider, Kind::kHuberizedHinge)};
  return *(kind == Kind::kLogistic ? logistic : hinge)[other ? 1 : 0];
}

class LinearUnderTest final : public contract::TrainerOf<LinearTrainer> {
 public:
  using TrainerOf::TrainerOf;
  void Look() override {
    trainer_.Weights();
    trainer_.DualityGap();
  }
};

struct Variant {
  std::string name;
  LinearTrainOptions options;
};

// The solvers, and what SVRG has beside.
std::vector<Variant> Variants() {
  std::vector<Variant> variants;
  for (size_t k = 0; k < LinearSolverNames().size(); ++k) {
    variants.push_back({LinearSolverNames()[k], {}});
    variants.back().options.solver = static_cast<LinearSolver>(k);
  }
  const auto add = [&](const char* name, auto&& change) {
    variants.push_back({name, {}});
    variants.back().options.solver = LinearSolver::kSvrg;
    change(variants.back().options.svrg);
  };
  add("svrg_largest", [](SvrgOptions& o) { o.step = SvrgOptions::Step::kLargest; });
  add("svrg_full", [](SvrgOptions& o) { o.batch = SvrgOptions::Batch::kFull; });
  add("svrg_mixed", [](SvrgOptions& o) { o.batch = SvrgOptions::Batch::kMixed; });
  add("svrg_random_iterate", [](SvrgOptions& o) { o.random_iterate = true; });
  add("svrg_lipschitz", [](SvrgOptions& o) { o.sampling = SvrgOptions::Sampling::kLipschitz; });
  add("svrg_skip", [](SvrgOptions& o) { o.skip = SvrgOptions::Skip::kAfterThree; });
  add("svrg_literal_skip", [](SvrgOptions& o) {
    o.skip = SvrgOptions::Skip::kLiteral;
    o.keep_slopes = false;
  });
  return variants;
}

// The optimum, by the solver that is exact.
VectorXd Optimum(const LinearProblem& problem) {
  LinearTrainOptions options;
  options.solver = LinearSolver::kNewtonCholesky;
  options.tolerance = 1e-11;
  LinearTrainer trainer = LinearTrainer::Create(&problem, options).value();
  while (trainer.Advance({}).value() == TrainOutcome::kRunning) continue;
  return trainer.Weights();
}

std::vector<TrainerCase> Cases() {
  std::vector<TrainerCase> cases;
  for (const Kind kind : {Kind::kLogistic, Kind::kHuberizedHinge}) {
    const LinearProblem& problem = Problem(kind, false);
    const VectorXd optimum = Optimum(problem);
    for (const Variant& variant : Variants()) {
      TrainerCase c;
      c.name = absl::StrCat(variant.name, kind == Kind::kLogistic ? "_logistic" : "_hinge");
      c.make = [kind, variant](bool other, const TrainingEnd& end) {
        LinearTrainOptions options = variant.options;
        options.tolerance = end.tolerance;
        options.max_iterations = end.limit;
        return std::make_unique<LinearUnderTest>(LinearTrainer::Create(&Problem(kind, other), options).value());
      };
      c.convergence = {1e-8, 3000};
      c.relative_gradient = [&problem](const VectorXd& w) {
        VectorXd at_zero, at_w;
        problem.Value(VectorXd::Zero(problem.dim()), &at_zero).value();
        problem.Value(w, &at_w).value();
        return LargestEntry(at_w, problem.data().column_scale()) / LargestEntry(at_zero, problem.data().column_scale());
      };
      c.optimum = optimum;
      cases.push_back(std::move(c));
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Linear, TrainerContract, ::testing::ValuesIn(Cases()), TrainerContract::Name);

}  // namespace
}  // namespace luthier::linear
