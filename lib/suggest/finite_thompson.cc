#include "lib/suggest/finite_thompson.h"

#include <cmath>
#include <limits>
#include <set>

#include "lib/math/sobol.h"
#include "lib/suggest/thompson.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr int kSobolPoints = 1024;
constexpr size_t kTablePoints = 1164;
}  // namespace

VectorXd FiniteDraw::Values(const Eigen::Ref<const MatrixXd>& u) const {
  const std::optional<VectorXd> draw = DrawAtPoints(*regression_, u, random_);
  return draw.has_value() ? *draw : VectorXd::Constant(u.rows(), std::numeric_limits<double>::quiet_NaN());
}

double FiniteDraw::Value(const VectorXd& u, VectorXd* gradient) const {
  if (gradient != nullptr) gradient->setZero(u.size());
  return Values(u.transpose())(0);
}

std::vector<study::Parameters> FiniteCandidates(const study::Encoding& encoding, const SettingTable* table,
                                                const std::vector<bool>& excluded, const MatrixXd& known,
                                                const TrustBox* box, uint64_t seed, uint64_t index) {
  base::RandomStream random(seed, "bo/finite", index);
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
    return candidates;
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
  return candidates;
}

std::optional<MaximizeCandidate> MaximizeOverCandidates(const AcquisitionFunction& acquisition,
                                                        const study::Encoding& encoding,
                                                        const std::vector<study::Parameters>& candidates) {
  MatrixXd points(static_cast<Index>(candidates.size()), encoding.model_dim());
  for (Index i = 0; i < points.rows(); ++i) points.row(i) = encoding.ToModel(candidates[static_cast<size_t>(i)]);
  if (points.rows() == 0) return std::nullopt;
  const VectorXd values = acquisition.Values(points);
  Index best = -1;
  for (Index i = 0; i < values.size(); ++i) {
    if (std::isfinite(values(i)) && (best < 0 || values(i) > values(best))) best = i;
  }
  if (best < 0) return std::nullopt;
  return MaximizeCandidate{candidates[static_cast<size_t>(best)], points.row(best).transpose(), values(best)};
}

}  // namespace luthier::suggest
