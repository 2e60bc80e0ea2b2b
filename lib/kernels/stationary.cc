#include "lib/kernels/stationary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"

namespace luthier::kernels {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;

KernelShape ArdShape(Family family, int columns, Structure structure) {
  std::vector<int> groups;
  for (int j = 0; j < columns; ++j) groups.push_back(j);
  return GroupedShape(family, std::move(groups), structure);
}

KernelShape GroupedShape(Family family, std::vector<int> column_group, Structure structure) {
  KernelShape shape;
  shape.family = family;
  shape.structure = structure;
  shape.column_group = std::move(column_group);
  for (int group : shape.column_group) {
    LUTHIER_CHECK(group >= 0);
    if (group >= shape.groups) shape.groups = group + 1;
  }
  std::vector<bool> used(static_cast<size_t>(shape.groups), false);
  for (int group : shape.column_group) used[static_cast<size_t>(group)] = true;
  for (bool u : used) LUTHIER_CHECK(u);
  LUTHIER_CHECK(structure == Structure::kJoint || family != Family::kRationalQuadratic);
  LUTHIER_CHECK(structure == Structure::kJoint || shape.groups >= 1);
  LUTHIER_CHECK(structure != Structure::kPairwise || shape.groups >= 2);
  return shape;
}

std::string ShapeName(const KernelShape& shape) {
  const char* prefix = shape.structure == Structure::kAdditive   ? "additive-"
                       : shape.structure == Structure::kPairwise ? "pairwise-"
                                                                 : "";
  return absl::StrCat(prefix, FamilyName(shape.family));
}

StationaryKernel::StationaryKernel(KernelShape shape, const Eigen::Ref<const VectorXd>& lengthscales,
                                   double signal_variance, double shape_parameter)
    : shape_(std::move(shape)),
      signal_variance_(signal_variance),
      shape_parameter_(shape_parameter),
      inverse_(shape_.columns()) {
  LUTHIER_CHECK(lengthscales.size() == shape_.groups);
  LUTHIER_CHECK(signal_variance > 0.0 && shape_parameter > 0.0);
  for (int j = 0; j < shape_.columns(); ++j) {
    const double lengthscale = lengthscales(shape_.column_group[static_cast<size_t>(j)]);
    LUTHIER_CHECK(lengthscale > 0.0);
    inverse_(j) = 1.0 / lengthscale;
  }
  const double groups = shape_.groups;
  if (shape_.structure == Structure::kAdditive) single_ = 1.0 / groups;
  if (shape_.structure == Structure::kPairwise) {
    single_ = 1.0 / (groups * (1.0 + shape_parameter_));
    pair_ = 2.0 / (groups * (groups - 1.0)) * (shape_parameter_ / (1.0 + shape_parameter_));
  }
}

MatrixXd StationaryKernel::Scale(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == inverse_.size());
  return x.array().rowwise() * inverse_.array();
}

template <typename Rows>
void StationaryKernel::GroupParts(const Rows& a, const RowVectorXd& z, bool with_slope, Parts* parts) const {
  const Index m = a.rows();
  parts->r2.setZero(m, shape_.groups);
  parts->value.resize(m, shape_.groups);
  if (with_slope) parts->slope.resize(m, shape_.groups);
  for (Index j = 0; j < a.cols(); ++j) {
    parts->r2.col(shape_.column_group[static_cast<size_t>(j)]) += (a.col(j).array() - z(j)).square();
  }
  EvaluateProfile(shape_.family, shape_parameter_, 1.0, m * shape_.groups, parts->r2.data(), parts->value.data(),
                  with_slope ? parts->slope.data() : nullptr);
  parts->sum = parts->value.rowwise().sum();
  if (pair_ != 0.0) parts->square = parts->value.square().rowwise().sum();
}

ArrayXd StationaryKernel::Combine(const Parts& parts) const {
  if (pair_ == 0.0) return (signal_variance_ * single_) * parts.sum;
  return signal_variance_ * (single_ * parts.sum + (0.5 * pair_) * (parts.sum.square() - parts.square));
}

