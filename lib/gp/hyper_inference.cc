#include "lib/gp/hyper_inference.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/kernels/derivatives.h"
#include "lib/math/infinity.h"
#include "lib/math/lbfgs.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::VectorXd;

namespace {

constexpr double kSqrt2 = 1.41421356237309504880;
constexpr double kHalfPi = 1.57079632679489661923;
constexpr double kLeastSignal = 1e-3, kMostSignal = 1e3;
constexpr double kMaxNoise = 1e1;
constexpr double kMinShape = 1e-2, kMaxShape = 1e2;
// Prior of ln sigma_n^2. Declared noise may be a thousandth of the differences between values, or more than these.
constexpr double kNoiseMu = -4.0, kNoiseSigma = 3.0;
// Bounds of the slope noise relative to the slopes' prior variance.
constexpr double kMinSlopeNoise = 1e-8, kMaxSlopeNoise = 1e1;
constexpr double kSlopeNoiseMu = -9.2103403719761836, kSlopeNoiseSigma = 2.0;  // mu: ln 1e-4.
constexpr int kMinFit = 3;
constexpr int kMinEvaluations = 3;  // Least number of evaluations of a search, however many rows there are.
constexpr Index kSubset = 256;
// First step, in logarithms, of a search that has a few likelihoods only and begins where the last one ended. Others
// begin with 1: small steps would stay in the optimum they know, which costs Michalewicz-5 and -10 progress.
constexpr double kShortStep = 0.1;

// ln density at theta = exp(phi), up to a constant, and its derivative by phi.
struct Term {
  double value;
  double slope;
};

Term LogNormalTerm(double phi, double mu, double sigma) {
  const double z = (phi - mu) / sigma;
  return {-phi - 0.5 * z * z, -1.0 - z / sigma};
}

// ln(1 + 3 (0.1/theta)^2): the horseshoe's bounds. It has a pole at 0, so theta needs a floor.
Term HorseshoeTerm(double phi) {
  const double a = 0.03 * std::exp(-2.0 * phi);
  const double density = std::log1p(a);
  return {std::log(density), -2.0 * a / ((1.0 + a) * density)};
}

double LengthscaleMu(Index groups) {
  return kSqrt2 + 0.5 * std::log(static_cast<double>(std::max<Index>(groups, 1)));
}

Term LengthscaleTerm(PriorKind kind, double phi, Index groups) {
  if (kind == PriorKind::kThesis) return {0.0, 0.0};
  return LogNormalTerm(phi, LengthscaleMu(groups), std::sqrt(3.0));
}

// Log density of ln sigma_n^2 under the prior.
Term NoiseTerm(PriorKind kind, double phi) {
  if (kind == PriorKind::kThesis) return HorseshoeTerm(phi);
  const double z = (phi - kNoiseMu) / kNoiseSigma;
  return {-0.5 * z * z, -z / kNoiseSigma};
}

// `count` different indices below n, ascending.
std::vector<Index> RandomRows(Index n, Index count, base::RandomStream& random) {
  std::vector<Index> rows(static_cast<size_t>(n));
  for (Index i = 0; i < n; ++i) rows[static_cast<size_t>(i)] = i;
  random.Shuffle(rows);
  rows.resize(static_cast<size_t>(count));
  std::sort(rows.begin(), rows.end());
  return rows;
}

// V: the slopes' prior variance, averaged over the coordinates; 1 with no coordinates.
double MeanSlopeVariance(const kernels::KernelShape& shape, const Hyperparameters& theta) {
  return shape.columns() == 0 ? 1.0 : kernels::DerivativeKernel(KernelOf(shape, theta)).GradientVariances().mean();
}

}  // namespace

