#include "lib/bilevel/unrolled_gradient.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kMomentum = 0.9;
constexpr int kPowerSteps = 20;
constexpr double kSafety = 1.05;      // Factor of the estimate of the largest eigenvalue.
constexpr double kSufficient = 1e-4;  // Armijo's constant.
constexpr int kMostHalvings = 40;

// The power method, which estimates the largest eigenvalue of a Hessian from below.
struct PowerSteps {
  std::vector<VectorXd> v;   // The vector before each product, and the one behind the last.
  std::vector<double> norm;  // Norms of the products.
  // Returns the estimate; 0 if the Hessian is, or not finite if it is not.
  double largest() const { return norm.back(); }
};

// Takes the steps at the point that `inner` has.
absl::StatusOr<PowerSteps> FindLargestEigenvalue(InnerProblem& inner, const base::StopToken& stop) {
  const Index p = inner.dim();
  VectorXd v(p);
  // This start is unlikely to be orthogonal to all data.
  for (Index j = 0; j < p; ++j) v[j] = 1.0 + 0.5 * std::sin(1.0 + 2.0 * static_cast<double>(j));
  PowerSteps steps;
  steps.v.push_back(v.normalized());
  for (int k = 0; k < kPowerSteps; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(VectorXd product, inner.HessianVector(steps.v.back(), stop));
    const double norm = product.norm();
    steps.norm.push_back(norm);
    if (!(norm > 0.0) || !std::isfinite(norm)) break;
    steps.v.push_back(product / norm);
  }
  return steps;
}

// Returns the derivatives of the logarithm of the power method's estimate by lambda; 0 where there is no estimate. With
// v' = H v / |H v| and z the adjoint of H v, each product adds z' (dH/dlambda) v, which is D(v)' z: the Hessian at 0
// depends on lambda as the gradient's linear part does.
absl::StatusOr<VectorXd> DifferentiateLargestEigenvalue(InnerProblem& inner, const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(inner.SetPoint(VectorXd::Zero(inner.dim()), stop));
  LUTHIER_ASSIGN_OR_RETURN(const PowerSteps steps, FindLargestEigenvalue(inner, stop));
  VectorXd gradient = VectorXd::Zero(inner.hyper_dim());
  if (!(steps.largest() > 0.0) || !std::isfinite(steps.largest())) return gradient;
  std::vector<VectorXd> adjoint(steps.norm.size());
  adjoint.back() = steps.v.back() / steps.largest();
  for (size_t k = adjoint.size() - 1; k-- > 0;) {
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd of_v, inner.HessianVector(adjoint[k + 1], stop));
    adjoint[k] = (of_v - of_v.dot(steps.v[k + 1]) * steps.v[k + 1]) / steps.norm[k];
  }
  for (size_t k = 0; k < adjoint.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(inner.SetPoint(steps.v[k], stop));
    gradient += inner.CrossTransposeVector(adjoint[k]);
  }
  return gradient;
}

}  // namespace

UnrolledDescent::UnrolledDescent(InnerProblem* inner, UnrollMethod method, int planned_steps, int64_t memory_bytes)
    : inner_(inner), method_(method) {
  LUTHIER_CHECK(planned_steps >= 1);
  const double all = 16.0 * static_cast<double>(inner->dim()) * (planned_steps + 1.0);
  if (all > static_cast<double>(memory_bytes)) {
    stride_ = std::max(window() + 1, static_cast<int>(std::ceil(std::sqrt(window() * (planned_steps + 1.0)))));
  }
}

int UnrolledDescent::kept() const {
  return static_cast<int>(std::count_if(x_.begin(), x_.end(), [](const VectorXd& x) { return x.size() > 0; }));
}

absl::Status UnrolledDescent::Start(const base::StopToken& stop) {
  VectorXd x = VectorXd::Zero(inner_->dim()), gradient;
  LUTHIER_ASSIGN_OR_RETURN(value_, inner_->Value(x, &gradient, stop));
  LUTHIER_RETURN_IF_ERROR(inner_->SetPoint(x, stop));
  LUTHIER_ASSIGN_OR_RETURN(const PowerSteps power, FindLargestEigenvalue(*inner_, stop));
  const double largest = power.largest();
  eta_ = largest > 0.0 ? 1.0 / (kSafety * largest) : 1.0;
  finite_ = std::isfinite(value_) && gradient.allFinite() && std::isfinite(eta_);
  first_gradient_norm_ = gradient.norm();
  x_.push_back(std::move(x));
  gradient_.push_back(std::move(gradient));
  return absl::OkStatus();
}

