#include "lib/search/bo/turns/bo_state.h"

#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "lib/search/bo/turns/noise_state.h"
#include "lib/search/designer_state.h"

namespace luthier::search {

template <>
inline constexpr auto kStateFields<TrustRegionState> =
    std::tuple(&TrustRegionState::radius, &TrustRegionState::anchor, &TrustRegionState::predicted_gain,
               &TrustRegionState::at_boundary, &TrustRegionState::slope_error, &TrustRegionState::centre,
               &TrustRegionState::step, &TrustRegionState::lengths);
template <>
inline constexpr auto kStateFields<Climb> = std::tuple(&Climb::site, &Climb::state);
template <>
inline constexpr auto kStateFields<LocalSearchState> = std::tuple(
    &LocalSearchState::incumbent, &LocalSearchState::other, &LocalSearchState::other_last, &LocalSearchState::solved);
template <>
inline constexpr auto kStateFields<SurrogateState::Start> =
    std::tuple(&SurrogateState::Start::choice, &SurrogateState::Start::theta, &SurrogateState::Start::margin);
template <>
inline constexpr auto kStateFields<SurrogateState> =
    std::tuple(&SurrogateState::observations, &SurrogateState::searches, &SurrogateState::choice,
               &SurrogateState::theta, &SurrogateState::others, &SurrogateState::chain);
template <>
inline constexpr auto kStateFields<FeasibilityState> = std::tuple(&FeasibilityState::trials, &FeasibilityState::theta);
template <>
inline constexpr auto kStateFields<BasinsState> =
    std::tuple(&BasinsState::maxima, &BasinsState::away, &BasinsState::log_ei, &BasinsState::turns,
               &BasinsState::best_other, &BasinsState::rows, &BasinsState::theta);
template <>
inline constexpr auto kStateFields<BorderState> =
    std::tuple(&BorderState::radius, &BorderState::predicted_gain, &BorderState::at_boundary, &BorderState::centre,
               &BorderState::step, &BorderState::penalties, &BorderState::lengths);
template <>
inline constexpr auto kStateFields<BorderClimb> =
    std::tuple(&BorderClimb::ended, &BorderClimb::home, &BorderClimb::state);
template <>
inline constexpr auto kStateFields<AskHead> = std::tuple(&AskHead::kind, &AskHead::index);
template <>
inline constexpr auto kStateFields<KnownSetting> =
    std::tuple(&KnownSetting::number, &KnownSetting::trial, &KnownSetting::state);
template <>
inline constexpr auto kStateFields<MemberState> =
    std::tuple(&MemberState::kind, &MemberState::index, &MemberState::number, &MemberState::passed, &MemberState::state,
               &MemberState::optimizer);
template <>
inline constexpr auto kStateFields<BoState> =
    std::tuple(&BoState::kind, &BoState::index, &BoState::checked, &BoState::set_aside, &BoState::local,
               &BoState::surrogate, &BoState::feasibility, &BoState::box, &BoState::basins);

namespace {

// A state with models of further metrics.
struct BoMetricsState {
  BoState state;
  std::vector<std::optional<SurrogateState>> metrics;
};
// One with a climb within bounds, too.
struct BoBorderState {
  BoState state;
  std::vector<std::optional<SurrogateState>> metrics;
  BorderClimb border;
};
// One of a study in which noise was found.
struct BoNoiseState {
  BoState state;
  std::vector<std::optional<SurrogateState>> metrics;
  std::optional<BorderClimb> border;
  int64_t noise_by = 0;
};

}  // namespace

template <>
inline constexpr auto kStateFields<BoMetricsState> = std::tuple(&BoMetricsState::state, &BoMetricsState::metrics);
template <>
inline constexpr auto kStateFields<BoBorderState> =
    std::tuple(&BoBorderState::state, &BoBorderState::metrics, &BoBorderState::border);
template <>
inline constexpr auto kStateFields<BoNoiseState> =
    std::tuple(&BoNoiseState::state, &BoNoiseState::metrics, &BoNoiseState::border, &BoNoiseState::noise_by);

namespace {

constexpr char kBoStateKind[] = "bo/1";
constexpr char kBoMetricsStateKind[] = "bo/2";  // BoMetricsState, for studies with models of further metrics.
constexpr char kBoBorderStateKind[] = "bo/3";   // BoBorderState, for studies that took a step within bounds.
constexpr char kMemberStateKind[] = "bo/5";     // MemberState, for asks of a portfolio's members.
// Numbers of all metrics' SurrogateState::others up to which they are stored.
constexpr size_t kMostOtherNumbers = 1000;

// Returns the double nearest to the first decimal digits of x.
double Rounded(double x, int digits) {
  double rounded = x;
  return absl::SimpleAtod(absl::StrFormat("%.*g", digits, x), &rounded) ? rounded : x;
}

// Starts that a search improves keep five digits.
void Round(gp::Hyperparameters* theta) {
  for (double* number : {&theta->signal_variance, &theta->noise_variance, &theta->mean, &theta->shape_parameter,
                         &theta->slope_noise_variance}) {
    *number = Rounded(*number, 5);
  }
  for (double& lengthscale : theta->lengthscales) lengthscale = Rounded(lengthscale, 5);
}

// A state for another space than the study's has other numbers of entries.
bool IsLegal(const gp::Hyperparameters& theta, int groups) {
  return theta.lengthscales.size() == groups && theta.lengthscales.allFinite() &&
         (groups == 0 || theta.lengthscales.minCoeff() > 0.0) && theta.signal_variance > 0.0 &&
         std::isfinite(theta.signal_variance) && theta.noise_variance >= 0.0 && std::isfinite(theta.noise_variance) &&
         std::isfinite(theta.mean) && theta.shape_parameter > 0.0 && std::isfinite(theta.shape_parameter) &&
         theta.slope_noise_variance >= 0.0 && std::isfinite(theta.slope_noise_variance);
}

bool IsLegal(const TrustRegionState& state) {
  const Eigen::Index dim = state.centre.size();
  return std::isfinite(state.radius) && std::isfinite(state.anchor) && state.predicted_gain >= 0.0 &&
         std::isfinite(state.predicted_gain) && state.slope_error >= 0.0 && std::isfinite(state.slope_error) &&
         state.step.size() == dim && state.lengths.size() == dim && state.centre.allFinite() &&
         state.step.allFinite() && state.lengths.allFinite() && (dim == 0 || state.lengths.minCoeff() > 0.0);
}

bool IsLegal(const BorderClimb& climb) {
  const BorderState& state = climb.state;
  const Eigen::Index dim = state.centre.size();
  for (const Eigen::VectorXd& lengths : state.lengths) {
    if (lengths.size() != dim || !lengths.allFinite() || (dim > 0 && !(lengths.minCoeff() > 0.0))) return false;
  }
  return std::isfinite(state.radius) && state.penalties.allFinite() && state.predicted_gain >= 0.0 &&
         std::isfinite(state.predicted_gain) && state.step.size() == dim && state.centre.allFinite() &&
         state.step.allFinite() && climb.home.allFinite();
}

bool IsLegal(const SurrogateState& state, const std::vector<ModelChoice>& choices) {
  const auto fits = [&](int choice, const gp::Hyperparameters& theta) {
    return choice >= 0 && choice < static_cast<int>(choices.size()) &&
           IsLegal(theta, choices[static_cast<size_t>(choice)].shape.groups);
  };
  for (const SurrogateState::Start& other : state.others) {
    if (!fits(other.choice, other.theta) || !std::isfinite(other.margin)) return false;
  }
  return fits(state.choice, state.theta) && state.chain.allFinite();
}

}  // namespace

std::string FormatMemberState(const MemberState& state) {
  return EncodeState(kMemberStateKind, state);
}

std::optional<MemberState> ParseMemberState(absl::string_view bytes) {
  return DecodeState<MemberState>(kMemberStateKind, bytes);
}

std::string FormatBoState(BoState state) {
  if (state.local.has_value()) {
    for (Climb* climb : {&state.local->incumbent, &state.local->other}) {
      if (!(climb->state.radius > 0.0)) climb->state = {};
    }
  }
  if (state.surrogate.has_value()) {
    for (SurrogateState::Start& other : state.surrogate->others) {
      Round(&other.theta);
      other.margin = Rounded(other.margin, 4);
    }
  }
  if (state.basins.maxima.empty()) state.basins = {};
  if (state.basins.theta.has_value()) Round(&*state.basins.theta);
  const bool noise = state.noise_by > 0;
  if (state.metrics.empty() && !state.border.has_value() && !noise) return EncodeState(kBoStateKind, state);
  size_t numbers = 0;
  for (std::optional<SurrogateState>& metric : state.metrics) {
    if (!metric.has_value()) continue;
    for (SurrogateState::Start& other : metric->others) {
      Round(&other.theta);
      other.margin = Rounded(other.margin, 4);
      numbers += 8 + static_cast<size_t>(other.theta.lengthscales.size());
    }
  }
  for (std::optional<SurrogateState>& metric : state.metrics) {
    if (metric.has_value() && numbers > kMostOtherNumbers) metric->others.clear();
  }
  std::vector<std::optional<SurrogateState>> metrics = std::move(state.metrics);
  if (noise) {
    std::optional<BorderClimb> border = std::move(state.border);
    const int64_t noise_by = state.noise_by;
    return EncodeState(kBoNoiseStateKind,
                       BoNoiseState{std::move(state), std::move(metrics), std::move(border), noise_by});
  }
  if (state.border.has_value()) {
    BorderClimb border = *std::move(state.border);
    return EncodeState(kBoBorderStateKind, BoBorderState{std::move(state), std::move(metrics), std::move(border)});
  }
  return EncodeState(kBoMetricsStateKind, BoMetricsState{std::move(state), std::move(metrics)});
}

BoState ParseBoState(absl::string_view bytes, const std::vector<ModelChoice>& choices) {
  BoState state;
  const std::optional<MemberState> member = ParseMemberState(bytes);
  if (member.has_value()) bytes = member->optimizer;
  if (std::optional<BoNoiseState> noise = DecodeState<BoNoiseState>(kBoNoiseStateKind, bytes); noise.has_value()) {
    state = std::move(noise->state);
    state.metrics = std::move(noise->metrics);
    if (noise->border.has_value() && IsLegal(*noise->border)) state.border = std::move(noise->border);
    state.noise_by = noise->noise_by;
  } else if (std::optional<BoBorderState> all = DecodeState<BoBorderState>(kBoBorderStateKind, bytes);
             all.has_value()) {
    state = std::move(all->state);
    state.metrics = std::move(all->metrics);
    if (IsLegal(all->border)) state.border = std::move(all->border);
  } else if (std::optional<BoMetricsState> both = DecodeState<BoMetricsState>(kBoMetricsStateKind, bytes);
             both.has_value()) {
    state = std::move(both->state);
    state.metrics = std::move(both->metrics);
  } else {
    state = DecodeState<BoState>(kBoStateKind, bytes).value_or(BoState());
  }
  const int groups = choices.front().shape.groups;
  if (state.local.has_value() && !(IsLegal(state.local->incumbent.state) && IsLegal(state.local->other.state))) {
    state.local.reset();
  }
  if (state.surrogate.has_value() && !IsLegal(*state.surrogate, choices)) state.surrogate.reset();
  for (std::optional<SurrogateState>& metric : state.metrics) {
    if (metric.has_value() && !IsLegal(*metric, choices)) metric.reset();
  }
  if (state.feasibility.has_value() && !IsLegal(state.feasibility->theta, groups)) state.feasibility.reset();
  const BasinsState& basins = state.basins;
  if (std::isnan(basins.log_ei) || (basins.theta.has_value() && !IsLegal(*basins.theta, groups))) state.basins = {};
  return state;
}

AskHead ParseAskHead(absl::string_view bytes) {
  const std::optional<AskHead> head = DecodeStateHead<AskHead>(kBoStateKind, bytes);
  if (head.has_value()) return *head;
  const std::optional<AskHead> metrics = DecodeStateHead<AskHead>(kBoMetricsStateKind, bytes);
  if (metrics.has_value()) return *metrics;
  const std::optional<AskHead> member = DecodeStateHead<AskHead>(kMemberStateKind, bytes);
  if (member.has_value()) return *member;
  const std::optional<AskHead> noise = DecodeStateHead<AskHead>(kBoNoiseStateKind, bytes);
  return noise.has_value() ? *noise : DecodeStateHead<AskHead>(kBoBorderStateKind, bytes).value_or(AskHead());
}

}  // namespace luthier::search