HyperPosterior::HyperPosterior(Likelihood* likelihood, const InferenceOptions& options)
    : likelihood_(likelihood), options_(options), groups_(likelihood->shape().groups) {
  LUTHIER_CHECK(options.min_lengthscale > 0.0 && options.max_lengthscale >= options.min_lengthscale);
  LUTHIER_CHECK(options.min_noise > 0.0 && options.fixed_noise >= 0.0);
  Index count = groups_;
  if (options.fit_signal) signal_ = count++;
  if (likelihood->shape().has_shape_parameter()) shape_ = count++;
  if (options.fit_noise) noise_ = count++;
  LUTHIER_CHECK(options.fixed_slope_noise >= 0.0);
  if (likelihood->slopes() > 0 && options.fit_slope_noise) slope_noise_ = count++;
  lower_.resize(count);
  upper_.resize(count);
  lower_.head(groups_).setConstant(std::log(options.min_lengthscale));
  upper_.head(groups_).setConstant(std::log(options.max_lengthscale));
  if (signal_ >= 0) {
    lower_(signal_) = std::log(kLeastSignal);
    upper_(signal_) = std::log(kMostSignal);
  }
  if (shape_ >= 0) {
    lower_(shape_) = std::log(kMinShape);
    upper_(shape_) = std::log(kMaxShape);
  }
  if (noise_ >= 0) {
    lower_(noise_) = std::log(options.min_noise);
    upper_(noise_) = std::log(kMaxNoise);
  }
  if (slope_noise_ >= 0) {
    lower_(slope_noise_) = std::log(kMinSlopeNoise);
    upper_(slope_noise_) = std::log(kMaxSlopeNoise);
  }
}

VectorXd HyperPosterior::Mode() const {
  const bool thesis = options_.prior == PriorKind::kThesis;
  VectorXd phi(dimension());
  phi.head(groups_).setConstant(thesis ? 0.0 : LengthscaleMu(groups_) - 3.0);
  if (signal_ >= 0) phi(signal_) = -1.0;
  if (noise_ >= 0) phi(noise_) = options_.doubt_noise ? lower_(noise_) : thesis ? std::log(1e-3) : kNoiseMu;
  if (shape_ >= 0) phi(shape_) = 0.0;
  if (slope_noise_ >= 0) phi(slope_noise_) = kSlopeNoiseMu - kSlopeNoiseSigma * kSlopeNoiseSigma;
  return phi.cwiseMax(lower_).cwiseMin(upper_);
}

VectorXd HyperPosterior::Draw(base::RandomStream& random) const {
  const bool thesis = options_.prior == PriorKind::kThesis;
  VectorXd phi(dimension());
  for (Index j = 0; j < groups_; ++j) {
    phi(j) =
        thesis ? std::log(random.UniformOpen()) + upper_(j) : LengthscaleMu(groups_) + std::sqrt(3.0) * random.Normal();
  }
  if (signal_ >= 0) phi(signal_) = random.Normal();
  if (noise_ >= 0 && thesis) {
    // The horseshoe's own scale mixture: normal with a half-Cauchy deviation.
    phi(noise_) = std::log(0.1 * std::abs(random.Normal()) * std::tan(kHalfPi * random.UniformOpen()));
  } else if (noise_ >= 0) {
    phi(noise_) = options_.doubt_noise ? lower_(noise_) + random.Uniform() * (upper_(noise_) - lower_(noise_))
                                       : kNoiseMu + kNoiseSigma * random.Normal();
  }
  if (shape_ >= 0) phi(shape_) = random.Normal();
  if (slope_noise_ >= 0) phi(slope_noise_) = kSlopeNoiseMu + kSlopeNoiseSigma * random.Normal();
  return phi.cwiseMax(lower_).cwiseMin(upper_);
}

VectorXd HyperPosterior::Pack(const Hyperparameters& theta) const {
  LUTHIER_CHECK(theta.lengthscales.size() == groups_);
  VectorXd phi(dimension());
  phi.head(groups_) = theta.lengthscales.array().log();
  if (signal_ >= 0) phi(signal_) = std::log(theta.signal_variance);
  if (noise_ >= 0) phi(noise_) = std::log(theta.noise_variance);
  if (shape_ >= 0) phi(shape_) = std::log(theta.shape_parameter);
  if (slope_noise_ >= 0) {
    // 0: hyperparameters that were found without slopes.
    phi(slope_noise_) = kSlopeNoiseMu;
    if (theta.slope_noise_variance > 0.0) {
      phi(slope_noise_) = std::log(theta.slope_noise_variance / MeanSlopeVariance(likelihood_->shape(), theta));
    }
  }
  return phi.cwiseMax(lower_).cwiseMin(upper_);
}

Hyperparameters HyperPosterior::Unpack(const VectorXd& phi) const {
  LUTHIER_CHECK(phi.size() == dimension());
  Hyperparameters theta;
  theta.lengthscales = phi.head(groups_).array().exp();
  theta.signal_variance = signal_ >= 0 ? std::exp(phi(signal_)) : 1.0;
  theta.noise_variance = noise_ >= 0 ? std::exp(phi(noise_)) : options_.fixed_noise;
  theta.shape_parameter = shape_ >= 0 ? std::exp(phi(shape_)) : 1.0;
  if (likelihood_->slopes() > 0) {
    theta.slope_noise_variance = (slope_noise_ >= 0 ? std::exp(phi(slope_noise_)) : options_.fixed_slope_noise) *
                                 MeanSlopeVariance(likelihood_->shape(), theta);
  }
  return theta;
}

