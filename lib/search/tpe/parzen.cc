#include "lib/search/tpe/parzen.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/math/special_functions.h"

namespace luthier::search {

using Eigen::ArrayXd;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kPriorWeight = 1.0;
constexpr int64_t kFlatWeights = 25;
constexpr double kMinKernels = 100.0;
constexpr int64_t kOperationsOfAWidth = 20;  // Operations of one observation.
constexpr double kSqrt2 = 1.4142135623730951;
constexpr double kSqrt2Pi = 2.5066282746310005;
// Number of deviations beyond which a normal distribution has less than half an ulp of 1 left.
constexpr double kAllMass = 8.5;
// A cell narrower than this share of sigma has mass density times width, with a relative error below share^2/24 times
// the squared distance in deviations. The difference of two distribution functions would lose more digits.
constexpr double kNarrowCell = 1e-5;
// Least width of a cell, for ranges of more than 2^53 levels, whose cells have no width in doubles.
constexpr double kSmallestCell = 0x1p-54;

double MassInUnitInterval(double mean, double sigma) {
  const double low = -mean / sigma, high = (1.0 - mean) / sigma;
  if (low < -kAllMass) return high > kAllMass ? 1.0 : math::NormalCdf(high);
  if (high > kAllMass) return math::NormalCdf(-low);
  return math::NormalCdfDifference(high, low);
}

// Returns the rows of each column by value, equal ones by number.
std::vector<std::vector<int>> Ascending(const Eigen::Ref<const MatrixXd>& observations) {
  std::vector<std::vector<int>> rows(static_cast<size_t>(observations.cols()));
  std::vector<std::pair<double, int>> column(static_cast<size_t>(observations.rows()));
  for (size_t j = 0; j < rows.size(); ++j) {
    for (size_t i = 0; i < column.size(); ++i) {
      column[i] = {observations(static_cast<Index>(i), static_cast<Index>(j)), static_cast<int>(i)};
    }
    std::sort(column.begin(), column.end());
    for (const auto& [value, row] : column) rows[j].push_back(row);
  }
  return rows;
}

// Sets the first n entries of `sigmas` to the widths of n kernels: see parzen.h.
void SetNeighbourWidths(const Eigen::Ref<const VectorXd>& means, const std::vector<int>& ascending, ArrayXd* sigmas) {
  const Index n = means.size();
  const double smallest = 1.0 / std::min(kMinKernels, static_cast<double>(n + 2));
  double last = 0.0;
  for (Index k = 0; k < n; ++k) {
    const int row = ascending[static_cast<size_t>(k)];
    const double mean = means(row);
    const bool first = k == 0, end = k + 1 == n;
    const double left = first && !end ? 0.0 : mean - last;
    const double right = end && !first ? 0.0 : (end ? 1.0 : means(ascending[static_cast<size_t>(k + 1)])) - mean;
    (*sigmas)(row) = std::clamp(std::max(left, right), smallest, 1.0);
    last = mean;
  }
}

// Returns sum_i exp(x_i - largest). Terms that are skipped add less than 2^-54 to the sum, which is at least 1, if
// there are up to 10^9.
double SumOfExponentials(const ArrayXd& x, double largest) {
  constexpr double kNegligible = 60.0;
  constexpr Index kBlock = 8;
  const double floor = largest - kNegligible;
  const Index whole = x.size() / kBlock * kBlock;
  double sum = 0.0;
  for (Index i = 0; i < whole; i += kBlock) {
    const auto block = x.segment<kBlock>(i);
    if (block.maxCoeff() > floor) sum += (block - largest).exp().sum();
  }
  return sum + (x.tail(x.size() - whole) - largest).exp().sum();
}

}  // namespace

std::vector<double> ParzenWeights(int64_t n) {
  std::vector<double> weights(static_cast<size_t>(n), 1.0);
  const int64_t ramp = n - kFlatWeights;
  const double first = 1.0 / static_cast<double>(n);
  for (int64_t i = 0; i < ramp; ++i) {
    const double share = ramp == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(ramp - 1);
    weights[static_cast<size_t>(i)] = first + share * (1.0 - first);
  }
  return weights;
}

