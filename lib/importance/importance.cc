#include "lib/importance/importance.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/importance/forest.h"
#include "lib/importance/warnings.h"
#include "lib/math/sobol.h"
#include "lib/study/compact_column.h"
#include "lib/study/encoding.h"

namespace luthier::importance {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;
using study::CompactColumn;

namespace {

constexpr int kForests = 16;  // Number of forests, each grown on resampled trials.
constexpr int kTrees = 6;     // Trees of a forest.
constexpr int kMinLeaf = 3;
constexpr int64_t kMaxLeaves = 1000;  // Approximate limit.
constexpr int kVariancePoints = 2048;
constexpr uint8_t kInactive = 255;

// The cells of a compact coordinate: its levels if they are few, else 64 cells of equal width; labels beyond 64 share
// cells.
class Cutter {
 public:
  Cutter(const study::Encoding& encoding, int c) : column_(encoding, c) {
    const double levels = column_.levels();
    cells_.ordered = column_.kind() != CompactColumn::Kind::kUnordered;
    by_level_ = column_.kind() != CompactColumn::Kind::kContinuous && levels <= kMaxCells;
    cells_.volume.assign(static_cast<size_t>(by_level_ ? levels : kMaxCells), 0.0);
    if (column_.kind() == CompactColumn::Kind::kOrdered && by_level_) {
      // Levels of a logarithmic scale have cells of different widths.
      double low = 0.0;
      for (size_t b = 0; b < cells_.volume.size(); ++b) {
        const double high = b + 1 == cells_.volume.size() ? 1.0 : column_.CellOf(low + 1e-9).high;
        cells_.volume[b] = high - low;
        edges_.push_back(high);
        low = high;
      }
    } else if (column_.kind() == CompactColumn::Kind::kUnordered && !by_level_) {
      for (int label = 0; label < levels; ++label) {
        cells_.volume[static_cast<size_t>(label % kMaxCells)] += 1.0 / levels;
      }
    } else {
      for (double& volume : cells_.volume) volume = 1.0 / static_cast<double>(cells_.volume.size());
    }
  }

  const CellColumn& cells() const { return cells_; }
  uint8_t CellOf(double u) const {
    const size_t n = cells_.volume.size();
    if (!edges_.empty()) {
      const auto edge = std::upper_bound(edges_.begin(), edges_.end() - 1, u);
      return static_cast<uint8_t>(edge - edges_.begin());
    }
    if (column_.kind() == CompactColumn::Kind::kUnordered) return static_cast<uint8_t>(column_.LabelOf(u) % kMaxCells);
    const double cell = std::floor(u * static_cast<double>(n));
    return static_cast<uint8_t>(std::clamp(cell, 0.0, static_cast<double>(n - 1)));
  }

 private:
  const CompactColumn column_;
  CellColumn cells_;
  bool by_level_ = false;
  std::vector<double> edges_;  // Upper ones.
};

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, values.size() - 1);
  const double share = at - static_cast<double>(low);
  return (1.0 - share) * values[low] + share * values[high];
}

// Returns losses between 0 and 1 (differences of 1e300 must not overflow when squared), clipped at the quantile.
absl::StatusOr<std::vector<double>> Targets(study::Goal goal, const std::vector<Observation>& observations,
                                            double quantile) {
  std::vector<double> losses;
  for (const Observation& observation : observations) {
    losses.push_back(-0.5 * study::Score(goal, observation.value));  // Halved, so that their range does not overflow.
  }
  const double worst = Quantile(losses, quantile);
  const double best = *std::min_element(losses.begin(), losses.end());
  for (double& loss : losses) loss = std::min(loss, worst);
  if (!(worst > best)) {
    return absl::FailedPreconditionError(absl::StrCat(
        quantile < 1.0 ? absl::StrCat("all values up to the quantile ", study::FormatDouble(quantile), " are equal")
                       : absl::StrCat("all ", losses.size(), " values are equal"),
        ": nothing tells the parameters apart"));
  }
  for (double& loss : losses) loss = (loss - best) / (worst - best);
  return losses;
}

// The result of one forest.
struct Shares {
  std::vector<double> main;                     // By column.
  std::map<std::pair<int, int>, double> pairs;  // By columns.
  std::optional<double> predicted;
};

class Analysis {
 public:
  Analysis(const study::SearchSpace& space, const std::vector<Observation>& observations, std::vector<double> y,
           uint64_t seed)
      : encoding_(space), y_(std::move(y)), seed_(seed), d_(encoding_.compact_dim()) {
    for (int c = 0; c < d_; ++c) {
      cutters_.emplace_back(encoding_, c);
      columns_.push_back(cutters_.back().cells());
    }
    for (const Observation& observation : observations) {
      const VectorXd u = encoding_.ToCompact(observation.parameters);
      for (int c = 0; c < d_; ++c) {
        const bool active = observation.parameters.count(ParameterOf(c)) > 0;
        cells_.push_back(active ? cutters_[static_cast<size_t>(c)].CellOf(u(c)) : kInactive);
      }
    }
  }

