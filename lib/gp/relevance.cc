#include "lib/gp/relevance.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/gp/likelihood.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kValues = 60, kRows = 150;

}  // namespace

absl::StatusOr<double> RelevanceGain(const RelevanceData& data, Index axis, const InferenceOptions& inference,
                                     base::RandomStream random, const base::StopToken& stop) {
  const auto& [shape, x, y, slopes] = data;
  LUTHIER_CHECK(x.rows() == y.size() && x.cols() == shape.columns() && axis < x.cols());
  const Index n = std::min(kValues, y.size()), first = y.size() - n;
  Slopes used;
  for (Index i = 0; i < slopes.size() && n + used.size() < kRows; ++i) {
    LUTHIER_CHECK(slopes.directions(i, axis) == 0.0);
    const Index point = slopes.points[static_cast<size_t>(i)] - first;
    if (point < 0) continue;
    used.Add(point, slopes.directions.row(i).transpose(), slopes.values(i), slopes.extra_variances(i));
  }
  Likelihood with(shape, x.bottomRows(n), y.tail(n), used);
  LUTHIER_ASSIGN_OR_RETURN(const InferenceResult depends,
                           MaximizePosterior(&with, inference, std::nullopt, random, stop));
  // The points have no distance along the axis, so nothing depends on it, whatever its lengthscale.
  MatrixXd flat = x.bottomRows(n);
  flat.col(axis).setConstant(0.5);
  Likelihood without(shape, std::move(flat), y.tail(n), std::move(used));
  // A search too short must not decide against this model.
  InferenceOptions thorough = inference;
  thorough.max_searches = std::max(2, inference.max_searches);
  thorough.random_starts = std::max(3, inference.random_starts);
  thorough.max_evaluations = 2 * inference.max_evaluations;
  LUTHIER_ASSIGN_OR_RETURN(const InferenceResult does_not,
                           MaximizePosterior(&without, thorough, depends.theta, random, stop));
  return depends.log_posterior - does_not.log_posterior;
}

}  // namespace luthier::gp
