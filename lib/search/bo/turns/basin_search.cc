#include "lib/search/bo/turns/basin_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/search/bo/acquisition/feasible_acquisition.h"
#include "lib/search/bo/model/surrogate.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

// ln EI below which a basin counts as known: 5e-5 deviations of all outputs, or 2.5e-3 deviations of the outputs
// elsewhere, where less accuracy is needed.
constexpr double kLogEiKnown = -10.0, kLogEiKnownElsewhere = -6.0;
constexpr size_t kMaxBasins = 8;
constexpr int kBasinsPerAsk = 2;  // Acquisitions of other basins that one ask maximises.

}  // namespace

BasinSearch::BasinSearch(const BoStudy& study, const Ask& ask, const BoModel& model, const BoundedAcquisition& bounded,
                         BasinsState* state)
    : study_(study),
      ask_(ask),
      model_(model),
      bounded_(bounded),
      state_(state),
      rows_(ask.data.CompleteRows()),
      outputs_(model.surrogate.transform.Forward(ask.data.scores)),
      logarithm_(study.options.acquisition == study::BoAcquisition::kLogEi) {
  const std::vector<int64_t>& numbers = ask.data.number;
  for (const int64_t number : state->maxima) {
    const auto at = std::find(numbers.begin(), numbers.end(), number);
    if (at != numbers.end()) maxima_.push_back(at - numbers.begin());
  }
}

double BasinSearch::LogImprovement(const MaximizeResult& result) const {
  if (result.candidates.empty()) return -std::numeric_limits<double>::infinity();
  const double value = result.candidates.front().value;
  return logarithm_ ? value : std::log(value);
}

absl::StatusOr<Index> BasinSearch::BestElsewhere() const {
  return BestInOtherBasins(model_.surrogate.states.front(), ask_.data.observed, outputs_, rows_, maxima_, ask_.stop);
}

void BasinSearch::AddMaximum(Index row) {
  maxima_.push_back(row);
  state_->maxima.push_back(ask_.data.number[static_cast<size_t>(row)]);
}

absl::StatusOr<MaximizeResult> BasinSearch::MaximizeElsewhere(Index best, Maximizer maximize) {
  state_->best_other = best >= 0 ? ask_.data.number[static_cast<size_t>(best)] : 0;
  const ModelChoice& choice = study_.surrogate.choices.front();
  const OtherBasinsData data{ask_.data.observed, outputs_, ask_.data.pending,
                             best >= 0 ? outputs_(best) : outputs_.minCoeff()};
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<OtherBasinsModel> elsewhere,
                           FitOtherBasins(choice.shape, InferenceFor(choice, study_.surrogate), data, state_,
                                          KeyOf(study_, ask_).Stream("bo/elsewhere"), ask_.stop));
  if (!elsewhere.has_value()) return MaximizeResult();
  const OtherBasinsAcquisition other(&model_.surrogate.states.front(), &*elsewhere, Rows(ask_.data.observed, maxima_),
                                     kWorthwhileGain, logarithm_, bounded_.bounds(), bounded_.incumbent());
  if (ask_.Feasible() == nullptr) return maximize(other, state_->theta->lengthscales);
  const FeasibleAcquisition weighted(&other, ask_.Feasible(), study_.options.acquisition, 0.0);
  return maximize(weighted, state_->theta->lengthscales);
}

absl::StatusOr<MaximizeResult> BasinSearch::Run(const AcquisitionFunction& acquisition, Maximizer maximize) {
  const VectorXd& lengthscales = model_.surrogate.next.theta.lengthscales;
  if (rows_.empty()) return maximize(acquisition, lengthscales);
  Index incumbent = rows_.front();
  for (const Index row : rows_) {
    if (outputs_(row) > outputs_(incumbent)) incumbent = row;
  }
  LUTHIER_ASSIGN_OR_RETURN(Index best, BestElsewhere());
  MaximizeResult result;
  state_->away = best != incumbent;
  if (WholeSpaceIsDue(*state_)) {
    LUTHIER_ASSIGN_OR_RETURN(result, maximize(acquisition, lengthscales));
    state_->log_ei = LogImprovement(result);
    state_->turns = 0;
    if (state_->away || state_->log_ei > kLogEiKnown) return result;
    state_->away = true;
    AddMaximum(incumbent);
    LUTHIER_ASSIGN_OR_RETURN(best, BestElsewhere());
  }
  ++state_->turns;
  for (int attempt = 0; attempt < kBasinsPerAsk; ++attempt) {
    if (maxima_.size() > kMaxBasins) {  // The search of basins starts anew.
      *state_ = {};
      break;
    }
    LUTHIER_ASSIGN_OR_RETURN(MaximizeResult found, MaximizeElsewhere(best, maximize));
    if (found.candidates.empty()) break;
    result = std::move(found);
    left_out_ = maxima_.size();
    if (best < 0 || LogImprovement(result) > kLogEiKnownElsewhere) break;
    AddMaximum(best);
    LUTHIER_ASSIGN_OR_RETURN(best, BestElsewhere());
  }
  if (result.candidates.empty()) return maximize(acquisition, lengthscales);
  return result;
}

}  // namespace luthier::search
