#include "lib/bilevel/vf_idca/factored_newton.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "lib/base/status_macros.h"

namespace luthier::bilevel {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMaxIterations = 120;
// The barrier's parameter: its relative start; the share and the power of itself to the smaller of which it falls once
// a step has ended within kNearPath of it.
constexpr double kFirstAim = 1e-2, kAimShare = 0.15, kAimPower = 1.4, kNearPath = 3.0;
// Its largest start if multipliers are known, and its least one as a share of kFirstAim.
constexpr double kWarmAim = 1e-5, kLeastWarmShare = 1e-3;
constexpr double kInside = 0.9;       // Share of a violated bound at which the lower problem starts.
constexpr double kToBoundary = 0.99;  // Share of the way to the boundary.
// Line search: share of the descent along the slope; improvement over points of the filter that a step needs, as a
// share of the violation; share of the descent below which violations are small.
constexpr double kArmijo = 1e-4, kFilter = 1e-4, kSmallViolation = 1e-2;
constexpr int kMaxHalvings = 25;
constexpr double kLeastShift = 1e-10;  // Least shift of the Hessian, as a share of its scale.

// The variables are (A by rows, B by rows, w, and of a step's problem r and t). Constraints, all h <= 0:
//   0            1/2 (|A|^2 + |B|^2) - s_0            which bounds the nuclear norm of A B' and is tight at solutions
//   1 .. groups  1/2 (|w_m|^2 / s_m - s_m)            |w_m| <= s_m, smooth at 0
// with s_i = r_i + t (t = 0 in the lower problem); of a step's problem also
//   cut          V_k - t
//   floor        -t, and least_bound - r_i for each i
class Solver {
 public:
  Solver(const MatrixProblem& problem, const FactoredStep* step, FactoredPoint start)
      : problem_(problem), step_(step), at_(std::move(start)) {
    rank_ = at_.a.cols();
    a_size_ = problem.rows * rank_;
    b_size_ = problem.cols * rank_;
    features_ = problem.features();
    penalties_ = 1 + static_cast<Index>(problem.groups.size());
    size_ = a_size_ + b_size_ + features_ + (step != nullptr ? penalties_ + 1 : 0);
    constraints_ = penalties_ + (step != nullptr ? penalties_ + 2 : 0);
  }

  absl::StatusOr<FactoredPoint> Run(double tolerance, const base::StopToken& stop);

 private:
  Index b_at() const { return a_size_; }
  Index w_at() const { return a_size_ + b_size_; }
  Index r_at() const { return w_at() + features_; }
  Index t_at() const { return r_at() + penalties_; }
  Index cut_at() const { return penalties_; }        // Index of the constraint.
  Index floor_at() const { return penalties_ + 1; }  // Index of the floor of t; those of r follow.
  double Slack(const FactoredPoint& p, Index i) const { return p.r[i] + p.t; }

  VectorXd Residuals(const FactoredPoint& p, const MatrixEntries& entries) const {
    VectorXd out = -entries.value;
    if (features_ > 0) out.noalias() += entries.features * p.weights;
    for (Index e = 0; e < entries.count(); ++e) {
      out[e] += p.a.row(entries.row[static_cast<size_t>(e)]).dot(p.b.row(entries.col[static_cast<size_t>(e)]));
    }
    return out;
  }
  static double HalfMean(const VectorXd& residuals) {
    return residuals.size() == 0 ? 0.0 : 0.5 * residuals.squaredNorm() / static_cast<double>(residuals.size());
  }
  double PartNorm2(const VectorXd& w, Index m) const {
    double sum = 0.0;
    for (const Index j : problem_.groups[static_cast<size_t>(m)]) sum += w[j] * w[j];
    return sum;
  }

