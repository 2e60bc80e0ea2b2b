#ifndef LUTHIER_LIB_SUGGEST_BO_OPTIONS_H_
#define LUTHIER_LIB_SUGGEST_BO_OPTIONS_H_

#include "absl/status/status.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"
#include "lib/suggest/surrogate.h"

// What the options of the Gaussian-process optimizer mean, and which are legal.
namespace luthier::suggest {

// INVALID_ARGUMENT with fields "algorithm.<preset>.…" when an option is out of range, options do not go together, or
// the space is too wide for a model.
absl::Status ValidateBo(const study::StudySpec& spec, const study::BoOptions& options);

// Length of the initial design.
int InitialPoints(const study::BoOptions& options, int compact_dim);

// The kernels and warps that the options leave to choose from.
SurrogateOptions ModelsFor(const study::Encoding& encoding, const study::BoOptions& options);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_BO_OPTIONS_H_
