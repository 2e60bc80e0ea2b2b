#ifndef LUTHIER_LIB_OBJECTIVES_CREATE_H_
#define LUTHIER_LIB_OBJECTIVES_CREATE_H_

#include <memory>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/objectives/objective.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

namespace luthier::objectives {

// Validates (catalogue::Validate), then loads the data, from `cache` if it has them. `root` may be null if no file is
// needed, `cache` if nothing shall be kept; the cache must outlive the objective. Returns the errors of
// catalogue::Validate, and those of data::LoadDataset, the split included (INVALID_ARGUMENT, NOT_FOUND, DATA_LOSS,
// PERMISSION_DENIED); CANCELLED when stopped.
absl::StatusOr<std::unique_ptr<Objective>> CreateObjective(const study::BuiltinObjective& objective,
                                                           const study::SearchSpace& space,
                                                           const study::MetricSpec& metric, const data::DataRoot* root,
                                                           const data::DataCache* cache = nullptr,
                                                           const base::StopToken& stop = {});

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CREATE_H_
