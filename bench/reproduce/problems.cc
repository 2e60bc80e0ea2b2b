#include "bench/reproduce/problems.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/reproduce/logistic_tuning.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/test_functions.h"
#include "lib/study/encoding.h"
#ifdef LUTHIER_HAVE_BOX2D
#include "bench/reproduce/robot_push.h"
#endif

namespace luthier::reproduce {
namespace {

using study::FloatRange;
using study::Scale;

constexpr uint64_t kDataSeed = 1;
constexpr int kAdditiveDim = 32;

double Number(const study::Parameters& values, const char* name) {
  return std::get<double>(values.at(name));
}

study::ParameterSpec Range(const char* name, double min, double max, Scale scale = Scale::kLinear) {
  study::ParameterSpec parameter;
  parameter.name = name;
  parameter.domain = FloatRange{min, max, scale, std::nullopt};
  return parameter;
}

absl::StatusOr<Problem> Logistic(absl::string_view name) {
  const Scale scale = name == "logistic_log" ? Scale::kLog : Scale::kLinear;
  study::ParameterSpec passes;
  passes.name = "passes";
  passes.domain = study::IntRange{2, 15, 1, Scale::kLinear};
  Problem problem;
  problem.base.name = std::string(name);
  LUTHIER_ASSIGN_OR_RETURN(problem.base.space, study::SearchSpace::Create({Range("l2", 1e-7, 0.9, scale),
                                                                           Range("step", 1e-7, 0.05, scale), passes}));
  problem.base.evaluate = [task = std::make_shared<LogisticTuning>(kDataSeed)](const study::Parameters& values) {
    return task->TestLoss(Number(values, "l2"), Number(values, "step"), static_cast<int>(Number(values, "passes")));
  };
  return problem;
}

absl::StatusOr<Problem> Additive(absl::string_view name, uint64_t seed) {
  std::vector<study::ParameterSpec> parameters;
  base::RandomStream random(seed, "reproduce/additive");
  Eigen::VectorXd minimizer(kAdditiveDim);
  for (int j = 0; j < kAdditiveDim; ++j) {
    parameters.push_back(Range(absl::StrCat("x", j + 1).c_str(), 0.0, 1.0));
    minimizer(j) = random.Uniform();
  }
  Problem problem;
  problem.base.name = std::string(name);
  LUTHIER_ASSIGN_OR_RETURN(problem.base.space, study::SearchSpace::Create(std::move(parameters)));
  problem.base.optimum = 0.0;
  problem.base.evaluate = [minimizer](const study::Parameters& values) {
    double sum = 0.0;
    for (int j = 0; j < kAdditiveDim; ++j)
      sum += std::pow(Number(values, absl::StrCat("x", j + 1).c_str()) - minimizer(j), 2);
    return sum;
  };
  return problem;
}

#ifdef LUTHIER_HAVE_BOX2D
absl::StatusOr<Problem> Robot(absl::string_view name, uint64_t seed) {
  const bool with_angle = name == "robot4";
  std::vector<study::ParameterSpec> parameters = {Range("x", -5.0, 5.0), Range("y", -5.0, 5.0),
                                                  Range("duration", 1.0, 30.0)};
  if (with_angle) parameters.push_back(Range("angle", 0.0, 2.0 * std::numbers::pi));
  Problem problem;
  problem.base.name = std::string(name);
  LUTHIER_ASSIGN_OR_RETURN(problem.base.space, study::SearchSpace::Create(std::move(parameters)));
  problem.base.optimum = 0.0;  // No distance is smaller; whether it can be reached is not known.
  base::RandomStream random(seed, "reproduce/goal");
  const double goal_x = 10.0 * random.Uniform() - 5.0, goal_y = 10.0 * random.Uniform() - 5.0;
  problem.base.evaluate = [with_angle, goal_x, goal_y](const study::Parameters& v) {
    const double x = Number(v, "x"), y = Number(v, "y"), duration = Number(v, "duration");
    const PushOutcome end = Simulate(with_angle ? Push4(x, y, duration, Number(v, "angle")) : Push3(x, y, duration));
    return std::hypot(end.disc[0] - goal_x, end.disc[1] - goal_y);
  };
  return problem;
}
#endif

absl::StatusOr<Problem> MakeWithoutDefaults(absl::string_view name, uint64_t seed) {
  if (name == "logistic" || name == "logistic_log") return Logistic(name);
  if (name == "additive32") return Additive(name, seed);
#ifdef LUTHIER_HAVE_BOX2D
  if (name == "robot3" || name == "robot4") return Robot(name, seed);
#endif
  Problem problem;
  LUTHIER_ASSIGN_OR_RETURN(problem.base, simulate::TestProblem(name));
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::TestFunction* function, catalogue::FindTestFunction(name));
  problem.lipschitz = function->lipschitz_unit;
  problem.gradient = [function](const study::Parameters& values) {
    Eigen::VectorXd x(function->dim()), gradient;
    for (Eigen::Index j = 0; j < x.size(); ++j) x(j) = std::get<double>(values.at(absl::StrCat("x", j + 1)));
    (*function)(x, &gradient);
    return std::vector<double>(gradient.data(), gradient.data() + gradient.size());
  };
  return problem;
}

}  // namespace

std::vector<std::string> TestFunctionNames() {
  std::vector<const catalogue::TestFunction*> functions;
  for (const catalogue::TestFunction& f : catalogue::TestFunctions()) functions.push_back(&f);
  std::stable_sort(functions.begin(), functions.end(), [](auto* a, auto* b) { return a->dim() < b->dim(); });
  std::vector<std::string> names;
  for (const catalogue::TestFunction* f : functions) names.push_back(f->name);
  return names;
}

std::vector<std::string> TaskNames() {
#ifdef LUTHIER_HAVE_BOX2D
  return {"robot3", "robot4", "logistic", "logistic_log", "additive32"};
#else
  return {"logistic", "logistic_log", "additive32"};
#endif
}

absl::StatusOr<Problem> MakeProblem(absl::string_view name, uint64_t seed) {
  LUTHIER_ASSIGN_OR_RETURN(Problem problem, MakeWithoutDefaults(name, seed));
  base::RandomStream random(seed, "reproduce/first");
  const study::Parameters first = study::Encoding(problem.base.space).Sample(random);
  std::vector<study::ParameterSpec> parameters = problem.base.space.parameters();
  for (study::ParameterSpec& parameter : parameters) parameter.default_value = first.at(parameter.name);
  LUTHIER_ASSIGN_OR_RETURN(problem.base.space, study::SearchSpace::Create(std::move(parameters)));
  return problem;
}

}  // namespace luthier::reproduce
