#ifndef LUTHIER_LIB_SUGGEST_HARMONICA_PLAN_H_
#define LUTHIER_LIB_SUGGEST_HARMONICA_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/spectral/recovery.h"
#include "lib/study/study_spec.h"

// What Harmonica's options mean in a study.
namespace luthier::suggest {

// The base's options too, on a space that anything suits: what the stages leave is not known yet. INVALID_ARGUMENT with
// fields "algorithm.harmonica.…", and those of the study that stages or base need: resource, reproducible, ….
absl::Status ValidateHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options);

// What the options come to in this study.
struct HarmonicaPlan {
  bool staged = true;  // False: too few bits or trials for a stage; the base has the whole space from the start.
  int samples = 0;
  int stages = 0;
  int degree = 0;
  int64_t resource = 0;            // Step up to which samples are trained: options.stage_resource; 0: to the end.
  int64_t left = 0;                // Trials that the base gets when all stages take place; >= 0.
  std::vector<std::string> notes;  // Departures from the options, for people.
};
HarmonicaPlan PlanHarmonica(const study::StudySpec& spec, const study::HarmonicaOptions& options);

study::AlgorithmSpec BaseAlgorithm(const study::HarmonicaOptions& options);
// Whether the base is successive_halving, hyperband or asha.
bool BaseTrainsInParts(const study::HarmonicaOptions& options);
// The study that the base would be alone, on the whole space: a base that trains in parts with the budget that the
// stages leave, which makes its brackets.
study::StudySpec BaseStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                           const HarmonicaPlan& plan);
// The study that the designer of the base is made for: on `space`, with the whole budget and yet those brackets. A base
// that does not suit the space, e.g. a grid of too many points, is random search; a sampler alike.
study::StudySpec RefinedStudy(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                              const HarmonicaPlan& plan, const study::SearchSpace& space);

inline constexpr int kMostHarmonicaBits = 2000;
spectral::BitOptions BitOptionsOf(const study::HarmonicaOptions& options);
spectral::RecoveryOptions RecoveryOptionsOf(const study::HarmonicaOptions& options, int degree);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HARMONICA_PLAN_H_
