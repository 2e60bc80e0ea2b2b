#ifndef LUTHIER_LIB_SEARCH_AUTO_H_
#define LUTHIER_LIB_SEARCH_AUTO_H_

#include <string>
#include <vector>

#include "lib/search/portfolio/portfolio_designer.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Algorithm that `algorithm: {auto: {}}` stands for.
struct AutoChoice {
  study::AlgorithmSpec algorithm;    // Valid for the study; not AutoOptions.
  std::vector<Member> members;       // Searches beside it, which get some of the asks.
  std::vector<std::string> reasons;  // One sentence a decision, for people.
};

// Chooses an algorithm from the space, the objective and whether results are said to be noisy. Results never change the
// choice. Budget and parallelism do not enter: measurements from 4 trials to thousands and up to 64 at once showed no
// effect on the best choice; reasons mention them where they matter. The optimizer itself decides during the search
// what only results can tell: kernel, output warp, whether gradients come and are right, whether settings fail, whether
// a local step is worth it. docs/reference/auto.md has the rules, bench/search/pages/auto.md the numbers.
AutoChoice ChooseAlgorithm(const study::StudySpec& spec, const study::AutoOptions& options);

// Returns true if the objective is a builtin test function whose options add noise, so that it is known to be noisy.
bool AddsNoise(const study::StudySpec& spec);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_AUTO_H_
