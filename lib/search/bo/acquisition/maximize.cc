#include "lib/search/bo/acquisition/maximize.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <variant>

#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/math/direct.h"
#include "lib/math/lbfgs.h"
#include "lib/math/pieces.h"
#include "lib/math/sobol.h"
#include "lib/search/legal/legal_steps.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
constexpr double kNearDeviation = 1e-3;
constexpr double kWideDeviation = 0.05;
constexpr double kDiscreteJump = 0.2;
// Mean number of coordinates of a Sobol point in a trust box that differ from the centre's.
constexpr double kMovedCoordinates = 20.0;
// The augmented Lagrangian where a maximum is illegal: its first penalty on a sum that is beyond its bound by the sum's
// range, and how it grows.
constexpr double kFirstPenalty = 100.0, kPenaltyGrowth = 10.0;
constexpr int kPenaltyRounds = 4;
constexpr int kLegalDraws = 30'000;  // Draws that replace illegal points of the screening, in all.
constexpr int kSweeps = 2;
constexpr Index kSweepPlaces = 32;

class Search {
 public:
  Search(const AcquisitionFunction& acquisition, const study::Encoding& encoding, const VectorXd& lengthscales,
         const MaximizeOptions& options, const base::StopToken& stop)
      : acquisition_(acquisition), encoding_(encoding), lengthscales_(lengthscales), options_(options), stop_(stop) {
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      (encoding.Levels(c).has_value() ? discrete_ : continuous_).push_back(c);
    }
    const std::vector<study::ParameterSpec>& parameters = encoding.space().parameters();
    conditional_ = std::any_of(parameters.begin(), parameters.end(),
                               [](const study::ParameterSpec& p) { return p.condition.has_value(); });
  }

  // Returns the model points of compact points (rows).
  MatrixXd ToModel(const MatrixXd& compact) const {
    if (discrete_.empty() && !conditional_) return compact;  // Then both coordinate systems are the same.
    MatrixXd model(compact.rows(), encoding_.model_dim());
    for (Index i = 0; i < compact.rows(); ++i) model.row(i) = encoding_.CompactToModel(compact.row(i).transpose());
    return model;
  }

  absl::StatusOr<VectorXd> Values(const MatrixXd& compact, int* not_finite) const {
    LUTHIER_ASSIGN_OR_RETURN(VectorXd values,
                             math::EvaluateInPieces(compact, stop_, [this](const MatrixXd& points) -> VectorXd {
                               return acquisition_.Values(ToModel(points));
                             }));
    for (Index i = 0; i < values.size(); ++i) {
      if (!encoding_.IsLegalAt(compact.row(i).transpose())) {
        values(i) = kMinusInfinity;
        continue;
      }
      if (std::isfinite(values(i))) continue;
      values(i) = kMinusInfinity;
      if (not_finite != nullptr) ++*not_finite;
    }
    return values;
  }

  // Moves each continuous coordinate, in random order, to the best of kSweepPlaces places along it, evenly spaced from
  // a random one.
  absl::Status Sweep(base::RandomStream& random, VectorXd* compact, double* value) const {
    const std::vector<bool> active = Active(*compact);
    std::vector<int> order;
    for (int c : continuous_) {
      if (active[static_cast<size_t>(c)]) order.push_back(c);
    }
    for (size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[random.UniformInt(k)]);
    for (int c : order) {
      MatrixXd points = compact->transpose().replicate(kSweepPlaces, 1);
      const double offset = random.Uniform();
      const double lower = options_.box != nullptr ? options_.box->lower(c) : 0.0;
      const double width = options_.box != nullptr ? options_.box->upper(c) - lower : 1.0;
      for (Index k = 0; k < kSweepPlaces; ++k) {
        points(k, c) = lower + width * ((static_cast<double>(k) + offset) / kSweepPlaces);
      }
      LUTHIER_ASSIGN_OR_RETURN(const VectorXd values, Values(points, nullptr));
      Index best = 0;
      if (!(values.maxCoeff(&best) > *value)) continue;
      *value = values(best);
      *compact = points.row(best).transpose();
    }
    return absl::OkStatus();
  }

  // Climbs from `compact`, whose acquisition is `value`.
  absl::StatusOr<VectorXd> Climb(VectorXd compact, double value) const {
    for (int round = 0; round < options_.max_rounds; ++round) {
      const double before = value;
      LUTHIER_RETURN_IF_ERROR(ClimbContinuous(&compact, &value));
      if (discrete_.empty()) break;
      LUTHIER_ASSIGN_OR_RETURN(const bool moved, ClimbDiscrete(&compact, &value));
      if (!moved || !(value > before)) break;
    }
    return compact;
  }

 private:
  std::vector<bool> Active(const VectorXd& compact) const {
    std::vector<bool> active(static_cast<size_t>(encoding_.compact_dim()), true);
    if (!conditional_) return active;
    const study::Parameters values = encoding_.FromCompact(compact);
    for (int c = 0; c < encoding_.compact_dim(); ++c) {
      const std::string& name = encoding_.space().parameters()[encoding_.compact_parameter(c)].name;
      active[static_cast<size_t>(c)] = values.count(name) > 0;
    }
    return active;
  }

  absl::Status ClimbContinuous(VectorXd* compact, double* value) const {
    const std::vector<bool> active = Active(*compact);
    std::vector<int> free;
    for (int c : continuous_) {
      if (active[static_cast<size_t>(c)]) free.push_back(c);
    }
    if (free.empty()) return absl::OkStatus();
    const Index m = static_cast<Index>(free.size());
    VectorXd scale(m), start(m);
    for (Index k = 0; k < m; ++k) {
      scale(k) = std::min(lengthscales_(free[static_cast<size_t>(k)]), 1e3);
      start(k) = (*compact)(free[static_cast<size_t>(k)]) / scale(k);
    }
    VectorXd model = ToModel(compact->transpose()).row(0).transpose();
    VectorXd full_gradient(model.size());
    auto negative = [&](const VectorXd& t, VectorXd* gradient) {
      for (Index k = 0; k < m; ++k)
        model(Column(free, k)) = std::clamp(t(k) * scale(k), Lower(free, k), Upper(free, k));
      const double at = acquisition_.Value(model, &full_gradient);
      if (gradient != nullptr) {
        for (Index k = 0; k < m; ++k) (*gradient)(k) = -full_gradient(Column(free, k)) * scale(k);
      }
      return -at;
    };
    math::LbfgsOptions search;
    search.max_evaluations = options_.max_evaluations;
    search.max_iterations = options_.max_evaluations;
    search.first_step = 0.5;
    search.value_tolerance = 1e-9;
    VectorXd lower(m), upper(m);
    for (Index k = 0; k < m; ++k) {
      lower(k) = Lower(free, k) / scale(k);
      upper(k) = Upper(free, k) / scale(k);
    }
    LUTHIER_ASSIGN_OR_RETURN(const math::LbfgsResult end,
                             math::MinimizeLbfgs(negative, start, lower, upper, search, stop_));
    if (!(-end.value > *value)) return absl::OkStatus();
    VectorXd there = *compact;
    for (Index k = 0; k < m; ++k) {
      there(free[static_cast<size_t>(k)]) = std::clamp(end.x(k) * scale(k), Lower(free, k), Upper(free, k));
    }
    if (!encoding_.IsLegalAt(there)) return ClimbAlongFaces(free, there, compact, value);
    *value = -end.value;
    *compact = std::move(there);
    return absl::OkStatus();
  }

  // Climbs from *compact, which is legal, where the maximum `beyond` is not: maximises the acquisition minus an
  // augmented Lagrangian of the sums that are beyond their bounds, over the coordinates `free`, and takes the legal
  // point nearest to the end if it is better.
  absl::Status ClimbAlongFaces(const std::vector<int>& free, const VectorXd& beyond, VectorXd* compact,
                               double* value) const {
    const Index m = static_cast<Index>(free.size());
    const LegalFaces faces(encoding_);
    VectorXd lower = *compact, upper = *compact, multipliers = VectorXd::Zero(faces.size());
    VectorXd x(m), low(m), high(m), gradient, excess, model = ToModel(compact->transpose()).row(0).transpose();
    for (Index k = 0; k < m; ++k) {
      const int c = free[static_cast<size_t>(k)];
      x(k) = beyond(c);
      low(k) = lower(c) = Lower(free, k);
      high(k) = upper(c) = Upper(free, k);
    }
    MatrixXd slopes;
    double penalty = kFirstPenalty;
    VectorXd u = *compact;
    gradient.resize(model.size());
    const auto place = [&](const VectorXd& at) {
      for (Index k = 0; k < m; ++k) {
        u(free[static_cast<size_t>(k)]) = model(Column(free, k)) = std::clamp(at(k), low(k), high(k));
      }
      faces.Evaluate(u, &excess, &slopes);
    };
    const auto lagrangian = [&](const VectorXd& at, VectorXd* by_x) {
      place(at);
      const double acquisition = acquisition_.Value(model, &gradient);
      const VectorXd force = (multipliers + penalty * excess).cwiseMax(0.0);
      if (by_x != nullptr) {
        const VectorXd push = slopes.transpose() * force;
        for (Index k = 0; k < m; ++k) (*by_x)(k) = push(free[static_cast<size_t>(k)]) - gradient(Column(free, k));
      }
      return -acquisition + 0.5 * (force.squaredNorm() - multipliers.squaredNorm()) / penalty;
    };
    math::LbfgsOptions search;
    search.max_evaluations = search.max_iterations = options_.max_evaluations;
    search.first_step = 0.1;
    search.value_tolerance = 1e-9;
    for (int round = 0; round < kPenaltyRounds && faces.size() > 0; ++round) {
      LUTHIER_ASSIGN_OR_RETURN(const math::LbfgsResult end,
                               math::MinimizeLbfgs(lagrangian, x, low, high, search, stop_));
      x = end.x;
      place(x);
      multipliers = (multipliers + penalty * excess).cwiseMax(0.0);
      penalty *= kPenaltyGrowth;
    }
    place(x);
    const VectorXd end = NearestLegal(encoding_, *compact, u, lower, upper);
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd at_end, Values(end.transpose(), nullptr));
    if (!(at_end(0) > *value)) return absl::OkStatus();
    *value = at_end(0);
    *compact = end;
    return absl::OkStatus();
  }

  double Lower(const std::vector<int>& free, Index k) const {
    return options_.box == nullptr ? 0.0 : options_.box->lower(free[static_cast<size_t>(k)]);
  }
  double Upper(const std::vector<int>& free, Index k) const {
    return options_.box == nullptr ? 1.0 : options_.box->upper(free[static_cast<size_t>(k)]);
  }
  int Column(const std::vector<int>& free, Index k) const {
    return encoding_.model_begin(free[static_cast<size_t>(k)]);
  }

  double LevelCoordinate(int c, int64_t level) const {
    const int parameter = encoding_.compact_parameter(c);
    const study::SearchSpace& space = encoding_.space();
    // Only this parameter's entry is read for coordinate c.
    return encoding_.ToCompact({{space.parameters()[parameter].name, space.LevelValue(parameter, level)}})(c);
  }

  // Makes one pass over the active discrete coordinates. Returns true if anything changed.
  absl::StatusOr<bool> ClimbDiscrete(VectorXd* compact, double* value) const {
    bool changed = false;
    for (int c : discrete_) {
      if (options_.box != nullptr && options_.box->lower(c) == options_.box->upper(c)) continue;
      if (!Active(*compact)[static_cast<size_t>(c)]) continue;
      const int64_t levels = *encoding_.Levels(c);
      const bool exhaustive = levels <= options_.exhaustive_levels || encoding_.IsCategorical(c);
      const int parameter = encoding_.compact_parameter(c);
      while (true) {
        const int64_t here = encoding_.space().LevelOf(parameter, encoding_.DecodeCoordinate(c, (*compact)(c)));
        std::vector<int64_t> trials;
        if (exhaustive) {
          for (int64_t level = 0; level < levels; ++level) {
            if (level != here) trials.push_back(level);
          }
        } else {
          for (int64_t step = 1; step < levels; step *= 2) {
            if (here >= step) trials.push_back(here - step);
            if (here < levels - step) trials.push_back(here + step);
            if (step > levels / 2) break;
          }
        }
        if (trials.empty()) break;
        MatrixXd points(static_cast<Index>(trials.size()), compact->size());
        for (size_t k = 0; k < trials.size(); ++k) {
          points.row(static_cast<Index>(k)) = compact->transpose();
          points(static_cast<Index>(k), c) = LevelCoordinate(c, trials[k]);
        }
        Index best = 0;
        LUTHIER_ASSIGN_OR_RETURN(const VectorXd values, Values(points, nullptr));
        const double best_value = values.maxCoeff(&best);
        if (!(best_value > *value)) break;
        *value = best_value;
        *compact = points.row(best).transpose();
        changed = true;
        if (exhaustive) break;
      }
    }
    return changed;
  }

  const AcquisitionFunction& acquisition_;
  const study::Encoding& encoding_;
  const VectorXd& lengthscales_;
  const MaximizeOptions& options_;
  const base::StopToken& stop_;
  std::vector<int> continuous_, discrete_;
  bool conditional_ = false;
};