double HyperPosterior::LogPrior(const VectorXd& phi, VectorXd* gradient) const {
  if (gradient != nullptr) gradient->setZero(dimension());
  double value = 0.0;
  auto add = [&](Index j, const Term& term) {
    value += term.value;
    if (gradient != nullptr) (*gradient)(j) += term.slope;
  };
  for (Index j = 0; j < groups_; ++j) add(j, LengthscaleTerm(options_.prior, phi(j), groups_));
  if (signal_ >= 0) add(signal_, LogNormalTerm(phi(signal_), 0.0, 1.0));
  if (noise_ >= 0) {
    add(noise_, options_.doubt_noise ? Term{-phi(noise_), -1.0} : NoiseTerm(options_.prior, phi(noise_)));
  }
  if (shape_ >= 0) add(shape_, LogNormalTerm(phi(shape_), 0.0, 1.0));
  if (slope_noise_ >= 0) {
    add(slope_noise_, LogNormalTerm(phi(slope_noise_), kSlopeNoiseMu, kSlopeNoiseSigma));
  }
  return value;
}

absl::StatusOr<double> HyperPosterior::Value(const VectorXd& phi, VectorXd* gradient, Hyperparameters* theta,
                                             const base::StopToken& stop) const {
  Hyperparameters at = Unpack(phi);
  LikelihoodGradient parts;
  LikelihoodGradient* wanted = gradient == nullptr ? nullptr : &parts;
  LUTHIER_ASSIGN_OR_RETURN(const double log_likelihood, likelihood_->MarginalOverMean(&at, wanted, stop));
  if (theta != nullptr) *theta = at;
  if (!std::isfinite(log_likelihood)) return -math::kInfinity;
  const double log_prior = LogPrior(phi, gradient);
  if (gradient != nullptr) {
    gradient->head(groups_) += parts.log_lengthscales;
    if (signal_ >= 0) (*gradient)(signal_) += parts.log_signal_variance;
    if (noise_ >= 0) (*gradient)(noise_) += parts.log_noise_variance;
    if (shape_ >= 0) (*gradient)(shape_) += parts.log_shape_parameter;
    if (slope_noise_ >= 0) (*gradient)(slope_noise_) += parts.log_slope_noise_variance;
    if (likelihood_->slopes() > 0 && groups_ > 0) {
      // sigma_g^2 moves with V.
      const double by_noise = parts.log_slope_noise_variance;
      const kernels::KernelGradient scale =
          kernels::DerivativeKernel(KernelOf(likelihood_->shape(), at)).LogMeanGradientVariance();
      gradient->head(groups_) += by_noise * scale.log_lengthscales;
      if (signal_ >= 0) (*gradient)(signal_) += by_noise;
      if (shape_ >= 0) (*gradient)(shape_) += by_noise * scale.log_shape_parameter;
    }
  }
  return log_likelihood + log_prior;
}

namespace {

// The posterior's values, as a search asks for them; remembers the best and the last one.
class Evaluations {
 public:
  Evaluations(const HyperPosterior* posterior, const base::StopToken& stop) : posterior_(posterior), stop_(stop) {}

  absl::StatusOr<double> operator()(const VectorXd& phi, VectorXd* gradient) {
    // Searches begin with what was evaluated just before.
    if (phi.size() == last_.size() && phi == last_ && (gradient == nullptr || last_gradient_.size() > 0)) {
      if (gradient != nullptr) *gradient = last_gradient_;
      return last_value_;
    }
    Hyperparameters theta;
    last_ = phi;
    LUTHIER_ASSIGN_OR_RETURN(last_value_, posterior_->Value(phi, gradient, &theta, stop_));
    last_gradient_.resize(0);
    if (gradient != nullptr && std::isfinite(last_value_)) last_gradient_ = *gradient;
    ++count_;
    if (count_ == 1 || last_value_ > best_value_) {
      best_ = phi;
      best_value_ = last_value_;
      theta_ = std::move(theta);
    }
    return last_value_;
  }

  int count() const { return count_; }
  const VectorXd& best() const { return best_; }
  double best_value() const { return best_value_; }
  const Hyperparameters& theta() const { return theta_; }  // Parameters of the best evaluation, with the mean in place.

