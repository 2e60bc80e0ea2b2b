#include "lib/search/bo/model/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/pair_check.h"
#include "lib/gp/relevance.h"
#include "lib/gp/slope_check.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr size_t kValues = 100;
constexpr Index kSlopes = 150, kPeerSlopes = 1000;
constexpr size_t kReporters = 8;      // Number of reporters that one call checks.
constexpr size_t kMaxSetAside = 500;  // Number of reporters that fit into a designer state.
constexpr double kHuge = 1e30;        // In output deviations; larger slopes are clipped.
// Chance of a reporter's misses among its peers' above which it is accepted again. The test that confirms slopes cannot
// see a wrong factor or order.
constexpr double kMinChanceAgain = 0.05;
// Limits of the test of components that are always 0.
constexpr double kNothing = 1e-9;  // As a share of the largest slope; smaller ones count as 0.
constexpr int kMinZeros = 5;
constexpr double kMaxZeroChance = 1e-5;
constexpr double kRelevantNats = 20.0, kDoubtedNats = 5.0;

// Data that the checks of all reporters share.
struct Values {
  std::vector<Index> rows;  // Rows of the observations: the newest measured ones.
  MatrixXd x;
  VectorXd outputs;  // Standardised.
  OutputTransform transform;
  gp::Hyperparameters theta;  // Fitted to these values alone.
  double error = 0.0;         // Rounding error of the outputs, which depends on the size of the scores.
};

gp::InferenceOptions QuickInference(const SurrogateOptions& options) {
  gp::InferenceOptions inference = InferenceFor(options.choices[0], options);
  inference.max_searches = 1;
  inference.random_starts = 1;
  inference.max_evaluations = 30;
  return inference;
}

absl::StatusOr<Values> ValuesOf(const Observations& data, std::vector<Index> rows, const SurrogateOptions& options,
                                const AskKey& key, const base::StopToken& stop) {
  VectorXd scores(static_cast<Index>(rows.size()));
  for (size_t k = 0; k < rows.size(); ++k) scores(static_cast<Index>(k)) = data.scores(rows[k]);
  Values values{std::move(rows), MatrixXd(), VectorXd(), OutputTransform::Standard(scores), gp::Hyperparameters(), 0.0};
  values.x = Rows(data.observed, values.rows);
  values.outputs = values.transform.Forward(scores);
  gp::Likelihood likelihood(options.choices[0].shape, values.x, values.outputs);
  LUTHIER_ASSIGN_OR_RETURN(
      gp::InferenceResult found,
      gp::MaximizePosterior(&likelihood, QuickInference(options), std::nullopt, key.Stream("bo/check"), stop));
  values.theta = std::move(found.theta);
  values.error =
      std::numeric_limits<double>::epsilon() * scores.cwiseAbs().maxCoeff() * values.transform.Slope(scores.maxCoeff());
  return values;
}

// Returns the newest slopes, about `most` of them, of those rows of data that `wanted` accepts, in units of the
// outputs.
gp::Slopes SlopesAt(const Values& values, const Observations& data, Index most,
                    absl::FunctionRef<bool(size_t)> wanted) {
  gp::Slopes slopes;
  for (size_t k = values.rows.size(); k-- > 0 && slopes.size() < most;) {
    const size_t row = static_cast<size_t>(values.rows[k]);
    const ScoreSlopes& known = data.slopes[row];
    const double unit = values.transform.Slope(data.scores(values.rows[k]));
    if (known.empty() || unit == 0.0 || !wanted(row)) continue;
    for (Index i = 0; i < known.values.size(); ++i) {
      const VectorXd direction = known.axes.empty()
                                     ? known.direction
                                     : VectorXd(VectorXd::Unit(values.x.cols(), known.axes[static_cast<size_t>(i)]));
      slopes.Add(static_cast<Index>(k), direction, std::clamp(unit * known.values(i), -kHuge, kHuge),
                 std::min(unit * unit * known.variances(i), kHuge));
    }
  }
  return slopes;
}

bool IsAxis(const gp::Slopes& slopes, Index i) {
  return (slopes.directions.row(i).array() != 0.0).count() == 1;
}

