#include "lib/search/cma_es/cma_es_designer.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"

namespace luthier::search {

using Eigen::VectorXd;

namespace {

constexpr int32_t kMaxPopulation = 10'000;
constexpr int kMaxColumns = 500;         // Covariances of more columns take seconds to decompose.
constexpr double kFlat = 1e-13;          // Relative difference up to which results are the same.
constexpr int kMostDraws = 100;          // Draws of a sample, until one is legal.
constexpr int kMaxPopulationShift = 10;  // Doublings of the population.

double MedianOf(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

absl::Status ValidateCmaEs(const study::StudySpec& spec, const study::CmaEsOptions& options) {
  base::Violations violations;
  if (options.population != 0 && (options.population < 4 || options.population > kMaxPopulation)) {
    violations.Add("algorithm.cma_es.population",
                   absl::StrCat(options.population, " is not 0 (4 + 3 ln d) or between 4 and ", kMaxPopulation));
  }
  if (!(options.initial_sigma > 0.0 && options.initial_sigma <= 1.0)) {
    violations.Add("algorithm.cma_es.expert.initial_sigma",
                   absl::StrCat(study::FormatDouble(options.initial_sigma), " is not above 0 and at most 1"));
  }
  const int columns = study::Encoding(spec.space).compact_dim();
  if (columns > kMaxColumns) {
    violations.Add("algorithm.cma_es", absl::StrCat("takes at most ", kMaxColumns, " tuned parameters, not ", columns,
                                                    "; use tpe or random"));
  }
  return violations.ToStatus();
}

CmaEsDesigner::CmaEsDesigner(const study::StudySpec& spec, const study::CmaEsOptions& options)
    : spec_(spec),
      encoding_(spec.space, spec.constraints),
      goal_(spec.metric.goal),
      options_(options),
      seed_(spec.seed) {
  centre_ = VectorXd::Constant(encoding_.compact_dim(), 0.5);
  const VectorXd defaults = encoding_.ToCompact(spec.space.Default());
  for (int c = 0; c < encoding_.compact_dim(); ++c) {
    columns_.emplace_back(encoding_, c);
    const study::ParameterSpec& parameter =
        spec.space.parameters()[static_cast<size_t>(encoding_.compact_parameter(c))];
    if (parameter.default_value.has_value()) centre_(c) = defaults(c);
  }
  if (!encoding_.IsLegalAt(centre_)) {
    base::RandomStream random(seed_, "cma_es/centre");
    centre_ = encoding_.ToCompact(encoding_.Sample(random));
  }
  Reset();
}

CmaEs CmaEsDesigner::NewRun(int restart) const {
  const int first = options_.population > 0 ? options_.population : CmaEs::DefaultPopulation(encoding_.compact_dim());
  VectorXd mean = centre_;
  if (restart > 0) {
    base::RandomStream random(seed_, "cma_es/restart", static_cast<uint64_t>(restart));
    for (double& x : mean) x = random.Uniform();
    if (!encoding_.IsLegalAt(mean)) mean = encoding_.ToCompact(encoding_.Sample(random));
  }
  return CmaEs(columns_, mean, options_.initial_sigma, first << std::min(restart, kMaxPopulationShift));
}

void CmaEsDesigner::Reset() {
  taken_.clear();
  finished_.clear();
  best_.clear();
  median_.clear();
  restart_ = 0;
  generation_ = 0;
  run_ = NewRun(0);
}

CmaEs::Sample CmaEsDesigner::SampleOf(uint64_t ask_index) const {
  base::RandomStream random(seed_, "cma_es", ask_index);
  CmaEs::Sample sample = run_->Draw(random);
  for (int draw = 1; draw < kMostDraws && !encoding_.IsLegalAt(sample.point); ++draw) sample = run_->Draw(random);
  return sample;
}

CmaEsDesigner::Result CmaEsDesigner::ToResult(const study::HistoryTrial& trial) const {
  Result result{trial.number, trial.ask_index, trial.setting, trial.state, trial.value, trial.values, trial.step};
  if (result.value.has_value() && !std::isfinite(*result.value)) result.value.reset();
  result.usable = trial.state == study::TrialState::kComplete || trial.state == study::TrialState::kPruned ||
                  (trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig);
  const std::optional<CmaEsState> state = DecodeState<CmaEsState>(kCmaEsStateKind, trial.designer_state);
  if (trial.ask_index.has_value() && state.has_value()) result.generation = state->generation;
  return result;
}

void CmaEsDesigner::Take(const Result& result) {
  taken_.push_back(result);
  if (!result.usable || !result.ask_index.has_value() || result.generation != generation_) return;
  CmaEs::Sample sample = SampleOf(*result.ask_index);
  if (study::HashOf(encoding_.FromCompact(sample.point)) != result.setting) return;  // Another setting was tried.
  Ranked ranked;
  ranked.ask_index = *result.ask_index;
  ranked.latent = std::move(sample.latent);
  if (!result.value.has_value()) {
    ranked.rank = 2;
  } else {
    ranked.rank = result.state == study::TrialState::kComplete ? 0 : 1;
    ranked.minus_step = ranked.rank == 1 ? -result.step : 0;
    ranked.loss = -study::Score(goal_, *result.value);
    ranked.values = result.values;
  }
  finished_.push_back(std::move(ranked));
  if (static_cast<int>(finished_.size()) == run_->population()) EndGeneration();
}

void CmaEsDesigner::TakeViolations() {
  if (!study::HasBounds(spec_)) return;
  std::vector<const std::vector<double>*> complete;
  for (const Result& result : taken_) {
    if (result.state == study::TrialState::kComplete && !result.values.empty()) complete.push_back(&result.values);
  }
  const std::vector<double> spreads = study::SpreadsOf(spec_, complete);
  for (Ranked& ranked : finished_) {
    if (ranked.values.empty()) continue;
    ranked.violation = study::Violation(spec_.metrics, ranked.values, spreads);
    if (ranked.violation > 0.0) ranked.loss = 0.0;  // They are compared by their violation alone.
  }
}

void CmaEsDesigner::EndGeneration() {
  TakeViolations();
  std::sort(finished_.begin(), finished_.end(), [](const Ranked& a, const Ranked& b) {
    return std::tie(a.rank, a.minus_step, a.violation, a.loss, a.ask_index) <
           std::tie(b.rank, b.minus_step, b.violation, b.loss, b.ask_index);
  });
  std::vector<VectorXd> latents;
  std::vector<double> losses;
  for (const Ranked& ranked : finished_) {
    latents.push_back(ranked.latent);
    if (ranked.rank == 0 && ranked.violation == 0.0) losses.push_back(ranked.loss);
  }
  finished_.clear();
  run_->Update(latents);
  if (!losses.empty()) {
    best_.push_back(losses.front());
    median_.push_back(MedianOf(losses));
  }
  ++generation_;
  if (!run_->Collapsed() && !Stagnates()) return;
  best_.clear();
  median_.clear();
  run_ = NewRun(++restart_);
}

bool CmaEsDesigner::Stagnates() const {
  const double columns = encoding_.compact_dim(), lambda = run_->population();
  // Stagnation, first sign: the best results no longer change.
  const auto recent = static_cast<size_t>(10.0 + std::ceil(30.0 * columns / lambda));
  if (best_.size() >= recent) {
    const auto [low, high] = std::minmax_element(best_.end() - static_cast<std::ptrdiff_t>(recent), best_.end());
    const double worst = *std::max_element(median_.end() - static_cast<std::ptrdiff_t>(recent), median_.end());
    if (std::max(*high, worst) - *low <= kFlat * std::max(std::abs(*low), std::abs(*high))) return true;
  }
  // Second sign: neither the best nor the median of generations improves, the last 30% of them against those before.
  const auto window = static_cast<size_t>(120.0 + std::ceil(30.0 * columns / lambda));
  const size_t n = best_.size();
  if (n < window) return false;
  const size_t length = std::clamp<size_t>(n / 5, window, 20'000), part = 3 * length / 10;
  const auto stuck = [&](const std::vector<double>& v) {
    const auto begin = v.end() - static_cast<std::ptrdiff_t>(length);
    const auto count = static_cast<std::ptrdiff_t>(part);
    return MedianOf({v.end() - count, v.end()}) >= MedianOf({begin, begin + count});
  };
  return stuck(best_) && stuck(median_);
}

absl::StatusOr<Suggestion> CmaEsDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                  const base::StopToken& stop) {
  base::Pace pace(stop);
  const std::vector<int>& finished = history.finished();
  // The results taken so far must be the beginning of this history.
  bool same = taken_.size() <= finished.size();
  for (size_t k = 0; same && k < taken_.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    same = taken_[k] == ToResult(history.trials()[static_cast<size_t>(finished[k])]);
  }
  if (!same) Reset();
  // A stop between two results keeps those taken; the next ask goes on from there.
  const int64_t columns = 1 + encoding_.compact_dim();
  for (size_t k = taken_.size(); k < finished.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * columns + columns * columns));
    Take(ToResult(history.trials()[static_cast<size_t>(finished[k])]));
  }
  Suggestion suggestion;
  suggestion.parameters = encoding_.FromCompact(SampleOf(ask_index).point);
  if (!encoding_.IsLegal(suggestion.parameters)) {  // The run learns nothing from the setting that replaces it.
    base::RandomStream random(seed_, "cma_es/legal", ask_index);
    suggestion.parameters = encoding_.Sample(random);
  }
  suggestion.origin = "cma_es";
  suggestion.designer_state = EncodeState(kCmaEsStateKind, CmaEsState{generation_});
  suggestion.details = {{"generation", static_cast<double>(generation_)},
                        {"population", static_cast<double>(run_->population())},
                        {"restart", static_cast<double>(restart_)},
                        {"sigma", run_->sigma()}};
  return suggestion;
}

}  // namespace luthier::search
