#include "lib/search/bo/turns/exploration_points.h"

#include <algorithm>
#include <limits>

#include "lib/base/status_macros.h"
#include "lib/math/sobol.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {
constexpr Index kCandidates = 4096;
constexpr int kMaxCornerBits = 10;
constexpr int kDescents = 50;
}  // namespace

absl::StatusOr<study::Parameters> FarthestPoint(const study::Encoding& encoding, const Observations& data,
                                                uint64_t seed, uint64_t index, const base::StopToken& stop) {
  const int d = encoding.compact_dim();
  base::RandomStream random(seed, "bo/farthest", index);
  const math::SobolSequence sobol(d, random.NextU64(), "bo/farthest/sobol");
  auto gap = [&](const VectorXd& compact) {
    if (!encoding.IsLegalAt(compact)) return -1.0;
    const VectorXd u = encoding.CompactToModel(compact);
    if (data.tried.rows() == 0) return std::numeric_limits<double>::infinity();
    return (data.tried.rowwise() - u.transpose()).rowwise().squaredNorm().minCoeff();
  };
  VectorXd best = sobol.Point(0);
  double widest = gap(best);
  auto consider = [&](const VectorXd& u) -> absl::StatusOr<bool> {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(data.tried.size()));
    const double g = gap(u);
    if (g <= widest) return false;
    widest = g;
    best = u;
    return true;
  };
  for (Index i = 1; i < kCandidates; ++i) {
    LUTHIER_RETURN_IF_ERROR(consider(sobol.Point(static_cast<uint64_t>(i))).status());
  }
  const int bits = std::min(d, kMaxCornerBits);
  for (int corner = 0; corner < 1 << bits; ++corner) {
    VectorXd u = VectorXd::Constant(d, 0.5);
    for (int c = 0; c < bits; ++c) u(c) = (corner >> c) & 1;
    LUTHIER_RETURN_IF_ERROR(consider(u).status());
  }
  double step = 0.1;
  for (int round = 0; round < kDescents && step > 1e-4; ++round) {
    bool moved = false;
    for (int c = 0; c < d; ++c) {
      for (double sign : {-1.0, 1.0}) {
        VectorXd u = best;
        u(c) = std::clamp(u(c) + sign * step, 0.0, 1.0);
        LUTHIER_ASSIGN_OR_RETURN(const bool farther, consider(u));
        moved = moved || farther;
      }
    }
    if (!moved) step *= 0.5;
  }
  if (!encoding.IsLegalAt(best)) return encoding.Sample(random);
  return encoding.FromCompact(best);
}

absl::StatusOr<study::Parameters> LipoPoint(const study::Encoding& encoding, const OutputBounds& bounds,
                                            double incumbent, uint64_t seed, uint64_t index,
                                            const base::StopToken& stop) {
  auto sample = [&](uint32_t draw) {
    base::RandomStream random(seed, "explore", index, draw);
    return encoding.Sample(random);
  };
  LUTHIER_ASSIGN_OR_RETURN(const LipoProposal proposal,
                           ProposeLipo(
                               bounds, incumbent, [&](uint32_t draw) { return encoding.ToModel(sample(draw)); },
                               LipoOptions(), base::RandomStream(seed, "bo/lipo", index), stop));
  return sample(proposal.draw);
}

study::Parameters SampleWith(const study::Encoding& encoding, int parameter, base::RandomStream& random) {
  const study::SearchSpace& space = encoding.space();
  VectorXd u(encoding.compact_dim());
  for (double& x : u) x = random.Uniform();
  while (space.parent(parameter) >= 0) {
    const study::Condition& condition = *space.parameters()[static_cast<size_t>(parameter)].condition;
    const study::ParameterValue& value = condition.values[random.UniformInt(condition.values.size())];
    parameter = space.parent(parameter);
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      if (encoding.compact_parameter(c) == parameter) u(c) = encoding.ToCompact({{condition.parent, value}})(c);
    }
  }
  return encoding.FromCompact(u);
}

}  // namespace luthier::search
