#include "lib/search/bo/turns/answer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kDeviations = 3.0;
constexpr double kShareOfError = 0.01;  // The part of a result's standard error that is too little to matter,
constexpr double kShareOfValue = 1e-6;  //   and the part of its value, where no error is known.
constexpr Index kResultsAParameter = 3;
constexpr double kApart = 1e-3;  // Euclidean, model coordinates.
constexpr Index kAnswerLooks = 256;
constexpr double kAnswerWork = 2e9;  // Settings times n^2 up to which all settings of a finite space are evaluated.

// One of the models that must agree.
struct Judge {
  const OutputTransform* transform;
  const gp::Regression* regression;
};

// Returns by which factor the deviations of the regression must be multiplied to be right at its first `results`
// values, each predicted from all others and all slopes (Rasmussen & Williams 2006, eq. 5.12); at least 1. Further
// values, at its end, are believed and do not count. Not finite if the covariance is too near to singular.
double Inflation(gp::Regression regression, Index results) {
  regression.PopBack(static_cast<int>(regression.size() - results));
  const Index rows = regression.rows(), values = regression.size();
  MatrixXd inverse = MatrixXd::Identity(rows, rows);
  regression.factor().SolveLowerInPlace(inverse);  // Column i: L^-1 e_i, whose squares add up to (C^-1)_ii.
  VectorXd centred = regression.Targets();
  centred.head(values).array() -= regression.hyperparameters().mean;
  const VectorXd alpha = regression.SolveCovariance(centred);
  double squares = 0.0;
  for (Index i = 0; i < values; ++i) squares += alpha(i) * alpha(i) / inverse.col(i).squaredNorm();
  const double factor = std::sqrt(squares / static_cast<double>(values));
  return factor < 1.0 ? 1.0 : factor;
}

// Returns true if settings that are apart have exactly the same score, one of the better half: the metric moves in
// steps, as a share of rows does, and a smooth model bounds no step.
bool MovesInSteps(const Observations& data) {
  std::vector<Index> rows(static_cast<size_t>(data.scores.size()));
  std::iota(rows.begin(), rows.end(), 0);
  SortByScore(data.scores, &rows);
  rows.resize((rows.size() + 1) / 2);
  for (size_t k = 1; k < rows.size(); ++k) {
    if (data.scores(rows[k]) != data.scores(rows[k - 1])) continue;
    if ((data.observed.row(rows[k]) - data.observed.row(rows[k - 1])).norm() > kApart) return true;
  }
  return false;
}

// The gain that one model allows.
class Bound {
 public:
  Bound(const BoStudy& study, const Ask& ask, const Judge& judge, double best)
      : study_(study), ask_(ask), judge_(judge), best_(best) {}

  // Returns the bound with deviations times `factor`, or infinity if it is clear that it exceeds `limit`.
  absl::StatusOr<double> Compute(double factor, double limit) const {
    AcquisitionSettings settings;
    settings.kind = AcquisitionKind::kUpperConfidenceBound;
    settings.root_beta = kDeviations * factor;
    const ModelAcquisition upper({{judge_.regression, 0.0}}, settings);
    const Index n = judge_.regression->rows();
    if (study_.Table() != nullptr &&
        static_cast<double>(study_.table->size()) * static_cast<double>(n * n) <= kAnswerWork) {
      LUTHIER_ASSIGN_OR_RETURN(const std::optional<MaximizeCandidate> end,
                               MaximizeOverTable(upper, *study_.table, ask_.data.excluded, ask_.stop));
      return end.has_value() ? Gain(end->value) : 0.0;
    }
    if (Screened(upper) > limit) return std::numeric_limits<double>::infinity();
    MaximizeOptions options;
    LUTHIER_ASSIGN_OR_RETURN(const MaximizeResult result, Maximize(upper, study_.encoding, ask_.data.known,
                                                                   judge_.regression->hyperparameters().lengthscales,
                                                                   KeyOf(study_, ask_), options, ask_.stop));
    if (result.candidates.empty()) return std::numeric_limits<double>::infinity();
    return Gain(result.candidates.front().value);
  }

