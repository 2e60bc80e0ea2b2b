#ifndef LUTHIER_LIB_SUGGEST_NEWS_H_
#define LUTHIER_LIB_SUGGEST_NEWS_H_

#include <vector>

#include "Eigen/Core"
#include "lib/gp/regression.h"
#include "lib/suggest/acquisition.h"

// For batches: acquisitions that do not ask again for what trials under way will tell (docs/design/parallel.md).
namespace luthier::suggest {

// A posterior with open trials as its last rows, and the deviation that a new trial must leave to be learnt.
struct NewsLevel {
  const gp::Regression* regression = nullptr;  // Borrowed.
  double deviation = 0.0;                      // Of f, in the regression's units.
};

// kLeastNews times the deviation that the most promising open trial had when it was not under way: sd(f(p*) | results),
// where p* of `open` (q x d, q >= 1) has the largest mu(p) + root_beta sd(p) under the results alone. Of a batch asked
// for at once by UCB p* is the first setting, whatever followed. results: of the results alone.
//
// noisy: whether measuring a setting again tells anything. Where not, the model has some noise sigma all the same, 1e-4
// output deviations at least, and a trial leaves a deviation of up to sigma at its own setting however small sd(p*) is.
// The level is then sqrt((kLeastNews sd(p*))^2 + sigma^2), above all that a repetition could tell.
inline constexpr double kLeastNews = 0.2;
double LeastNews(const gp::Regression& results, const Eigen::Ref<const Eigen::MatrixXd>& open, double root_beta,
                 bool noisy);

// An acquisition with the points left out at which the results and the open trials leave less to be learnt than the
// levels say, sd(f(u) | results, open) < level on the average over states of sd/level. Improvements vanish there by
// themselves; an upper confidence bound, or a function drawn, is the largest again next to where it was, as the mean
// does not move. The value there is -infinity and the gradient 0, as in AcceptRejectAcquisition; with a gradient the
// edge counts as 1e-6 further out, so that where a search ends is inside by the batch's round-off, too. Thread-safe.
class NewsAcquisition final : public AcquisitionFunction {
 public:
  // Borrows `a` and the states, at least one.
  NewsAcquisition(const AcquisitionFunction* a, std::vector<NewsLevel> states);

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  // sd/level, averaged: q.
  Eigen::VectorXd News(const Eigen::Ref<const Eigen::MatrixXd>& u) const;

  const AcquisitionFunction* a_;
  std::vector<NewsLevel> states_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_NEWS_H_
