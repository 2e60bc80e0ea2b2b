#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_

#include "absl/status/status.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"

// The meaning of the Gaussian-process optimizer's options, and the check that they are legal.
namespace luthier::search {

// INVALID_ARGUMENT with fields "algorithm.<preset>.…" when an option is out of range, options do not go together, or
// the space is too wide for a model.
absl::Status ValidateBo(const study::StudySpec& spec, const study::BoOptions& options);

// Length of the initial design.
int InitialPoints(const study::BoOptions& options, int compact_dim);

// The kernels and warps that the options leave to choose from.
SurrogateOptions ModelsFor(const study::Encoding& encoding, const study::BoOptions& options);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_
