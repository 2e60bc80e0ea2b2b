#ifndef LUTHIER_LIB_SUGGEST_AUTO_H_
#define LUTHIER_LIB_SUGGEST_AUTO_H_

#include <string>
#include <vector>

#include "lib/study/study_spec.h"

namespace luthier::suggest {

// What `algorithm: {auto: {}}` comes to.
struct AutoChoice {
  study::AlgorithmSpec algorithm;    // Valid for the study; not AutoOptions.
  std::vector<std::string> reasons;  // One sentence a decision, for people.
};

// Chosen from the space, the objective and whether results are said to be noisy. Budget and parallelism were measured
// to change nothing, from 4 trials to thousands and up to 64 at once; reasons mention them where they matter. Nothing
// that is learnt later changes the choice. What can be judged from results only (kernel, output warp, whether gradients
// come and are right, whether settings fail, whether a local step is worth it) the optimizer decides by itself as it
// goes. docs/reference/auto.md has the rules, docs/measurements/auto.md the numbers.
AutoChoice ChooseAlgorithm(const study::StudySpec& spec, const study::AutoOptions& options);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_AUTO_H_
