#ifndef LUTHIER_LIB_SEARCH_REGISTRY_H_
#define LUTHIER_LIB_SEARCH_REGISTRY_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"

namespace luthier::search {

struct AlgorithmInfo {
  std::string name;         // As in the study file: bo, random, ….
  int version;              // Raised whenever any suggestion changes.
  std::string description;  // One line for `luthier algorithms`.
  bool uses_history;        // False if its suggestions depend on spec and ask index alone.
  std::vector<std::pair<std::string, std::string>> options;  // Name and one line each.
};

// Returns every algorithm, in order of name.
const std::vector<AlgorithmInfo>& Algorithms();
// Returns the entry of a spec's algorithm.
const AlgorithmInfo& InfoOf(const study::AlgorithmSpec& algorithm);

// The algorithm that a study's spec resolves to.
struct Resolution {
  study::AlgorithmSpec algorithm;  // Concrete: not a choice such as auto.
  // Sentences for people. Empty if the study names the algorithm and the algorithm does as its options say.
  std::vector<std::string> reasons;
};
// Resolves the algorithm of a study. The result is a function of the spec alone.
Resolution Resolve(const study::StudySpec& spec);

// Returns the kind of reported derivatives that the study's suggestions depend on. The resolved algorithm reads them,
// or the sampler from which it takes new settings. kNone if no parameter has a derivative.
study::GradientUse GradientUseOf(const study::StudySpec& spec);
// Returns the same for one trial of the study: kDirectional if and only if provenance.direction gives a direction. For
// a trial that a user added to a study of directional derivatives the whole gradient is used, as no direction was asked
// for.
study::GradientUse GradientUseOf(study::GradientUse of_study, const study::Provenance& provenance);

// Checks the algorithm's options against the study's space and budget (e.g. a grid of too many points). Returns
// INVALID_ARGUMENT with fields "algorithm.…".
absl::Status Validate(const study::StudySpec& spec);

// Returns the version of the algorithm that the provenance of the study's suggestions records. It is the newest
// version, or an earlier one if both make the same suggestions for this study, so that verify-replay goes on checking
// them. It is 0 for a study that lost options.
int VersionOf(const study::StudySpec& spec);

// Returns false if suggestions for the study depend on spec and ask index alone. The coordinator then computes them in
// passing and keeps no history for the study.
bool UsesHistory(const study::StudySpec& spec);

// Returns a designer for a valid study. In a finite space it suggests no setting twice, unless the study says that
// results are noisy.
std::unique_ptr<Designer> CreateDesigner(const study::StudySpec& spec);

// Returns the registry as NestedAlgorithms, for algorithms that delegate work to others.
const NestedAlgorithms& AllAlgorithms();

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_REGISTRY_H_