// Fills rows first … first+count-1 of `points` with a spray around `center`.
void Spray(const VectorXd& center, double deviation, const std::vector<int>& discrete, Index first, Index count,
           base::RandomStream& random, MatrixXd* points) {
  for (Index i = first; i < first + count; ++i) {
    for (Index j = 0; j < center.size(); ++j) {
      (*points)(i, j) = std::clamp(center(j) + deviation * random.Normal(), 0.0, 1.0);
    }
    for (int c : discrete) {
      const double jump = random.Uniform();
      const double level = random.Uniform();
      (*points)(i, c) = jump < kDiscreteJump ? level : center(c);
    }
  }
}

// Returns the rows to start from: the best one, then a Boltzmann sample without replacement (largest Gumbel-perturbed
// values).
std::vector<Index> ChooseStarts(const VectorXd& values, int count, base::RandomStream& random) {
  std::vector<Index> order;
  for (Index i = 0; i < values.size(); ++i) {
    if (values(i) > kMinusInfinity) order.push_back(i);
  }
  if (order.empty()) return order;
  std::sort(order.begin(), order.end(),
            [&](Index a, Index b) { return values(a) != values(b) ? values(a) > values(b) : a < b; });
  const size_t top = std::max<size_t>(2, order.size() / 20);
  double mean = 0.0, squares = 0.0;
  const size_t used = std::min(top, order.size());
  for (size_t k = 0; k < used; ++k) mean += values(order[k]) / static_cast<double>(used);
  for (size_t k = 0; k < used; ++k) squares += std::pow(values(order[k]) - mean, 2) / static_cast<double>(used);
  const double range = squares > 0.0 ? std::sqrt(squares) : 1.0;
  std::vector<std::pair<double, Index>> keys;
  for (size_t k = 1; k < order.size(); ++k) {
    keys.emplace_back(values(order[k]) / range - std::log(-std::log(random.UniformOpen())), order[k]);
  }
  const size_t drawn = std::min(keys.size(), static_cast<size_t>(count - 1));
  std::partial_sort(
      keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(drawn), keys.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  std::vector<Index> starts = {order[0]};
  for (size_t k = 0; k < drawn; ++k) starts.push_back(keys[k].second);
  return starts;
}

// Replaces illegal rows of a screening by legal ones: Sobol points by random ones, while draws are left; the others,
// and all in a box, by the last legal point on the way to them from the first known point or from the box's centre.
void KeepLegal(const study::Encoding& encoding, const MatrixXd& known, const ScreenOptions& options,
               base::RandomStream& random, MatrixXd* screen) {
  if (encoding.legal() == nullptr) return;
  VectorXd home;
  if (options.box != nullptr) home = options.box->centre;
  if (home.size() == 0 && known.rows() > 0) home = known.row(0).transpose();
  int draws = options.box == nullptr ? kLegalDraws : 0;
  VectorXd u(screen->cols());
  for (Index i = 0; i < screen->rows(); ++i) {
    if (encoding.IsLegalAt(screen->row(i).transpose())) continue;
    bool legal = false;
    for (; !legal && draws > 0 && i < options.sobol_points; --draws) {
      for (double& x : u) x = random.Uniform();
      legal = encoding.IsLegalAt(u);
    }
    if (legal) {
      screen->row(i) = u.transpose();
    } else if (home.size() > 0) {
      screen->row(i) = PullToLegal(encoding, home, screen->row(i).transpose()).transpose();
    }
  }
}

}  // namespace