// Number of slopes along an axis, and of those that are 0.
struct Zeros {
  int slopes = 0, zeros = 0;
};
Zeros ZerosOf(const gp::Slopes& slopes, Index axis, double nothing) {
  Zeros count;
  for (Index i = 0; i < slopes.size(); ++i) {
    if (slopes.directions(i, axis) == 0.0 || !IsAxis(slopes, i)) continue;
    ++count.slopes;
    count.zeros += std::abs(slopes.values(i)) <= nothing;
  }
  return count;
}

// Returns the gain, in nats, of a model in which the values depend on the axis over one in which they do not. The data
// are the values at points with slopes along the axis, and the slopes along the other axes there.
absl::StatusOr<double> GainOf(Index axis, const Values& values, const gp::Slopes& slopes, const gp::Slopes& peers,
                              const SurrogateOptions& options, const AskKey& key, const base::StopToken& stop) {
  std::vector<Index> points;
  for (const gp::Slopes* all : {&slopes, &peers}) {
    for (Index i = 0; i < all->size(); ++i) {
      if (all->directions(i, axis) != 0.0 && IsAxis(*all, i)) points.push_back(all->points[static_cast<size_t>(i)]);
    }
  }
  std::sort(points.begin(), points.end());
  std::vector<Index> place(static_cast<size_t>(values.x.rows()), -1);
  VectorXd outputs(static_cast<Index>(points.size()));
  for (size_t k = 0; k < points.size(); ++k) {
    place[static_cast<size_t>(points[k])] = static_cast<Index>(k);
    outputs(static_cast<Index>(k)) = values.outputs(points[k]);
  }
  gp::Slopes along;
  for (const gp::Slopes* all : {&slopes, &peers}) {
    for (Index i = 0; i < all->size(); ++i) {
      const Index point = place[static_cast<size_t>(all->points[static_cast<size_t>(i)])];
      if (all->directions(i, axis) != 0.0 || !IsAxis(*all, i) || point < 0) continue;
      along.Add(point, all->directions.row(i).transpose(), all->values(i), all->extra_variances(i));
    }
  }
  return gp::RelevanceGain({options.choices[0].shape, Rows(values.x, points), outputs, along}, axis,
                           QuickInference(options), key.Stream("bo/relevance", static_cast<uint32_t>(axis)), stop);
}

// An axis along which all of a reporter's slopes are 0.
struct ZeroAxis {
  Index axis = 0;
  bool alone = false;  // True if others' slopes are not all 0.
};

// Returns the axes of one reporter whose zeros may be wrong, before GainOf consults the values.
std::vector<ZeroAxis> ZeroAxes(const gp::Slopes& slopes, const gp::Slopes& peers) {
  std::vector<ZeroAxis> axes;
  if (slopes.size() == 0) return axes;
  double largest = slopes.values.cwiseAbs().maxCoeff();
  if (peers.size() > 0) largest = std::max(largest, peers.values.cwiseAbs().maxCoeff());
  const double nothing = kNothing * largest;
  for (Index axis = 0; axis < slopes.directions.cols(); ++axis) {
    const Zeros own = ZerosOf(slopes, axis, nothing), others = ZerosOf(peers, axis, nothing);
    if (own.slopes < kMinZeros || own.zeros < own.slopes) continue;
    const bool alone = others.zeros < others.slopes;
    if (!alone || gp::HypergeometricTail(own.zeros, own.slopes, own.zeros + others.zeros, own.slopes + others.slopes) <=
                      kMaxZeroChance) {
      axes.push_back({axis, alone});
    }
  }
  return axes;
}

