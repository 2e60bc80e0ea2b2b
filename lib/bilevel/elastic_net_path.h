#ifndef LUTHIER_LIB_BILEVEL_ELASTIC_NET_PATH_H_
#define LUTHIER_LIB_BILEVEL_ELASTIC_NET_PATH_H_

#include <Eigen/Core>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "lib/base/mutex.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/elastic_net.h"

namespace luthier::bilevel {

// The elastic nets of one l2 and every l1, from the least that leaves no weight downwards: a piecewise linear path, by
// least angle regression (Efron, Hastie, Johnstone & Tibshirani 2004; Zou & Hastie 2005 for l2 > 0). A step goes to the
// next l1 at which a column gets or loses its weight, and costs about a product with X~. The path is a function of the
// data and l2 alone, whatever is asked for and in which order. Not thread-safe.
class ElasticNetPath {
 public:
  // `x` and `target` must outlive this.
  ElasticNetPath(const CenteredColumns* x, const Eigen::VectorXd* target, double l2);

  // Returns the weights at l1 (p entries), up to the rounding of the steps; or, below the end of the path, those of its
  // end. The path ends where columns tie for ever, at a share of 1e-10 of the first l1, or where it has become too
  // long. Goes on with the path as far as necessary. Returns CANCELLED when stopped.
  absl::StatusOr<Eigen::VectorXd> At(double l1, const base::StopToken& stop);

  double l2() const { return l2_; }
  int64_t bytes() const { return bytes_; }
  int64_t knots() const { return static_cast<int64_t>(knots_.size()); }
  bool ended() const { return ended_; }

 private:
  struct Knot {
    double l1 = 0.0;
    std::vector<std::pair<int32_t, double>> weights;
  };
  struct Event {
    double length = 0.0;       // By which l1 falls until then.
    Eigen::Index joins = -1;   // A column, or -1.
    Eigen::Index leaves = -1;  // A place in active_, or -1.
  };

  absl::Status Begin(const base::StopToken& stop);
  absl::Status Step(const base::StopToken& stop);
  // Returns the first event of l1's fall, where weights move by `direction` and c by -`slope`, each a unit of l1.
  Event Next(const Eigen::VectorXd& direction, const Eigen::VectorXd& slope) const;
  absl::Status Join(Eigen::Index column, const base::StopToken& stop);
  void Leave(Eigen::Index place);
  void Keep();

  // Cholesky's factor of X~_A'X~_A + l2 I, A the active columns.
  bool AppendToFactor(const Eigen::VectorXd& cross, double diagonal);
  void RemoveFromFactor(Eigen::Index place);
  Eigen::VectorXd Solve(Eigen::VectorXd b) const;

  const CenteredColumns* const x_;
  const Eigen::VectorXd* const target_;
  const double l2_;
  bool begun_ = false, ended_ = false;
  double l1_ = 0.0, top_ = 0.0;
  std::vector<Eigen::Index> active_;
  std::vector<double> weight_, sign_;  // One of each for an active column.
  enum class Place : uint8_t { kOut, kActive, kTied };
  std::vector<Place> place_;
  Eigen::Index left_last_ = -1;  // The column that left at the last knot, which is still at the bound; or -1.
  int standing_ = 0;             // Steps in a row of next to no length.
  CenteredColumns::Residual r_;  // y - X~ w
  Eigen::VectorXd c_;            // X~' r
  Eigen::MatrixXd factor_;       // Lower triangle; its first active_.size() rows count.
  std::vector<Knot> knots_;
  int64_t bytes_ = 0;
  double work_ = 0.0;
};

// The paths that trainings on the same rows share, of the newest values of l2 and bounded in bytes. Any thread.
class ElasticNetPaths {
 public:
  // Returns ElasticNetPath::At of the path of l2. Returns CANCELLED when stopped, also while another training goes on
  // with a path.
  absl::StatusOr<Eigen::VectorXd> At(const CenteredColumns& x, const Eigen::VectorXd& target, double l1, double l2,
                                     const base::StopToken& stop);

 private:
  static constexpr int64_t kMostBytes = int64_t{128} << 20;

  base::Mutex mutex_;
  base::CondVar free_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<ElasticNetPath>> paths_;  // Newest last. Of the training that has set busy_.
};

}  // namespace luthier::bilevel

#endif  // LUTHIER_LIB_BILEVEL_ELASTIC_NET_PATH_H_