std::vector<int> UnrolledDescent::PairsOf(int t) const {
  std::vector<int> pairs;
  for (int i = t - 1; i >= std::max(0, t - kUnrollMemory); --i) {
    const auto k = static_cast<size_t>(i);
    const VectorXd s = x_[k + 1] - x_[k], y = gradient_[k + 1] - gradient_[k];
    if (s.dot(y) > 1e-12 * s.norm() * y.norm()) pairs.push_back(i);
  }
  std::reverse(pairs.begin(), pairs.end());
  return pairs;
}

struct UnrolledDescent::TwoLoops {
  std::vector<int> pair;       // Indices of the pairs, oldest first.
  std::vector<VectorXd> s, y;  // s and y of each pair.
  std::vector<double> rho, a, b;
  std::vector<VectorXd> q;  // q before pair i of the first loop takes its part.
  std::vector<VectorXd> r;  // r before pair i of the second loop adds its part.
  VectorXd last;            // q after the first loop.
  VectorXd result;
  double scale = 1.0;  // Scale of the first approximation.
};

UnrolledDescent::TwoLoops UnrolledDescent::Loops(int t, const VectorXd& v) const {
  TwoLoops w;
  w.pair = PairsOf(t);
  const size_t m = w.pair.size();
  w.rho.resize(m);
  w.a.resize(m);
  w.b.resize(m);
  w.q.resize(m);
  w.r.resize(m);
  for (const int i : w.pair) {
    const auto k = static_cast<size_t>(i);
    w.s.push_back(x_[k + 1] - x_[k]);
    w.y.push_back(gradient_[k + 1] - gradient_[k]);
  }
  VectorXd q = v;
  for (size_t i = m; i-- > 0;) {
    w.rho[i] = 1.0 / w.y[i].dot(w.s[i]);
    w.q[i] = q;
    w.a[i] = w.rho[i] * w.s[i].dot(q);
    q -= w.a[i] * w.y[i];
  }
  w.last = q;
  w.scale = m > 0 ? w.s[m - 1].dot(w.y[m - 1]) / w.y[m - 1].squaredNorm() : 1.0;
  VectorXd r = w.scale * q;
  for (size_t i = 0; i < m; ++i) {
    w.r[i] = r;
    w.b[i] = w.rho[i] * w.y[i].dot(r);
    r += (w.a[i] - w.b[i]) * w.s[i];
  }
  w.result = std::move(r);
  return w;
}

VectorXd UnrolledDescent::ReverseLoops(int t, const VectorXd& r_out, std::vector<VectorXd>* s_adjoint,
                                       std::vector<VectorXd>* y_adjoint) const {
  const TwoLoops w = Loops(t, gradient_[static_cast<size_t>(t)]);
  const size_t m = w.pair.size();
  std::vector<VectorXd> s(m, VectorXd::Zero(r_out.size())), y = s;
  std::vector<double> a(m, 0.0), rho(m, 0.0);
  VectorXd r = r_out;
  for (size_t i = m; i-- > 0;) {  // r' = r + (a - b) s, b = rho y'r
    const double difference = r.dot(w.s[i]);
    s[i] += (w.a[i] - w.b[i]) * r;
    a[i] += difference;
    const double b = -difference;
    rho[i] += b * w.y[i].dot(w.r[i]);
    y[i] += b * w.rho[i] * w.r[i];
    r += b * w.rho[i] * w.y[i];
  }
  VectorXd q = w.scale * r;
  if (m > 0) {  // scale = s'y / y'y
    const double scale = r.dot(w.last);
    const double y2 = w.y[m - 1].squaredNorm();
    s[m - 1] += scale / y2 * w.y[m - 1];
    y[m - 1] += scale * (w.s[m - 1] / y2 - 2.0 * w.scale / y2 * w.y[m - 1]);
  }
  for (size_t i = 0; i < m; ++i) {  // q' = q - a y, a = rho s'q
    a[i] -= q.dot(w.y[i]);
    y[i] -= w.a[i] * q;
    rho[i] += a[i] * w.s[i].dot(w.q[i]);
    s[i] += a[i] * w.rho[i] * w.q[i];
    q += a[i] * w.rho[i] * w.s[i];
  }
  for (size_t i = 0; i < m; ++i) {  // rho = 1 / y's
    const double factor = -rho[i] * w.rho[i] * w.rho[i];
    s[i] += factor * w.y[i];
    y[i] += factor * w.s[i];
    const auto k = static_cast<size_t>(w.pair[i]);
    (*s_adjoint)[k] += s[i];
    (*y_adjoint)[k] += y[i];
  }
  return q;
}

