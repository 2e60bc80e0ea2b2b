#include "lib/suggest/hills.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/status_macros.h"
#include "lib/gp/likelihood.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kDip = 1e-3;             // Of a point's height: less is no pass.
constexpr double kRenew = 0.05;           // Share of the rows by which they must change for a search.
constexpr int kMaxRenewEvaluations = 15;  // Of a search that starts from carried hyperparameters.

VectorXd Passes(const gp::Regression& model, const Eigen::Ref<const MatrixXd>& u, const VectorXd& top) {
  return model.PredictMean(((u.rowwise() + top.transpose()) * 0.5).eval());
}

}  // namespace

std::string FormatCarry(const HillsCarry& carry) {
  if (carry.tops.empty()) return "";
  std::string text = absl::StrCat(carry.away ? 1 : 0, " ", absl::StrFormat("%.17g", carry.promise), " ", carry.turns,
                                  " ", carry.elsewhere, " ", absl::StrJoin(carry.tops, " "));
  if (carry.theta.has_value()) {
    absl::StrAppend(&text, ";", carry.rows, ";", gp::FormatHyperparametersShort(*carry.theta));
  }
  return text;
}

HillsCarry ParseHillsCarry(absl::string_view text, int groups) {
  const std::vector<std::string> parts = absl::StrSplit(text, ';');
  const std::vector<std::string> words = absl::StrSplit(parts[0], ' ');
  HillsCarry carry;
  if (words.size() < 5 || (words[0] != "0" && words[0] != "1") || !absl::SimpleAtod(words[1], &carry.promise) ||
      std::isnan(carry.promise) || !absl::SimpleAtoi(words[2], &carry.turns) || carry.turns < 0 ||
      !absl::SimpleAtoi(words[3], &carry.elsewhere) || carry.elsewhere < 0) {
    return {};
  }
  carry.away = words[0] == "1";
  for (size_t k = 4; k < words.size(); ++k) {
    int64_t top = 0;
    if (!absl::SimpleAtoi(words[k], &top) || top < 1) return {};
    carry.tops.push_back(top);
  }
  if (parts.size() == 1) return carry;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[1], &carry.rows) || carry.rows < 1) return {};
  carry.theta = gp::ParseHyperparameters(parts[2], groups);
  if (!carry.theta.has_value()) return {};
  return carry;
}

absl::StatusOr<Index> BestElsewhere(const gp::Regression& model, const MatrixXd& x, const VectorXd& outputs,
                                    const std::vector<Index>& rows, const std::vector<Index>& tops,
                                    const base::StopToken& stop) {
  MatrixXd u(static_cast<Index>(rows.size()), x.cols());
  for (size_t k = 0; k < rows.size(); ++k) u.row(static_cast<Index>(k)) = x.row(rows[k]);
  std::vector<bool> known(rows.size(), false);
  const double worst = outputs.minCoeff();
  for (Index top : tops) {
    const VectorXd at = x.row(top).transpose();
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd passes, EvaluateInPieces(u, stop, [&](const MatrixXd& points) {
                               return Passes(model, points, at);
                             }));
    for (size_t k = 0; k < rows.size(); ++k) {
      // A result better than the top stands on a hill of its own only behind a pass lower than the top.
      const double lower = std::min(outputs(rows[k]), outputs(top));
      if (rows[k] == top || passes(static_cast<Index>(k)) > lower - kDip * (lower - worst)) known[k] = true;
    }
  }
  Index best = -1;
  for (size_t k = 0; k < rows.size(); ++k) {
    if (!known[k] && (best < 0 || outputs(rows[k]) > outputs(best))) best = rows[k];
  }
  return best;
}

absl::StatusOr<std::optional<ElsewhereModel>> FitElsewhere(const kernels::KernelShape& shape,
                                                           const gp::InferenceOptions& inference, const MatrixXd& x,
                                                           const VectorXd& outputs, double level,
                                                           const MatrixXd& pending, HillsCarry* carry,
                                                           base::RandomStream random, const base::StopToken& stop) {
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
  if (!carry->theta.has_value() ||
      std::abs(static_cast<double>(n - carry->rows)) >= std::max(1.0, kRenew * static_cast<double>(carry->rows))) {
    gp::InferenceOptions search = inference;
    if (carry->theta.has_value()) {
      search.max_searches = 1;
      search.random_starts = 1;
      search.max_evaluations = kMaxRenewEvaluations;
    }
    gp::Likelihood likelihood(shape, points, values);
    LUTHIER_ASSIGN_OR_RETURN(gp::InferenceResult found,
                             gp::MaximizePosterior(&likelihood, search, carry->theta, random, stop));
    carry->theta = std::move(found.theta);
    carry->rows = n;
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<gp::Regression> regression,
                           gp::Regression::Fit(shape, *carry->theta, x,
                                               ((outputs.cwiseMin(level).array() - offset) / unit).matrix(), {}, stop));
  if (!regression.has_value()) return std::nullopt;
  regression->FitMean();
  for (Index i = 0; i < pending.rows(); ++i) {
    const double taken = regression->PredictMean(pending.row(i))(0);
    LUTHIER_ASSIGN_OR_RETURN(const bool appended, regression->Append(pending.row(i).transpose(), taken, stop));
    if (appended) level = std::max(level, offset + unit * taken);
  }
  return std::optional<ElsewhereModel>(ElsewhereModel{*std::move(regression), offset, unit, level});
}

VectorXd ElsewhereAcquisition::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd beat = VectorXd::Constant(u.rows(), level_);
  for (Index k = 0; k < tops_.rows(); ++k) beat = beat.cwiseMax(Passes(*model_, u, tops_.row(k).transpose()));
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
    if (upper(i) <= record_) values(i) = -std::numeric_limits<double>::infinity();
  }
  return values;
}

double ElsewhereAcquisition::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient == nullptr) return Values(u.transpose())(0);
  if (bounds_ != nullptr && bounds_->At(u).upper <= record_) {
    gradient->setZero(u.size());
    return -std::numeric_limits<double>::infinity();
  }
  double beat = level_;
  Index highest = -1;
  const VectorXd passes = model_->PredictMean(((tops_.rowwise() + u.transpose()) * 0.5).eval());
  for (Index k = 0; k < passes.size(); ++k) {
    if (!(passes(k) > beat)) continue;
    beat = passes(k);
    highest = k;
  }
  const gp::PointPosterior p = elsewhere_->regression.PredictWithGradient(u);
  const double deviation = std::sqrt(p.variance);
  const AcquisitionTerm term =
      EvaluateTerm(settings_, p.mean, deviation, (beat - elsewhere_->offset) / elsewhere_->unit);
  *gradient = term.by_mean * p.mean_gradient + (0.5 * term.by_deviation / deviation) * p.variance_gradient;
  if (highest >= 0) {
    // The half way point moves half as fast as u.
    const VectorXd half = 0.5 * (u + tops_.row(highest).transpose());
    *gradient -= term.by_mean * 0.5 / elsewhere_->unit * model_->PredictWithGradient(half).mean_gradient;
  }
  return term.value;
}

}  // namespace luthier::suggest
