#ifndef LUTHIER_LIB_SUGGEST_FINITE_THOMPSON_H_
#define LUTHIER_LIB_SUGGEST_FINITE_THOMPSON_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/gp/regression.h"
#include "lib/study/encoding.h"
#include "lib/suggest/acquisition.h"
#include "lib/suggest/maximize.h"

// Thompson sampling over finitely many settings: the posterior's own joint draw there, without Fourier features.
namespace luthier::suggest {

// A joint draw at each batch of points: DrawAtPoints(regression, u, random). Points of different batches are not drawn
// together, so a maximiser must be given all of its points at once. Borrows the regression.
class FiniteDraw final : public AcquisitionFunction {
 public:
  FiniteDraw(const gp::Regression* regression, base::RandomStream random) : regression_(regression), random_(random) {}

  // NaN when the covariance cannot be factored. O(q^3/3 + q^2 n).
  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  // The gradient is 0: there is nothing to climb.
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  const gp::Regression* regression_;
  base::RandomStream random_;
};

// The settings that a finite draw is of. Of a small finite space (`table`): those not excluded, at most 1164, at
// random. Else 1024 scrambled Sobol points of the stream (seed, "bo/finite", index), the known ones (compact, best
// first) and 140 around the best of them. `box`, when not null, holds all of them, as in Maximize. No setting twice.
std::vector<study::Parameters> FiniteCandidates(const study::Encoding& encoding, const SettingTable* table,
                                                const std::vector<bool>& excluded, const Eigen::MatrixXd& known,
                                                const TrustBox* box, uint64_t seed, uint64_t index);

// The candidate with the largest finite value, ties to the first; absent when there is none.
std::optional<MaximizeCandidate> MaximizeOverCandidates(const AcquisitionFunction& acquisition,
                                                        const study::Encoding& encoding,
                                                        const std::vector<study::Parameters>& candidates);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_FINITE_THOMPSON_H_
