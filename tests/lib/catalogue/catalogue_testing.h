#ifndef LUTHIER_TESTS_LIB_CATALOGUE_CATALOGUE_TESTING_H_
#define LUTHIER_TESTS_LIB_CATALOGUE_CATALOGUE_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

// Parts of studies for tests of the catalogue and of objectives.
namespace luthier::catalogue {

using study::BuiltinObjective;
using study::FloatRange;
using study::MetricSpec;
using study::ParameterSpec;
using study::SearchSpace;

inline ParameterSpec Float(const std::string& name, double min, double max,
                           study::Scale scale = study::Scale::kLinear) {
  ParameterSpec p;
  p.name = name;
  FloatRange range;
  range.min = min;
  range.max = max;
  range.scale = scale;
  p.domain = range;
  return p;
}

inline SearchSpace Space(std::vector<ParameterSpec> parameters) {
  return SearchSpace::Create(std::move(parameters)).value();
}

inline SearchSpace L2Space() {
  return Space({Float("l2", 1e-4, 1e4, study::Scale::kLog)});
}

inline BuiltinObjective Logistic(study::Parameters options = {}, int folds = 0) {
  BuiltinObjective objective;
  objective.model = "logistic";
  objective.data = "synth:logistic?rows=200&cols=10&seed=3&noise=0.2";
  objective.split.folds = folds;
  objective.split.seed = 4;
  objective.options = std::move(options);
  return objective;
}

inline const MetricSpec kLoss = {"validation_loss", study::Goal::kMinimize};
inline const MetricSpec kValue = {"value", study::Goal::kMinimize};

}  // namespace luthier::catalogue

#endif  // LUTHIER_TESTS_LIB_CATALOGUE_CATALOGUE_TESTING_H_