  const std::string& ParameterOf(int c) const {
    return encoding_.space().parameters()[static_cast<size_t>(encoding_.compact_parameter(c))].name;
  }
  std::string NameOf(int c) const { return encoding_.space().ScalarName(encoding_.compact_scalar(c)); }
  int columns() const { return d_; }

  // Grows forest number `index`, with the pairs of `paired`.
  Shares Grow(int index, const std::vector<int>& paired) const {
    base::RandomStream random(seed_, "importance", static_cast<uint64_t>(index));
    const size_t n = y_.size();
    std::vector<int> rows;
    std::vector<bool> seen(n, false);
    for (size_t k = 0; k < n; ++k) {
      rows.push_back(static_cast<int>(random.UniformInt(n)));
      seen[static_cast<size_t>(rows.back())] = true;
    }
    // Parameters that do not exist get random values anew for each forest.
    std::vector<uint8_t> cells = cells_;
    for (size_t k = 0; k < cells.size(); ++k) {
      if (cells[k] == kInactive) cells[k] = cutters_[k % static_cast<size_t>(d_)].CellOf(random.Uniform());
    }
    std::vector<uint8_t> by_column(cells.size());
    const auto d = static_cast<size_t>(d_);
    for (size_t k = 0; k < n; ++k) {
      for (size_t c = 0; c < d; ++c) by_column[c * n + k] = cells[k * d + c];
    }
    const int min_leaf = static_cast<int>(std::max<int64_t>(kMinLeaf, static_cast<int64_t>(n) / kMaxLeaves));
    std::vector<Tree> trees;
    for (int t = 0; t < kTrees; ++t)
      trees.emplace_back(columns_, by_column, y_, rows, min_leaf, (2 * d_ + 2) / 3, random);
    Shares shares;
    double mean = 0.0;
    for (const Tree& tree : trees) {
      for (const Leaf& leaf : tree.leaves()) mean += leaf.value * leaf.volume / kTrees;
    }
    // The forest's variance is not a sum over leaves, so quasi-random points estimate it.
    const math::SobolSequence sobol(d_, seed_ + static_cast<uint64_t>(index), "importance/variance");
    double variance = 0.0;
    std::vector<uint8_t> at(static_cast<size_t>(d_));
    for (uint64_t p = 0; p < kVariancePoints; ++p) {
      const VectorXd u = sobol.Point(p);
      for (int c = 0; c < d_; ++c) at[static_cast<size_t>(c)] = cutters_[static_cast<size_t>(c)].CellOf(u(c));
      const double difference = Predict(trees, at.data()) - mean;
      variance += difference * difference / kVariancePoints;
    }
    std::vector<double> parts(static_cast<size_t>(d_), 0.0);
    for (int c = 0; c < d_; ++c) {
      parts[static_cast<size_t>(c)] = PartOf(trees, c, mean);
      // Estimated from few points, the variance may come out smaller than its own part.
      variance = std::max(variance, parts[static_cast<size_t>(c)]);
    }
    const auto share = [&](double part) { return variance > 0.0 ? std::clamp(part / variance, 0.0, 1.0) : 0.0; };
    for (const double part : parts) shares.main.push_back(share(part));
    for (size_t a = 0; a < paired.size(); ++a) {
      for (size_t b = a + 1; b < paired.size(); ++b) {
        const int i = paired[a], j = paired[b];
        const double single = -parts[static_cast<size_t>(i)] - parts[static_cast<size_t>(j)];
        shares.pairs[{i, j}] = share(AddPartOfPair(single, trees, i, j, mean));
      }
    }
    shares.predicted = PredictedShare(trees, seen, cells);
    return shares;
  }

 private:
  static double Predict(const std::vector<Tree>& trees, const uint8_t* at) {
    double sum = 0.0;
    for (const Tree& tree : trees) sum += tree.Predict(at);
    return sum / kTrees;
  }

  // Returns the part of the forest's variance that column c explains by itself. `mean`: of the forest.
  double PartOf(const std::vector<Tree>& trees, int c, double mean) const {
    const std::vector<double>& volume = columns_[static_cast<size_t>(c)].volume;
    VectorXd marginal = VectorXd::Zero(static_cast<Index>(volume.size()));
    for (const Tree& tree : trees) AddMarginal(tree, c, &marginal);
    double part = 0.0;
    for (size_t b = 0; b < volume.size(); ++b) {
      part += volume[b] * std::pow(marginal(static_cast<Index>(b)) / kTrees - mean, 2.0);
    }
    return part;
  }

  // Returns `part` and what columns i and j explain together, each by itself included.
  double AddPartOfPair(double part, const std::vector<Tree>& trees, int i, int j, double mean) const {
    const auto& vi = columns_[static_cast<size_t>(i)].volume;
    const auto& vj = columns_[static_cast<size_t>(j)].volume;
    MatrixXd marginal = MatrixXd::Zero(static_cast<Index>(vi.size()), static_cast<Index>(vj.size()));
    for (const Tree& tree : trees) AddMarginal(tree, i, j, &marginal);
    for (Index r = 0; r < marginal.rows(); ++r) {
      for (Index c = 0; c < marginal.cols(); ++c) {
        part += vi[static_cast<size_t>(r)] * vj[static_cast<size_t>(c)] * std::pow(marginal(r, c) / kTrees - mean, 2.0);
      }
    }
    return part;
  }

