#include "lib/search/cma_es/cma_es.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/math/special_functions.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kMaxCondition = 1e14;   // Condition number of C.
constexpr double kSmallestStep = 1e-12;  // As a share of the first sigma, in all columns.
constexpr double kLargestSigma = 1e3;    // In sides of the cube.

}  // namespace

int CmaEs::DefaultPopulation(int columns) {
  return 4 + static_cast<int>(std::floor(3.0 * std::log(std::max(columns, 1))));
}

CmaEs::CmaEs(std::vector<study::CompactColumn> columns, const Eigen::Ref<const VectorXd>& mean, double sigma,
             int population)
    : columns_(std::move(columns)),
      population_(population),
      parents_(population / 2),
      weights_(population),
      first_sigma_(sigma),
      sigma_(sigma) {
  LUTHIER_CHECK(population >= 4 && mean.size() == static_cast<Index>(columns_.size()));
  for (size_t c = 0; c < columns_.size(); ++c) {
    // A column of two labels counts as ordered, with two levels.
    const bool labels = columns_[c].kind() == study::CompactColumn::Kind::kUnordered && columns_[c].levels() > 2.0;
    (labels ? unordered_ : numeric_).push_back(static_cast<Index>(c));
    if (labels)
      shares_.push_back(VectorXd::Constant(static_cast<Index>(columns_[c].levels()), 1.0 / columns_[c].levels()));
  }
  const Index size = static_cast<Index>(numeric_.size());
  // The formulas need a dimension of at least one, even if all columns are labels.
  const double n = std::max(1.0, static_cast<double>(size)), lambda = population;

  for (Index i = 0; i < weights_.size(); ++i) {
    weights_(i) = std::log((lambda + 1.0) / 2.0) - std::log(static_cast<double>(i) + 1.0);
  }
  const auto effective = [](const VectorXd& w) { return w.sum() * w.sum() / w.squaredNorm(); };
  const double mu_eff = effective(weights_.head(parents_));
  const double mu_eff_negative = effective(weights_.tail(population - parents_));
  parents_effective_ = mu_eff;
  rank_one_rate_ = 2.0 / ((n + 1.3) * (n + 1.3) + mu_eff);
  rank_mu_rate_ =
      std::min(1.0 - rank_one_rate_ - 1e-8, 2.0 * (mu_eff - 2.0 + 1.0 / mu_eff) / ((n + 2.0) * (n + 2.0) + mu_eff));
  const double negative_sum =
      std::min({1.0 + rank_one_rate_ / rank_mu_rate_, 1.0 + 2.0 * mu_eff_negative / (mu_eff + 2.0),
                (1.0 - rank_one_rate_ - rank_mu_rate_) / (n * rank_mu_rate_)});
  double positive = 0.0, negative = 0.0;
  for (const double w : weights_) (w >= 0.0 ? positive : negative) += std::abs(w);
  for (double& w : weights_) w = w >= 0.0 ? w / positive : negative_sum * w / negative;

  sigma_rate_ = (mu_eff + 2.0) / (n + mu_eff + 5.0);
  sigma_damping_ = 1.0 + 2.0 * std::max(0.0, std::sqrt((mu_eff - 1.0) / (n + 1.0)) - 1.0) + sigma_rate_;
  path_rate_ = (4.0 + mu_eff / n) / (n + 4.0 + 2.0 * mu_eff / n);
  expected_norm_ = std::sqrt(n) * (1.0 - 1.0 / (4.0 * n) + 1.0 / (21.0 * n * n));
  share_rate_ = mu_eff / (static_cast<double>(columns_.size()) + 2.0 * mu_eff);
  smallest_margin_ = 1.0 / (lambda * static_cast<double>(std::max<size_t>(columns_.size(), 1)));

  mean_.resize(size);
  for (Index j = 0; j < size; ++j) mean_(j) = mean(numeric_[static_cast<size_t>(j)]);
  sigma_path_ = covariance_path_ = VectorXd::Zero(size);
  lengths_ = widening_ = VectorXd::Ones(size);
  covariance_ = axes_ = MatrixXd::Identity(size, size);
}