  // Returns the objective, and sets all h and the residuals of the training and the held-out entries.
  double Evaluate(const FactoredPoint& p, VectorXd* h, VectorXd* train, VectorXd* validation) const;
  // Moves the lower problem's point inside its bounds, or, for a step's problem, sets t so large that nothing is
  // violated.
  void Prepare();
  FactoredPoint Moved(const FactoredPoint& p, const VectorXd& d, double length) const;
  // Sets aa_, az_, zz_, gradients_ and slopes_.
  void Differentiate(const VectorXd& lambda, const VectorXd& train, const VectorXd& validation);
  // Adds weight times the Hessian of half the sum of squares, and scale times its gradient.
  void AddEntries(const MatrixEntries& entries, const VectorXd& residuals, double weight, double scale,
                  Eigen::Ref<VectorXd> gradient);
  void AddProximity();
  void AddGroups(const VectorXd& lambda);
  // Returns the largest derivative of the Lagrangian, after Differentiate.
  double LagrangianSlope(const VectorXd& lambda) const;
  // Returns Newton's direction; empty if there is none.
  absl::StatusOr<VectorXd> Direction(const VectorXd& pull, const VectorXd& lambda, const VectorXd& s,
                                     const base::StopToken& stop);
  // Solves (H + shift I) *solved = right, where H is the matrix of aa_, az_ and zz_. Returns false if it is not
  // positive definite.
  bool SolveShifted(double shift, const MatrixXd& right, MatrixXd* solved);

