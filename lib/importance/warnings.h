#ifndef LUTHIER_LIB_IMPORTANCE_WARNINGS_H_
#define LUTHIER_LIB_IMPORTANCE_WARNINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "lib/importance/importance.h"
#include "lib/study/search_space.h"

namespace luthier::importance {

// Bounds beyond which shares are warned about.
inline constexpr double kPoorPrediction = 0.3;      // Least share of the variance of unseen trials that is predicted.
inline constexpr int64_t kTrialsPerParameter = 10;  // Least number of trials for each parameter that varies.
inline constexpr double kMostTrials = 0.75;         // Share of the trials that may be alike in a parameter.
inline constexpr double kAlike = 0.1;          // Width of the part of a parameter's range in which trials are alike.
inline constexpr double kCrowded = 0.35;       // Least spread of trials over ranges, in spreads of random trials.
inline constexpr double kWideInterval = 0.15;  // Width of an interval that makes an order uncertain.
inline constexpr double kMostLeftOut = 0.3;    // Share of the trials that may have failed or been pruned.

// Returns, the weightiest first, why the shares of `importance`, of these observations, say less than they seem to, in
// sentences for people; empty: nothing speaks against them. They are about
//  * trials that were held back and are predicted badly;
//  * few trials for so many parameters;
//  * a search that has converged: parameters that hardly varied, or trials that crowd in a part of the space;
//  * intervals so wide that it is not known which parameter comes first;
//  * trials that failed or were pruned.
std::vector<std::string> Warnings(const study::SearchSpace& space, const std::vector<Observation>& observations,
                                  const EndedTrials& ended, const Importance& importance);

}  // namespace luthier::importance

#endif  // LUTHIER_LIB_IMPORTANCE_WARNINGS_H_
