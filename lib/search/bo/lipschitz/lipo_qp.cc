#include "lib/search/bo/lipschitz/lipo_qp.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/math/infinity.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

using math::kInfinity;
constexpr int kMaxScans = 200;
constexpr int kSweepsPerScan = 25;

// Returns the standard deviation (divisor n) of v, or 1 if v is constant up to round-off.
double DeviationOrOne(const Eigen::Ref<const VectorXd>& v) {
  const double mean = v.mean();
  const double deviation = std::sqrt((v.array() - mean).square().mean());
  return deviation > 1e-12 * std::max(1.0, std::abs(mean)) ? deviation : 1.0;
}

}  // namespace

// The dual ascent, in scaled units; columns of x are points.
class LipoQpBounds::Solver {
 public:
  Solver(MatrixXd x, VectorXd y, const LipoQpOptions& options)
      : x_(std::move(x)),
        rows_(x_.transpose()),
        y_(std::move(y)),
        options_(options),
        k_(VectorXd::Zero(x_.rows())),
        slack_(VectorXd::Zero(y_.size())) {}

  void Start(const std::vector<Pair>& pairs) {
    for (const Pair& pair : pairs) {
      if (pair.high >= y_.size() || pair.low >= y_.size() || !(y_(pair.high) > y_(pair.low))) continue;
      Insert(pair.high, pair.low, pair.alpha);
    }
  }

  absl::Status Run(const base::StopToken& stop) {
    const size_t batch = static_cast<size_t>(std::max<Index>(1000, 10 * y_.size()));
    // Feasibility does not suffice: multipliers that grew too far have to come down again.
    bool settled = false;
    for (int scan = 0; scan < kMaxScans; ++scan) {
      LUTHIER_ASSIGN_OR_RETURN(violation_, AddViolated(batch, stop));
      if ((settled && violation_ <= options_.tolerance) || updates_ >= options_.max_updates) return absl::OkStatus();
      settled = false;
      for (int sweep = 0; sweep < kSweepsPerScan && !settled && updates_ < options_.max_updates; ++sweep) {
        LUTHIER_ASSIGN_OR_RETURN(const double largest, Sweep(stop));
        settled = largest <= 0.5 * options_.tolerance;
      }
    }
    LUTHIER_ASSIGN_OR_RETURN(violation_, AddViolated(0, stop));
    return absl::OkStatus();
  }

  // Returns the smallest increase of the noise terms that satisfies every pair.
  absl::StatusOr<VectorXd> RepairedNoise(const base::StopToken& stop) const {
    VectorXd noise = options_.rho * slack_;
    Eigen::ArrayXd parts;
    base::Pace pace(stop);
    for (Index low = 0; low < y_.size(); ++low) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(rows_.size() + 1));
      SlopeParts(low, &parts);
      for (Index high = 0; high < y_.size(); ++high) {
        if (y_(high) > y_(low)) noise(low) = std::max(noise(low), Target(high, low) - parts(high));
      }
    }
    return noise;
  }

  const VectorXd& slopes() const { return k_; }
  double violation() const { return violation_; }
  double updates() const { return updates_; }
  std::vector<Pair> pairs() const {
    std::vector<Pair> pairs;
    for (const Constraint& c : constraints_) {
      if (c.alpha > 0.0) pairs.push_back({c.high, c.low, c.alpha});
    }
    return pairs;
  }

 private:
  struct Constraint {
    Index high;
    Index low;
    double alpha;
    double target;
    double inverse_norm;  // 1/|phi|^2.
  };

  double Target(Index high, Index low) const {
    const double rise = y_(high) - y_(low);
    return rise * rise;
  }
  // Sets `parts` to sum_k K_k (x_k - x_low,k)^2 at every point. This order of the loops vectorises.
  void SlopeParts(Index low, Eigen::ArrayXd* parts) const {
    parts->setZero(y_.size());
    for (Index k = 0; k < k_.size(); ++k) *parts += k_(k) * (rows_.col(k).array() - x_(k, low)).square();
  }

  void Insert(Index high, Index low, double alpha) {
    const Eigen::ArrayXd feature = (x_.col(high) - x_.col(low)).array().square();
    const double norm = feature.square().sum() + options_.rho * options_.rho;
    constraints_.push_back({high, low, alpha, Target(high, low), 1.0 / norm});
    members_.push_back({high, low});
    if (alpha > 0.0) {
      k_.array() += alpha * feature;
      slack_(low) += alpha * options_.rho;
    }
  }

  // Adds up to `batch` of the most violated pairs to the constraints. Returns the largest violation of all.
  absl::StatusOr<double> AddViolated(size_t batch, const base::StopToken& stop) {
    struct Violated {
      double by;
      Index high;
      Index low;
    };
    std::vector<Violated> found;
    Eigen::ArrayXd parts;
    std::sort(members_.begin(), members_.end());
    double largest = 0.0;
    base::Pace pace(stop);
    for (Index low = 0; low < y_.size(); ++low) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(rows_.size() + base::kRandomAccess * y_.size()));
      const double own = options_.rho * slack_(low);
      SlopeParts(low, &parts);
      for (Index high = 0; high < y_.size(); ++high) {
        if (!(y_(high) > y_(low))) continue;
        const double by = Target(high, low) - own - parts(high);
        if (by > largest) largest = by;
        if (by > options_.tolerance && batch > 0 &&
            !std::binary_search(members_.begin(), members_.end(), std::make_pair(high, low))) {
          found.push_back({by, high, low});
        }
      }
    }
    auto worse = [](const Violated& a, const Violated& b) {
      if (a.by != b.by) return a.by > b.by;
      return std::make_pair(a.high, a.low) < std::make_pair(b.high, b.low);
    };
    if (found.size() > batch) {
      std::nth_element(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(batch), found.end(), worse);
      found.resize(batch);
    }
    std::sort(found.begin(), found.end(), worse);
    for (const Violated& v : found) Insert(v.high, v.low, 0.0);
    return largest;
  }

  // Makes one pass of coordinate ascent, and drops constraints that are satisfied with a multiplier of 0. Returns the
  // largest |change of alpha| |phi|^2 that it met: a violation, or a multiplier that should fall.
  absl::StatusOr<double> Sweep(const base::StopToken& stop) {
    double largest = 0.0;
    size_t kept = 0;
    base::Pace pace(stop);
    Eigen::ArrayXd feature(x_.rows());
    for (size_t i = 0; i < constraints_.size(); ++i) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess + 4 * x_.rows()));
      Constraint c = constraints_[i];
      feature = (x_.col(c.high) - x_.col(c.low)).array().square();
      const double missing = c.target - (feature * k_.array()).sum() - options_.rho * slack_(c.low);
      const double alpha = std::max(0.0, c.alpha + missing * c.inverse_norm);
      const double change = alpha - c.alpha;
      if (change != 0.0) {
        k_ = (k_.array() + change * feature).max(0.0);  // Never negative but by round-off.
        slack_(c.low) = std::max(0.0, slack_(c.low) + change * options_.rho);
        largest = std::max(largest, std::abs(change) / c.inverse_norm);
      }
      c.alpha = alpha;
      if (alpha > 0.0 || missing > 0.0) constraints_[kept++] = c;
    }
    updates_ += static_cast<double>(constraints_.size());
    constraints_.resize(kept);
    members_.clear();
    for (const Constraint& c : constraints_) members_.push_back({c.high, c.low});
    return largest;
  }

  MatrixXd x_;     // d x n.
  MatrixXd rows_;  // n x d, the same.
  VectorXd y_;
  LipoQpOptions options_;
  VectorXd k_;
  VectorXd slack_;  // s/rho.
  std::vector<Constraint> constraints_;
  std::vector<std::pair<Index, Index>> members_;  // (high, low) of the constraints.
  double violation_ = 0.0;
  double updates_ = 0.0;
};