// Returns up to kReporters reporters with slopes at the rows, in turn from ask to ask.
std::vector<int32_t> ReportersToCheck(const Observations& data, const std::vector<int32_t>& reporter,
                                      const std::vector<Index>& rows, uint64_t ask_index) {
  std::vector<int32_t> present;
  for (const Index row : rows) {
    if (!data.slopes[static_cast<size_t>(row)].empty()) present.push_back(reporter[static_cast<size_t>(row)]);
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  if (present.size() > kReporters) {
    const size_t first = static_cast<size_t>(ask_index * kReporters % present.size());
    std::rotate(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(first), present.end());
    present.resize(kReporters);
  }
  return present;
}

constexpr size_t kClimbPoints = 30, kClosestPairs = 10, kFewestPairs = 5;
constexpr double kMisfit = 0.4;
// Differences of values below this share of the largest one count as 0.
constexpr double kLeastDifference = 1e-7;

struct PointPair {
  double distance = 0.0;
  Index i = 0, j = 0;
  VectorXd step;
};

// Returns g . h, or std::nullopt if the derivative along some entry of h is not known.
std::optional<double> Along(const ScoreSlopes& slopes, const VectorXd& h) {
  double known = 0.0, dot = 0.0;
  for (size_t a = 0; a < slopes.axes.size(); ++a) {
    const double step = h(slopes.axes[a]);
    known += step * step;
    dot += step * slopes.values(static_cast<Index>(a));
  }
  if (std::abs(known - h.squaredNorm()) > 1e-12 * h.squaredNorm()) return std::nullopt;
  return dot;
}

// Returns true if three quarters of the closest pairs of rows misfit; std::nullopt if too few pairs are conclusive.
absl::StatusOr<std::optional<bool>> PairsMisfit(const Observations& data, const std::vector<Index>& rows,
                                                const base::StopToken& stop) {
  std::vector<PointPair> pairs;
  double range = 0.0;
  for (size_t a = 0; a < rows.size(); ++a) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    for (size_t b = 0; b < a; ++b) {
      const Index i = rows[b], j = rows[a];
      range = std::max(range, std::abs(data.scores(j) - data.scores(i)));
      VectorXd step = (data.observed.row(j) - data.observed.row(i)).transpose();
      const double distance = step.norm();
      if (distance > 0.0) pairs.push_back({distance, i, j, std::move(step)});
    }
  }
  std::sort(pairs.begin(), pairs.end(), [](const PointPair& a, const PointPair& b) {
    return a.distance != b.distance ? a.distance < b.distance : a.i != b.i ? a.i < b.i : a.j < b.j;
  });
  std::map<Index, int> uses;  // No point is in more than two pairs.
  size_t told = 0, misfits = 0;
  for (const PointPair& pair : pairs) {
    if (told == kClosestPairs) break;
    const std::optional<double> at_i = Along(data.slopes[static_cast<size_t>(pair.i)], pair.step);
    const std::optional<double> at_j = Along(data.slopes[static_cast<size_t>(pair.j)], pair.step);
    const double difference = data.scores(pair.j) - data.scores(pair.i);
    if (!at_i || !at_j || !(std::abs(difference) > kLeastDifference * range)) continue;
    if (uses[pair.i] == 2 || uses[pair.j] == 2) continue;
    ++uses[pair.i];
    ++uses[pair.j];
    ++told;
    const double size = std::max(std::abs(difference), 0.5 * (std::abs(*at_i) + std::abs(*at_j)));
    misfits += std::abs(difference - 0.5 * (*at_i + *at_j)) > kMisfit * size;
  }
  if (told < kFewestPairs) return std::optional<bool>();
  return std::optional<bool>(4 * misfits >= 3 * told);
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> ContradictingClimbs(const Observations& data, const std::vector<int32_t>& reporter,
                                                         const std::vector<int32_t>& before,
                                                         const base::StopToken& stop) {
  std::map<int32_t, std::vector<Index>> points;  // The newest points of each reporter.
  const std::vector<Index> rows = data.CompleteRows();
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    const auto r = static_cast<size_t>(*row);
    std::vector<Index>& own = points[reporter[r]];
    if (!data.slopes[r].axes.empty() && own.size() < kClimbPoints) own.push_back(*row);
  }
  std::vector<int32_t> contradicting = before;
  for (const auto& [who, own] : points) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<bool> misfit, PairsMisfit(data, own, stop));
    if (!misfit) continue;
    const auto known = std::find(contradicting.begin(), contradicting.end(), who);
    if (*misfit && known == contradicting.end() && contradicting.size() < kMaxSetAside) contradicting.push_back(who);
    if (!*misfit && known != contradicting.end()) contradicting.erase(known);
  }
  std::sort(contradicting.begin(), contradicting.end());
  return contradicting;
}

