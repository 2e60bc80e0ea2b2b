#ifndef LUTHIER_LIB_SEARCH_BO_MODEL_OUTPUT_TRANSFORM_H_
#define LUTHIER_LIB_SEARCH_BO_MODEL_OUTPUT_TRANSFORM_H_

#include <optional>
#include <string>

#include "Eigen/Core"

namespace luthier::search {

// The nonlinear step between standardised scores and a Gaussian process's outputs.
enum class Warp {
  kNone,
  kYeoJohnson,
  kLog,  // Logarithm of the loss, -score. It suits losses above 0 that span decades.
};
inline constexpr Warp kWarps[] = {Warp::kNone, Warp::kYeoJohnson, Warp::kLog};
// Returns "none", "yeo_johnson" or "log".
std::string WarpName(Warp warp);

// An increasing map from scores (larger is better, user scale) to the outputs that a Gaussian
// process is fitted to. Over the data it was made from, outputs have mean 0 and deviation 1
// (divisor n). It has three steps:
//   clip      s' = max(s, median - 20 (max - median + interquartile range)): one absurd loss must not flatten the rest
//   standard  t = (s' - mean)/deviation
//   warp      z = Yeo-Johnson(t; lambda), standardised again; lambda = 1 leaves it out
// (Yeo & Johnson 2000, "A new family of power transformations"):
//   t >= 0: ((1 + t)^lambda - 1)/lambda        t < 0: -((1 - t)^(2 - lambda) - 1)/(2 - lambda)     (logs in the limits)
// lambda > 1 compresses the bad tail, as losses that span decades need. If all scores are equal,
// the deviation counts as 1 and all outputs are 0. With Warp::kLog the output is z = -ln(-s),
// standardised and without clipping; all scores must be below 0.
class OutputTransform {
 public:
  // Makes the transform of `scores`, which are finite and at least one. Returns std::nullopt if the
  // warp does not suit them: for kLog if a score is >= 0, for kYeoJohnson if it would change
  // nothing. The lambda of kYeoJohnson, in [-1, 4], maximises the likelihood of independent normal
  // outputs.
  static std::optional<OutputTransform> Create(Warp warp, const Eigen::VectorXd& scores);
  static OutputTransform Standard(const Eigen::VectorXd& scores);

  double Forward(double score) const;
  Eigen::VectorXd Forward(const Eigen::VectorXd& scores) const;
  // Returns the score whose output is `z`. Beyond the warp's range it is the score at the range's
  // end.
  double Inverse(double z) const;
  // Returns Inverse(z) for predictions that people see. A warp tells the size of what lies among the scores it was made
  // from and little beyond: the result is at most one range of these scores beyond them.
  double InverseWithin(double z) const;
  // Returns dz/dscore, by which a derivative of the score is multiplied. It is > 0, but 0 below the
  // clip.
  double Slope(double score) const;
  // Difference of the largest and the smallest score that it was made from.
  double range() const { return highest_ - lowest_; }
  Warp warp() const { return warp_; }
  double lambda() const { return lambda_; }
  // sum_i ln dz/dscore over the scores it was made from. Added to a log likelihood, it makes
  // different transforms comparable.
  double LogJacobian() const { return log_jacobian_; }

 private:
  explicit OutputTransform(const Eigen::VectorXd& scores);
  double ToStandard(double score) const;
  void SetYeoJohnson(const Eigen::VectorXd& t, double lambda);

  Warp warp_ = Warp::kNone;
  double unit_ = 1.0;  // Power of two that brings huge or tiny scores to a range where squares are finite.
  double floor_ = 0.0;
  double mean_ = 0.0;
  double deviation_ = 1.0;
  double lambda_ = 1.0;
  double warp_mean_ = 0.0;
  double warp_deviation_ = 1.0;
  double lowest_ = 0.0, highest_ = 0.0;  // Scores it was made from.
  double log_jacobian_ = 0.0;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_MODEL_OUTPUT_TRANSFORM_H_