VectorXd UnrolledDescent::DirectionAt(int t) const {
  const VectorXd& gradient = gradient_[static_cast<size_t>(t)];
  return method_ == UnrollMethod::kLbfgs ? VectorXd(-Loops(t, gradient).result) : VectorXd(-gradient);
}

VectorXd UnrolledDescent::After(int t, const VectorXd& direction, double length) const {
  const auto k = static_cast<size_t>(t);
  VectorXd next = x_[k] + length * direction;
  if (method_ == UnrollMethod::kHeavyBall && t > 0) next += kMomentum * (x_[k] - x_[k - 1]);
  return next;
}

absl::Status UnrolledDescent::Recall(int t, const base::StopToken& stop) {
  const int first = std::max(0, t - window() + 1);
  int missing = first;
  while (missing <= t + 1 && x_[static_cast<size_t>(missing)].size() > 0) ++missing;
  if (missing > t + 1) return absl::OkStatus();
  // The iterates at the last multiple of stride_ before have everything that a step needs.
  for (int i = missing / stride_ * stride_; i <= t; ++i) {
    const auto next = static_cast<size_t>(i) + 1;
    if (x_[next].size() > 0) continue;
    VectorXd x = After(i, DirectionAt(i), length_[static_cast<size_t>(i)]);
    LUTHIER_RETURN_IF_ERROR(inner_->Value(x, &gradient_[next], stop).status());
    x_[next] = std::move(x);
  }
  return absl::OkStatus();
}

bool UnrolledDescent::Scaled(int t) const {
  return method_ == UnrollMethod::kLbfgs && !PairsOf(t).empty();
}

absl::StatusOr<bool> UnrolledDescent::Advance(const base::StopToken& stop) {
  if (x_.empty()) LUTHIER_RETURN_IF_ERROR(Start(stop));
  if (!finite_) return false;
  const int t = steps();
  const VectorXd direction = DirectionAt(t);
  double length = Scaled(t) ? 1.0 : eta_;
  const double slope = direction.dot(gradient_.back());
  for (int halving = 0; halving <= kMostHalvings; ++halving) {
    VectorXd next = After(t, direction, length);
    VectorXd next_gradient;
    LUTHIER_ASSIGN_OR_RETURN(const double next_value, inner_->Value(next, &next_gradient, stop));
    const bool finite = std::isfinite(next_value) && next_gradient.allFinite();
    const bool searched = method_ == UnrollMethod::kLbfgs;
    if (searched && !(finite && next_value < value_ && next_value <= value_ + kSufficient * length * slope)) {
      length *= 0.5;
      continue;
    }
    finite_ = finite;
    if (!finite_) return false;
    value_ = next_value;
    x_.push_back(std::move(next));
    gradient_.push_back(std::move(next_gradient));
    length_.push_back(length);
    if (const int old = t + 1 - window(); stride_ > 1 && old >= 0 && !Kept(old)) {
      x_[static_cast<size_t>(old)].resize(0);
      gradient_[static_cast<size_t>(old)].resize(0);
    }
    return true;
  }
  return false;  // The point is optimal up to rounding.
}

void UnrolledDescent::ReverseStep(size_t t, const VectorXd& next, Adjoints* adjoint) const {
  switch (method_) {
    case UnrollMethod::kGradientDescent:
      adjoint->gradient[t] -= length_[t] * next;
      break;
    case UnrollMethod::kHeavyBall:
      adjoint->gradient[t] -= length_[t] * next;
      if (t > 0) {
        adjoint->x[t] += kMomentum * next;
        adjoint->x[t - 1] -= kMomentum * next;
      }
      break;
    case UnrollMethod::kLbfgs:
      adjoint->gradient[t] += ReverseLoops(static_cast<int>(t), -length_[t] * next, &adjoint->s, &adjoint->y);
      break;
  }
}