MatrixXd ScreenPoints(const study::Encoding& encoding, const MatrixXd& known, const ScreenOptions& options,
                      base::RandomStream& random) {
  const Index d = encoding.compact_dim();
  std::vector<int> discrete;
  for (int c = 0; c < d; ++c) {
    if (encoding.Levels(c).has_value()) discrete.push_back(c);
  }
  const TrustBox* box = options.box;
  const bool centred = known.rows() > 0 || box != nullptr;
  const Index near = centred ? options.near_sprays : 0, wide = centred ? options.wide_sprays : 0;
  MatrixXd screen(options.sobol_points + known.rows() + near + wide, d);
  // Each ask has a scramble of its own, so the maximisers of different asks see different nets.
  screen.topRows(options.sobol_points) =
      math::SobolSequence(static_cast<int>(d), random.NextU64(), "bo/acq/sobol").Points(0, options.sobol_points);
  if (known.rows() > 0) screen.middleRows(options.sobol_points, known.rows()) = known;
  if (centred) {
    const VectorXd best = box != nullptr ? box->centre : VectorXd(known.row(0).transpose());
    const Index first = options.sobol_points + known.rows();
    Spray(best, kNearDeviation, discrete, first, near, random, &screen);
    Spray(best, kWideDeviation, discrete, first + near, wide, random, &screen);
  }
  if (box == nullptr) {
    KeepLegal(encoding, known, options, random, &screen);
    return screen;
  }
  const double moved = std::min(1.0, kMovedCoordinates / static_cast<double>(d));
  for (Index i = 0; i < screen.rows(); ++i) {
    for (Index j = 0; j < d; ++j) {
      if (i >= options.sobol_points) {
        screen(i, j) = std::clamp(screen(i, j), box->lower(j), box->upper(j));
      } else {
        const double inside = box->lower(j) + screen(i, j) * (box->upper(j) - box->lower(j));
        screen(i, j) = moved >= 1.0 || random.Uniform() < moved ? inside : box->centre(j);
      }
    }
  }
  KeepLegal(encoding, known, options, random, &screen);
  return screen;
}

