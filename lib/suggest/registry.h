#ifndef LUTHIER_LIB_SUGGEST_REGISTRY_H_
#define LUTHIER_LIB_SUGGEST_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "lib/suggest/designer.h"

namespace luthier::suggest {

struct AlgorithmInfo {
  std::string name;         // As in the study file: bo, random, ….
  int version;              // Raised whenever any suggestion changes; part of the provenance.
  std::string description;  // One line for `luthier algorithms`.
  // False: a suggestion depends on spec and ask index alone. The coordinator then computes it in passing and keeps no
  // history for the study.
  bool uses_history;
  std::vector<std::pair<std::string, std::string>> options;  // Name and one line each.
};

// Every algorithm, in order of name.
const std::vector<AlgorithmInfo>& Algorithms();
// The entry of a spec's algorithm.
const AlgorithmInfo& InfoOf(const study::AlgorithmSpec& algorithm);

// What a study's algorithm comes to.
struct Resolution {
  study::AlgorithmSpec algorithm;  // One that is not a choice of algorithms itself.
  // Sentences for people; empty when the study names the algorithm and it does as its options say.
  std::vector<std::string> reasons;
};
// A function of the spec alone.
Resolution Resolve(const study::StudySpec& spec);

// Which derivatives that trials report the study's suggestions depend on: those that its algorithm reads, or the
// algorithm it comes to, or the sampler that this one takes new settings from. kNone where no parameter has a
// derivative.
study::GradientUse GradientUseOf(const study::StudySpec& spec);
// The same for one of its trials: kDirectional where provenance.direction says along what, and nowhere else. Of a trial
// that a user added to a study of slopes the whole gradient is used, as no direction was asked for.
study::GradientUse GradientUseOf(study::GradientUse of_study, const study::Provenance& provenance);

// The algorithm's settings against the study's space and budget (e.g. a grid of too many points). INVALID_ARGUMENT
// with fields "algorithm.…".
absl::Status Validate(const study::StudySpec& spec);

// A designer for a valid study.
std::unique_ptr<Designer> CreateDesigner(const study::StudySpec& spec);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_REGISTRY_H_
