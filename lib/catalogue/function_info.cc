#include "lib/catalogue/function_info.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace luthier::catalogue {
namespace {

using Eigen::Index;

ParameterInfo Option(std::string name, ParameterKind kind, std::string description, double min, double max,
                     study::ParameterValue default_value) {
  ParameterInfo p;
  p.name = std::move(name);
  p.kind = kind;
  p.description = std::move(description);
  p.min = min;
  p.max = max;
  p.default_value = std::move(default_value);
  return p;
}

}  // namespace

ObjectiveInfo FunctionInfo(const TestFunction& function) {
  ObjectiveInfo info;
  info.model = absl::StrCat(kFunctionPrefix, function.name);
  info.description = function.description;
  info.details = absl::StrCat("A test function with a known minimum, ", function.minimum,
                              ", for trying algorithms and installations. No data. The gradient of `value` is exact. "
                              "With `steps` the evaluation "
                              "reports a learning curve that falls to the final value exponentially, and can be "
                              "paused at any of its points.");
  for (Index j = 0; j < function.dim(); ++j) {
    ParameterInfo p;
    p.name = absl::StrCat("x", j + 1);
    p.description = absl::StrCat("Coordinate ", j + 1, ".");
    const double width = function.upper[j] - function.lower[j];
    p.min = function.lower[j] - width;
    p.max = function.upper[j] + width;
    p.suggested_min = function.lower[j];
    p.suggested_max = function.upper[j];
    p.tunable = true;
    p.differentiable = true;
    info.parameters.push_back(std::move(p));
  }
  info.parameters.push_back(Option("noise", ParameterKind::kFloat,
                                   "Standard deviation of normal noise added to the value; the gradient stays exact.",
                                   0.0, 1e9, 0.0));
  info.parameters.push_back(
      Option("delay", ParameterKind::kFloat, "How long an evaluation takes at least.", 0.0, 86400.0, 0.0));
  info.parameters.back().units = "seconds";
  info.parameters.push_back(Option("steps", ParameterKind::kInt,
                                   "Intermediate reports before the final value, spread evenly over the delay.", 0.0,
                                   100000.0, 0.0));
  info.parameters.push_back(Option(
      "curve_spread", ParameterKind::kFloat,
      "How differently fast the curves of trials fall, so that they cross: deviation of the logarithm of the rate.",
      0.0, 3.0, 0.0));
  info.parameters.push_back(
      Option("failure_rate", ParameterKind::kFloat, "Probability that an attempt fails on purpose.", 0.0, 1.0, 0.0));
  info.parameters.push_back(Option("failure_kind", ParameterKind::kCategorical,
                                   "What such a failure says: CONFIG (the setting is bad) or INFRA (try again).", 0.0,
                                   0.0, std::string("CONFIG")));
  info.parameters.back().labels = {"CONFIG", "INFRA"};
  info.parameters.push_back(Option("seed", ParameterKind::kInt, "Seed of noise and failures, beside the trial's own.",
                                   0.0, 9007199254740992.0, 0.0));
  info.metrics.push_back({"value", study::Goal::kMinimize, "The function's value, noise included.", true});
  return info;
}

}  // namespace luthier::catalogue
