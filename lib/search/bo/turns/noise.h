#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"
#include "lib/search/designer.h"
#include "lib/study/history.h"

// The question whether results are noisy, answered by trying a setting again, and what is recommended where they are.
// docs/design/noise.md has the equations and the reasons.
namespace luthier::search {

// Returns the number of the first trial, in the order in which they ended, whose result differs from an earlier one of
// the same setting by more than a millionth of the results' standard deviation; 0 if there is none.
int64_t NoiseShownBy(const study::History& history);

// Takes the trials that tried a setting again, and showed no noise, out of the ask's data: models of results that
// repeat exactly learn nothing from them. Call it after ReadHistory where noise was not found.
void LeaveOutProbes(Ask* ask);

// Returns the probe when it is due: the best setting so far once more, with origin "probe", at the first ask after the
// initial design, in studies that find out whether results are noisy (BoStudy::finds_noise). Call it where noise was
// not found. There is one probe a study, and another one in place of each that came to nothing; none once any setting
// was tried again with success.
std::optional<Suggestion> ProbeTurn(const BoStudy& study, const Ask& ask);

// Returns what the regression predicts of the mean of each group of its first values without all values of the group,
// with its hyperparameters. Every other row is a group of its own, and has no entry. For the rows G of a group and all
// data y, with C^-1 restricted to G and a = C^-1 (y - m), the prediction of y_G is y_G - (C^-1)_GG^-1 a_G (Rasmussen &
// Williams 2006, eq. 5.12, for one row). An entry may be not finite if the covariance is too near to singular. O(N^3).
absl::StatusOr<Eigen::VectorXd> PredictWithout(const gp::Regression& regression,
                                               const std::vector<std::vector<Eigen::Index>>& groups,
                                               const base::StopToken& stop);

// Returns the trial whose setting is expected to be the best. Of setting i with m_i results of mean y_i, in outputs of
// the model, the estimate is
//   rec_i = (m_i y_i / s^2 + p_i / t^2) / (m_i / s^2 + 1 / t^2)
// where p_i is what the model predicts of the setting without its results, s^2 the variance of the noise, and
// t^2 = max(0, mean of (y_i - p_i)^2 - s^2 / m_i) says how far such predictions are off; where t = 0, it is the model's
// posterior mean. Ties go to more results. Only COMPLETE trials count that probably keep the bounds. `found_by`: 0 if
// noise is stated. Returns std::nullopt where there is none. O(n^3).
absl::StatusOr<std::optional<Recommendation>> RecommendFrom(const BoStudy& study, const Ask& ask, const BoModel& model,
                                                            int64_t found_by);

// Returns the recommended setting once more, with origin "probe", if it would reach the target with a single result,
// which may be luck: a second one tells how large the noise is there. std::nullopt if it would not, or while such a
// trial is open.
std::optional<Suggestion> ConfirmTurn(const BoStudy& study, const Ask& ask, const Recommendation& recommended);

// Returns OUT_OF_RANGE ANSWERED if the recommended setting has two results and its mean is beyond Budget::target_value
// by its deviation, or if Budget::patience trials have ended since it did.
absl::Status CheckRecommended(const BoStudy& study, const Ask& ask, const Recommendation& recommended);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_NOISE_H_