LipoQpBounds::LipoQpBounds(const LipoQpOptions& options) : options_(options) {
  LUTHIER_CHECK(options.rho > 0.0 && options.tolerance > 0.0 && options.max_updates >= 0.0);
}

absl::Status LipoQpBounds::Fit(const Eigen::Ref<const MatrixXd>& u, const Eigen::Ref<const VectorXd>& y,
                               const base::StopToken& stop) {
  LUTHIER_CHECK(u.rows() == y.size() && u.allFinite() && y.allFinite());
  if (y.size() < 2 || y.maxCoeff() == y.minCoeff()) {
    u_ = u;
    y_ = y;
    violation_ = 0.0;
    updates_ = 0.0;
    slopes_.resize(0);
    noise_.resize(0);
    pairs_.clear();
    return absl::OkStatus();
  }
  VectorXd scale(u.cols());
  for (Index j = 0; j < u.cols(); ++j) scale(j) = DeviationOrOne(u.col(j));
  const double unit = DeviationOrOne(y);
  Solver solver((u * scale.cwiseInverse().asDiagonal()).transpose(), (y.array() - y.mean()) / unit, options_);
  solver.Start(pairs_);
  LUTHIER_RETURN_IF_ERROR(solver.Run(stop));
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd noise, solver.RepairedNoise(stop));
  u_ = u;
  y_ = y;
  pairs_ = solver.pairs();
  violation_ = solver.violation();
  updates_ = solver.updates();
  slopes_ = solver.slopes().array() * (unit / scale.array()).square();
  noise_ = unit * unit * noise;
  return absl::OkStatus();
}

void LipoQpBounds::Evaluate(const Eigen::Ref<const MatrixXd>& u, VectorXd* lower, VectorXd* upper) const {
  LUTHIER_CHECK(!active() || u.cols() == u_.cols());
  lower->setConstant(u.rows(), -kInfinity);
  upper->setConstant(u.rows(), kInfinity);
  if (!active()) return;
  Eigen::ArrayXd reach(y_.size());
  for (Index i = 0; i < u.rows(); ++i) {
    reach = noise_;
    for (Index j = 0; j < u.cols(); ++j) reach += slopes_(j) * (u_.col(j).array() - u(i, j)).square();
    (*upper)(i) = (y_.array() + reach.sqrt()).minCoeff<Eigen::PropagateNaN>();
  }
}

PointBounds LipoQpBounds::At(const Eigen::Ref<const VectorXd>& u) const {
  PointBounds bounds{-kInfinity, kInfinity, VectorXd::Zero(u.size()), VectorXd::Zero(u.size())};
  if (!active()) return bounds;
  LUTHIER_CHECK(u.size() == u_.cols());
  Eigen::ArrayXd reach = noise_;
  for (Index j = 0; j < u.size(); ++j) reach += slopes_(j) * (u_.col(j).array() - u(j)).square();
  reach = reach.sqrt();
  Index row = 0;
  bounds.upper = (y_.array() + reach).minCoeff(&row);
  if (reach(row) > 0.0) {
    bounds.upper_gradient = (slopes_.array() * (u - u_.row(row).transpose()).array() / reach(row)).matrix();
  }
  return bounds;
}

}  // namespace luthier::search
