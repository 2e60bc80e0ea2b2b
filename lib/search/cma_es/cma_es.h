#ifndef LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_H_
#define LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_H_

#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/study/compact_column.h"

namespace luthier::search {

// One run of the covariance matrix adaptation evolution strategy on the unit cube (Hansen 2016, "The CMA evolution
// strategy: a tutorial", arXiv 1604.00772, with negative weights). It draws samples of the current generation and
// updates itself by a finished one; callers evaluate the samples. A margin keeps integers alive (Hamano et al. 2022,
// "CMA-ES with margin", GECCO).
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
// Faces: a numeric sample is x = m + sigma B D z, and the evaluated point is x moved to the faces of the cube. The
// update uses x itself, then moves m to the faces where it lies beyond them; the paths use the step that m made. So
// minima on faces and in corners are hit exactly. (Drawing again until a sample is inside, as packages do, takes
// thousands of evaluations to a corner; a covariance that learns from moved samples goes flat there before m has
// arrived.)
// Ordered columns: the decoded value is m + sigma A B D z. A and m are corrected after each update so that every level
// next to m's keeps a probability of at least 1/(2 lambda d), d columns. Without that correction the samples would keep
// to one level as sigma shrinks. Unordered columns have no place in a covariance. Each has independent probabilities q,
// which move towards the labels of the best, q += eta (sum_i w_i e_(label i) - q), and stay above (1 -
// 0.73^(1/columns))/(labels - 1) as in CatCMA (Hamano et al. 2024).
//
// A value type; not thread-safe.
class CmaEs {
 public:
  struct Sample {
    Eigen::VectorXd latent;  // Argument of Update: x, and coordinates of labels.
    Eigen::VectorXd point;   // Point to decode, in [0, 1].
  };

  // mean: compact coordinates. population >= 4; 0 < sigma <= 1.
  CmaEs(std::vector<study::CompactColumn> columns, const Eigen::Ref<const Eigen::VectorXd>& mean, double sigma,
        int population);

  // Returns 4 + floor(3 ln d).
  static int DefaultPopulation(int columns);

  int population() const { return population_; }
  double sigma() const { return sigma_; }
  // Returns m, of the numeric columns only.
  const Eigen::VectorXd& mean() const { return mean_; }
  // Returns the probability that a sample lies between `low` and `high`, the cell of a level, in numeric column
  // `numeric` (ordered). For tests of the margin.
  double LevelProbability(Eigen::Index numeric, double low, double high) const;
  // Returns q of the `k`-th unordered column.
  const Eigen::VectorXd& Shares(size_t k) const { return shares_[k]; }

  // Draws a sample of the current generation. It is a function of the object and the stream.
  Sample Draw(base::RandomStream& random) const;

  // Ends the current generation. `latents` has those of population() of its samples, best first. O(population n^2), and
  // O(n^3) from time to time.
  void Update(const std::vector<Eigen::VectorXd>& latents);

  // Returns true if more generations are useless: the distribution has shrunk to round-off or lost its shape.
  bool Collapsed() const;

 private:
  void DecomposeIfDue();
  void CorrectMargins();

  // Fixed after construction.
  std::vector<study::CompactColumn> columns_;
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

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_H_
