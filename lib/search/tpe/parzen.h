#ifndef LUTHIER_LIB_SEARCH_TPE_PARZEN_H_
#define LUTHIER_LIB_SEARCH_TPE_PARZEN_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/study/compact_column.h"

// Parzen mixtures on the unit cube of the compact encoding, for the tree-structured Parzen estimator (Bergstra et al.
// 2011, "Algorithms for hyper-parameter optimization"; bandwidths and weights as in Optuna 5; Watanabe 2023, "Tree-
// structured Parzen estimator: understanding its algorithm components and their roles").
//
//   symbol      shape  meaning                                             name
//   n, K = n+1         observations, kernels: one each and the prior       observations.rows(), kernels()
//   x           d      a point of the unit cube, decoded coordinates       point
//   mu_ij       K x d  kernel i's centre in column j                       mean_
//   sigma_ij    K x d  and its width                                       folded into half_precision_
//   w_i         K      weights, sum 1                                      log_weight_, cumulative_
namespace luthier::search {

// The mixture sum_i w_i prod_j kappa_ij(x_j), with a product over the columns, of K kernels: one an observation, and
// the prior. The kernels of a continuous column are normal distributions truncated to [0, 1]. In an ordered column the
// kernel is the probability that such a distribution gives the cell. Kernel i of a column of k labels is (1[label is
// that of observation i] + 1/K)/(1 + k/K). The prior kernel has centre 1/2 and sigma 1, and equally likely labels.
// sigma_i is the larger gap to a neighbour in the sorted list of n observations with 0 and 1 at its ends; the first and
// the last use their inner gap only (n >= 2); it is clipped to [1/min(100, K + 1), 1]. Weights: the last 25
// observations and the prior have 1, older ones a linear ramp from 1/n to 1; then they are normalised. Immutable after
// construction; any thread.
class ParzenMixture {
 public:
  // observations: n x d, decoded points (study::CompactColumn::Canonical) in order of age, oldest first; n >= 0, d
  // >= 1. O(n d log n).
  ParzenMixture(std::vector<study::CompactColumn> columns, const Eigen::Ref<const Eigen::MatrixXd>& observations);
  // Makes the same mixture in O(n d) from orders known already: `ascending` holds for each column the numbers of the
  // rows in ascending order of its values, equal ones by number. Here and below the functions return CANCELLED if
  // `stop` was raised.
  static absl::StatusOr<ParzenMixture> Create(std::vector<study::CompactColumn> columns,
                                              const Eigen::Ref<const Eigen::MatrixXd>& observations,
                                              const std::vector<std::vector<int>>& ascending,
                                              const base::StopToken& stop);

  Eigen::Index kernels() const { return mean_.rows(); }
  // Draws a decoded point.
  Eigen::VectorXd Sample(base::RandomStream& random) const;
  // Returns ln of the mixture at each row of `points` (q x d, decoded): density in continuous columns, probability in
  // others. Finite everywhere. O(q K d).
  absl::StatusOr<Eigen::VectorXd> LogDensity(const Eigen::Ref<const Eigen::MatrixXd>& points,
                                             const base::StopToken& stop) const;

 private:
  explicit ParzenMixture(std::vector<study::CompactColumn> columns) : columns_(std::move(columns)) {}
  absl::Status Fill(const Eigen::Ref<const Eigen::MatrixXd>& observations,
                    const std::vector<std::vector<int>>& ascending, const base::StopToken& stop);
  // Fills `column` of half_precision_. Returns the widths, the prior's last.
  Eigen::ArrayXd SetWidths(Eigen::Index column, const std::vector<int>& ascending);
  // Add ln kappa_ij of all kernels at the point `u` of an ordered or unordered column to `sum`.
  void AddOrdered(Eigen::Index column, double u, Eigen::ArrayXd* sum) const;
  void AddUnordered(Eigen::Index column, double u, Eigen::ArrayXd* sum) const;

  std::vector<study::CompactColumn> columns_;
  Eigen::MatrixXd mean_;
  // 1/(sigma sqrt 2): (x - mu) times this, squared, is the exponent. Unused in unordered columns.
  Eigen::MatrixXd half_precision_;
  // ln w_i - sum over continuous columns of ln(sigma sqrt(2 pi) mass in [0, 1]).
  Eigen::ArrayXd log_scale_;
  std::vector<double> cumulative_;  // Partial sums of w_i.
};

// Returns the weights of `n` observations in order of age, before normalisation: see ParzenMixture.
std::vector<double> ParzenWeights(int64_t n);

// Returns the p-quantile of a normal distribution (mean, sigma) truncated to [low, high], p in (0, 1). It works in the
// tail that holds less of the distribution, so that no digits are lost where both ends are on one side of the mean.
double TruncatedNormalQuantile(double p, double mean, double sigma, double low, double high);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_TPE_PARZEN_H_
