#ifndef LUTHIER_LIB_OBJECTIVES_TRAIN_MODEL_H_
#define LUTHIER_LIB_OBJECTIVES_TRAIN_MODEL_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_root.h"
#include "lib/model/model.h"
#include "lib/study/study_spec.h"

namespace luthier::objectives {

// A setting of a study, to be trained again.
struct TrainRequest {
  study::BuiltinObjective objective;
  // Values over the objective's options; together they must include everything that has no default.
  study::Parameters parameters;
  uint64_t seed = 0;
  std::string study;  // For the file; may be empty, and `trial` 0.
  int64_t trial = 0;
};

// Trains the model that a trial of any objective but functions judges, on all of `data`, held-out rows included (but
// not on `validation_data`). Penalties count beside sums over rows, so they stay as they are; those of VF-iDCA are
// found first, as in a trial. Returns INVALID_ARGUMENT for functions, invalid settings and those that do not fit the
// data; FAILED_PRECONDITION when training diverges; CANCELLED when stopped; errors of reading the data.
absl::StatusOr<std::unique_ptr<model::Model>> TrainModel(const TrainRequest& request, const data::DataRoot* root,
                                                         const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_TRAIN_MODEL_H_
