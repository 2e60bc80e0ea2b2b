// The least that Bayesian optimization must do, at every build: the full comparison is bench/reproduce.

#include <string>

#include "gtest/gtest.h"
#include "lib/simulate/simulate.h"

namespace luthier::simulate {
namespace {

class Baseline : public testing::TestWithParam<study::BoAcquisition> {};

TEST_P(Baseline, FindsTheEndOfRosenbrocksValleyWithin200Evaluations) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    study::BoOptions bo = study::BoDefaults(study::BoPreset::kBo);
    bo.acquisition = GetParam();
    SimulateOptions options;
    options.algorithm = bo;
    options.problem = TestProblem("rosenbrock2").value();
    options.evaluations = 200;
    options.first_seed = seed;
    double regret = 1.0;
    ASSERT_TRUE(Simulate(
                    options, [] { return absl::ZeroDuration(); },
                    [&](const Row& row) {
                      regret = row.regret.value_or(1.0);
                      return regret > 1e-3;
                    })
                    .ok());
    EXPECT_LE(regret, 1e-3) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Acquisitions, Baseline,
                         testing::Values(study::BoAcquisition::kEi, study::BoAcquisition::kLogEi), [](const auto& p) {
                           return std::string(p.param == study::BoAcquisition::kEi ? "Ei" : "LogEi");
                         });

}  // namespace
}  // namespace luthier::simulate