 private:
  // Returns infinity for an output that is not a number: it bounds nothing.
  double Gain(double output) const {
    const double gain = judge_.transform->Inverse(output) - best_;
    return std::isnan(gain) ? std::numeric_limits<double>::infinity() : std::max(0.0, gain);
  }
  // Returns the largest gain at the first points of a sequence.
  double Screened(const ModelAcquisition& upper) const {
    MatrixXd points(kAnswerLooks, study_.encoding.model_dim());
    for (Index i = 0; i < kAnswerLooks; ++i) {
      points.row(i) = study_.encoding.CompactToModel(study_.design.Point(static_cast<uint64_t>(i)));
    }
    double most = 0.0;
    const VectorXd values = upper.Values(points);
    for (Index i = 0; i < kAnswerLooks; ++i) {
      const bool legal = study_.encoding.IsLegalAt(study_.design.Point(static_cast<uint64_t>(i)));
      if (legal) most = std::max(most, Gain(values(i)));
    }
    return most;
  }

  const BoStudy& study_;
  const Ask& ask_;
  const Judge judge_;
  const double best_;
};

}  // namespace

absl::StatusOr<double> GainBound(const BoStudy& study, const Ask& ask, const BoModel& model, double limit) {
  const double unknown = std::numeric_limits<double>::infinity();
  const Observations& data = ask.data;
  if (study.options.SaidNoisy() || ask.failures || model.surrogate.states.size() != 1) return unknown;
  if (!std::all_of(data.complete.begin(), data.complete.end(), [](bool complete) { return complete; })) return unknown;
  if (data.scores.size() == 0 || MovesInSteps(data)) return unknown;
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Alternative> alternatives, AlternativesTo(study, ask, model));
  std::vector<Judge> judges = {{&model.surrogate.transform, &model.surrogate.states.front()}};
  for (const Alternative& other : alternatives) judges.push_back({&other.transform, &other.regression});
  double bound = 0.0;
  for (const Judge& judge : judges) {
    if (judge.regression->hyperparameters().noise_variance > kFoundNoise) return unknown;
    const Bound one(study, ask, judge, data.scores.maxCoeff());
    LUTHIER_ASSIGN_OR_RETURN(double gain, one.Compute(1.0, limit));
    if (gain > limit) return unknown;
    const double factor = Inflation(*judge.regression, data.scores.size());
    if (!std::isfinite(factor)) return unknown;
    if (factor > 1.0) {
      LUTHIER_ASSIGN_OR_RETURN(gain, one.Compute(factor, limit));
      if (gain > limit) return unknown;
    }
    bound = std::max(bound, gain);
  }
  return bound;
}

absl::Status CheckAnswered(const BoStudy& study, const Ask& ask, const BoModel& model) {
  if (!study.until_answered) return absl::OkStatus();
  const Observations& data = ask.data;
  const Index results = data.scores.size();
  const Index least = std::max<Index>(study.initial_points + 2, kResultsAParameter * study.encoding.compact_dim());
  if (results < least) return absl::OkStatus();
  Index best = 0;
  data.scores.maxCoeff(&best);
  const study::HistoryTrial& trial =
      ask.history.trials()[static_cast<size_t>(data.number[static_cast<size_t>(best)] - 1)];
  const bool known = trial.standard_error.has_value();
  const double limit = known ? kShareOfError * *trial.standard_error : kShareOfValue * std::abs(data.scores(best));
  if (!(limit > 0.0)) return absl::OkStatus();
  LUTHIER_ASSIGN_OR_RETURN(const double bound, GainBound(study, ask, model, limit));
  if (bound > limit) return absl::OkStatus();
  if (data.pending.rows() > 0) {
    return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kAwaitingResults,
                           "the study is answered if open trials end as the model predicts");
  }
  return base::MakeError(
      absl::StatusCode::kOutOfRange, base::reason::kAnswered,
      absl::StrCat("no setting is expected to gain more than ", absl::StrFormat("%.2g", limit), " on trial ",
                   trial.number, known ? ", a hundredth of its standard error" : ", a millionth of its value",
                   " (budget.until_answered: false goes on)"));
}

}  // namespace luthier::search