absl::StatusOr<MaximizeResult> Maximize(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                        const MatrixXd& known, const VectorXd& lengthscales, const AskKey& key,
                                        const MaximizeOptions& options, const base::StopToken& stop) {
  const Index d = encoding.compact_dim();
  LUTHIER_CHECK(lengthscales.size() == d && (known.rows() == 0 || known.cols() == d));
  LUTHIER_CHECK(options.screen_points >= 1 && options.starts >= 1);
  MaximizeResult result;
  if (d == 0) return result;
  const Search search(acquisition, encoding, lengthscales, options, stop);
  base::RandomStream random = key.Stream("bo/acq");

  ScreenOptions screening;
  screening.sobol_points = options.screen_points;
  screening.box = options.box;
  const MatrixXd screen = ScreenPoints(encoding, known, screening, random);
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd values, search.Values(screen, &result.not_finite));
  int turn = 0;
  for (Index start : ChooseStarts(values, options.starts, random)) {
    VectorXd from = screen.row(start).transpose();
    double at = values(start);
    if (turn++ < options.swept_starts) {
      for (int k = 0; k < kSweeps; ++k) LUTHIER_RETURN_IF_ERROR(search.Sweep(random, &from, &at));
    }
    LUTHIER_ASSIGN_OR_RETURN(const VectorXd end, search.Climb(from, at));
    MaximizeCandidate candidate;
    candidate.parameters = encoding.FromCompact(end);
    candidate.u = encoding.ToModel(candidate.parameters);
    result.candidates.push_back(std::move(candidate));
  }
  if (result.candidates.empty()) return result;
  MatrixXd ends(static_cast<Index>(result.candidates.size()), encoding.model_dim());
  for (size_t k = 0; k < result.candidates.size(); ++k) ends.row(static_cast<Index>(k)) = result.candidates[k].u;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  const VectorXd end_values = acquisition.Values(ends);
  for (size_t k = 0; k < result.candidates.size(); ++k) result.candidates[k].value = end_values(static_cast<Index>(k));
  auto unusable = [](const MaximizeCandidate& c) { return !std::isfinite(c.value); };
  result.candidates.erase(std::remove_if(result.candidates.begin(), result.candidates.end(), unusable),
                          result.candidates.end());
  // Sorts by insertion, since there are few; equal ones keep the order of their starts.
  for (size_t k = 1; k < result.candidates.size(); ++k) {
    for (size_t m = k; m > 0 && result.candidates[m].value > result.candidates[m - 1].value; --m) {
      std::swap(result.candidates[m], result.candidates[m - 1]);
    }
  }
  return result;
}

