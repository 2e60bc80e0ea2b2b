#include "tests/lib/linear/strength_cells.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// Rows of a dense matrix, zeros left out, and their labels.
data::Dataset FromDense(const std::string& name, const MatrixXd& x, const std::vector<int32_t>& label, int classes) {
  data::Dataset d;
  d.name = name;
  d.x.rows = x.rows();
  d.x.cols = static_cast<int32_t>(x.cols());
  d.x.row_start = {0};
  for (Index i = 0; i < x.rows(); ++i) {
    for (Index j = 0; j < x.cols(); ++j) {
      if (x(i, j) == 0.0) continue;
      d.x.column.push_back(static_cast<int32_t>(j));
      d.x.value.push_back(x(i, j));
    }
    d.x.row_start.push_back(static_cast<int64_t>(d.x.column.size()));
  }
  d.label = label;
  for (int k = 0; k < classes; ++k) d.classes.push_back(std::string(1, static_cast<char>('a' + k)));
  return d;
}

MatrixXd Normal(base::RandomStream& random, Index rows, Index cols, double density) {
  MatrixXd x = MatrixXd::Zero(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) {
      if (density >= 1.0 || random.Uniform() < density) x(i, j) = random.Normal();
    }
  }
  return x;
}

// Labels by the largest of as many random combinations, `noise` of them drawn anew. Every class has a row.
std::vector<int32_t> ManyLabels(base::RandomStream& random, const MatrixXd& x, double noise, int classes) {
  const MatrixXd w = Normal(random, x.cols(), classes, 1.0);
  std::vector<int32_t> label;
  for (Index i = 0; i < x.rows(); ++i) {
    Index best = 0;
    (x.row(i) * w).maxCoeff(&best);
    const bool drawn = i < classes || random.Uniform() < noise;
    label.push_back(static_cast<int32_t>(!drawn        ? best
                                         : i < classes ? i
                                                       : random.UniformInt(static_cast<uint64_t>(classes))));
  }
  return label;
}

// Labels by the sign of a random combination, `noise` of them turned round.
std::vector<int32_t> Labels(base::RandomStream& random, const MatrixXd& x, double noise, int classes) {
  if (classes > 2) return ManyLabels(random, x, noise, classes);
  VectorXd w(x.cols());
  for (Index j = 0; j < w.size(); ++j) w[j] = random.Normal();
  std::vector<int32_t> label;
  for (Index i = 0; i < x.rows(); ++i) {
    const bool turned = random.Uniform() < noise;
    label.push_back((x.row(i).dot(w) > 0.0) != turned ? 1 : 0);
  }
  label[0] = 0;
  label[1] = 1;
  return label;
}

}  // namespace

std::vector<Shape> HardShapes(uint64_t seed, int classes) {
  base::RandomStream random(seed, "hard shapes", 0);
  std::vector<Shape> shapes;
  const auto add = [&](const char* name, const MatrixXd& x, double noise, bool standardize = false) {
    shapes.push_back({name, FromDense(name, x, Labels(random, x, noise, classes), classes), standardize});
  };
  add("dense, n >> d", Normal(random, 400, 12, 1.0), 0.15, true);
  add("sparse, n >> d", Normal(random, 700, 60, 0.08), 0.1);
  add("n ~ d", Normal(random, 90, 80, 0.5), 0.1);
  add("n << d", Normal(random, 40, 160, 0.2), 0.2);
  add("separable", Normal(random, 250, 20, 1.0), 0.0);
  MatrixXd scaled = Normal(random, 300, 15, 1.0);
  for (Index j = 0; j < scaled.cols(); ++j) scaled.col(j) *= std::pow(10.0, static_cast<double>(j % 7) - 3.0);
  {
    // Every column matters, whatever its unit.
    MatrixXd unit = scaled;
    for (Index j = 0; j < unit.cols(); ++j) unit.col(j) /= std::pow(10.0, static_cast<double>(j % 7) - 3.0);
    shapes.push_back(
        {"badly scaled", FromDense("badly scaled", scaled, Labels(random, unit, 0.1, classes), classes), false});
  }
  MatrixXd doubled = Normal(random, 250, 18, 0.6);
  doubled.col(3).setOnes();
  doubled.col(7) = doubled.col(1);
  doubled.col(11) = 2.0 * doubled.col(2);
  doubled.col(12) = doubled.col(4) + doubled.col(5);
  add("constant and doubled columns", doubled, 0.1);
  MatrixXd rare = Normal(random, 500, 15, 1.0);
  std::vector<int32_t> few(500, 0);
  for (int k = 0; k < 6; ++k) {
    few[static_cast<size_t>(80 * k + 3)] = 1;
    rare.row(80 * k + 3).head(4).array() += 1.5;
  }
  for (int k = 2; k < classes; ++k) few[static_cast<size_t>(17 * k)] = k;
  shapes.push_back({"imbalanced", FromDense("imbalanced", rare, few, classes), true});
  return shapes;
}

