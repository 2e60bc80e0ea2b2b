#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/strings/string_view.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// A box around the best setting. With many parameters the acquisition function is maximised inside
// it (TuRBO with one region: Eriksson, Pearce, Gardner, Turner & Poloczek 2019, "Scalable global
// optimization via local Bayesian optimization"). docs/design/trust_box.md.
namespace luthier::search {

// Returns true if a box is used. There is none with DIRECT or without a continuous coordinate.
// Otherwise there is one if there are more than 15 coordinates, at least three quarters of them are
// continuous, and no local steps are made (the objective is noisy, local steps are switched off, or
// there are more than 50 coordinates).
bool UsesTrustBox(const study::BoOptions& options, const study::Encoding& encoding);

// One run of the box: from a first trial until the box is too small. Everything but `first` follows
// from the results since then, in the order of the log.
struct TrustBoxRun {
  int64_t first = 1;  // Number of the trial with which the run began.
  double side = 0.8;  // Side for a coordinate of average lengthscale, in sides of the cube.
  int successes = 0;  // Number of successes in a row.
  int failures = 0;   // Number of failures in a row.
  int64_t results = 0;
  Eigen::VectorXd centre;  // The best result in compact coordinates; empty without one.
  bool ended = false;      // True once `side` fell below 2^-7.
};

// Returns the run that began with trial `first`, after all results in the history. A result is a
// success if it beats the best one before it by more than a thousandth of that one's distance from
// the mean. The first COMPLETE result is a success. Any other result is a failure, as are PRUNED
// trials and trials that failed for a fault of their setting. After three successes in a row the
// side doubles, to at most 1.6. After max(4, d) failures in a row it halves. Pending trials are
// ignored, so any number of workers may ask. With `violations` (study::ViolationsOf; empty if every result is feasible)
// feasible results are better than others, and these the better the smaller V is: it is a success to lower V by a
// thousandth.
TrustBoxRun FollowTrustBox(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                           int64_t first, const std::vector<double>& violations = {});

// Returns the box of `run`, whose centre must not be empty. Sides of continuous coordinates are
// proportional to `lengthscales` (one a compact coordinate, clamped to between a tenth of and ten
// times their geometric mean) and end at the cube. Other coordinates keep their whole range.
TrustBox BoxOf(const TrustBoxRun& run, const Eigen::VectorXd& lengthscales, const study::Encoding& encoding);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_