double TruncatedNormalQuantile(double p, double mean, double sigma, double low, double high) {
  const double a = (low - mean) / sigma, b = (high - mean) / sigma;
  // Counts from above if the upper tail is the smaller one.
  const bool mirror = a + b > 0.0;
  const double from = mirror ? -b : a, to = mirror ? -a : b;
  const double share = mirror ? 1.0 - p : p;
  const double below = math::NormalCdf(from);
  double q = below + share * math::NormalCdfDifference(to, from);
  double z = 0.0;
  if (q < 0.5) {
    z = q > 0.0 ? base::NormalQuantile(q) : to;
  } else {
    q = math::NormalCdf(-to) + (1.0 - share) * math::NormalCdfDifference(to, from);
    z = q > 0.0 ? -base::NormalQuantile(q) : to;
  }
  return std::clamp(mean + sigma * (mirror ? -z : z), low, high);
}

ParzenMixture::ParzenMixture(std::vector<study::CompactColumn> columns, const Eigen::Ref<const MatrixXd>& observations)
    : ParzenMixture(std::move(columns)) {
  LUTHIER_CHECK(Fill(observations, Ascending(observations), base::StopToken()).ok());
}

absl::StatusOr<ParzenMixture> ParzenMixture::Create(std::vector<study::CompactColumn> columns,
                                                    const Eigen::Ref<const MatrixXd>& observations,
                                                    const std::vector<std::vector<int>>& ascending,
                                                    const base::StopToken& stop) {
  ParzenMixture mixture(std::move(columns));
  LUTHIER_RETURN_IF_ERROR(mixture.Fill(observations, ascending, stop));
  return mixture;
}

absl::Status ParzenMixture::Fill(const Eigen::Ref<const MatrixXd>& observations,
                                 const std::vector<std::vector<int>>& ascending, const base::StopToken& stop) {
  const Index n = observations.rows(), d = observations.cols();
  LUTHIER_CHECK(d >= 1 && d == static_cast<Index>(columns_.size()));
  mean_.resize(n + 1, d);
  mean_.topRows(n) = observations;
  mean_.row(n).setConstant(0.5);
  half_precision_.resize(n + 1, d);
  log_scale_.resize(n + 1);
  std::vector<double> weights = ParzenWeights(n);
  weights.push_back(kPriorWeight);
  double sum = 0.0;
  cumulative_.reserve(weights.size());
  for (const double w : weights) {
    sum += w;
    cumulative_.push_back(sum);
  }
  for (Index i = 0; i <= n; ++i) {
    cumulative_[static_cast<size_t>(i)] /= sum;
    log_scale_(i) = std::log(weights[static_cast<size_t>(i)] / sum);
  }
  // Takes logarithms of products of factors, each of which is between 0.01 and 3.
  constexpr int kFactors = 64;
  ArrayXd product = ArrayXd::Ones(n + 1);
  int factors = 0;
  base::Pace pace(stop);
  for (Index j = 0; j < d; ++j) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kOperationsOfAWidth * (n + 1)));
    const study::CompactColumn::Kind kind = columns_[static_cast<size_t>(j)].kind();
    if (kind == study::CompactColumn::Kind::kUnordered) continue;
    const ArrayXd sigmas = SetWidths(j, ascending[static_cast<size_t>(j)]);
    if (kind == study::CompactColumn::Kind::kOrdered) continue;
    for (Index i = 0; i <= n; ++i) {
      const double mean = mean_(i, j), tail = kAllMass * sigmas(i);
      // Most kernels are narrow and inside.
      const double mass = mean > tail && 1.0 - mean > tail ? 1.0 : MassInUnitInterval(mean, sigmas(i));
      product(i) *= kSqrt2Pi * sigmas(i) * mass;
    }
    if (++factors % kFactors == 0) {
      log_scale_ -= product.log();
      product.setOnes();
    }
  }
  log_scale_ -= product.log();
  return absl::OkStatus();
}

ArrayXd ParzenMixture::SetWidths(Index column, const std::vector<int>& ascending) {
  const Index n = mean_.rows() - 1;
  ArrayXd sigmas(n + 1);
  sigmas(n) = 1.0;
  SetNeighbourWidths(mean_.col(column).head(n), ascending, &sigmas);
  half_precision_.col(column) = (kSqrt2 * sigmas).inverse();
  return sigmas;
}