CmaEs::Sample CmaEs::Draw(base::RandomStream& random) const {
  Sample sample{VectorXd(static_cast<Index>(columns_.size())), VectorXd(static_cast<Index>(columns_.size()))};
  for (size_t k = 0; k < unordered_.size(); ++k) {
    const VectorXd& q = shares_[k];
    const double u = random.Uniform();
    double sum = 0.0;
    Index label = 0;
    while (label + 1 < q.size() && u >= (sum += q(label))) ++label;
    sample.latent(unordered_[k]) = sample.point(unordered_[k]) =
        (static_cast<double>(label) + 0.5) / static_cast<double>(q.size());
  }
  const Index n = mean_.size();
  VectorXd z(n), y(n);
  for (double& value : z) value = random.Normal();
  y.noalias() = axes_ * (lengths_.array() * z.array()).matrix();
  for (Index j = 0; j < n; ++j) {
    const Index c = numeric_[static_cast<size_t>(j)];
    const study::CompactColumn& column = columns_[static_cast<size_t>(c)];
    sample.latent(c) = mean_(j) + sigma_ * y(j);
    sample.point(c) = column.Canonical(std::clamp(mean_(j) + sigma_ * widening_(j) * y(j), 0.0, 1.0));
  }
  return sample;
}

void CmaEs::Update(const std::vector<VectorXd>& latents) {
  LUTHIER_CHECK(static_cast<int>(latents.size()) == population_);
  ++generation_;
  for (size_t k = 0; k < unordered_.size(); ++k) {
    VectorXd& q = shares_[k];
    VectorXd target = VectorXd::Zero(q.size());
    for (int i = 0; i < parents_; ++i) {
      const Index c = unordered_[k];
      target(columns_[static_cast<size_t>(c)].LabelOf(latents[static_cast<size_t>(i)](c))) += weights_(i);
    }
    q += share_rate_ * (target - q);
    const double labels = static_cast<double>(q.size());
    const double least = (1.0 - std::pow(0.73, 1.0 / static_cast<double>(unordered_.size()))) / (labels - 1.0);
    // Shares above the margin give up what the others gain.
    q = q.cwiseMax(least);
    const double surplus = (q.array() - least).sum(), wanted = 1.0 - labels * least;
    if (surplus > 0.0) q = ((q.array() - least) * (wanted / surplus) + least).matrix();
  }
  const Index n = mean_.size();
  if (n == 0) return;

  MatrixXd y(n, population_);
  for (Index i = 0; i < population_; ++i) {
    for (Index j = 0; j < n; ++j) {
      y(j, i) = (latents[static_cast<size_t>(i)](numeric_[static_cast<size_t>(j)]) - mean_(j)) / sigma_;
    }
  }
  // Returns C^(-1/2) v.
  const auto whiten = [&](const MatrixXd& v) -> MatrixXd {
    return axes_ * (lengths_.cwiseInverse().asDiagonal() * (axes_.transpose() * v).eval()).eval();
  };
  const MatrixXd white = whiten(y);
  const VectorXd before = mean_;
  mean_ += sigma_ * (y.leftCols(parents_) * weights_.head(parents_));
  for (Index j = 0; j < n; ++j) {
    if (columns_[static_cast<size_t>(numeric_[static_cast<size_t>(j)])].kind() ==
        study::CompactColumn::Kind::kContinuous) {
      mean_(j) = std::clamp(mean_(j), 0.0, 1.0);
    }
  }
  // The paths use the step that was made, so a mean that pushes against a face counts as resting.
  const VectorXd step = (mean_ - before) / sigma_;
  const VectorXd white_step = whiten(step);

  sigma_path_ = (1.0 - sigma_rate_) * sigma_path_ +
                std::sqrt(sigma_rate_ * (2.0 - sigma_rate_) * parents_effective_) * white_step;
  const double norm = sigma_path_.norm();
  sigma_ = std::min(kLargestSigma, sigma_ * std::exp(sigma_rate_ / sigma_damping_ * (norm / expected_norm_ - 1.0)));

  const double stationary = 1.0 - std::pow(1.0 - sigma_rate_, 2.0 * (generation_ + 1));
  const double dimension = static_cast<double>(n);
  const bool steady = norm / std::sqrt(stationary) < (1.4 + 2.0 / (dimension + 1.0)) * expected_norm_;
  covariance_path_ *= 1.0 - path_rate_;
  if (steady) covariance_path_ += std::sqrt(path_rate_ * (2.0 - path_rate_) * parents_effective_) * step;
  const double lost = steady ? 0.0 : path_rate_ * (2.0 - path_rate_);
  VectorXd weights = weights_;
  for (Index i = 0; i < population_; ++i) {
    if (weights(i) < 0.0) weights(i) *= dimension / (white.col(i).squaredNorm() + 1e-8);
  }
  covariance_ *= 1.0 + rank_one_rate_ * lost - rank_one_rate_ - rank_mu_rate_ * weights_.sum();
  covariance_ += rank_one_rate_ * covariance_path_ * covariance_path_.transpose();
  covariance_ += rank_mu_rate_ * (y * weights.asDiagonal() * y.transpose()).eval();
  DecomposeIfDue();
  CorrectMargins();
}