void StationaryKernel::Squares(const Eigen::Ref<const MatrixXd>& a, const RowVectorXd& z, double* out) const {
  Eigen::Map<ArrayXd> r2(out, a.rows());
  if (a.cols() == 0) r2.setZero();
  for (Index j = 0; j < a.cols(); ++j) {
    if (j == 0) {
      r2 = (a.col(j).array() - z(j)).square();
    } else {
      r2 += (a.col(j).array() - z(j)).square();
    }
  }
}

void StationaryKernel::GramLower(const MatrixXd& z, MatrixXd* k, MatrixXd* slope) const {
  const Index n = z.rows();
  LUTHIER_CHECK(z.cols() == inverse_.size());
  k->resize(n, n);
  const bool joint = shape_.structure == Structure::kJoint;
  if (slope != nullptr) slope->resize(joint ? n : 0, joint ? n : 0);
  if (z.cols() == 0) {
    // No coordinates, no distances; and no blocks of a matrix without storage.
    const ProfileValue same = Profile(shape_.family, 0.0, shape_parameter_);
    k->setConstant(signal_variance_ * same.value);
    if (slope != nullptr) slope->setConstant(signal_variance_ * same.slope);
    return;
  }
  Parts parts;
  for (Index b = 0; b < n; ++b) {
    const Index m = n - b;
    double* column = k->data() + b * n + b;
    if (joint) {
      Squares(z.bottomRows(m), z.row(b), column);
      EvaluateProfile(shape_.family, shape_parameter_, signal_variance_, m, column, column,
                      slope == nullptr ? nullptr : slope->data() + b * n + b);
    } else {
      GroupParts(z.bottomRows(m), z.row(b), false, &parts);
      Eigen::Map<ArrayXd>(column, m) = Combine(parts);
    }
  }
}

MatrixXd StationaryKernel::Gram(const Eigen::Ref<const MatrixXd>& x) const {
  MatrixXd k;
  GramLower(Scale(x), &k, nullptr);
  k.triangularView<Eigen::StrictlyUpper>() = k.transpose();
  return k;
}

double StationaryKernel::LogAlphaGradient(const MatrixXd& z, const MatrixXd& weights) const {
  // d k/d ln alpha = alpha k (t/(1 + t) - ln(1 + t)), t = r^2/(2 alpha); 0 on the diagonal.
  if (z.cols() == 0) return 0.0;
  const Index n = z.rows();
  const double alpha = shape_parameter_;
  ArrayXd t;
  double gradient = 0.0;
  for (Index b = 0; b + 1 < n; ++b) {
    const Index m = n - b - 1;
    t.resize(m);
    Squares(z.bottomRows(m), z.row(b), t.data());
    t *= 0.5 / alpha;
    const ArrayXd log = t.log1p();
    gradient += 2.0 * (weights.col(b).tail(m).array() * (-alpha * log).exp() * (t / (1.0 + t) - log)).sum();
  }
  return signal_variance_ * alpha * gradient;
}