VectorXd ParzenMixture::Sample(base::RandomStream& random) const {
  const double pick = random.Uniform();
  const auto kernel = std::upper_bound(cumulative_.begin(), cumulative_.end() - 1, pick) - cumulative_.begin();
  const bool prior = kernel == kernels() - 1;
  VectorXd point(mean_.cols());
  for (Index j = 0; j < point.size(); ++j) {
    const study::CompactColumn& column = columns_[static_cast<size_t>(j)];
    const double u = random.UniformOpen();
    if (column.kind() != study::CompactColumn::Kind::kUnordered) {
      const double sigma = 1.0 / (kSqrt2 * half_precision_(kernel, j));
      point(j) = column.Canonical(TruncatedNormalQuantile(u, mean_(kernel, j), sigma, 0.0, 1.0));
      continue;
    }
    // With probability 1/(1 + k/K) the label is the observation's own, else any.
    const double own = prior ? 0.0 : 1.0 / (1.0 + kPriorWeight * column.levels() / static_cast<double>(kernels()));
    point(j) = u < own ? mean_(kernel, j) : column.Canonical((u - own) / (1.0 - own));
  }
  return point;
}

void ParzenMixture::AddOrdered(Index column, double u, ArrayXd* sum) const {
  const study::CompactColumn::Cell cell = columns_[static_cast<size_t>(column)].CellOf(u);
  const double width = std::max(cell.high - cell.low, kSmallestCell), middle = 0.5 * (cell.low + cell.high);
  double mean = std::numeric_limits<double>::quiet_NaN(), half_precision = 0.0, log_probability = 0.0;
  for (Index i = 0; i < kernels(); ++i) {
    // With few levels many kernels are equal, often consecutive ones.
    if (mean_(i, column) != mean || half_precision_(i, column) != half_precision) {
      mean = mean_(i, column);
      half_precision = half_precision_(i, column);
      const double precision = kSqrt2 * half_precision;
      const double mass = MassInUnitInterval(mean, 1.0 / precision);
      if (width * precision > kNarrowCell) {
        const double share = math::NormalCdfDifference((cell.high - mean) * precision, (cell.low - mean) * precision);
        log_probability = std::log(share / mass);
      } else {
        const double z = (middle - mean) * half_precision;
        log_probability = -z * z + std::log(width * precision / (kSqrt2Pi * mass));
      }
    }
    (*sum)(i) += log_probability;
  }
}

void ParzenMixture::AddUnordered(Index column, double u, ArrayXd* sum) const {
  const study::CompactColumn& labels = columns_[static_cast<size_t>(column)];
  const double k = labels.levels(), smoothing = kPriorWeight / static_cast<double>(kernels());
  const double other = std::log(smoothing / (1.0 + k * smoothing));
  const double same = std::log((1.0 + smoothing) / (1.0 + k * smoothing));
  const int label = labels.LabelOf(u);
  const Index n = kernels() - 1;
  for (Index i = 0; i < n; ++i) (*sum)(i) += labels.LabelOf(mean_(i, column)) == label ? same : other;
  (*sum)(n) -= std::log(k);
}

absl::StatusOr<VectorXd> ParzenMixture::LogDensity(const Eigen::Ref<const MatrixXd>& points,
                                                   const base::StopToken& stop) const {
  const Index q = points.rows();
  VectorXd result(q);
  // Values of an ordered or unordered column repeat among the points.
  std::vector<std::vector<std::pair<double, ArrayXd>>> known(columns_.size());
  ArrayXd sum(kernels());
  base::Pace pace(stop);
  for (Index p = 0; p < q; ++p) {
    sum = log_scale_;
    for (Index j = 0; j < points.cols(); ++j) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * kernels()));
      const double u = points(p, j);
      const study::CompactColumn::Kind kind = columns_[static_cast<size_t>(j)].kind();
      if (kind == study::CompactColumn::Kind::kContinuous) {
        sum -= ((u - mean_.col(j).array()) * half_precision_.col(j).array()).square();
        continue;
      }
      auto& list = known[static_cast<size_t>(j)];
      auto found = std::find_if(list.begin(), list.end(), [&](const auto& entry) { return entry.first == u; });
      if (found == list.end()) {
        list.emplace_back(u, ArrayXd::Zero(kernels()));
        found = list.end() - 1;
        if (kind == study::CompactColumn::Kind::kOrdered)
          AddOrdered(j, u, &found->second);
        else
          AddUnordered(j, u, &found->second);
      }
      sum += found->second;
    }
    const double largest = sum.maxCoeff();
    result(p) = largest + std::log(SumOfExponentials(sum, largest));
  }
  return result;
}

}  // namespace luthier::search