void CmaEs::DecomposeIfDue() {
  const double n = static_cast<double>(mean_.size());
  if (generation_ - decomposed_at_ < 1.0 / (10.0 * n * (rank_one_rate_ + rank_mu_rate_))) return;
  decomposed_at_ = generation_;
  covariance_ = (0.5 * (covariance_ + covariance_.transpose())).eval();
  const Eigen::SelfAdjointEigenSolver<MatrixXd> solver(covariance_);
  axes_ = solver.eigenvectors();
  // Negative weights and round-off may make small eigenvalues negative; Collapsed() sees their size.
  const double least = std::max(solver.eigenvalues().maxCoeff(), 1e-300) * 1e-15;
  const VectorXd values = solver.eigenvalues().cwiseMax(least);
  if (values != solver.eigenvalues()) covariance_ = axes_ * values.asDiagonal() * axes_.transpose();
  lengths_ = values.cwiseSqrt();
}

double CmaEs::LevelProbability(Index numeric, double low, double high) const {
  const double scale = sigma_ * widening_(numeric) * std::sqrt(covariance_(numeric, numeric));
  const double below = low <= 0.0 ? 0.0 : math::NormalCdf((low - mean_(numeric)) / scale);
  const double above = high >= 1.0 ? 0.0 : math::NormalCdf((mean_(numeric) - high) / scale);
  return 1.0 - below - above;
}

void CmaEs::CorrectMargins() {
  const double alpha = smallest_margin_;
  for (Index j = 0; j < mean_.size(); ++j) {
    const study::CompactColumn& column = columns_[static_cast<size_t>(numeric_[static_cast<size_t>(j)])];
    if (column.kind() == study::CompactColumn::Kind::kContinuous) continue;
    const double deviation = sigma_ * std::sqrt(covariance_(j, j));
    const double scale = deviation * widening_(j);
    const study::CompactColumn::Cell cell = column.CellOf(std::clamp(mean_(j), 0.0, 1.0));
    const bool lowest = cell.low <= 0.0, highest = cell.high >= 1.0;
    if (lowest || highest) {
      // Beyond the last threshold, the mean is kept within reach of it.
      const double threshold = lowest ? cell.high : cell.low;
      const double reach = -base::NormalQuantile(alpha) * scale;
      mean_(j) = std::clamp(mean_(j), threshold - reach, threshold + reach);
      continue;
    }
    const double below = math::NormalCdf((cell.low - mean_(j)) / scale);
    const double above = math::NormalCdf((mean_(j) - cell.high) / scale);
    if (below >= 0.5 * alpha && above >= 0.5 * alpha) continue;
    // Equation 20 and after: raises both probabilities to alpha/2; the larger one and the middle give up the excess.
    const double middle = 1.0 - below - above;
    const double raised_below = std::max(below, 0.5 * alpha), raised_above = std::max(above, 0.5 * alpha);
    const double excess = 1.0 - raised_below - raised_above - middle;
    const double total = raised_below + raised_above + middle - 1.5 * alpha;
    const auto quantile = [&](double raised) {
      const double p = std::clamp(raised + excess * (raised - 0.5 * alpha) / total, 1e-10, 0.5 - 1e-10);
      return -base::NormalQuantile(p);
    };
    const double z_low = quantile(raised_below), z_high = quantile(raised_above);
    mean_(j) = (cell.low * z_high + cell.high * z_low) / (z_low + z_high);
    widening_(j) = (cell.high - cell.low) / (deviation * (z_low + z_high));
  }
}

bool CmaEs::Collapsed() const {
  const Index n = mean_.size();
  if (n == 0) return false;
  const VectorXd deviations = sigma_ * covariance_.diagonal().cwiseSqrt();
  if (!deviations.allFinite() || !mean_.allFinite()) return true;
  if (sigma_ >= kLargestSigma) return true;
  const double condition = lengths_.maxCoeff() / lengths_.minCoeff();
  if (condition * condition > kMaxCondition) return true;
  const double path = sigma_ * covariance_path_.cwiseAbs().maxCoeff();
  return std::max(deviations.maxCoeff(), path) < kSmallestStep * first_sigma_;
}

}  // namespace luthier::search