 private:
  const HyperPosterior* posterior_;
  const base::StopToken& stop_;
  VectorXd last_, last_gradient_, best_;
  double last_value_ = 0.0, best_value_ = 0.0;
  Hyperparameters theta_;
  int count_ = 0;
};

}  // namespace

absl::StatusOr<InferenceResult> MaximizePosterior(Likelihood* likelihood, const InferenceOptions& options,
                                                  const std::optional<Hyperparameters>& carried,
                                                  base::RandomStream random, const base::StopToken& stop) {
  const HyperPosterior posterior(likelihood, options);
  Evaluations evaluate(&posterior, stop);
  InferenceResult result;
  auto finish = [&] {
    result.theta = evaluate.theta();
    result.log_posterior = evaluate.best_value();
    result.evaluations += evaluate.count();
    return result;
  };
  const VectorXd mode = posterior.Mode();
  if (likelihood->size() < kMinFit || posterior.dimension() == 0) {
    LUTHIER_RETURN_IF_ERROR(evaluate(mode, nullptr).status());
    return finish();
  }
  const double rows = static_cast<double>(likelihood->size() + likelihood->slopes());
  const double affordable = std::max(static_cast<double>(kMinEvaluations), options.max_work / (rows * rows * rows));
  const bool many = affordable < options.max_evaluations;

  math::LbfgsOptions search;
  search.max_evaluations = many ? static_cast<int>(affordable) : options.max_evaluations;
  search.max_iterations = search.max_evaluations;
  search.gradient_tolerance = 1e-4;
  search.value_tolerance = options.value_tolerance;
  auto negative = [&](const VectorXd& phi, VectorXd* gradient) -> absl::StatusOr<double> {
    LUTHIER_ASSIGN_OR_RETURN(const double value, evaluate(phi, gradient));
    if (gradient != nullptr) *gradient = -*gradient;
    return -value;
  };
  auto climb = [&](const VectorXd& start, double first_step) {
    search.first_step = first_step;
    return math::MinimizeLbfgs(negative, start, posterior.lower(), posterior.upper(), search, stop).status();
  };
  if (many && carried.has_value()) {
    LUTHIER_RETURN_IF_ERROR(climb(posterior.Pack(*carried), kShortStep));
    if (!std::isfinite(evaluate.best_value())) LUTHIER_RETURN_IF_ERROR(evaluate(mode, nullptr).status());
    return finish();
  }
  if (many && likelihood->size() > kSubset) {
    Likelihood part = likelihood->Subset(RandomRows(likelihood->size(), kSubset, random));
    LUTHIER_ASSIGN_OR_RETURN(const InferenceResult found,
                             MaximizePosterior(&part, options, std::nullopt, random, stop));
    result.evaluations = found.evaluations;
    LUTHIER_ASSIGN_OR_RETURN(const double of_all, evaluate(posterior.Pack(found.theta), nullptr));
    if (!std::isfinite(of_all)) LUTHIER_RETURN_IF_ERROR(evaluate(mode, nullptr).status());
    return finish();
  }

  struct Start {
    VectorXd phi;
    double value;
    bool carried;
    size_t order;
  };
  std::vector<Start> starts;
  if (carried.has_value()) starts.push_back({posterior.Pack(*carried), 0.0, true, 0});
  starts.push_back({mode, 0.0, false, starts.size()});
  for (int s = 0; s < options.random_starts; ++s) starts.push_back({posterior.Draw(random), 0.0, false, starts.size()});
  // The carried start is evaluated last, and with its gradient: it is mostly searched next.
  VectorXd gradient(posterior.dimension());
  for (size_t s = starts.size(); s-- > 0;) {
    LUTHIER_ASSIGN_OR_RETURN(starts[s].value, evaluate(starts[s].phi, starts[s].carried ? &gradient : nullptr));
  }
  // The carried state is close to the optimum of a moment ago: it is always searched if there is more than one search,
  // and loses its place only to a start that is better already.
  const bool keep_carried = options.max_searches > 1;
  std::sort(starts.begin(), starts.end(), [keep_carried](const Start& a, const Start& b) {
    if (keep_carried && a.carried != b.carried) return a.carried;
    return a.value != b.value ? a.value > b.value : a.order < b.order;
  });
  for (size_t s = 0; s < starts.size() && s < static_cast<size_t>(options.max_searches); ++s) {
    if (std::isfinite(starts[s].value)) LUTHIER_RETURN_IF_ERROR(climb(starts[s].phi, 1.0));
  }
  return finish();
}

}  // namespace luthier::gp
