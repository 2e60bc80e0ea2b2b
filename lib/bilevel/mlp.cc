#include "lib/bilevel/mlp.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::bilevel {

using Eigen::Index;
using Eigen::Map;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr Index kRowStrip = 256;  // Rows between two polls of the stop.

// The parts of a vector of weights.
struct Parts {
  Parts(const MlpShape& shape, const VectorXd& x)
      : w(x.data(), shape.units, shape.inputs),
        b(x.data() + shape.hidden_bias(), shape.units),
        v(x.data() + shape.output(), shape.units),
        v0(x[shape.output_bias()]) {}
  Map<const MatrixXd> w;
  Map<const VectorXd> b, v;
  double v0;
};

// Returns tanh(Z W' + 1 b') for some rows.
MatrixXd Hidden(const Parts& parts, const Eigen::Ref<const MatrixXd>& points) {
  return ((points * parts.w.transpose()).rowwise() + parts.b.transpose()).array().tanh();
}

// Adds to *gradient the gradient of a function of f whose derivatives by f(x_i) are d, over some rows.
void AddOutputGradient(const MlpShape& shape, const Parts& parts, const Eigen::Ref<const MatrixXd>& points,
                       const MatrixXd& hidden, const Eigen::Ref<const VectorXd>& d, VectorXd* gradient) {
  Map<MatrixXd> w(gradient->data(), shape.units, shape.inputs);
  Map<VectorXd> b(gradient->data() + shape.hidden_bias(), shape.units);
  Map<VectorXd> v(gradient->data() + shape.output(), shape.units);
  v.noalias() += hidden.transpose() * d;
  (*gradient)[shape.output_bias()] += d.sum();
  const MatrixXd back = (d * parts.v.transpose()).array() * (1.0 - hidden.array().square());
  w.noalias() += back.transpose() * points;
  b += back.colwise().sum().transpose();
}

}  // namespace

VectorXd StartMlp(const MlpShape& shape, uint64_t seed) {
  base::RandomStream random(seed, "mlp");
  VectorXd x = VectorXd::Zero(shape.dim());
  for (Index i = 0; i < shape.hidden_bias(); ++i) x[i] = random.Normal() / std::sqrt(static_cast<double>(shape.inputs));
  for (Index i = 0; i < shape.units; ++i) {
    x[shape.output() + i] = random.Normal() / std::sqrt(static_cast<double>(shape.units));
  }
  return x;
}

absl::StatusOr<VectorXd> PredictMlp(const MlpShape& shape, const VectorXd& weights, const MatrixXd& points,
                                    const base::StopToken& stop) {
  LUTHIER_CHECK(weights.size() == shape.dim() && points.cols() == shape.inputs);
  const Parts parts(shape, weights);
  VectorXd out(points.rows());
  for (Index begin = 0; begin < points.rows(); begin += kRowStrip) {
    const Index count = std::min(kRowStrip, points.rows() - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(count * shape.dim()));
    out.segment(begin, count) = (Hidden(parts, points.middleRows(begin, count)) * parts.v).array() + parts.v0;
  }
  return out;
}

MlpInner::MlpInner(MlpShape shape, const MatrixXd* points, const VectorXd* target, ColumnPenalties groups, VectorXd l2,
                   double l2_out)
    : shape_(shape), points_(points), target_(target), groups_(std::move(groups)), l2_(std::move(l2)), l2_out_(l2_out) {
  LUTHIER_CHECK(l2_.size() == shape_.inputs && l2_.minCoeff() > 0.0 && l2_out > 0.0);
}

absl::StatusOr<double> MlpInner::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  const Parts parts(shape_, x);
  double value = 0.5 * l2_.dot(parts.w.colwise().squaredNorm()) + 0.5 * l2_out_ * parts.v.squaredNorm();
  if (gradient != nullptr) {
    gradient->setZero(dim());
    Map<MatrixXd>(gradient->data(), shape_.units, shape_.inputs) = parts.w * l2_.asDiagonal();
    gradient->segment(shape_.output(), shape_.units) = l2_out_ * parts.v;
  }
  for (Index begin = 0; begin < points_->rows(); begin += kRowStrip) {
    const Index count = std::min(kRowStrip, points_->rows() - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(2 * count * dim()));
    const auto z = points_->middleRows(begin, count);
    const MatrixXd hidden = Hidden(parts, z);
    const VectorXd d = (hidden * parts.v).array() + parts.v0 - target_->segment(begin, count).array();
    value += 0.5 * d.squaredNorm();
    if (gradient != nullptr) AddOutputGradient(shape_, parts, z, hidden, d, gradient);
  }
  return value;
}

