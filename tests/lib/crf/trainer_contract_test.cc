#include "tests/contract/trainer_contract.h"

#include <vector>

#include "lib/crf/training/trainer.h"
#include "tests/lib/crf/crf_testing.h"

namespace luthier::crf {
namespace {

using contract::TrainerCase;
using contract::TrainerContract;
using contract::TrainingEnd;
using Eigen::VectorXd;

constexpr double kL2 = 1.0;

const ChainData& Data(bool other) {
  static const ChainData& usual = *new ChainData(testing::RandomChains(8, 4, 50, 8, 12));
  static const ChainData& wider = *new ChainData(testing::RandomChains(8, 4, 50, 8, 13));
  return other ? wider : usual;
}

class ChainUnderTest final : public contract::TrainerOf<ChainTrainer> {
 public:
  using TrainerOf::TrainerOf;
  void Look() override {
    trainer_.Weights();
    trainer_.RelativeGradient({}).value();
  }
};

double RelativeGradient(const VectorXd& w) {
  ChainLoss loss(&Data(false));
  VectorXd at_zero, at_w;
  ChainProblem(&loss, kL2).Value(VectorXd::Zero(loss.dim()), &at_zero).value();
  ChainProblem(&loss, kL2).Value(w, &at_w).value();
  return at_w.lpNorm<Eigen::Infinity>() / at_zero.lpNorm<Eigen::Infinity>();
}

std::vector<TrainerCase> Cases() {
  const VectorXd optimum = testing::MinimumOf(Data(false), kL2).w;
  std::vector<TrainerCase> cases;
  for (const testing::MethodCase& one : testing::AllMethodCases()) {
    TrainerCase c;
    c.name = testing::NameOfCase({one, 0});
    c.make = [one](bool other, const TrainingEnd& end) {
      ChainTrainerOptions options;
      options.method = one.method;
      options.threads = one.threads;
      options.l1 = one.l1;
      options.average.step = stochastic::StepRule::kLmax;
      options.average.seed = 7;
      options.average.block = 10;
      options.rate = one.method == "pegasos" ? 1.0 : 0.01;
      options.max_passes = end.limit;
      options.tolerance = end.tolerance;
      return std::make_unique<ChainUnderTest>(ChainTrainer::Create(&Data(other), kL2, options).value());
    };
    // SAGA2's own steps are not foreseen within a block (block_average.h): it is near the optimum, and no nearer.
    const bool knows = !testing::IsBlind(one.method) && (one.method != "saga2" || one.threads == 1);
    if (knows && one.l1 == 0.0) {
      c.convergence = {1e-5, 3000};
      c.relative_gradient = RelativeGradient;
      c.optimum = optimum;
    }
    cases.push_back(std::move(c));
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Chains, TrainerContract, ::testing::ValuesIn(Cases()), TrainerContract::Name);

}  // namespace
}  // namespace luthier::crf