  const MatrixProblem& problem_;
  const FactoredStep* const step_;
  FactoredPoint at_;
  // The Lagrangian's Hessian without the dense rank-one terms of constraints 0 and cut: the blocks of the rows of A; A
  // beside the other variables; the other variables (lower triangle).
  MatrixXd aa_, az_, zz_;
  MatrixXd gradients_;           // Columns: gradients of the objective, h_0 and V_k.
  MatrixXd slopes_;              // Rows: gradients of the other h by (w, r, t).
  MatrixXd w_, across_, schur_;  // Scratch of SolveShifted.
  double shift_ = 0.0;           // The last shift, as a share of the Hessian's scale.
  Index rank_, a_size_, b_size_, features_, penalties_, size_, constraints_;
};

double Solver::Evaluate(const FactoredPoint& p, VectorXd* h, VectorXd* train, VectorXd* validation) const {
  *train = Residuals(p, problem_.train);
  h->resize(constraints_);
  (*h)[0] = 0.5 * (p.a.squaredNorm() + p.b.squaredNorm()) - Slack(p, 0);
  for (Index m = 0; m + 1 < penalties_; ++m) {
    const double s = Slack(p, m + 1);
    (*h)[m + 1] = s > 0.0 ? 0.5 * (PartNorm2(p.weights, m) / s - s) : 1.0;
  }
  const double train_loss = HalfMean(*train);
  if (step_ == nullptr) return train_loss;
  *validation = Residuals(p, problem_.validation);
  (*h)[cut_at()] = train_loss - step_->cut + step_->gamma.dot(p.r - step_->bounds) - p.t;
  (*h)[floor_at()] = -p.t;
  h->tail(penalties_) = step_->least_bound - p.r.array();
  return HalfMean(*validation) + step_->alpha * p.t +
         0.5 * step_->rho *
             ((p.weights - step_->weights).squaredNorm() + (p.a * p.b.transpose() - step_->low_rank).squaredNorm() +
              (p.r - step_->bounds).squaredNorm());
}

void Solver::Prepare() {
  const double half = 0.5 * (at_.a.squaredNorm() + at_.b.squaredNorm());
  if (step_ == nullptr) {
    at_.t = 0.0;
    // The smooth forms of bounds that are far violated are so steep that no Newton step is accepted.
    if (half > at_.r[0]) {
      const double share = std::sqrt(kInside * at_.r[0] / half);
      at_.a *= share;
      at_.b *= share;
    }
    for (Index m = 0; m + 1 < penalties_; ++m) {
      const double norm = std::sqrt(PartNorm2(at_.weights, m));
      if (norm <= at_.r[m + 1]) continue;
      for (const Index j : problem_.groups[static_cast<size_t>(m)]) at_.weights[j] *= kInside * at_.r[m + 1] / norm;
    }
    return;
  }
  at_.r = at_.r.cwiseMax(2.0 * step_->least_bound);
  double most = 0.0;
  most = std::max(most, half - at_.r[0]);
  for (Index m = 0; m + 1 < penalties_; ++m) {
    most = std::max(most, std::sqrt(PartNorm2(at_.weights, m)) - at_.r[m + 1]);
  }
  const double loss = HalfMean(Residuals(at_, problem_.train));
  most = std::max(most, loss - step_->cut + step_->gamma.dot(at_.r - step_->bounds));
  at_.t = most + 0.01 * (loss + at_.r.mean()) + 1e-6;
}

FactoredPoint Solver::Moved(const FactoredPoint& p, const VectorXd& d, double length) const {
  FactoredPoint out = p;
  for (Index i = 0; i < p.a.rows(); ++i) out.a.row(i) += length * d.segment(i * rank_, rank_).transpose();
  for (Index j = 0; j < p.b.rows(); ++j) out.b.row(j) += length * d.segment(b_at() + j * rank_, rank_).transpose();
  out.weights += length * d.segment(w_at(), features_);
  if (step_ != nullptr) {
    out.r += length * d.segment(r_at(), penalties_);
    out.t += length * d[t_at()];
  }
  return out;
}

void Solver::AddEntries(const MatrixEntries& entries, const VectorXd& residuals, double weight, double scale,
                        Eigen::Ref<VectorXd> gradient) {
  const Index w0 = w_at() - a_size_;
  for (Index e = 0; e < entries.count(); ++e) {
    const Index i = entries.row[static_cast<size_t>(e)], j = entries.col[static_cast<size_t>(e)];
    const auto a = at_.a.row(i);
    const auto b = at_.b.row(j);
    gradient.segment(i * rank_, rank_) += scale * residuals[e] * b.transpose();
    gradient.segment(b_at() + j * rank_, rank_) += scale * residuals[e] * a.transpose();
    aa_.middleRows(i * rank_, rank_).noalias() += weight * b.transpose() * b;
    zz_.block(j * rank_, j * rank_, rank_, rank_).noalias() += weight * a.transpose() * a;
    auto cross = az_.block(i * rank_, j * rank_, rank_, rank_);
    cross.noalias() += weight * b.transpose() * a;
    cross.diagonal().array() += weight * residuals[e];
    if (features_ == 0) continue;
    const auto f = entries.features.row(e);
    az_.block(i * rank_, w0, rank_, features_).noalias() += weight * b.transpose() * f;
    zz_.block(w0, j * rank_, features_, rank_).noalias() += weight * f.transpose() * a;
  }
  if (features_ == 0) return;
  gradient.segment(w_at(), features_).noalias() += scale * entries.features.transpose() * residuals;
  zz_.block(w0, w0, features_, features_).noalias() += weight * entries.features.transpose() * entries.features;
}

void Solver::AddProximity() {
  const double rho = step_->rho;
  const Index w0 = w_at() - a_size_;
  const MatrixXd difference = at_.a * at_.b.transpose() - step_->low_rank;
  const MatrixXd bb = at_.b.transpose() * at_.b, aa = at_.a.transpose() * at_.a;
  const MatrixXd by_a = difference * at_.b, by_b = difference.transpose() * at_.a;
  auto gradient = gradients_.col(0);
  for (Index i = 0; i < problem_.rows; ++i) {
    aa_.middleRows(i * rank_, rank_) += rho * bb;
    gradient.segment(i * rank_, rank_) += rho * by_a.row(i).transpose();
    for (Index j = 0; j < problem_.cols; ++j) {
      auto cross = az_.block(i * rank_, j * rank_, rank_, rank_);
      cross.noalias() += rho * at_.b.row(j).transpose() * at_.a.row(i);
      cross.diagonal().array() += rho * difference(i, j);
    }
  }
  for (Index j = 0; j < problem_.cols; ++j) {
    zz_.block(j * rank_, j * rank_, rank_, rank_) += rho * aa;
    gradient.segment(b_at() + j * rank_, rank_) += rho * by_b.row(j).transpose();
  }
  gradient.segment(w_at(), features_) += rho * (at_.weights - step_->weights);
  gradient.segment(r_at(), penalties_) += rho * (at_.r - step_->bounds);
  gradient[t_at()] += step_->alpha;
  zz_.diagonal().segment(w0, features_ + penalties_).array() += rho;
}

void Solver::AddGroups(const VectorXd& lambda) {
  const Index w0 = w_at() - a_size_, t0 = features_ + penalties_;
  for (Index m = 0; m + 1 < penalties_; ++m) {
    const Index c = m + 1;
    const double size = Slack(at_, c), squares = PartNorm2(at_.weights, m), l = lambda[c];
    const std::vector<Index>& group = problem_.groups[static_cast<size_t>(m)];
    for (const Index j : group) {
      slopes_(c, j) = at_.weights[j] / size;
      zz_(w0 + j, w0 + j) += l / size;
    }
    if (step_ == nullptr) continue;
    slopes_(c, features_ + c) = slopes_(c, t0) = -0.5 * (squares / (size * size) + 1.0);
    const double curve = l * squares / (size * size * size);
    const Index rc = w0 + features_ + c, tc = w0 + t0;
    for (const Index j : group) {
      zz_(rc, w0 + j) -= l * at_.weights[j] / (size * size);
      zz_(tc, w0 + j) -= l * at_.weights[j] / (size * size);
    }
    zz_(rc, rc) += curve;
    zz_(tc, rc) += curve;
    zz_(tc, tc) += curve;
  }
  if (step_ == nullptr) return;
  slopes_(floor_at(), t0) = -1.0;
  for (Index i = 0; i < penalties_; ++i) slopes_(floor_at() + 1 + i, features_ + i) = -1.0;
}

void Solver::Differentiate(const VectorXd& lambda, const VectorXd& train, const VectorXd& validation) {
  const Index rest = size_ - a_size_;
  aa_.setZero(a_size_, rank_);
  az_.setZero(a_size_, rest);
  zz_.setZero(rest, rest);
  gradients_.setZero(size_, 3);
  slopes_.setZero(constraints_, features_ + penalties_ + 1);
  const double train_share = 1.0 / static_cast<double>(problem_.train.count());
  if (step_ == nullptr) {
    AddEntries(problem_.train, train, train_share, train_share, gradients_.col(0));
  } else {
    const double share = 1.0 / static_cast<double>(std::max<Index>(1, problem_.validation.count()));
    AddEntries(problem_.validation, validation, share, share, gradients_.col(0));
    AddEntries(problem_.train, train, lambda[cut_at()] * train_share, train_share, gradients_.col(2));
    AddProximity();
    gradients_.col(2).segment(r_at(), penalties_) = step_->gamma;
    gradients_(t_at(), 2) = -1.0;
    gradients_(r_at(), 1) = gradients_(t_at(), 1) = -1.0;
  }
  for (Index i = 0; i < problem_.rows; ++i) {
    gradients_.col(1).segment(i * rank_, rank_) = at_.a.row(i).transpose();
    aa_.middleRows(i * rank_, rank_).diagonal().array() += lambda[0];
  }
  for (Index j = 0; j < problem_.cols; ++j) {
    gradients_.col(1).segment(b_at() + j * rank_, rank_) = at_.b.row(j).transpose();
  }
  zz_.diagonal().head(b_size_).array() += lambda[0];
  AddGroups(lambda);
}

double Solver::LagrangianSlope(const VectorXd& lambda) const {
  VectorXd slope = gradients_.col(0) + lambda[0] * gradients_.col(1);
  if (step_ != nullptr) slope += lambda[cut_at()] * gradients_.col(2);
  const Index outer = size_ - w_at();
  slope.tail(outer) += slopes_.leftCols(outer).transpose() * lambda;
  return slope.lpNorm<Eigen::Infinity>();
}

bool Solver::SolveShifted(double shift, const MatrixXd& right, MatrixXd* solved) {
  const Index rest = size_ - a_size_;
  MatrixXd inner = right.topRows(a_size_);
  w_ = az_;
  std::vector<Eigen::LLT<MatrixXd>> factors;
  factors.reserve(static_cast<size_t>(problem_.rows));
  for (Index i = 0; i < problem_.rows; ++i) {
    MatrixXd block = aa_.middleRows(i * rank_, rank_);
    block.diagonal().array() += shift;
    factors.emplace_back(block);
    if (factors.back().info() != Eigen::Success) return false;
    factors.back().matrixL().solveInPlace(w_.middleRows(i * rank_, rank_));
    factors.back().matrixL().solveInPlace(inner.middleRows(i * rank_, rank_));
  }
  schur_ = zz_;
  schur_.diagonal().array() += shift;
  across_ = w_.transpose();
  schur_.selfadjointView<Eigen::Lower>().rankUpdate(across_, -1.0);
  const Eigen::LLT<Eigen::Ref<MatrixXd>> factor(schur_);
  if (factor.info() != Eigen::Success) return false;
  solved->resize(size_, right.cols());
  solved->bottomRows(rest) = factor.solve(right.bottomRows(rest) - across_ * inner);
  inner -= w_ * solved->bottomRows(rest);
  for (Index i = 0; i < problem_.rows; ++i) {
    factors[static_cast<size_t>(i)].matrixU().solveInPlace(inner.middleRows(i * rank_, rank_));
  }
  solved->topRows(a_size_) = inner;
  return solved->allFinite();
}

absl::StatusOr<VectorXd> Solver::Direction(const VectorXd& pull, const VectorXd& lambda, const VectorXd& s,
                                           const base::StopToken& stop) {
  const Index w0 = w_at() - a_size_, rest = size_ - a_size_, outer = rest - w0;
  const Index dense = step_ != nullptr ? 2 : 1;
  MatrixXd right(size_, 1 + dense);
  right.col(0) = -gradients_.col(0) - pull[0] * gradients_.col(1);
  right.col(1) = gradients_.col(1);
  if (dense == 2) {
    right.col(0) -= pull[cut_at()] * gradients_.col(2);
    right.col(2) = gradients_.col(2);
  }
  for (Index c = 1; c < constraints_; ++c) {
    if (step_ != nullptr && c == cut_at()) continue;
    const VectorXd slope = slopes_.row(c).head(outer);
    right.col(0).tail(outer) -= pull[c] * slope;
    zz_.block(w0, w0, outer, outer).selfadjointView<Eigen::Lower>().rankUpdate(slope, lambda[c] / s[c]);
  }
  const double scale = std::max(aa_.cwiseAbs().maxCoeff(), zz_.diagonal().cwiseAbs().maxCoeff());
  MatrixXd solved;
  for (shift_ = std::max(kLeastShift, 1e-4 * shift_);; shift_ *= 30.0) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(a_size_ * rest * rest / 2 + rest * rest * rest / 6));
    if (SolveShifted(shift_ * scale, right, &solved)) break;
    if (!(shift_ < 1e6)) return VectorXd();  // The Hessian is not finite.
  }
  // Adds the dense rank-one terms by Woodbury's formula.
  const MatrixXd u = right.rightCols(dense), hu = solved.rightCols(dense);
  MatrixXd small = u.transpose() * hu;
  small(0, 0) += s[0] / lambda[0];
  if (dense == 2) small(1, 1) += s[cut_at()] / lambda[cut_at()];
  return VectorXd(solved.col(0) - hu * small.ldlt().solve(VectorXd(u.transpose() * solved.col(0))));
}

