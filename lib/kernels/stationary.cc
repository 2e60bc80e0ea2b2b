#include "lib/kernels/stationary.h"

#include <utility>

#include "lib/base/check.h"

namespace luthier::kernels {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

KernelShape ArdShape(Family family, int columns) {
  KernelShape shape;
  shape.family = family;
  shape.groups = columns;
  for (int j = 0; j < columns; ++j) shape.column_group.push_back(j);
  return shape;
}

KernelShape GroupedShape(Family family, std::vector<int> column_group) {
  KernelShape shape;
  shape.family = family;
  shape.column_group = std::move(column_group);
  for (int group : shape.column_group) {
    LUTHIER_CHECK(group >= 0);
    if (group >= shape.groups) shape.groups = group + 1;
  }
  std::vector<bool> used(static_cast<size_t>(shape.groups), false);
  for (int group : shape.column_group) used[static_cast<size_t>(group)] = true;
  for (bool u : used) LUTHIER_CHECK(u);
  return shape;
}

StationaryKernel::StationaryKernel(KernelShape shape, const Eigen::Ref<const VectorXd>& lengthscales,
                                   double signal_variance)
    : shape_(std::move(shape)), signal_variance_(signal_variance), inverse_(shape_.columns()) {
  LUTHIER_CHECK(lengthscales.size() == shape_.groups);
  LUTHIER_CHECK(signal_variance > 0.0);
  for (int j = 0; j < shape_.columns(); ++j) {
    const double lengthscale = lengthscales(shape_.column_group[static_cast<size_t>(j)]);
    LUTHIER_CHECK(lengthscale > 0.0);
    inverse_(j) = 1.0 / lengthscale;
  }
}

MatrixXd StationaryKernel::Scale(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == inverse_.size());
  return x.array().rowwise() * inverse_.array();
}

void StationaryKernel::GramLower(const MatrixXd& z, MatrixXd* k, MatrixXd* slope) const {
  const Index n = z.rows();
  const Index d = z.cols();
  LUTHIER_CHECK(d == inverse_.size());
  k->resize(n, n);
  if (slope != nullptr) slope->resize(n, n);
  for (Index b = 0; b < n; ++b) {
    const Index m = n - b;
    Eigen::Map<Eigen::ArrayXd> r2(k->data() + b * n + b, m);
    if (d == 0) r2.setZero();
    for (Index j = 0; j < d; ++j) {
      const Eigen::Map<const Eigen::ArrayXd> column(z.data() + j * n + b, m);
      if (j == 0) {
        r2 = (column - column(0)).square();
      } else {
        r2 += (column - column(0)).square();
      }
    }
    double* slope_column = slope == nullptr ? nullptr : slope->data() + b * n + b;
    EvaluateProfile(shape_.family, signal_variance_, m, r2.data(), r2.data(), slope_column);
  }
}

MatrixXd StationaryKernel::Gram(const Eigen::Ref<const MatrixXd>& x) const {
  MatrixXd k;
  GramLower(Scale(x), &k, nullptr);
  k.triangularView<Eigen::StrictlyUpper>() = k.transpose();
  return k;
}

void StationaryKernel::Cross(const Eigen::Ref<const MatrixXd>& a, const Eigen::Ref<const MatrixXd>& b, MatrixXd* k,
                             MatrixXd* slope) const {
  const Index n = a.rows();
  const Index q = b.rows();
  const Index d = a.cols();
  LUTHIER_CHECK(d == inverse_.size() && b.cols() == d);
  k->resize(n, q);
  if (slope != nullptr) slope->resize(n, q);
  if (n == 0) return;
  for (Index c = 0; c < q; ++c) {
    Eigen::Map<Eigen::ArrayXd> r2(k->data() + c * n, n);
    if (d == 0) r2.setZero();
    for (Index j = 0; j < d; ++j) {
      if (j == 0) {
        r2 = (a.col(j).array() - b(c, j)).square();
      } else {
        r2 += (a.col(j).array() - b(c, j)).square();
      }
    }
  }
  EvaluateProfile(shape_.family, signal_variance_, n * q, k->data(), k->data(),
                  slope == nullptr ? nullptr : slope->data());
}

VectorXd LogLengthscaleGradient(const KernelShape& shape, const MatrixXd& z, const MatrixXd& weighted_slope) {
  const Index n = z.rows();
  VectorXd gradient = VectorXd::Zero(shape.groups);
  if (n == 0) return gradient;
  // Centred: the two terms of the identity cancel less.
  const MatrixXd centred = z.rowwise() - z.colwise().mean();
  MatrixXd right(n, z.cols() + 1);
  right.leftCols(z.cols()) = centred;
  right.col(z.cols()).setOnes();
  const MatrixXd product = weighted_slope.selfadjointView<Eigen::Lower>() * right;
  for (Index j = 0; j < z.cols(); ++j) {
    const double own = (centred.col(j).array().square() * product.col(z.cols()).array()).sum();
    const double cross = centred.col(j).dot(product.col(j));
    gradient(shape.column_group[static_cast<size_t>(j)]) += -4.0 * (own - cross);
  }
  return gradient;
}

}  // namespace luthier::kernels
