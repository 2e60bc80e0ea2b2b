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
#include "lib/search/bo/model/ask_key.h"
#include "lib/study/encoding.h"

// Thompson sampling over finitely many settings: a joint draw of the posterior at all of them (DrawAtPoints), without
// Fourier features.
namespace luthier::search {

// A joint draw of f at given points, as an acquisition. Immutable and thread-safe.
class FiniteDraw final : public AcquisitionFunction {
 public:
  // Draws at the q rows of `points`, all different. Costs O(q^3/3 + q^2 n). Returns CANCELLED once `stop` is raised.
  static absl::StatusOr<FiniteDraw> Create(const gp::Regression& regression, Eigen::MatrixXd points,
                                           base::RandomStream random, const base::StopToken& stop);

  // Returns the drawn value at each row of u that equals one of the points, NaN at other rows. If the covariance could
  // not be factored, every value is NaN.
  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  // Sets `gradient` to 0.
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  FiniteDraw(Eigen::MatrixXd points, Eigen::VectorXd values);

  Eigen::MatrixXd points_;
  Eigen::VectorXd values_;
  std::vector<Eigen::Index> order_;  // Rows of points_ in lexicographical order, for lookup.
};

// Settings, and their model points as rows.
struct FiniteSet {
  std::vector<study::Parameters> settings;
  Eigen::MatrixXd points;
};

// Returns the settings at which to draw, each once. In a small finite space (`table` not null) these are the rows of
// the table that `excluded` allows, at most 1164 of them, at random. Otherwise they are ScreenPoints of the random
// stream key.Stream("bo/finite"): 1024 Sobol points, the rows of `known` (compact points, best first), 40 near and
// 100 wide sprays; inside `box` unless that is null.
FiniteSet FiniteCandidates(const study::Encoding& encoding, const SettingTable* table,
                           const std::vector<bool>& excluded, const Eigen::MatrixXd& known, const TrustBox* box,
                           const AskKey& key);

// Returns the candidate with the largest finite value, the first of equal ones, or std::nullopt if no value is finite.
// Returns CANCELLED once `stop` is raised.
absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverCandidates(const AcquisitionFunction& acquisition,
                                                                        const FiniteSet& candidates,
                                                                        const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_FINITE_THOMPSON_H_
