#ifndef LUTHIER_LIB_SEARCH_HARMONICA_PLAN_H_
#define LUTHIER_LIB_SEARCH_HARMONICA_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/search/designer.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/spectral/recovery.h"
#include "lib/study/study_spec.h"

// Works out what Harmonica's options mean in a study.
namespace luthier::search {

// Checks the options, and those of the base on a space that suits any algorithm: the space that the stages leave is not
// known yet. Returns INVALID_ARGUMENT with fields "algorithm.harmonica.…", and with fields of the study that stages or
// base need: resource, reproducible, ….
absl::Status ValidateHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                               const NestedAlgorithms& nested);

// Values of the options in this study, with defaults filled in.
struct HarmonicaPlan {
  // False if there are too few bits or trials for a stage; the base then has the whole space at once.
  bool staged = true;
  int samples = 0;
  int stages = 0;
  int degree = 0;
  int64_t resource = 0;            // Step up to which samples are trained: options.stage_resource; 0: to the end.
  int64_t left = 0;                // Trials left for the base if all stages take place; >= 0.
  std::vector<std::string> notes;  // Departures from the options, for people.
};
HarmonicaPlan PlanHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options);

study::AlgorithmSpec BaseAlgorithm(const study::HarmonicaOptions& options);
// Returns true if the base is successive_halving, hyperband or asha.
bool BaseIsMultiFidelity(const study::HarmonicaOptions& options);
// Returns the study of the base alone, on the whole space. A multi-fidelity base gets the budget that the stages leave;
// this budget determines its brackets.
study::StudySpec BaseStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                           const HarmonicaPlan& plan);
// Returns the study for which the designer of the base is made: on `space`, with the whole budget but the brackets of
// BaseStudy. Random search replaces a base, or the sampler of a multi-fidelity base, that does not suit the space, e.g.
// a grid of too many points.
study::StudySpec RefinedStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                              const HarmonicaPlan& plan, const study::SearchSpace& space,
                              const NestedAlgorithms& nested);

inline constexpr int kMostHarmonicaBits = 2000;
spectral::RecoveryOptions RecoveryOptionsOf(const study::HarmonicaOptions& options, int degree);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HARMONICA_PLAN_H_
