#include "lib/search/bo/acquisition/finite_thompson.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "lib/base/status_macros.h"
#include "lib/math/pieces.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/acquisition/thompson.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr int kSobolPoints = 1024;
constexpr size_t kTablePoints = 1164;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

FiniteSet SetOf(std::vector<study::Parameters> settings, const study::Encoding& encoding) {
  FiniteSet set{std::move(settings), MatrixXd()};
  set.points.resize(static_cast<Index>(set.settings.size()), encoding.model_dim());
  for (Index i = 0; i < set.points.rows(); ++i) {
    set.points.row(i) = encoding.ToModel(set.settings[static_cast<size_t>(i)]);
  }
  return set;
}
}  // namespace

FiniteDraw::FiniteDraw(MatrixXd points, VectorXd values)
    : points_(std::move(points)), values_(std::move(values)), order_(static_cast<size_t>(points_.rows())) {
  std::iota(order_.begin(), order_.end(), 0);
  std::sort(order_.begin(), order_.end(), [&](Index a, Index b) {
    const auto x = points_.row(a), y = points_.row(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end());
  });
}

absl::StatusOr<FiniteDraw> FiniteDraw::Create(const gp::Regression& regression, MatrixXd points,
                                              base::RandomStream random, const base::StopToken& stop) {
  if (points.rows() == 0) return FiniteDraw(std::move(points), VectorXd());
  LUTHIER_ASSIGN_OR_RETURN(std::optional<VectorXd> draw, DrawAtPoints(regression, points, random, stop));
  if (!draw.has_value()) draw = VectorXd::Constant(points.rows(), kNaN);
  return FiniteDraw(std::move(points), *std::move(draw));
}

VectorXd FiniteDraw::Values(const Eigen::Ref<const MatrixXd>& u) const {
  VectorXd values = VectorXd::Constant(u.rows(), kNaN);
  for (Index i = 0; i < u.rows(); ++i) {
    const auto point = u.row(i);
    const auto at = std::partition_point(order_.begin(), order_.end(), [&](Index row) {
      const auto x = points_.row(row);
      return std::lexicographical_compare(x.begin(), x.end(), point.begin(), point.end());
    });
    if (at != order_.end() && points_.row(*at) == point) values(i) = values_(*at);
  }
  return values;
}

double FiniteDraw::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient != nullptr) gradient->setZero(u.size());
  return Values(u.transpose())(0);
}

FiniteSet FiniteCandidates(const study::Encoding& encoding, const SettingTable* table,
                           const std::vector<bool>& excluded, const MatrixXd& known, const TrustBox* box,
                           const AskKey& key) {
  base::RandomStream random = key.Stream("bo/finite");
  std::vector<study::Parameters> candidates;
  if (table != nullptr) {
    std::vector<int> free;
    for (int i = 0; i < table->size(); ++i) {
      if (!excluded[static_cast<size_t>(i)]) free.push_back(i);
    }
    if (free.size() > kTablePoints) {
      random.Shuffle(free);
      free.resize(kTablePoints);
    }
    for (int i : free) candidates.push_back(table->Setting(i));
    return SetOf(std::move(candidates), encoding);
  }
  ScreenOptions options;
  options.sobol_points = kSobolPoints;
  options.near_sprays = 40;
  options.wide_sprays = 100;
  options.box = box;
  const MatrixXd points = ScreenPoints(encoding, known, options, random);
  std::set<study::Parameters> seen;
  for (Index i = 0; i < points.rows(); ++i) {
    study::Parameters setting = encoding.FromCompact(points.row(i).transpose());
    if (seen.insert(setting).second) candidates.push_back(std::move(setting));
  }
  return SetOf(std::move(candidates), encoding);
}

absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverCandidates(const AcquisitionFunction& acquisition,
                                                                        const FiniteSet& candidates,
                                                                        const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd values,
                           math::EvaluateInPieces(candidates.points, stop,
                                                  [&](const MatrixXd& points) { return acquisition.Values(points); }));
  Index best = -1;
  for (Index i = 0; i < values.size(); ++i) {
    if (std::isfinite(values(i)) && (best < 0 || values(i) > values(best))) best = i;
  }
  if (best < 0) return std::nullopt;
  return MaximizeCandidate{candidates.settings[static_cast<size_t>(best)], candidates.points.row(best).transpose(),
                           values(best)};
}

}  // namespace luthier::search