absl::StatusOr<std::vector<int32_t>> ContradictingReporters(const Observations& data,
                                                            const std::vector<int32_t>& reporter,
                                                            const SurrogateOptions& options,
                                                            const std::vector<int32_t>& before, const AskKey& key,
                                                            const base::StopToken& stop) {
  std::vector<Index> rows = data.CompleteRows();
  if (rows.size() > kValues) rows.erase(rows.begin(), rows.end() - kValues);
  const std::vector<int32_t> present = ReportersToCheck(data, reporter, rows, key.index);
  if (present.empty()) return before;
  LUTHIER_ASSIGN_OR_RETURN(const Values values, ValuesOf(data, std::move(rows), options, key, stop));
  const kernels::KernelShape& shape = options.choices[0].shape;
  std::vector<int32_t> contradicting = before;
  const auto is_contradicting = [&](int32_t who) {
    return std::find(contradicting.begin(), contradicting.end(), who) != contradicting.end();
  };
  const auto slopes_of = [&](int32_t who) {
    return SlopesAt(values, data, kSlopes, [&](size_t row) { return reporter[row] == who; });
  };
  const auto peers_of = [&](int32_t who) {
    return SlopesAt(values, data, kPeerSlopes,
                    [&](size_t row) { return reporter[row] != who && !is_contradicting(reporter[row]); });
  };
  const auto depends_on = [&](const ZeroAxis& zero, const gp::Slopes& slopes,
                              const gp::Slopes& peers) -> absl::StatusOr<bool> {
    LUTHIER_ASSIGN_OR_RETURN(const double gain, GainOf(zero.axis, values, slopes, peers, options, key, stop));
    return gain > (zero.alone ? kDoubtedNats : kRelevantNats);
  };
  // Returns true if the values depend on one of the axes. With `alone`, only axes along which others' slopes are not 0
  // count.
  const auto any_wrong = [&](const std::vector<ZeroAxis>& zeros, bool alone, const gp::Slopes& slopes,
                             const gp::Slopes& peers) -> absl::StatusOr<bool> {
    for (const ZeroAxis& zero : zeros) {
      if (alone && !zero.alone) continue;
      LUTHIER_ASSIGN_OR_RETURN(const bool wrong, depends_on(zero, slopes, peers));
      if (wrong) return true;
    }
    return false;
  };
  std::vector<std::pair<int32_t, ZeroAxis>> doubted;  // Reporters' axes that are 0 for everybody.
  for (const int32_t who : present) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll());
    const gp::Slopes slopes = slopes_of(who), peers = peers_of(who);
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<gp::SlopeCheck> check,
                             gp::CheckSlopes(shape, values.theta, values.x, values.outputs, slopes, stop));
    if (!check.has_value()) continue;
    const gp::PairCheck pairs = gp::CheckPairs(shape, values.theta, values.x, values.outputs, slopes, values.error);
    const gp::PeerCheck peer =
        gp::CheckAgainstPeers(shape, values.theta, values.x, values.outputs, slopes, peers, values.error);
    const std::vector<ZeroAxis> zeros = ZeroAxes(slopes, peers);
    if (is_contradicting(who)) {
      if (!check->confirms || pairs.contradicts || peer.chance <= kMinChanceAgain) continue;
      LUTHIER_ASSIGN_OR_RETURN(const bool wrong, any_wrong(zeros, /*alone=*/false, slopes, peers));
      if (!wrong) contradicting.erase(std::find(contradicting.begin(), contradicting.end(), who));
      continue;
    }
    bool contradicts = check->contradicts || pairs.contradicts || peer.contradicts;
    if (!contradicts) {
      LUTHIER_ASSIGN_OR_RETURN(contradicts, any_wrong(zeros, /*alone=*/true, slopes, peers));
    }
    if (contradicts) {
      if (contradicting.size() < kMaxSetAside) contradicting.push_back(who);
      continue;
    }
    for (const ZeroAxis& zero : zeros) {
      if (!zero.alone) doubted.emplace_back(who, zero);
    }
  }
  // Parameters without effect are common and GainOf is expensive, so a call checks one axis, drawn at random.
  if (!doubted.empty() && contradicting.size() < kMaxSetAside) {
    base::RandomStream random = key.Stream("bo/zero axis");
    const auto& [who, zero] = doubted[random.UniformInt(doubted.size())];
    LUTHIER_ASSIGN_OR_RETURN(const bool wrong, depends_on(zero, slopes_of(who), peers_of(who)));
    if (wrong) contradicting.push_back(who);
  }
  std::sort(contradicting.begin(), contradicting.end());
  return contradicting;
}

}  // namespace luthier::search