absl::StatusOr<FactoredPoint> Solver::Run(double tolerance, const base::StopToken& stop) {
  Prepare();
  VectorXd h, train, validation;
  double objective = Evaluate(at_, &h, &train, &validation);
  const double count = static_cast<double>(constraints_);
  // The slacks s satisfy h + s = 0 at the end, and s > 0 all the way.
  VectorXd s = (-h).cwiseMax(1e-4 * (1.0 + std::abs(objective)) / count);
  double aim = kFirstAim * (1.0 + std::abs(objective)) / count;
  VectorXd lambda = aim / s.array();
  if (at_.multipliers.size() > 0) {
    aim = std::max(kLeastWarmShare * aim, std::min(aim, kWarmAim));
    lambda = aim / s.array();
    lambda.head(penalties_) = at_.multipliers.cwiseMax(aim);
    if (step_ != nullptr) lambda[cut_at()] = std::max(aim, at_.cut_multiplier);
    s = s.cwiseMax(0.3 * aim * lambda.cwiseInverse());
  }
  const double last_aim = 0.3 * tolerance / count;
  // The dual bound falls short by slope^2 / (2 rho) for a step's problem, and by slope times a size for the lower one.
  const double most_slope = step_ != nullptr ? std::sqrt(0.1 * step_->rho * last_aim * count) : last_aim * count;
  std::vector<std::pair<double, double>> filter;  // Pairs of violation and objective with barrier.
  bool near = false;                              // True if the last step ended near the central path.
  for (int iteration = 0; iteration < kMaxIterations; ++iteration) {
    Differentiate(lambda, train, validation);
    if (near && aim <= last_aim) {
      // Points arrive before their multipliers if these had to stay positive; further steps then move only the
      // multipliers.
      if (LagrangianSlope(lambda) <= most_slope) break;
    } else if (near) {
      filter.clear();
      aim = std::max(last_aim, std::min(kAimShare * aim, std::pow(aim, kAimPower)));
    }
    const VectorXd residual = h + s;
    // The multipliers after a step that does not change x.
    const VectorXd pull = (aim + lambda.array() * residual.array()) / s.array();
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd d, Direction(pull, lambda, s, stop));
    if (d.size() == 0) break;
    const Index outer = size_ - w_at();
    VectorXd along = slopes_.leftCols(outer) * d.tail(outer);  // Change of h.
    along[0] = gradients_.col(1).dot(d);
    if (step_ != nullptr) along[cut_at()] = gradients_.col(2).dot(d);
    const VectorXd ds = -residual - along;
    const VectorXd change = pull.array() + lambda.array() * along.array() / s.array() - lambda.array();
    double dual_length = 1.0, length = 1.0;
    for (Index c = 0; c < constraints_; ++c) {
      if (change[c] < 0.0) dual_length = std::min(dual_length, kToBoundary * lambda[c] / -change[c]);
      if (ds[c] < 0.0) length = std::min(length, kToBoundary * s[c] / -ds[c]);
    }
    // The filter: compared with every point kept at this `aim`, a step must lower the violation or the objective with
    // its barrier.
    const auto with_barrier = [&](double value, const VectorXd& slack) {
      return value - aim * slack.array().log().sum();
    };
    const double violation = residual.lpNorm<1>(), height = with_barrier(objective, s);
    const double slope = gradients_.col(0).dot(d) - aim * (ds.array() / s.array()).sum();
    VectorXd next_h, next_s, next_train, next_validation;
    FactoredPoint next;
    double next_objective = 0.0;
    bool moved = false;
    for (int k = 0; k < kMaxHalvings && !moved; ++k) {
      next = Moved(at_, d, length);
      next_s = s + length * ds;
      if (step_ == nullptr || (next.r.array() + next.t).minCoeff() > 0.0) {
        next_objective = Evaluate(next, &next_h, &next_train, &next_validation);
        next_s = next_s.cwiseMax(-next_h);  // Slack that exists is not a violation.
        const double next_violation = (next_h + next_s).lpNorm<1>(), next_height = with_barrier(next_objective, next_s);
        const bool descent = slope < 0.0 && violation <= kSmallViolation * -length * slope;
        moved = descent ? next_height <= height + kArmijo * length * slope + 1e-13 * (1.0 + std::abs(height))
                        : next_violation <= (1.0 - kFilter) * violation || next_height <= height - kFilter * violation;
        for (const auto& [other_violation, other_height] : filter) {
          moved = moved && (next_violation <= (1.0 - kFilter) * other_violation ||
                            next_height <= other_height - kFilter * other_violation);
        }
        if (moved && !descent) filter.emplace_back(violation, height);
      }
      if (!moved) length *= 0.5;
    }
    if (!moved) break;
    at_ = std::move(next);
    h = std::move(next_h);
    s = std::move(next_s);
    train = std::move(next_train);
    validation = std::move(next_validation);
    objective = next_objective;
    lambda += dual_length * change;
    // Multipliers far from the central path slow the next steps.
    lambda = lambda.cwiseMax(1e-4 * aim * s.cwiseInverse()).cwiseMin(1e4 * aim * s.cwiseInverse());
    const double infeasible = (h + s).lpNorm<Eigen::Infinity>();
    const double off_path = (s.cwiseProduct(lambda).array() - aim).abs().maxCoeff();
    const double close = kNearPath * aim;
    near =
        length > 0.9 && -slope <= close * count && infeasible * lambda.maxCoeff() <= close * count && off_path <= close;
  }
  at_.multipliers = lambda.head(penalties_);
  if (step_ != nullptr) at_.cut_multiplier = lambda[cut_at()];
  return at_;
}

}  // namespace

absl::StatusOr<FactoredPoint> MinimizeFactored(const MatrixProblem& problem, const FactoredStep* step,
                                               FactoredPoint start, double tolerance, const base::StopToken& stop) {
  return Solver(problem, step, std::move(start)).Run(tolerance, stop);
}

}  // namespace luthier::bilevel
