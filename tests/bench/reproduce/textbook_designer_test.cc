#include "bench/reproduce/textbook_designer.h"

#include <map>
#include <string>

#include "bench/reproduce/problems.h"
#include "gtest/gtest.h"
#include "lib/study/history.h"

namespace luthier::reproduce {
namespace {

struct Outcome {
  double best = 1e300;
  std::map<std::string, int> origins;
  std::vector<study::Parameters> points;
};

Outcome Optimize(const std::string& function, const TextbookOptions& options, int evaluations, uint64_t seed = 0) {
  const Problem problem = MakeProblem(function, seed).value();
  study::StudySpec spec;
  spec.space = problem.base.space;
  spec.metric = {"value", study::Goal::kMinimize};
  spec.seed = seed;
  TextbookDesigner designer(spec, options);
  study::History history;
  Outcome outcome;
  for (int i = 0; i < evaluations; ++i) {
    const search::Suggestion s = designer.Suggest(history, static_cast<uint64_t>(i), base::StopToken()).value();
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = s.parameters;
    trial.designer_state = s.designer_state;
    history.AddStored(trial);
    const double value = problem.base.evaluate(s.parameters);
    history.Finish(i + 1, study::TrialState::kComplete, value, std::nullopt, std::nullopt);
    outcome.best = std::min(outcome.best, value);
    ++outcome.origins[s.origin];
    outcome.points.push_back(s.parameters);
  }
  return outcome;
}

TEST(TextbookDesigner, FindsBraninsMinimum) {
  EXPECT_LT(Optimize("branin", {}, 40).best - 0.39788735772973816, 1e-2);
}

TEST(TextbookDesigner, RepeatsOnlyWhereItIsLeftTo) {
  TextbookOptions options;
  EXPECT_EQ(Optimize("branin", options, 60).origins.count("repeat"), 0);
  options.replace_stuck = false;
  EXPECT_EQ(Optimize("branin", options, 60).origins.count("stuck_random"), 0);
}

TEST(TextbookDesigner, EverySwitchChangesWhereItGoes) {
  const Outcome plain = Optimize("goldstein_price", {}, 15);
  EXPECT_EQ(plain.points, Optimize("goldstein_price", {}, 15).points);
  EXPECT_NE(plain.points, Optimize("goldstein_price", {.standardize = false}, 15).points);
  EXPECT_NE(plain.points, Optimize("goldstein_price", {.constant_mean = false}, 15).points);
}

}  // namespace
}  // namespace luthier::reproduce