absl::StatusOr<UnrolledGradient> UnrolledDescent::Differentiate(OuterLoss& outer, const base::StopToken& stop) {
  if (x_.empty()) LUTHIER_RETURN_IF_ERROR(Start(stop));
  UnrolledGradient out;
  out.finite = finite_;
  out.steps = steps();
  if (!finite_) return out;
  out.x = x_.back();
  out.inner_gradient_norm = gradient_.back().norm();
  VectorXd b;
  LUTHIER_ASSIGN_OR_RETURN(out.outer_value, outer.Value(out.x, &b, stop));
  out.outer_gradient_norm = b.norm();
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd direct, outer.DirectGradient(out.x, stop));
  out.gradient = direct.size() > 0 ? direct : VectorXd::Zero(inner_->hyper_dim());

  // Adjoints of x_t and of grad h(x_t). The adjoints of s_t = x_{t+1} - x_t and y_t are distributed over them when t is
  // reached.
  const auto T = static_cast<size_t>(steps());
  const VectorXd zero = VectorXd::Zero(inner_->dim());
  double log_eta = 0.0;  // Derivative by ln eta.
  // An adjoint is made when a later step first depends on step t.
  Adjoints adjoint{.x = std::vector<VectorXd>(T + 1),
                   .gradient = std::vector<VectorXd>(T + 1),
                   .s = std::vector<VectorXd>(T),
                   .y = std::vector<VectorXd>(T)};
  const auto make = [&](size_t t) {
    for (std::vector<VectorXd>* v : {&adjoint.x, &adjoint.gradient, &adjoint.s, &adjoint.y}) {
      if (t < v->size() && (*v)[t].size() == 0) (*v)[t] = zero;
    }
  };
  make(T);
  adjoint.x[T] = b;
  const auto reach = [&](size_t t) -> absl::Status {
    // grad h(x_t) is a function of x_t and lambda: passes its adjoint on to both.
    if (adjoint.gradient[t].isZero(0.0)) return absl::OkStatus();
    LUTHIER_RETURN_IF_ERROR(inner_->SetPoint(x_[t], stop));
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, inner_->HessianVector(adjoint.gradient[t], stop));
    adjoint.x[t] += product;
    out.gradient += inner_->CrossTransposeVector(adjoint.gradient[t]);
    return absl::OkStatus();
  };
  for (size_t t = T; t-- > 0;) {
    LUTHIER_RETURN_IF_ERROR(Recall(static_cast<int>(t), stop));
    const auto reached = static_cast<size_t>(window());
    for (size_t i = t >= reached ? t - reached : 0; i <= t; ++i) make(i);
    // All uses of s_t and y_t are by later steps.
    if (method_ == UnrollMethod::kLbfgs) {
      adjoint.x[t + 1] += adjoint.s[t];
      adjoint.x[t] -= adjoint.s[t];
      adjoint.gradient[t + 1] += adjoint.y[t];
      adjoint.gradient[t] -= adjoint.y[t];
    }
    LUTHIER_RETURN_IF_ERROR(reach(t + 1));
    const VectorXd next = adjoint.x[t + 1];
    adjoint.x[t] += next;
    // The length is a multiple of eta, or a constant.
    if (!Scaled(static_cast<int>(t))) log_eta += length_[t] * next.dot(DirectionAt(static_cast<int>(t)));
    ReverseStep(t, next, &adjoint);
    for (std::vector<VectorXd>* v : {&adjoint.x, &adjoint.gradient, &adjoint.s, &adjoint.y}) {
      if (t + 1 < v->size()) (*v)[t + 1].resize(0);
    }
    if (stride_ > 1 && t + 1 < T && !Kept(static_cast<int>(t) + 1)) {
      x_[t + 1].resize(0);
      gradient_[t + 1].resize(0);
    }
  }
  LUTHIER_RETURN_IF_ERROR(reach(0));
  if (log_eta == 0.0) return out;
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd log_largest, DifferentiateLargestEigenvalue(*inner_, stop));
  out.gradient -= log_eta * log_largest;
  return out;
}

}  // namespace luthier::bilevel
