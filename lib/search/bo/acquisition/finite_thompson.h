#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_FINITE_THOMPSON_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_FINITE_THOMPSON_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/study/encoding.h"

// Thompson sampling over finitely many settings: the posterior's own joint draw there, without Fourier features.
namespace luthier::search {

// A joint draw at given points.
class FiniteDraw final : public AcquisitionFunction {
 public:
  // DrawAtPoints(regression, points, random), points being different q rows. O(q^3/3 + q^2 n). CANCELLED: `stop` was
  // raised.
  static absl::StatusOr<FiniteDraw> Create(const gp::Regression& regression, Eigen::MatrixXd points,
                                           base::RandomStream random, const base::StopToken& stop);

  // Returns what was drawn at rows that are among the points; NaN at others, and everywhere when the covariance could
  // not be factored.
  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  // The gradient is 0: there is nothing to climb.
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  FiniteDraw(Eigen::MatrixXd points, Eigen::VectorXd values);

  Eigen::MatrixXd points_;
  Eigen::VectorXd values_;
  std::vector<Eigen::Index> order_;  // Rows by their coordinates.
};

// Settings and their model points, as rows.
struct FiniteSet {
  std::vector<study::Parameters> settings;
  Eigen::MatrixXd points;
};

// The settings that a finite draw is of. Of a small finite space (`table`): those not excluded, at most 1164, at
// random. Else 1024 scrambled Sobol points of the stream (seed, "bo/finite", index), the known ones (compact, best
// first) and 140 around the best of them. `box`, when not null, holds all of them, as in Maximize. No setting twice.
FiniteSet FiniteCandidates(const study::Encoding& encoding, const SettingTable* table,
                           const std::vector<bool>& excluded, const Eigen::MatrixXd& known, const TrustBox* box,
                           uint64_t seed, uint64_t index);

// The candidate with the largest finite value, ties to the first; absent when there is none. CANCELLED: `stop` was
// raised.
absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverCandidates(const AcquisitionFunction& acquisition,
                                                                        const FiniteSet& candidates,
                                                                        const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_FINITE_THOMPSON_H_
