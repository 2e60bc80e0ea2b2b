#include "lib/search/bo/model/gradients.h"

#include <algorithm>
#include <cmath>

#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/model/observations.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

ScoreSlopes Steepest(const ScoreSlopes& full, Index columns) {
  const Index k = full.values.size();
  const double norm = full.values.stableNorm();
  VectorXd along =
      VectorXd::Constant(k, 1.0 / std::sqrt(static_cast<double>(k)));  // A zero gradient gets an arbitrary direction.
  if (norm > 0.0 && std::isfinite(norm)) along = (full.values / norm).normalized();
  ScoreSlopes one;
  one.direction = VectorXd::Zero(columns);
  for (Index i = 0; i < k; ++i) one.direction(full.axes[static_cast<size_t>(i)]) = along(i);
  one.values = VectorXd::Constant(1, along.dot(full.values));
  one.variances = VectorXd::Constant(1, along.cwiseAbs2().dot(full.variances));
  return one;
}

GradientUnits::GradientUnits(const study::Encoding& encoding, study::Goal goal) : encoding_(&encoding), goal_(goal) {
  for (const auto& [parameter, element] : encoding.space().differentiable()) {
    const int first = encoding.coordinate_of(parameter);
    column_.push_back(first < 0 ? -1 : encoding.model_begin(first + element));
  }
}

ScoreSlopes GradientUnits::FromUser(const study::Gradient& gradient, const study::Parameters& parameters) const {
  const std::vector<double>& entries = gradient.full() ? gradient.values : gradient.direction;
  if (entries.size() != column_.size()) return {};
  const double error = gradient.error_bound.value_or(0.0);
  ScoreSlopes slopes;
  if (gradient.full()) {
    std::vector<double> values, variances;
    for (size_t k = 0; k < column_.size(); ++k) {
      const double user = encoding_->UserPerUnit(static_cast<int>(k), parameters);
      const double value = study::Score(goal_, entries[k] * user);
      const double variance = error * user * error * user;
      if (column_[k] < 0 || user == 0.0 || !std::isfinite(value) || !std::isfinite(variance)) continue;
      slopes.axes.push_back(column_[k]);
      values.push_back(value);
      variances.push_back(variance);
    }
    slopes.values = Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
    slopes.variances = Eigen::Map<const VectorXd>(variances.data(), static_cast<Index>(variances.size()));
    return slopes;
  }
  VectorXd direction = VectorXd::Zero(encoding_->model_dim());
  for (size_t k = 0; k < column_.size(); ++k) {
    if (entries[k] == 0.0) continue;
    const double user = encoding_->UserPerUnit(static_cast<int>(k), parameters);
    if (column_[k] < 0) return {};  // The direction includes a parameter that the model has no coordinate for.
    if (user != 0.0) direction(column_[k]) = entries[k] / user;
  }
  const double length = direction.stableNorm();
  const double value = study::Score(goal_, gradient.slope / length), variance = error / length * error / length;
  if (!(length > 0.0) || !std::isfinite(length) || !std::isfinite(value) || !std::isfinite(variance)) return {};
  slopes.direction = (direction / length).normalized();
  slopes.values = VectorXd::Constant(1, value);
  slopes.variances = VectorXd::Constant(1, variance);
  return slopes;
}

absl::StatusOr<std::vector<double>> GradientUnits::RandomDirection(const study::Parameters& parameters, uint64_t seed,
                                                                   uint64_t ask_index,
                                                                   const base::StopToken& stop) const {
  std::vector<double> unit(column_.size(), 0.0), user(column_.size(), 0.0);
  std::vector<size_t> usable;
  for (size_t k = 0; k < column_.size(); ++k) {
    user[k] = encoding_->UserPerUnit(static_cast<int>(k), parameters);
    if (column_[k] >= 0 && user[k] != 0.0) usable.push_back(k);
  }
  if (usable.empty()) return std::vector<double>();
  // The asks form groups of as many as there are coordinates; within a group each direction is orthogonal to those
  // before.
  const uint64_t count = usable.size();
  const uint64_t group = ask_index / count;
  const Index place = static_cast<Index>(ask_index % count);
  MatrixXd basis(static_cast<Index>(count), place + 1);
  for (Index k = 0; k <= place; ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(4 * k * basis.rows()));
    base::RandomStream random(seed, "bo/direction", group, static_cast<uint32_t>(k));
    for (double& x : basis.col(k)) x = random.Normal();
    // The second pass removes what rounding left of the others.
    for (int pass = 0; pass < 2; ++pass) {
      basis.col(k) -= basis.leftCols(k) * (basis.leftCols(k).transpose() * basis.col(k)).eval();
    }
    basis.col(k).normalize();
  }
  for (size_t k = 0; k < usable.size(); ++k) unit[usable[k]] = basis(static_cast<Index>(k), place);
  bool some = false, finite = true;
  for (size_t k = 0; k < column_.size(); ++k) {
    user[k] = unit[k] == 0.0 ? 0.0 : unit[k] * user[k];
    some = some || user[k] != 0.0;
    finite = finite && std::isfinite(user[k]);
  }
  if (!some || !finite) return std::vector<double>();
  return user;
}

gp::Slopes ModelSlopes(const std::vector<ScoreSlopes>& known, const VectorXd& scores, Index columns, bool one_each,
                       Index full_rows, Index max_rows) {
  const Index n = static_cast<Index>(known.size());
  std::vector<Index> with;
  Index rows = scores.size();
  for (Index i = 0; i < n; ++i) {
    if (known[static_cast<size_t>(i)].empty()) continue;
    with.push_back(i);
    ++rows;
  }
  std::vector<bool> full(known.size(), false);
  if (!one_each) {
    SortByScore(scores, &with);
    for (const Index i : with) {
      const Index more = known[static_cast<size_t>(i)].values.size() - 1;
      if (rows + more > full_rows) break;
      rows += more;
      full[static_cast<size_t>(i)] = true;
    }
  }
  gp::Slopes slopes;
  const Index count = rows - scores.size();
  slopes.directions.setZero(count, columns);
  slopes.values.resize(count);
  slopes.extra_variances.resize(count);
  Index row = 0;
  for (Index i = 0; i < n; ++i) {
    const ScoreSlopes& all = known[static_cast<size_t>(i)];
    if (all.empty()) continue;
    const ScoreSlopes& used = full[static_cast<size_t>(i)] || all.axes.empty() ? all : Steepest(all, columns);
    for (Index k = 0; k < used.values.size(); ++k, ++row) {
      slopes.points.push_back(i);
      if (used.axes.empty()) {
        slopes.directions.row(row) = used.direction.transpose();
      } else {
        slopes.directions(row, used.axes[static_cast<size_t>(k)]) = 1.0;
      }
      slopes.values(row) = used.values(k);
      slopes.extra_variances(row) = used.variances(k);
    }
  }
  if (rows <= max_rows) return slopes;
  return slopes.Select(gp::SlopesWithin(slopes.points, scores, max_rows));
}

}  // namespace luthier::search
