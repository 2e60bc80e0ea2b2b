#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_FRONT_TURN_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_FRONT_TURN_H_

#include "absl/status/statusor.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/designer.h"

namespace luthier::search {

// Returns the model's suggestion in a study of several objectives: the setting from which the largest growth of the
// front's hypervolume is expected, in the outputs of the objectives' models. Larger is better below.
//
//   models     One a metric, independent of the others (metric_models.h).
//   front      The results that keep the bounds. If the objectives are noisy, declared or found, it is drawn: values at
//              the settings that are likely to be on it.
//   reference  The user's. Without one, below the front's least value: by a tenth of its extent (Ishibuchi, Masuda &
//   Nojima
//              2011, "Selecting a small number of representative non-dominated solutions"), which refines the front,
//              and in every other ask by its whole extent, which finds its ends. For a front of no extent it is the
//              lower quartile of all results.
//   expected   For up to 4 objectives exactly (hypervolume_improvement.h), averaged over 16 draws of what pending
//   trials
//              and noisy results may be (hypervolume_acquisition.h).
//   beyond     One draw of each objective's function, of which the distance from the reference in a random direction is
//              maximised. Over all directions its power is the hypervolume, but for a constant (Golovin & Zhang 2020,
//              "Random hypervolume scalarizations for provable multi-objective black box optimization").
//   bounds     The logarithm of the probability that they are kept is added. Before any result keeps them, that is all.
//
// Sets ask.state. Origins: acq, stuck_random, gp_failed, all_random as in bo_designer.h.
absl::StatusOr<Suggestion> FrontTurn(const BoStudy& study, const Ask& ask);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_FRONT_TURN_H_