Optimum FindOptimum(const data::Dataset& dataset, const data::Standardization& standardization, const MarginLoss& loss,
                    Bias bias, double l2) {
  const Index n = dataset.x.rows, p = dataset.x.cols, dim = p + (bias == Bias::kNone ? 0 : 1);
  const Index penalized = p + (bias == Bias::kPenalized ? 1 : 0);
  MatrixXd z = MatrixXd::Zero(n, dim);  // Rows times their signs.
  for (Index i = 0; i < n; ++i) {
    for (int64_t e = dataset.x.row_start[i]; e < dataset.x.row_start[i + 1]; ++e) {
      z(i, dataset.x.column[e]) = dataset.x.value[e];
    }
  }
  if (!standardization.identity()) {
    for (Index j = 0; j < p; ++j) {
      z.col(j) = (z.col(j).array() - standardization.mean[j]) / standardization.deviation[j];
      if (!standardization.constant.empty() && standardization.constant[static_cast<size_t>(j)]) z.col(j).setZero();
    }
  }
  if (dim > p) z.col(p).setOnes();
  for (Index i = 0; i < n; ++i) {
    if (dataset.label[static_cast<size_t>(i)] == 0) z.row(i) *= -1.0;
  }
  VectorXd ridge = VectorXd::Zero(dim);
  ridge.head(penalized).setConstant(l2);
  const auto value = [&](const VectorXd& w) {
    const VectorXd t = z * w;
    double sum = 0.5 * ridge.dot(w.cwiseAbs2());
    for (Index i = 0; i < n; ++i) sum += loss.Value(t[i]);
    return sum;
  };
  VectorXd w = VectorXd::Zero(dim);
  double h = value(w);
  const double f0 = h;
  double floor = 1.0;
  double bound = -INFINITY;
  for (int k = 0; k < 3000; ++k) {
    const VectorXd t = z * w;
    VectorXd slope(n), bend(n);
    for (Index i = 0; i < n; ++i) {
      slope[i] = loss.Slope(t[i]);
      bend[i] = std::max(loss.Curvature(t[i]), floor * loss.smoothness());
    }
    const VectorXd g = z.transpose() * slope + ridge.cwiseProduct(w);
    // By strong convexity in the penalised weights; the free bias is at its own minimum when its gradient vanishes.
    if (bias != Bias::kFree || std::abs(g[p]) <= 1e-12 * f0) {
      bound = std::max(bound, h - 0.5 * g.head(penalized).squaredNorm() / l2);
      if (h - bound <= 1e-9 * f0) break;
    }
    MatrixXd hessian = z.transpose() * bend.asDiagonal() * z;
    hessian.diagonal() += ridge;
    if (bias == Bias::kFree) hessian(p, p) += 1e-13 * static_cast<double>(n);
    const VectorXd d = -hessian.ldlt().solve(g);
    double step = 1.0, best = h, at = 0.0;
    // The best of 2, 1, 1/2, ... and, where all the loss is far away, of larger ones.
    for (int m = 0; m < 12; ++m, step *= 2.0) {
      const double now = value(w + step * d);
      if (!(now < best)) break;
      best = now;
      at = step;
    }
    for (step = 0.5; at == 0.0 && step > 1e-9; step *= 0.5) {
      const double now = value(w + step * d);
      if (now < best) best = now, at = step;
    }
    floor = at >= 1.0 ? 0.2 * floor : at > 0.0 ? std::min(1.0, std::max(1e-12, 5.0 * floor)) : 1.0;
    if (floor < 1e-14) floor = 0.0;
    if (at == 0.0) {
      if (bend.minCoeff() >= loss.smoothness()) break;  // The majorizer's step does not help: rounding.
      continue;
    }
    w += at * d;
    h = best;
  }
  return {h, std::max(bound, 0.0)};
}

