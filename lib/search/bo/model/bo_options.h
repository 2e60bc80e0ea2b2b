#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_

#include "absl/status/status.h"
#include "lib/search/bo/model/surrogate.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"

// The meaning of the Gaussian-process optimizer's options, and the check that they are legal.
namespace luthier::search {

// Returns INVALID_ARGUMENT, with fields "algorithm.<preset>.…", if an option is out of range, if
// options cannot be combined, or if the space has too many coordinates for a model.
absl::Status ValidateBo(const study::StudySpec& spec, const study::BoOptions& options);

// Returns true if the initial design ends after two results once a whole gradient is there: the strengths of a builtin
// training, 4 to 20 of them and nothing else. A gradient of d entries says as much there as d results do.
bool LearnsFromFirstGradients(const study::StudySpec& spec, const study::BoOptions& options);

// Returns true if the search is to find out whether results are noisy: nobody said so, the objective is no builtin one,
// which repeats its results exactly unless it adds noise, and the budget holds 20 trials, of which one is the price.
// Not with several objectives, with a resource, or with bounds on slopes.
bool FindsNoise(const study::StudySpec& spec, const study::BoOptions& options);

// Returns true if the search recommends a trial where results are noisy (Designer::Recommend), and then says when the
// target is reached or patience is at its end.
bool Recommends(const study::StudySpec& spec, const study::BoOptions& options);

// Returns the number of points of the initial design.
int InitialPoints(const study::BoOptions& options, int compact_dim);

// Returns the kernels and warps that the options leave to choose from, and how they are fitted.
SurrogateOptions ModelsFor(const study::Encoding& encoding, const study::BoOptions& options);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_BO_OPTIONS_H_
