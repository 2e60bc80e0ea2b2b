#ifndef LUTHIER_LIB_SUGGEST_OUTPUT_TRANSFORM_H_
#define LUTHIER_LIB_SUGGEST_OUTPUT_TRANSFORM_H_

#include "Eigen/Core"

namespace luthier::suggest {

// Increasing map from scores (larger is better, user scale) to the outputs a Gaussian process is fitted to: mean 0,
// deviation 1 (divisor n) over the data it was made from. Three steps:
//   clip      s' = max(s, median - 20 (max - median + interquartile range)): one absurd loss must not flatten the rest
//   standard  t = (s' - mean)/deviation
//   warp      z = Yeo-Johnson(t; lambda), standardised again; lambda = 1 leaves it out
// (Yeo & Johnson 2000, "A new family of power transformations"):
//   t >= 0: ((1 + t)^lambda - 1)/lambda        t < 0: -((1 - t)^(2 - lambda) - 1)/(2 - lambda)     (logs in the limits)
// lambda > 1 compresses the bad tail, as losses that span decades need. Scores equal: deviation 1, all outputs 0.
class OutputTransform {
 public:
  // scores: finite, at least one.
  static OutputTransform Standard(const Eigen::VectorXd& scores);
  // lambda in [-1, 4] maximising the likelihood of independent normal outputs.
  static OutputTransform Warped(const Eigen::VectorXd& scores);

  double Forward(double score) const;
  Eigen::VectorXd Forward(const Eigen::VectorXd& scores) const;
  // The score whose output is z; at the end of the warp's range the score there.
  double Inverse(double z) const;
  double lambda() const { return lambda_; }
  // sum_i ln dz/dscore at the scores it was made from: what makes likelihoods of different transforms comparable.
  double LogJacobian() const { return log_jacobian_; }

 private:
  explicit OutputTransform(const Eigen::VectorXd& scores);
  double ToStandard(double score) const;
  void SetWarp(const Eigen::VectorXd& scores, double lambda);

  double unit_ = 1.0;  // Power of two that brings huge or tiny scores to a range where squares are finite.
  double floor_ = 0.0;
  double mean_ = 0.0;
  double deviation_ = 1.0;
  double lambda_ = 1.0;
  double warp_mean_ = 0.0;
  double warp_deviation_ = 1.0;
  double log_jacobian_ = 0.0;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_OUTPUT_TRANSFORM_H_
