#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_FANTASIES_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_FANTASIES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/gp/regression.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/model/ask_key.h"

// Pending trials as a model sees them (docs/design/parallel.md): m joint draws of their outcomes ("fantasies") take the
// place of one believed outcome, and the improvement is averaged over the draws. With P the q pending points and y* the
// incumbent,
//   E (max(f(P), f(u)) - y*)+ = E (max f(P) - y*)+ + E EI(u | f(P), max(y*, max f(P)))
// so that, up to a constant, the average of EI over fantasies, each with its own incumbent, is the expected improvement
// of the whole batch (Snoek, Larochelle & Adams 2012; Ginsbourger, Le Riche & Carraro 2010).
//
// Notation: N rows of the model with the pending trials, C = L L' their covariance, f = 1 … m.
namespace luthier::search {

inline constexpr int kFantasies = 8;

// One posterior with its pending trials, and m ways in which they may end. All share the factor of C.
struct Fantasies {
  const gp::Regression* regression = nullptr;  // Borrowed; the pending trials are its last rows.
  Eigen::MatrixXd weights;                     // N x m: C^-1 (y_f - mean).
  Eigen::VectorXd best;                        // m: the value to beat.
};

struct FantasyRecord {
  // The best result, in the regression's units. The incumbent of a fantasy is the better of this and of its best
  // pending trial.
  double best = 0.0;
  // For a noisy objective, otherwise null: the incumbent is the largest posterior mean at these points (rows) and the
  // pending ones.
  const Eigen::MatrixXd* contenders = nullptr;
};

// Appends the pending points (q x d, q >= 1) to the regression, which is fitted to the results, and draws `count`
// outcomes
//   y_f ~ N(mu(P), Sigma(P) + sigma_n^2 I)
// by inversion of the scrambled Sobol points of the stream key.Stream("bo/fantasies", state): equal outcomes for all
// u, and less scatter than independent normals. Columns beyond the Sobol table are independent. Returns std::nullopt,
// and leaves the regression as it was, if a number is not finite or a covariance cannot be factored. O(q N^2 + m N^2).
// Returns CANCELLED if `stop` was raised; the regression may then hold some of the points.
absl::StatusOr<std::optional<Fantasies>> Fantasize(gp::Regression* regression, const Eigen::MatrixXd& open,
                                                   const FantasyRecord& incumbent, int count, const AskKey& key,
                                                   uint32_t state, const base::StopToken& stop);

// An improvement averaged over fantasies and over posteriors; logarithms are averaged as ln mean exp. Given the factor,
// a point costs O(N^2 + m N); with one believed outcome it would cost O(N^2).
class FantasyAcquisition final : public AcquisitionFunction {
 public:
  // There is at least one posterior; all have the same number of fantasies and the same columns. The acquisition is not
  // UCB, whose average over fantasies is UCB under the posterior mean itself.
  FantasyAcquisition(std::vector<Fantasies> posteriors, const AcquisitionSettings& settings);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  std::vector<Fantasies> posteriors_;
  AcquisitionSettings settings_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_FANTASIES_H_
