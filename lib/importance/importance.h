#ifndef LUTHIER_LIB_IMPORTANCE_IMPORTANCE_H_
#define LUTHIER_LIB_IMPORTANCE_IMPORTANCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

// Estimates which parameters a metric depends on, from a study's trials: functional analysis of variance of a forest of
// regression trees (Hutter, Hoos & Leyton-Brown 2014, "An efficient approach for assessing hyperparameter importance").
//
// With u uniform in the unit cube of the compact encoding and f the forest's prediction,
//   f_0 = E f,   V = Var f,   a_j(u_j) = E[f | u_j],   a_ij(u_i, u_j) = E[f | u_i, u_j]
//   share of parameter j:  V_j = E a_j^2 - f_0^2,            over V
//   share of pair i, j:    V_ij = E a_ij^2 - f_0^2 - V_i - V_j, over V
// The rest, up to 1, is due to interactions of three and more.
//
// A parameter that does not exist in a trial could have had any value with the same result; it is filled in with random
// ones, so that the forest learns that it does nothing there. Its share thus counts how often it exists.
namespace luthier::importance {

inline constexpr int64_t kMinTrials = 10;
inline constexpr int kMaxPairedParameters = 20;  // Pairs of the most important ones only.

struct Observation {
  study::Parameters parameters;  // Valid and canonical.
  double value = 0.0;            // Finite.
};

// Trials of the study that ended, of which only those that are complete can be observed.
struct EndedTrials {
  int64_t complete = 0, failed = 0, pruned = 0;
};

struct ImportanceOptions {
  // Values worse than this quantile count as the quantile itself. Below 1, differences among bad results lose weight,
  // and differences among good ones gain. In (0, 1].
  double quantile = 1.0;
  bool pairs = false;
  uint64_t seed = 0;
  EndedTrials ended = {};  // For warnings alone.
};

// A share of V, and the 5% and 95% quantiles over forests grown on resampled trials.
struct Share {
  double share = 0.0, low = 0.0, high = 0.0;
};
struct ParameterShare {
  std::string name;
  Share share;
};
struct PairShare {
  std::string first, second;  // In order of the space.
  Share share;
};

struct Importance {
  std::vector<ParameterShare> parameters;  // Largest share first; constants are left out.
  std::vector<PairShare> pairs;            // With ImportanceOptions::pairs; largest first.
  // Share of the variance of unseen trials that a forest predicts: 1 for all of it, 0 or less for nothing. If it is
  // small, the shares mean little.
  double predicted = 0.0;
  std::vector<std::string> warnings = {};  // Reasons for which the shares say less than they seem to: warnings.h.
};

// Deterministic. Returns FAILED_PRECONDITION for fewer than kMinTrials observations, for values that are all equal
// (after clipping), and for a space with no tuned parameter; INVALID_ARGUMENT for a quantile out of range. 96 trees of
// at most about a thousand leaves: O(trials · parameters · depth) each.
absl::StatusOr<Importance> Compute(const study::SearchSpace& space, study::Goal goal,
                                   const std::vector<Observation>& observations, const ImportanceOptions& options);

}  // namespace luthier::importance

#endif  // LUTHIER_LIB_IMPORTANCE_IMPORTANCE_H_
