#ifndef LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_
#define LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_

#include <cstdint>
#include <string>

#include "Eigen/Core"
#include "absl/strings/string_view.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/study/encoding.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

// A box around the best setting, inside which proposals are looked for when there are many parameters (TuRBO with one
// region: Eriksson, Pearce, Gardner, Turner & Poloczek 2019, "Scalable global optimization via local Bayesian
// optimization"). docs/design/trust_box.md.
namespace luthier::search {

// Returns true if the options and the space ask for a box: more than 15 coordinates, at least three quarters of them
// continuous, and no local steps (noisy, switched off, or more than 50 coordinates), or the option says so; never with
// DIRECT, nor without a continuous coordinate.
bool UsesTrustBox(const study::BoOptions& options, const study::Encoding& encoding);

// One box's life: from a trial on until it has become tiny. All but where it began follows from the results since, in
// the order of the log.
struct TrustBoxRun {
  int64_t first = 1;  // Number of the trial that it began with.
  double side = 0.8;  // In units of the cube, for a coordinate of average lengthscale.
  int successes = 0;  // In a row.
  int failures = 0;
  int64_t results = 0;
  Eigen::VectorXd centre;  // Compact; of the best result; empty while there is none.
  bool ended = false;      // side fell below 2^-7.
};

// The run that began with trial `first`, after all results in the history. A result that beats the best one before it
// by a thousandth of that one's distance from the mean is a success, any other (a failed setting, too) a failure. After
// three successes in a row the side doubles, at most to 1.6; after max(4, d) failures in a row it halves. Open trials
// do not count, so any number of workers may ask.
TrustBoxRun FollowTrustBox(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                           int64_t first);

// Sides proportional to the lengthscales (compact; each at most ten times or a tenth of their geometric mean), cut off
// at the cube. run.centre is not empty.
TrustBox BoxOf(const TrustBoxRun& run, const Eigen::VectorXd& lengthscales, const study::Encoding& encoding);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_LOCAL_TRUST_BOX_H_
