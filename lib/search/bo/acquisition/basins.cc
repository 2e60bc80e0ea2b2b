#include "lib/search/bo/acquisition/basins.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "lib/base/status_macros.h"
#include "lib/gp/likelihood.h"
#include "lib/math/pieces.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kDip = 1e-3;  // Least depth of a saddle, as a share of the lower result's height above the worst one.
constexpr double kRenew = 0.05;           // Change of the number of rows, as a share, that starts a search.
constexpr int kMaxRenewEvaluations = 15;  // Limit of a search that starts from carried hyperparameters.

// Returns the number of asks in a row that search other basins, given that the improvement on the incumbent is
// e^log_ei.
int Turns(double log_ei) {
  return static_cast<int>(std::clamp(-log_ei / 3.0 - 2.0, 1.0, 8.0));
}

VectorXd Saddles(const gp::Regression& model, const Eigen::Ref<const MatrixXd>& u, const VectorXd& top) {
  return model.PredictMean(((u.rowwise() + top.transpose()) * 0.5).eval());
}

}  // namespace

bool WholeSpaceIsDue(const BasinsState& state) {
  return !state.away || state.turns >= Turns(state.log_ei);
}

absl::StatusOr<Index> BestInOtherBasins(const gp::Regression& model, const MatrixXd& x, const VectorXd& outputs,
                                        const std::vector<Index>& rows, const std::vector<Index>& maxima,
                                        const base::StopToken& stop) {
  MatrixXd u(static_cast<Index>(rows.size()), x.cols());
  for (size_t k = 0; k < rows.size(); ++k) u.row(static_cast<Index>(k)) = x.row(rows[k]);
  std::vector<bool> known(rows.size(), false);
  const double worst = outputs.minCoeff();
  for (Index top : maxima) {
    const VectorXd at = x.row(top).transpose();
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd saddles, math::EvaluateInPieces(u, stop, [&](const MatrixXd& points) {
                               return Saddles(model, points, at);
                             }));
    for (size_t k = 0; k < rows.size(); ++k) {
      // A result better than the maximum is in another basin only if the saddle is lower than the maximum, too.
      const double lower = std::min(outputs(rows[k]), outputs(top));
      if (rows[k] == top || saddles(static_cast<Index>(k)) > lower - kDip * (lower - worst)) known[k] = true;
    }
  }
  Index best = -1;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (!known[k] && (best < 0 || outputs(rows[k]) > outputs(best))) best = rows[k];
  }
  return best;
}

absl::StatusOr<std::optional<OtherBasinsModel>> FitOtherBasins(const kernels::KernelShape& shape,
                                                               const gp::InferenceOptions& inference,
                                                               const OtherBasinsData& data, BasinsState* state,
                                                               base::RandomStream random, const base::StopToken& stop) {
  const MatrixXd& x = data.x;
  const VectorXd& outputs = data.outputs;
  double level = data.level;
  std::vector<Index> rows;
  for (Index i = 0; i < outputs.size(); ++i) {
    if (outputs(i) <= level) rows.push_back(i);
  }
  const Index n = static_cast<Index>(rows.size());
  if (n == 0) return std::nullopt;
  MatrixXd points(n, x.cols());
  VectorXd values(n);
  for (Index k = 0; k < n; ++k) {
    points.row(k) = x.row(rows[static_cast<size_t>(k)]);
    values(k) = outputs(rows[static_cast<size_t>(k)]);
  }
  const double offset = values.mean();
  const double deviation = std::sqrt((values.array() - offset).square().mean());
  const double unit = deviation > 0.0 && std::isfinite(1.0 / deviation) ? deviation : 1.0;
  values = (values.array() - offset) / unit;
  if (!state->theta.has_value() ||
      std::abs(static_cast<double>(n - state->rows)) >= std::max(1.0, kRenew * static_cast<double>(state->rows))) {
    gp::InferenceOptions search = inference;
    if (state->theta.has_value()) {
      search.max_searches = 1;
      search.random_starts = 1;
      search.max_evaluations = kMaxRenewEvaluations;
    }
    gp::Likelihood likelihood(shape, points, values);
    LUTHIER_ASSIGN_OR_RETURN(gp::InferenceResult found,
                             gp::MaximizePosterior(&likelihood, search, state->theta, random, stop));
    state->theta = std::move(found.theta);
    state->rows = n;
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                           gp::Regression::Fit(shape, *state->theta, x,
                                               ((outputs.cwiseMin(level).array() - offset) / unit).matrix(), {}, stop));
  if (!regression.has_value()) return std::nullopt;
  regression->FitMean();
  for (Index i = 0; i < data.pending.rows(); ++i) {
    const double taken = regression->PredictMean(data.pending.row(i))(0);
    LUTHIER_ASSIGN_OR_RETURN(const bool appended, regression->Append(data.pending.row(i).transpose(), taken, stop));
    if (appended) level = std::max(level, offset + unit * taken);
  }
  return std::optional<OtherBasinsModel>(OtherBasinsModel{*std::move(regression), offset, unit, level});
}

VectorXd OtherBasinsAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd beat = VectorXd::Constant(u.rows(), level_);
  for (Index k = 0; k < maxima_.rows(); ++k) beat = beat.cwiseMax(Saddles(*model_, u, maxima_.row(k).transpose()));
  const gp::Posterior posterior = elsewhere_->regression.Predict(u);
  VectorXd values(u.rows());
  for (Index i = 0; i < u.rows(); ++i) {
    values(i) = EvaluateTerm(settings_, posterior.mean(i), std::sqrt(posterior.variance(i)),
                             (beat(i) - elsewhere_->offset) / elsewhere_->unit)
                    .value;
  }
  if (bounds_ == nullptr) return values;
  VectorXd lower, upper;
  bounds_->Evaluate(u, &lower, &upper);
  for (Index i = 0; i < u.rows(); ++i) {
    if (upper(i) <= incumbent_) values(i) = -std::numeric_limits<double>::infinity();
  }
  return values;
}

double OtherBasinsAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  if (bounds_ != nullptr && bounds_->At(u).upper <= incumbent_) {
    gradient->setZero(u.size());
    return -std::numeric_limits<double>::infinity();
  }
  double beat = level_;
  Index highest = -1;
  const VectorXd saddles = model_->PredictMean(((maxima_.rowwise() + u.transpose()) * 0.5).eval());
  for (Index k = 0; k < saddles.size(); ++k) {
    if (!(saddles(k) > beat)) continue;
    beat = saddles(k);
    highest = k;
  }
  const gp::PointPosterior p = elsewhere_->regression.PredictWithGradient(u);
  const double deviation = std::sqrt(p.variance);
  const AcquisitionTerm term =
      EvaluateTerm(settings_, p.mean, deviation, (beat - elsewhere_->offset) / elsewhere_->unit);
  *gradient = term.by_mean * p.mean_gradient + (0.5 * term.by_deviation / deviation) * p.variance_gradient;
  if (highest >= 0) {
    // The half way point moves half as fast as u.
    const VectorXd half = 0.5 * (u + maxima_.row(highest).transpose());
    *gradient -= term.by_mean * 0.5 / elsewhere_->unit * model_->PredictWithGradient(half).mean_gradient;
  }
  return term.value;
}

}  // namespace luthier::search
