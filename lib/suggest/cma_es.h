#ifndef LUTHIER_LIB_SUGGEST_CMA_ES_H_
#define LUTHIER_LIB_SUGGEST_CMA_ES_H_

#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/suggest/compact_column.h"

namespace luthier::suggest {

// One run of the covariance matrix adaptation evolution strategy on the unit cube, without the evaluations: samples of
// the current generation, and the update by a finished one (Hansen 2016, "The CMA evolution strategy: a tutorial",
// arXiv 1604.00772, with negative weights), with the margin that keeps integers alive (Hamano et al. 2022, "CMA-ES with
// margin", GECCO).
//
//   symbol        meaning                                                    name
//   n             numeric columns: continuous and ordered                    numeric_
//   m, sigma, C   mean, step size and covariance of the samples              mean_, sigma_, covariance_
//   B, D          C = B D^2 B'                                               axes_, lengths_
//   A             widening of ordered columns before they are decoded        widening_
//   p_s, p_c      evolution paths                                            sigma_path_, covariance_path_
//   lambda, mu    samples of a generation, and those of positive weight      population(), parents_
//   q             probabilities of the labels of an unordered column         shares_
//
// A numeric sample is x = m + sigma B D z. What is evaluated is x moved to the faces of the cube. The update
// sees x itself, then moves m to the faces where it lies beyond them; the paths see the step that m made. So minima on
// faces and in corners are hit exactly. (Drawing again until a sample is inside, as packages do, takes thousands of
// evaluations to a corner; a covariance that learns from moved samples goes flat there before m has arrived.)
// Ordered columns: what is decoded is m + sigma A B D z, and A and m are corrected after each update so that every level
// beside m's keeps a probability of at least 1/(2 lambda d), d columns: without that the search would stop seeing other
// levels as sigma shrinks. Unordered columns have no place in a covariance; each has independent probabilities q, which
// move towards the labels of the best, q += eta (sum_i w_i e_(label i) - q), and stay above
// (1 - 0.73^(1/columns))/(labels - 1) as in CatCMA (Hamano et al. 2024).
//
// A value type; not thread-safe.
class CmaEs {
 public:
  struct Sample {
    Eigen::VectorXd latent;  // What Update wants: x, and coordinates of labels.
    Eigen::VectorXd point;   // What is decoded, in [0, 1].
  };

  // mean: compact coordinates. population >= 4; 0 < sigma <= 1.
  CmaEs(std::vector<CompactColumn> columns, const Eigen::Ref<const Eigen::VectorXd>& mean, double sigma,
        int population);

  // 4 + floor(3 ln d).
  static int DefaultPopulation(int columns);

  int population() const { return population_; }
  double sigma() const { return sigma_; }
  // Numeric columns only.
  const Eigen::VectorXd& mean() const { return mean_; }
  // The probability that a sample has this level in numeric column `numeric` (ordered). For tests of the margin.
  double LevelProbability(Eigen::Index numeric, double low, double high) const;
  // Of the k-th unordered column.
  const Eigen::VectorXd& Shares(size_t k) const { return shares_[k]; }

  // Of the current generation; a function of the object and the stream.
  Sample Draw(base::RandomStream& random) const;

  // population() samples of the current generation, best first. O(population n^2), now and then n^3.
  void Update(const std::vector<Eigen::VectorXd>& latents);

  // Whether more generations would be of no use: the distribution has shrunk to round-off or lost its shape.
  bool Collapsed() const;

 private:
  void DecomposeIfDue();
  void CorrectMargins();

  // Fixed after construction.
  std::vector<CompactColumn> columns_;
  std::vector<Eigen::Index> numeric_;    // Columns, by place in mean_.
  std::vector<Eigen::Index> unordered_;  // Columns, by place in shares_.
  int population_;
  int parents_;
  Eigen::VectorXd weights_;
  double parents_effective_ = 0.0;
  double sigma_rate_ = 0.0, sigma_damping_ = 0.0, path_rate_ = 0.0, rank_one_rate_ = 0.0, rank_mu_rate_ = 0.0;
  double share_rate_ = 0.0, smallest_margin_ = 0.0;
  double expected_norm_ = 0.0;
  double first_sigma_;

  int generation_ = 0;
  int decomposed_at_ = 0;
  double sigma_;
  Eigen::VectorXd mean_, sigma_path_, covariance_path_, lengths_, widening_;
  Eigen::MatrixXd covariance_, axes_;
  std::vector<Eigen::VectorXd> shares_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_CMA_ES_H_