KernelGradient StationaryKernel::Contract(const MatrixXd& z, const MatrixXd& slope, MatrixXd* weights) const {
  const Index n = z.rows();
  KernelGradient gradient;
  gradient.log_lengthscales = VectorXd::Zero(shape_.groups);
  if (n == 0) return gradient;
  if (shape_.structure == Structure::kJoint) {
    if (shape_.family == Family::kRationalQuadratic) gradient.log_shape_parameter = LogAlphaGradient(z, *weights);
    // With S = M o k': sum_ab S_ab (z_a - z_b)^2 = 2 sum_a z_a^2 (S 1)_a - 2 z' S z, no pass per column. Centred: the
    // two terms cancel less.
    for (Index b = 0; b < n; ++b) weights->col(b).tail(n - b).array() *= slope.col(b).tail(n - b).array();
    const MatrixXd centred = z.rowwise() - z.colwise().mean();
    MatrixXd right(n, z.cols() + 1);
    right.leftCols(z.cols()) = centred;
    right.col(z.cols()).setOnes();
    const MatrixXd product = weights->selfadjointView<Eigen::Lower>() * right;
    for (Index j = 0; j < z.cols(); ++j) {
      const double own = (centred.col(j).array().square() * product.col(z.cols()).array()).sum();
      const double cross = centred.col(j).dot(product.col(j));
      gradient.log_lengthscales(shape_.column_group[static_cast<size_t>(j)]) += -4.0 * (own - cross);
    }
    return gradient;
  }
  // dK/d ln l_g = s (single + pair (sum_h f_h - f_g)) (-2 r_g^2 f'_g); twice, for both triangles. The diagonal is flat.
  Parts parts;
  double by_ratio = 0.0;
  const double groups = shape_.groups;
  for (Index b = 0; b + 1 < n; ++b) {
    const Index m = n - b - 1;
    GroupParts(z.bottomRows(m), z.row(b), true, &parts);
    const ArrayXd w = weights->col(b).tail(m).array();
    for (Index g = 0; g < shape_.groups; ++g) {
      ArrayXd term = w * parts.r2.col(g) * parts.slope.col(g);
      if (pair_ != 0.0) term *= single_ + pair_ * (parts.sum - parts.value.col(g));
      gradient.log_lengthscales(g) -= 4.0 * term.sum();
    }
    if (pair_ != 0.0) {
      by_ratio += (w * ((parts.sum.square() - parts.square) / (groups * (groups - 1.0)) - parts.sum / groups)).sum();
    }
  }
  gradient.log_lengthscales *= signal_variance_ * (pair_ == 0.0 ? single_ : 1.0);
  const double rho = shape_parameter_;
  if (pair_ != 0.0)
    gradient.log_shape_parameter = 2.0 * signal_variance_ * rho / ((1.0 + rho) * (1.0 + rho)) * by_ratio;
  return gradient;
}

void StationaryKernel::Cross(const Eigen::Ref<const MatrixXd>& a, const Eigen::Ref<const MatrixXd>& b,
                             MatrixXd* k) const {
  const Index n = a.rows();
  const Index q = b.rows();
  LUTHIER_CHECK(a.cols() == inverse_.size() && b.cols() == a.cols());
  k->resize(n, q);
  if (n == 0) return;
  if (shape_.structure == Structure::kJoint) {
    for (Index c = 0; c < q; ++c) Squares(a, b.row(c), k->data() + c * n);
    EvaluateProfile(shape_.family, shape_parameter_, signal_variance_, n * q, k->data(), k->data(), nullptr);
    return;
  }
  Parts parts;
  for (Index c = 0; c < q; ++c) {
    GroupParts(a, b.row(c), false, &parts);
    k->col(c) = Combine(parts);
  }
}

void StationaryKernel::PointCross(const Eigen::Ref<const MatrixXd>& a, const RowVectorXd& z, VectorXd* k,
                                  MatrixXd* jacobian) const {
  const Index n = a.rows();
  const Index d = a.cols();
  LUTHIER_CHECK(d == inverse_.size() && z.size() == d);
  k->resize(n);
  jacobian->resize(n, d);
  if (n == 0) return;
  if (shape_.structure == Structure::kJoint) {
    ArrayXd slope(n);
    Squares(a, z, k->data());
    EvaluateProfile(shape_.family, shape_parameter_, signal_variance_, n, k->data(), k->data(), slope.data());
    for (Index j = 0; j < d; ++j) jacobian->col(j) = (2.0 * inverse_(j)) * slope * (z(j) - a.col(j).array());
    return;
  }
  Parts parts;
  GroupParts(a, z, true, &parts);
  *k = Combine(parts);
  for (Index j = 0; j < d; ++j) {
    const Index g = shape_.column_group[static_cast<size_t>(j)];
    ArrayXd by_square = (2.0 * signal_variance_ * inverse_(j)) * parts.slope.col(g);
    if (pair_ == 0.0) {
      by_square *= single_;
    } else {
      by_square *= single_ + pair_ * (parts.sum - parts.value.col(g));
    }
    jacobian->col(j) = by_square * (z(j) - a.col(j).array());
  }
}

}  // namespace luthier::kernels