Optimum CertifySoftmax(const data::Dataset& dataset, const data::Standardization& standardization, double l2,
                       const VectorXd& w) {
  const Index n = dataset.x.rows, p = dataset.x.cols, K = dataset.num_classes();
  MatrixXd x = MatrixXd::Zero(n, p), y = MatrixXd::Zero(n, K);
  for (Index i = 0; i < n; ++i) {
    for (int64_t e = dataset.x.row_start[i]; e < dataset.x.row_start[i + 1]; ++e) {
      x(i, dataset.x.column[e]) = dataset.x.value[e];
    }
    y(i, dataset.label[static_cast<size_t>(i)]) = 1.0;
  }
  for (Index j = 0; j < p && !standardization.identity(); ++j) {
    x.col(j) = (x.col(j).array() - standardization.mean[j]) / standardization.deviation[j];
    if (!standardization.constant.empty() && standardization.constant[static_cast<size_t>(j)]) x.col(j).setZero();
  }
  MatrixXd weights(p, K);
  for (Index j = 0; j < p; ++j) weights.row(j) = w.segment(j * K, K).transpose();
  VectorXd b = VectorXd::Zero(K);
  b.tail(K - 1) = w.tail(K - 1);
  const MatrixXd scores = x * weights;
  // Losses at intercepts, and P - Y, whose entry at the label is minus the sum of the others.
  const auto evaluate = [&](const VectorXd& at, MatrixXd* residual) {
    double sum = 0.0;
    MatrixXd z = scores.rowwise() + at.transpose();
    for (Index i = 0; i < n; ++i) {
      const Index label = dataset.label[static_cast<size_t>(i)];
      const double top = z.row(i).maxCoeff(), own = z(i, label);
      z.row(i) = (z.row(i).array() - top).exp();
      const double total = z.row(i).sum();
      sum += std::log(total) + top - own;
      z.row(i) /= total;
      z(i, label) = 0.0;
      z(i, label) = -z.row(i).sum();
    }
    *residual = std::move(z);
    return sum;
  };
  MatrixXd residual;
  const double penalty = 0.5 * l2 * weights.squaredNorm();
  const double value = evaluate(b, &residual) + penalty;
  double best = value - penalty;
  for (int step = 0; step < 300; ++step) {
    const VectorXd g = residual.colwise().sum().transpose();
    if (g.lpNorm<Eigen::Infinity>() <= 1e-13 * static_cast<double>(n)) break;
    MatrixXd probability = residual + y;
    MatrixXd hessian = -probability.transpose() * probability;
    hessian.diagonal() += probability.colwise().sum().transpose();
    hessian.array() += 1.0;  // Shifts of all classes change nothing.
    hessian.diagonal().array() += 1e-13 * static_cast<double>(n);
    const VectorXd d = -hessian.ldlt().solve(g);
    bool moved = false;
    for (double length = 1.0; length > 1e-8 && !moved; length *= 0.5) {
      MatrixXd there;
      const double now = evaluate(b + length * d, &there);
      const bool nearer = there.colwise().sum().norm() < g.norm();
      if (now > best + 1e-14 * std::abs(best) || !nearer) continue;
      moved = true;
      b += length * d;
      best = now;
      residual = std::move(there);
    }
    if (!moved) break;
  }
  const MatrixXd gradient = x.transpose() * residual + l2 * weights;
  return {value, best + penalty - gradient.squaredNorm() / (2.0 * l2)};
}

}  // namespace luthier::linear
