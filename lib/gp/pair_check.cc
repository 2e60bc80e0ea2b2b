#include "lib/gp/pair_check.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "lib/base/check.h"

namespace luthier::gp {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// Limits for pairs: the largest distance in lengthscales, the numbers of pairs, and the pairs of one point.
constexpr double kClose = 0.1;
constexpr int kMinPairs = 5, kMaxPairs = 10, kMaxUses = 2;
constexpr double kMaxMisfit = 0.4;
// Limits for peers: the number of nearest points, and the least share that a slope must have.
constexpr int kNearest = 3;
constexpr double kMinShare = 0.2;
struct Reach {
  double distance;  // Lengthscales.
  double chance;    // The largest probability that contradicts.
};
constexpr Reach kReaches[] = {{0.05, 3e-4}, {0.1, 3e-4}, {0.2, 3e-4}, {0.4, 1e-4}, {0.8, 1e-5}};

// Returns the difference of values up to which a pair is inconclusive.
double ErrorOf(const Hyperparameters& theta, double value_error) {
  return std::max(5.0 * std::sqrt(2.0 * theta.noise_variance), 100.0 * value_error);
}

// The known components of the gradient at a point; the others are NaN.
struct KnownGradient {
  Index point = 0;
  VectorXd values, variances;
};

std::vector<KnownGradient> KnownGradients(const Slopes& slopes, Index d) {
  std::vector<KnownGradient> known;
  for (Index i = 0; i < slopes.size(); ++i) {
    Index axis = 0;
    if (slopes.directions.row(i).cwiseAbs().maxCoeff(&axis) != 1.0 || slopes.directions.row(i).squaredNorm() != 1.0) {
      continue;
    }
    const Index point = slopes.points[static_cast<size_t>(i)];
    auto at = std::find_if(known.begin(), known.end(), [&](const KnownGradient& g) { return g.point == point; });
    if (at == known.end()) {
      known.push_back({point, VectorXd::Constant(d, kUnknown), VectorXd::Zero(d)});
      at = known.end() - 1;
    }
    at->values(axis) = slopes.directions(i, axis) * slopes.values(i);
    at->variances(axis) = slopes.extra_variances(i);
  }
  return known;
}

// Returns the misfit of a pair, or std::nullopt if the pair is inconclusive.
std::optional<double> Misfit(const KnownGradient& a, const KnownGradient& b, const VectorXd& h, double difference,
                             double error) {
  double by_a = 0.0, by_b = 0.0, variance = 0.0;
  for (Index k = 0; k < h.size(); ++k) {
    if (h(k) == 0.0) continue;
    if (std::isnan(a.values(k)) || std::isnan(b.values(k))) return std::nullopt;
    by_a += a.values(k) * h(k);
    by_b += b.values(k) * h(k);
    variance += h(k) * h(k) * (a.variances(k) + b.variances(k)) / 4.0;
  }
  const double size = std::max(std::abs(difference), 0.5 * (std::abs(by_a) + std::abs(by_b)));
  if (!(size > error) || !(size > 10.0 * std::sqrt(variance))) return std::nullopt;
  return std::abs(difference - 0.5 * (by_a + by_b)) / size;
}

// Returns the misfit between `own` slope along h and the slope implied by the values and by the slope at the other end,
// or std::nullopt if the pair is inconclusive.
std::optional<double> ImpliedMisfit(const KnownGradient& own, const KnownGradient& other, const VectorXd& h,
                                    double difference, double error) {
  double by_own = 0.0, by_other = 0.0, variance = 0.0;
  for (Index k = 0; k < h.size(); ++k) {
    if (h(k) == 0.0) continue;
    if (std::isnan(own.values(k)) || std::isnan(other.values(k))) return std::nullopt;
    by_own += own.values(k) * h(k);
    by_other += other.values(k) * h(k);
    variance += h(k) * h(k) * (own.variances(k) + other.variances(k));
  }
  const double implied = 2.0 * difference - by_other;
  const double size = std::max(std::abs(by_own), std::abs(implied));
  if (!(size > 2.0 * error) || !(size > 10.0 * std::sqrt(variance))) return std::nullopt;
  if (size < kMinShare * std::max(std::abs(difference), std::abs(by_other))) return std::nullopt;
  return std::abs(by_own - implied) / size;
}

struct Comparison {
  double distance;
  size_t point, other;  // Indices into `points` and `others`.
  double misfit;
};

// Compares each point with the nearest of the others, up to three. None of these serves more than kMaxUses points, as
// an odd one would decide for all points around it. The result ascends in distance, up to the longest reach.
std::vector<Comparison> Comparisons(
    const MatrixXd& scaled, const std::vector<KnownGradient>& points, const std::vector<KnownGradient>& others,
    absl::FunctionRef<std::optional<double>(const KnownGradient&, const KnownGradient&)> misfit_of) {
  std::vector<Comparison> close;
  for (size_t i = 0; i < points.size(); ++i) {
    for (size_t k = 0; k < others.size(); ++k) {
      if (points[i].point == others[k].point) continue;
      const double distance = (scaled.row(points[i].point) - scaled.row(others[k].point)).norm();
      if (distance <= std::rbegin(kReaches)->distance) close.push_back({distance, i, k, 0.0});
    }
  }
  std::sort(close.begin(), close.end(), [](const Comparison& a, const Comparison& b) {
    return std::tie(a.distance, a.point, a.other) < std::tie(b.distance, b.point, b.other);
  });
  std::vector<int> count(points.size(), 0), uses(others.size(), 0);
  std::vector<Comparison> kept;
  for (Comparison& c : close) {
    if (count[c.point] == kNearest || uses[c.other] == kMaxUses) continue;
    const std::optional<double> misfit = misfit_of(points[c.point], others[c.other]);
    if (!misfit.has_value()) continue;
    c.misfit = *misfit;
    ++count[c.point];
    ++uses[c.other];
    kept.push_back(c);
  }
  return kept;
}

// Counts, among n points, those that are compared within a distance, and those whose lower median misfit is too large.
std::pair<int, int> CountMisses(const std::vector<Comparison>& comparisons, size_t n, double reach) {
  std::vector<std::vector<double>> misfits(n);
  for (const Comparison& c : comparisons) {
    if (c.distance <= reach) misfits[c.point].push_back(c.misfit);
  }
  int points = 0, misses = 0;
  for (std::vector<double>& of : misfits) {
    if (of.empty()) continue;
    std::sort(of.begin(), of.end());
    ++points;
    misses += of[(of.size() - 1) / 2] > kMaxMisfit;
  }
  return {points, misses};
}

}  // namespace