  // Returns the share of the variance of the rows not `seen` in growing that the forest predicts; nothing if they are
  // all alike. `cells` is n x d.
  std::optional<double> PredictedShare(const std::vector<Tree>& trees, const std::vector<bool>& seen,
                                       const std::vector<uint8_t>& cells) const {
    double errors = 0.0, squares = 0.0, average = 0.0, count = 0.0;
    for (size_t k = 0; k < y_.size(); ++k) {
      if (!seen[k]) average += y_[k], count += 1.0;
    }
    average /= std::max(count, 1.0);
    for (size_t k = 0; k < y_.size(); ++k) {
      if (seen[k]) continue;
      errors += std::pow(y_[k] - Predict(trees, &cells[k * static_cast<size_t>(d_)]), 2.0);
      squares += std::pow(y_[k] - average, 2.0);
    }
    if (squares > 0.0) return 1.0 - errors / squares;
    return std::nullopt;
  }

  const study::Encoding encoding_;
  const std::vector<double> y_;
  const uint64_t seed_;
  const int d_;
  std::vector<Cutter> cutters_;
  std::vector<CellColumn> columns_;
  std::vector<uint8_t> cells_;  // n x d.
};

Share Summarize(const std::vector<double>& shares) {
  double sum = 0.0;
  for (const double share : shares) sum += share;
  return {sum / static_cast<double>(shares.size()), Quantile(shares, 0.05), Quantile(shares, 0.95)};
}

}  // namespace

absl::StatusOr<Importance> Compute(const study::SearchSpace& space, study::Goal goal,
                                   const std::vector<Observation>& observations, const ImportanceOptions& options) {
  if (!(options.quantile > 0.0 && options.quantile <= 1.0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("quantile: ", study::FormatDouble(options.quantile), " is not above 0 and at most 1"));
  }
  if (static_cast<int64_t>(observations.size()) < kMinTrials) {
    return absl::FailedPreconditionError(absl::StrCat(
        "importances take at least ", kMinTrials, " complete trials with a value; there are ", observations.size()));
  }
  absl::StatusOr<std::vector<double>> y = Targets(goal, observations, options.quantile);
  if (!y.ok()) return y.status();
  const Analysis analysis(space, observations, *std::move(y), options.seed);
  if (analysis.columns() == 0) {
    return absl::FailedPreconditionError("no parameter of this study has more than one value");
  }
  std::vector<std::vector<double>> main(static_cast<size_t>(analysis.columns()));
  std::vector<double> predicted;
  const auto by_share = [&](std::vector<int>* order) {
    for (int c = 0; c < analysis.columns(); ++c) order->push_back(c);
    std::sort(order->begin(), order->end(), [&](int a, int b) {
      const double share_a = Summarize(main[static_cast<size_t>(a)]).share;
      const double share_b = Summarize(main[static_cast<size_t>(b)]).share;
      return share_a != share_b ? share_a > share_b : a < b;
    });
  };
  // The first forest decides which parameters are paired.
  std::vector<int> paired;
  if (options.pairs) {
    const Shares first = analysis.Grow(0, {});
    for (size_t c = 0; c < main.size(); ++c) main[c] = {first.main[c]};
    by_share(&paired);
    if (paired.size() > kMaxPairedParameters) paired.resize(kMaxPairedParameters);
    std::sort(paired.begin(), paired.end());
    for (std::vector<double>& shares : main) shares.clear();
  }
  std::map<std::pair<int, int>, std::vector<double>> pairs;
  for (int index = 0; index < kForests; ++index) {
    const Shares shares = analysis.Grow(index, paired);
    for (size_t c = 0; c < main.size(); ++c) main[c].push_back(shares.main[c]);
    for (const auto& [columns, share] : shares.pairs) pairs[columns].push_back(share);
    if (shares.predicted.has_value()) predicted.push_back(*shares.predicted);
  }

  Importance result;
  std::vector<int> order;
  by_share(&order);
  for (const int c : order) result.parameters.push_back({analysis.NameOf(c), Summarize(main[static_cast<size_t>(c)])});
  for (const auto& [columns, shares] : pairs) {
    result.pairs.push_back({analysis.NameOf(columns.first), analysis.NameOf(columns.second), Summarize(shares)});
  }
  std::sort(result.pairs.begin(), result.pairs.end(), [](const PairShare& a, const PairShare& b) {
    if (a.share.share != b.share.share) return a.share.share > b.share.share;
    return std::tie(a.first, a.second) < std::tie(b.first, b.second);
  });
  if (!predicted.empty()) result.predicted = Summarize(predicted).share;
  result.warnings = Warnings(space, observations, options.ended, result);
  return result;
}

}  // namespace luthier::importance
