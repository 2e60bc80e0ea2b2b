#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_IMPROVEMENT_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_IMPROVEMENT_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "lib/pareto/boxes.h"

namespace luthier::search {

// Limits of the front that improvements are measured against: points, and boxes above them.
inline constexpr Eigen::Index kMostFrontPoints = 200;
inline constexpr Eigen::Index kMostFrontBoxes = 2000;
inline constexpr int kMostExactObjectives = 4;
inline constexpr double kLargeImprovement = 1e-24;

// The expected hypervolume improvement of a result z ~ N(mean, diag(deviation^2)) of m objectives over a front:
//   EHVI = E [HV(front + z) - HV(front)] = sum_k prod_j D_kj,    D_kj = psi_j(l_kj) - psi_j(u_kj)
//   psi_j(a) = E max(z_j - a, 0) = deviation_j h((mean_j - a)/deviation_j),    h(t) = phi(t) + t Phi(t)
// over the disjoint boxes [l_k, u_k) above the front (lib/pareto/boxes.h; Yang, Emmerich, Deutz & Baeck 2019,
// "Efficient computation of expected hypervolume improvement using box decomposition algorithms"). With
//   d psi/dmean = Phi,    d psi/ddeviation = phi
// its derivatives are closed, too. Immutable; any thread.
class HypervolumeImprovement {
 public:
  // Takes the front's points as rows, and the reference point (one entry an objective, at least one). Larger is better.
  // Dominated rows and those that are not above the reference change nothing. Returns std::nullopt if there are more
  // than kMostFrontBoxes boxes.
  static std::optional<HypervolumeImprovement> Create(const Eigen::Ref<const Eigen::MatrixXd>& front,
                                                      const Eigen::Ref<const Eigen::VectorXd>& reference);

  Eigen::Index objectives() const { return boxes_.lower.cols(); }

  // Returns ln EHVI, which is finite where EHVI itself underflows; all deviations are above 0. Sets the derivatives by
  // means and deviations (one entry an objective) unless `by_mean` is null.
  double Log(const Eigen::Ref<const Eigen::VectorXd>& mean, const Eigen::Ref<const Eigen::VectorXd>& deviation,
             Eigen::VectorXd* by_mean, Eigen::VectorXd* by_deviation) const;

  // Returns EHVI, which is cheaper, and its derivatives as Log. Lower coordinates of boxes that lie more than 13.5
  // deviations above the mean count as out of reach: sums of EHVI above kLargeImprovement are accurate.
  double Plain(const Eigen::VectorXd& mean, const Eigen::VectorXd& deviation, Eigen::VectorXd* by_mean,
               Eigen::VectorXd* by_deviation) const;

  // Returns ln EHVI as Log, but by the logarithms of its terms, of which those below the sum's last digit are left out:
  // cheaper where EHVI is small.
  double ByLogarithms(const Eigen::VectorXd& mean, const Eigen::VectorXd& deviation, Eigen::VectorXd* by_mean,
                      Eigen::VectorXd* by_deviation) const;

 private:
  explicit HypervolumeImprovement(pareto::Boxes boxes) : boxes_(std::move(boxes)) {}

  pareto::Boxes boxes_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_HYPERVOLUME_IMPROVEMENT_H_