PairCheck CheckPairs(const kernels::KernelShape& shape, const Hyperparameters& theta,
                     const Eigen::Ref<const MatrixXd>& x, const Eigen::Ref<const VectorXd>& y, const Slopes& slopes,
                     double value_error) {
  LUTHIER_CHECK(x.rows() == y.size() && x.cols() == shape.columns());
  PairCheck check;
  if (slopes.size() == 0 || !slopes.Valid(y.size(), x.cols())) return check;
  const MatrixXd scaled = KernelOf(shape, theta).Scale(x);
  const std::vector<KnownGradient> known = KnownGradients(slopes, x.cols());
  struct Pair {
    double distance;
    size_t a, b;
  };
  std::vector<Pair> pairs;
  for (size_t a = 0; a < known.size(); ++a) {
    for (size_t b = a + 1; b < known.size(); ++b) {
      const double distance = (scaled.row(known[a].point) - scaled.row(known[b].point)).norm();
      if (distance <= kClose) pairs.push_back({distance, a, b});
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const Pair& p, const Pair& q) {
    return std::tie(p.distance, p.a, p.b) < std::tie(q.distance, q.a, q.b);
  });
  const double error = ErrorOf(theta, value_error);
  std::vector<int> uses(known.size(), 0);
  std::vector<double> misfits;
  for (const Pair& pair : pairs) {
    if (static_cast<int>(misfits.size()) == kMaxPairs) break;
    if (uses[pair.a] == kMaxUses || uses[pair.b] == kMaxUses) continue;
    const KnownGradient &a = known[pair.a], &b = known[pair.b];
    const std::optional<double> misfit =
        Misfit(a, b, (x.row(b.point) - x.row(a.point)).transpose(), y(b.point) - y(a.point), error);
    if (!misfit.has_value()) continue;
    misfits.push_back(*misfit);
    ++uses[pair.a];
    ++uses[pair.b];
  }
  check.pairs = static_cast<int>(misfits.size());
  if (misfits.empty()) return check;
  const auto quartile = misfits.begin() + check.pairs / 4;
  std::nth_element(misfits.begin(), quartile, misfits.end());
  check.lower_quartile = *quartile;
  check.contradicts = check.pairs >= kMinPairs && check.lower_quartile > kMaxMisfit;
  return check;
}