absl::StatusOr<MaximizeResult> MaximizeByDirect(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                                const base::StopToken& stop) {
  MaximizeResult result;
  const Index d = encoding.compact_dim();
  if (d == 0) return result;
  auto model_points = [&](const MatrixXd& compact) {
    MatrixXd model(compact.rows(), encoding.model_dim());
    for (Index i = 0; i < compact.rows(); ++i) model.row(i) = encoding.CompactToModel(compact.row(i).transpose());
    return model;
  };
  const auto negative = [&](const MatrixXd& points) {
    return math::EvaluateInPieces(points, stop, [&](const MatrixXd& some) -> VectorXd {
      VectorXd values = -acquisition.Values(model_points(some));
      for (Index i = 0; i < some.rows(); ++i) {
        if (!encoding.IsLegalAt(some.row(i).transpose())) values(i) = -kMinusInfinity;
      }
      return values;
    });
  };
  LUTHIER_ASSIGN_OR_RETURN(const math::DirectResult found, math::MinimizeDirect(negative, d, {}, stop));
  result.not_finite = found.not_finite;
  if (found.outcome == math::DirectOutcome::kNoPoint) return result;
  MaximizeCandidate candidate;
  candidate.parameters = encoding.FromCompact(found.x);
  candidate.u = encoding.ToModel(candidate.parameters);
  candidate.value = -found.value;
  result.candidates.push_back(std::move(candidate));
  return result;
}

absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverTable(const AcquisitionFunction& acquisition,
                                                                   const SettingTable& table,
                                                                   const std::vector<bool>& excluded,
                                                                   const base::StopToken& stop) {
  LUTHIER_CHECK(excluded.size() == static_cast<size_t>(table.size()));
  LUTHIER_ASSIGN_OR_RETURN(
      const VectorXd values,
      math::EvaluateInPieces(table.points(), stop, [&](const MatrixXd& points) { return acquisition.Values(points); }));
  int best = -1;
  for (int i = 0; i < table.size(); ++i) {
    if (excluded[static_cast<size_t>(i)] || !std::isfinite(values(i))) continue;
    if (best < 0 || values(i) > values(best)) best = i;
  }
  if (best < 0) return std::nullopt;
  return MaximizeCandidate{table.Setting(best), table.points().row(best).transpose(), values(best)};
}

}  // namespace luthier::search