absl::Status MlpInner::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  const Parts parts(shape_, x);
  hidden_.resize(points_->rows(), shape_.units);
  for (Index begin = 0; begin < points_->rows(); begin += kRowStrip) {
    const Index count = std::min(kRowStrip, points_->rows() - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(count * dim()));
    hidden_.middleRows(begin, count) = Hidden(parts, points_->middleRows(begin, count));
  }
  residual_ = (hidden_ * parts.v).array() + parts.v0 - target_->array();
  x_ = x;
  return absl::OkStatus();
}

absl::StatusOr<VectorXd> MlpInner::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  // R{.} is the derivative along v, first of the forward pass, then of the backward pass.
  const Parts at(shape_, x_), along(shape_, v);
  VectorXd out = VectorXd::Zero(dim());
  Map<MatrixXd> w(out.data(), shape_.units, shape_.inputs);
  Map<VectorXd> b(out.data() + shape_.hidden_bias(), shape_.units);
  Map<VectorXd> o(out.data() + shape_.output(), shape_.units);
  w = along.w * l2_.asDiagonal();
  o = l2_out_ * along.v;
  for (Index begin = 0; begin < points_->rows(); begin += kRowStrip) {
    const Index count = std::min(kRowStrip, points_->rows() - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(4 * count * dim()));
    const auto z = points_->middleRows(begin, count);
    const auto hidden = hidden_.middleRows(begin, count);
    const auto d = residual_.segment(begin, count);
    const Eigen::ArrayXXd slope = 1.0 - hidden.array().square();
    const MatrixXd r_hidden = slope * ((z * along.w.transpose()).rowwise() + along.b.transpose()).array();
    const VectorXd r_d = (r_hidden * at.v + hidden * along.v).array() + along.v0;
    o.noalias() += hidden.transpose() * r_d + r_hidden.transpose() * d;
    out[shape_.output_bias()] += r_d.sum();
    const MatrixXd r_back = slope * (r_d * at.v.transpose() + d * along.v.transpose()).array() -
                            2.0 * (d * at.v.transpose()).array() * hidden.array() * r_hidden.array();
    w.noalias() += r_back.transpose() * z;
    b += r_back.colwise().sum().transpose();
  }
  return out;
}

absl::StatusOr<VectorXd> MlpInner::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll(points_->rows() * dim()));
  const Parts at(shape_, x_);
  VectorXd out = VectorXd::Zero(dim());
  const MatrixXd back = ((1.0 - hidden_.array().square()).rowwise() * at.v.transpose().array()).square();
  Map<MatrixXd> w(out.data(), shape_.units, shape_.inputs);
  w = back.transpose() * points_->cwiseAbs2();
  w.rowwise() += l2_.transpose();
  const double speck = 1e-8 * static_cast<double>(points_->rows());
  out.segment(shape_.hidden_bias(), shape_.units) = back.colwise().sum().transpose().array() + speck;
  out.segment(shape_.output(), shape_.units) = hidden_.colwise().squaredNorm().transpose().array() + l2_out_;
  out[shape_.output_bias()] = static_cast<double>(points_->rows());
  return out;
}

VectorXd MlpInner::CrossTransposeVector(const VectorXd& q) {
  const Parts at(shape_, x_), there(shape_, q);
  return groups_.Sums(l2_.cwiseProduct(at.w.cwiseProduct(there.w).colwise().sum().transpose()), 1);
}

double MlpInner::CrossNorm() {
  const Parts at(shape_, x_);
  return std::sqrt(groups_.Sums(l2_.cwiseAbs2().cwiseProduct(at.w.colwise().squaredNorm().transpose()), 1).maxCoeff());
}

absl::StatusOr<InnerConstants> MlpInner::Constants(const base::StopToken&) {
  InnerConstants constants;
  constants.mu = std::numeric_limits<double>::min();
  return constants;
}

absl::StatusOr<double> MlpOuter::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  const Parts parts(shape_, x);
  const double n = static_cast<double>(points_->rows());
  double value = 0.0;
  if (gradient != nullptr) gradient->setZero(shape_.dim());
  for (Index begin = 0; begin < points_->rows(); begin += kRowStrip) {
    const Index count = std::min(kRowStrip, points_->rows() - begin);
    LUTHIER_RETURN_IF_ERROR(stop.Poll(2 * count * shape_.dim()));
    const auto z = points_->middleRows(begin, count);
    const MatrixXd hidden = Hidden(parts, z);
    const VectorXd d = (hidden * parts.v).array() + parts.v0 - target_->segment(begin, count).array();
    value += d.squaredNorm() / n;
    if (gradient != nullptr) AddOutputGradient(shape_, parts, z, hidden, 2.0 / n * d, gradient);
  }
  return value;
}

double MlpOuter::GradientLipschitz() {
  return std::numeric_limits<double>::infinity();
}

}  // namespace luthier::bilevel