double HypergeometricTail(int marked, int drawn, int all_marked, int all) {
  LUTHIER_CHECK(0 <= marked && marked <= drawn && drawn <= all && 0 <= all_marked && all_marked <= all);
  const auto log_choose = [](int n, int k) {
    double sum = 0.0;
    for (int i = 1; i <= k; ++i) sum += std::log(static_cast<double>(n - k + i) / i);
    return sum;
  };
  double tail = 0.0;
  for (int k = std::max(marked, drawn + all_marked - all); k <= std::min(drawn, all_marked); ++k) {
    tail += std::exp(log_choose(all_marked, k) + log_choose(all - all_marked, drawn - k) - log_choose(all, drawn));
  }
  return std::min(1.0, tail);
}

PeerCheck CheckAgainstPeers(const kernels::KernelShape& shape, const Hyperparameters& theta,
                            const Eigen::Ref<const MatrixXd>& x, const Eigen::Ref<const VectorXd>& y,
                            const Slopes& slopes, const Slopes& peers, double value_error) {
  LUTHIER_CHECK(x.rows() == y.size() && x.cols() == shape.columns());
  PeerCheck check;
  if (slopes.size() == 0 || peers.size() == 0) return check;
  if (!slopes.Valid(y.size(), x.cols()) || !peers.Valid(y.size(), x.cols())) return check;
  const MatrixXd scaled = KernelOf(shape, theta).Scale(x);
  const std::vector<KnownGradient> own = KnownGradients(slopes, x.cols()), others = KnownGradients(peers, x.cols());
  std::vector<KnownGradient> all = others;
  all.insert(all.end(), own.begin(), own.end());
  const auto misfit = [&, error = ErrorOf(theta, value_error)](const KnownGradient& a, const KnownGradient& b) {
    return ImpliedMisfit(a, b, (x.row(b.point) - x.row(a.point)).transpose(), y(b.point) - y(a.point), error);
  };
  const std::vector<Comparison> of_own = Comparisons(scaled, own, all, misfit),
                                of_others = Comparisons(scaled, others, others, misfit);
  for (const Reach& reach : kReaches) {
    PeerCheck at;
    std::tie(at.points, at.misses) = CountMisses(of_own, own.size(), reach.distance);
    std::tie(at.peer_points, at.peer_misses) = CountMisses(of_others, others.size(), reach.distance);
    if (4 * at.misses < 3 * at.points || 10 * at.peer_misses > at.peer_points) continue;
    at.chance = HypergeometricTail(at.misses, at.points, at.misses + at.peer_misses, at.points + at.peer_points);
    at.contradicts = at.chance <= reach.chance;
    if (at.contradicts > check.contradicts || (at.contradicts == check.contradicts && at.chance < check.chance)) {
      check = at;
    }
  }
  return check;
}

}  // namespace luthier::gp
