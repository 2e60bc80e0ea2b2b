#ifndef LUTHIER_LIB_OBJECTIVES_NEW_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_NEW_OBJECTIVE_H_

#include "lib/catalogue/objective_info.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

namespace luthier::objectives {

// Says what an objective on data is made of. `info` and `cache` must outlive the objective.
struct NewObjective {
  const catalogue::ObjectiveInfo& info;  // Describes the model.
  const study::BuiltinObjective& spec;   // With the space and the metric it must have passed catalogue::Validate.
  study::SearchSpace space;
  study::MetricSpec metric;
  const data::DataRoot* root = nullptr;    // May be null if no file is needed.
  const data::DataCache* cache = nullptr;  // Null: nothing is kept.
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_NEW_OBJECTIVE_H_
