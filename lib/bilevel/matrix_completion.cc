#include "lib/bilevel/matrix_completion.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/math/svd.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kGapEvery = 5;  // Iterations between two computations of the gap, which takes a decomposition.

VectorXd ResidualsOf(const MatrixProblem& problem, const MatrixEntries& entries, const VectorXd& x) {
  VectorXd out = -entries.value;
  const Index features = problem.features();
  if (features > 0) out.noalias() += entries.features * x.head(features);
  for (Index e = 0; e < entries.count(); ++e) {
    const auto at = static_cast<size_t>(e);
    out[e] += x[features + entries.col[at] * problem.rows + entries.row[at]];
  }
  return out;
}

// Returns a bound on the curvature of half the mean square.
double Curvature(const MatrixProblem& problem) {
  const MatrixEntries& entries = problem.train;
  // The curvature in Gamma alone is the largest number of times that one entry occurs.
  std::map<std::pair<Index, Index>, Index> times;
  Index most = 1;
  for (size_t e = 0; e < entries.row.size(); ++e) most = std::max(most, ++times[{entries.row[e], entries.col[e]}]);
  double features = 0.0;
  if (problem.features() > 0) {
    const MatrixXd gram = entries.features.transpose() * entries.features;
    features = Eigen::SelfAdjointEigenSolver<MatrixXd>(gram, Eigen::EigenvaluesOnly).eigenvalues().tail(1)[0];
  }
  return (static_cast<double>(most) + features) / static_cast<double>(entries.count());
}

}  // namespace

VectorXd Joined(const VectorXd& weights, const MatrixXd& gamma) {
  VectorXd x(weights.size() + gamma.size());
  x << weights, Eigen::Map<const VectorXd>(gamma.data(), gamma.size());
  return x;
}

VectorXd WeightsOf(const MatrixProblem& problem, const VectorXd& x) {
  return x.head(problem.features());
}

MatrixXd LowRankOf(const MatrixProblem& problem, const VectorXd& x) {
  return Eigen::Map<const MatrixXd>(x.data() + problem.features(), problem.rows, problem.cols);
}

double MatrixLoss(const MatrixProblem& problem, const MatrixEntries& entries, const VectorXd& x) {
  if (entries.count() == 0) return 0.0;
  return 0.5 * ResidualsOf(problem, entries, x).squaredNorm() / static_cast<double>(entries.count());
}

void AddMatrixGradient(const MatrixProblem& problem, const MatrixEntries& entries, const VectorXd& x, double weight,
                       VectorXd* gradient) {
  if (entries.count() == 0) return;
  const Index features = problem.features();
  const VectorXd residuals = (weight / static_cast<double>(entries.count())) * ResidualsOf(problem, entries, x);
  if (features > 0) gradient->head(features).noalias() += entries.features.transpose() * residuals;
  for (Index e = 0; e < entries.count(); ++e) {
    const auto at = static_cast<size_t>(e);
    (*gradient)[features + entries.col[at] * problem.rows + entries.row[at]] += residuals[e];
  }
}

VectorXd MatrixPenalties(const MatrixProblem& problem, const VectorXd& x) {
  VectorXd out(1 + static_cast<Index>(problem.groups.size()));
  out[0] = math::SingularValues(LowRankOf(problem, x)).sum();
  for (size_t m = 0; m < problem.groups.size(); ++m) out[static_cast<Index>(m) + 1] = x(problem.groups[m]).norm();
  return out;
}

VectorXd MatrixDualNorms(const MatrixProblem& problem, const VectorXd& gradient) {
  VectorXd out(1 + static_cast<Index>(problem.groups.size()));
  out[0] = math::SingularValues(LowRankOf(problem, gradient))[0];
  for (size_t m = 0; m < problem.groups.size(); ++m) {
    out[static_cast<Index>(m) + 1] = gradient(problem.groups[m]).norm();
  }
  return out;
}

VectorXd ShrunkMatrix(const MatrixProblem& problem, const VectorXd& x, const VectorXd& strengths, double step) {
  VectorXd w = x.head(problem.features());
  for (size_t m = 0; m < problem.groups.size(); ++m) {
    const double norm = w(problem.groups[m]).norm();
    const double factor = norm > 0.0 ? std::max(0.0, 1.0 - step * strengths[static_cast<Index>(m) + 1] / norm) : 0.0;
    for (const Index j : problem.groups[m]) w[j] *= factor;
  }
  const math::ThinSvd svd = math::ComputeThinSvd(LowRankOf(problem, x));
  const VectorXd values = (svd.values.array() - step * strengths[0]).cwiseMax(0.0);
  return Joined(w, svd.u * values.asDiagonal() * svd.v.transpose());
}

absl::StatusOr<MatrixTraining> TrainMatrixCompletion(const MatrixProblem& problem, const VectorXd& strengths,
                                                     const VectorXd& x, double tolerance, int max_iterations,
                                                     const base::StopToken& stop) {
  LUTHIER_CHECK(strengths.minCoeff() > 0.0);
  const MatrixEntries& entries = problem.train;
  const double count = static_cast<double>(entries.count());
  const double step = 1.0 / Curvature(problem);
  const Index size = problem.rows * problem.cols * std::min(problem.rows, problem.cols);
  MatrixTraining result;
  result.objective = result.gap = std::numeric_limits<double>::infinity();
  double bound = 0.0;  // No objective is below 0.
  VectorXd at = x, ahead = x;
  double momentum = 1.0;
  for (int k = 0;; ++k) {
    if (k % kGapEvery == 0 || k == max_iterations) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(40 * size));
      const VectorXd residuals = ResidualsOf(problem, entries, at);
      VectorXd gradient = VectorXd::Zero(at.size());
      AddMatrixGradient(problem, entries, at, 1.0, &gradient);
      // Evaluates the dual function at the residuals, shrunk until it is finite.
      const VectorXd norms = MatrixDualNorms(problem, gradient);
      double share = 1.0;
      for (Index i = 0; i < norms.size(); ++i) {
        if (norms[i] > strengths[i]) share = std::min(share, strengths[i] / norms[i]);
      }
      bound = std::max(bound, -share * (0.5 * share * residuals.squaredNorm() + residuals.dot(entries.value)) / count);
      const double objective = 0.5 * residuals.squaredNorm() / count + strengths.dot(MatrixPenalties(problem, at));
      if (objective < result.objective) {
        result.objective = objective;
        result.x = at;
      }
      result.iterations = k;
      result.gap = std::max(0.0, result.objective - bound);
      result.converged = result.gap <= tolerance * (1.0 + result.objective);
      if (result.converged || k >= max_iterations) return result;
    }
    LUTHIER_RETURN_IF_ERROR(stop.Poll(20 * size));
    VectorXd gradient = VectorXd::Zero(at.size());
    AddMatrixGradient(problem, entries, ahead, 1.0, &gradient);
    VectorXd next = ShrunkMatrix(problem, ahead - step * gradient, strengths, step);
    const double next_momentum = 0.5 * (1.0 + std::sqrt(1.0 + 4.0 * momentum * momentum));
    // Momentum that points uphill is dropped (O'Donoghue & Candes 2015).
    if ((ahead - next).dot(next - at) > 0.0) {
      momentum = 1.0;
      ahead = next;
    } else {
      ahead = next + (momentum - 1.0) / next_momentum * (next - at);
      momentum = next_momentum;
    }
    at = std::move(next);
  }
}

}  // namespace luthier::bilevel
