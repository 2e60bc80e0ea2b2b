#include "lib/search/harmonica/stages.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <variant>

#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::search {
namespace {

using spectral::Assignment;
using spectral::Bits;
using spectral::Term;

constexpr int kKeepOneIn = 4;
constexpr double kLittleExplained = 0.05;
constexpr int64_t kReadingAState = 1000;  // Operations.

// Returns the sample's value, for stages trained up to `resource` (0: to the end), if it has one. It then counts like
// any other, whatever the state of the trial.
std::optional<double> ValueOf(const study::HistoryTrial& trial, int64_t resource) {
  if (resource > 0) {
    for (const study::CurvePoint& point : trial.points) {
      if (point.step >= resource) return point.value;
    }
  }
  return trial.value;
}

bool IsWhole(const study::HistoryTrial& trial, int64_t resource) {
  if (trial.state == study::TrialState::kComplete || trial.state == study::TrialState::kPaused) return true;
  return resource > 0 && !trial.points.empty() && trial.points.back().step >= resource;
}

bool Done(const study::HistoryTrial& trial) {
  switch (trial.state) {
    case study::TrialState::kComplete:
    case study::TrialState::kPruned:
    case study::TrialState::kPaused:
      return true;
    case study::TrialState::kFailed:
      return trial.failure == study::FailureKind::kConfig;
    default:
      return false;
  }
}

// Sets the variables of a restriction in x.
void Restrict(const std::vector<int>& variables, uint32_t code, Bits* x) {
  for (size_t k = 0; k < variables.size(); ++k) (*x)[variables[k]] = (code >> k) & 1 ? -1.0f : 1.0f;
}

// Merges restrictions whose parameters keep the same levels: different codes of an unordered parameter may mean the
// same.
std::vector<Assignment> Merge(const std::vector<Assignment>& all, const std::vector<int>& variables,
                              const spectral::BitEncoding& bits, int count) {
  std::vector<std::vector<std::vector<int>>> seen;
  std::vector<Assignment> kept;
  for (const Assignment& assignment : all) {
    if (static_cast<int>(kept.size()) == count) break;
    std::vector<std::vector<int>> levels;
    for (const spectral::BitGroup& group : bits.groups()) {
      int mask = 0;
      int fixed = 0;
      for (size_t k = 0; k < variables.size(); ++k) {
        const int place = variables[k] - group.begin;
        if (place < 0 || place >= group.count) continue;
        mask |= 1 << (group.count - 1 - place);
        if ((assignment.code >> k) & 1) fixed |= 1 << (group.count - 1 - place);
      }
      if (mask == 0) continue;
      std::vector<int> left;
      for (int code = 0; code < (1 << group.count); ++code) {
        if ((code & mask) == fixed) left.push_back(group.level_of_code[static_cast<size_t>(code)]);
      }
      std::sort(left.begin(), left.end());
      levels.push_back(std::move(left));
    }
    if (std::find(seen.begin(), seen.end(), levels) != seen.end()) continue;
    seen.push_back(std::move(levels));
    kept.push_back(assignment);
  }
  return kept;
}

}  // namespace

HarmonicaState ReadHarmonicaState(absl::string_view bytes) {
  return DecodeState<HarmonicaState>(kHarmonicaStateKind, bytes).value_or(HarmonicaState());
}

HarmonicaStages::HarmonicaStages(const study::StudySpec& spec, const study::HarmonicaOptions& options,
                                 const HarmonicaPlan& plan, const spectral::BitEncoding& bits)
    : spec_(spec), options_(options), plan_(plan), bits_(bits) {}

bool HarmonicaStages::done() const {
  if (static_cast<int>(stages_.size()) >= plan_.stages) return true;
  const size_t n = stages_.size();
  if (n >= 2 && stages_[n - 1].cv_r2 < kLittleExplained && stages_[n - 2].cv_r2 < kLittleExplained) return true;
  size_t fixed = 0;
  for (const HarmonicaStage& stage : stages_) {
    if (stage.believed) fixed += Variables(stage.polynomial).size();
  }
  return static_cast<int>(fixed) >= bits_.bits();
}

Bits HarmonicaStages::SampleBits(int stage, base::RandomStream* random) const {
  std::vector<uint32_t> codes;
  for (int q = 0; q < stage; ++q) {
    const std::vector<Assignment>& restrictions = stages_[static_cast<size_t>(q)].restrictions;
    codes.push_back(restrictions.empty() ? 0 : restrictions[random->UniformInt(restrictions.size())].code);
  }
  Bits x(bits_.bits());
  for (float& bit : x) bit = random->Uniform() < 0.5 ? -1.0f : 1.0f;
  for (int q = 0; q < stage; ++q) {
    const HarmonicaStage& earlier = stages_[static_cast<size_t>(q)];
    if (earlier.believed) Restrict(Variables(earlier.polynomial), codes[static_cast<size_t>(q)], &x);
  }
  return x;
}

study::Parameters HarmonicaStages::Sample(int stage, int64_t index) const {
  base::RandomStream random(spec_.seed, "harmonica/sample", static_cast<uint64_t>(index), static_cast<uint32_t>(stage));
  const Bits x = SampleBits(stage, &random);
  return bits_.Decode(x, random);
}

std::optional<std::vector<size_t>> HarmonicaStages::Closing(const study::History& history, int stage) const {
  const auto wanted = static_cast<size_t>(plan_.samples);
  const std::vector<study::HistoryTrial>& trials = history.trials();
  const auto is_sample = [&](size_t k) { return states_[k].kind == 's' && states_[k].stage == stage; };
  const auto by_index = [&](size_t a, size_t b) { return states_[a].index < states_[b].index; };
  std::vector<size_t> found;
  for (const int k : history.settled()) {
    const auto at = static_cast<size_t>(k);
    if (!is_sample(at) || !Done(trials[at])) continue;
    found.push_back(at);
    if (found.size() < wanted) continue;
    std::sort(found.begin(), found.end(), by_index);
    return found;
  }
  return std::nullopt;
}

HarmonicaData HarmonicaStages::DataOf(const study::History& history, const std::vector<std::vector<size_t>>& closings,
                                      int stage) const {
  HarmonicaData data;
  // Stages whose gate stayed closed drew their samples from the same distribution.
  int first = stage;
  while (first > 0 && !stages_[static_cast<size_t>(first - 1)].believed) --first;
  std::vector<size_t> rows;
  for (int q = first; q <= stage; ++q) {
    const std::vector<size_t>& closing = closings[static_cast<size_t>(q)];
    rows.insert(rows.end(), closing.begin(), closing.end());
  }
  const auto count = static_cast<Eigen::Index>(rows.size());
  data.x.resize(count, bits_.bits());
  data.losses.resize(count);
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> complete;
  for (Eigen::Index i = 0; i < count; ++i) {
    const study::HistoryTrial& trial = history.trials()[rows[static_cast<size_t>(i)]];
    const HarmonicaState& state = states_[rows[static_cast<size_t>(i)]];
    base::RandomStream random(spec_.seed, "harmonica/sample", static_cast<uint64_t>(state.index),
                              static_cast<uint32_t>(state.stage));
    data.x.row(i) = SampleBits(state.stage, &random).transpose();
    const std::optional<double> value = ValueOf(trial, plan_.resource);
    const bool finite = value.has_value() && std::isfinite(*value);
    data.losses[i] = finite ? -study::Score(spec_.metric.goal, *value) : kNone;
    if (IsWhole(trial, plan_.resource) && finite) complete.push_back(data.losses[i]);
    if (!finite) ++data.failed;
  }
  // A pruned trial counts as no better than the median of the others, a failed one as the worst.
  double median = -std::numeric_limits<double>::max();
  if (!complete.empty()) {
    const auto middle = complete.begin() + static_cast<std::ptrdiff_t>(complete.size() / 2);
    std::nth_element(complete.begin(), middle, complete.end());
    median = *middle;
  }
  double worst = -std::numeric_limits<double>::max();
  for (Eigen::Index i = 0; i < count; ++i) {
    if (!IsWhole(history.trials()[rows[static_cast<size_t>(i)]], plan_.resource)) {
      data.losses[i] = std::isnan(data.losses[i]) ? kNone : std::max(data.losses[i], median);
    }
    if (!std::isnan(data.losses[i])) worst = std::max(worst, data.losses[i]);
  }
  if (data.failed == count) worst = 0.0;
  for (double& loss : data.losses) {
    if (std::isnan(loss)) loss = worst;
  }
  spectral::Winsorize(&data.losses);
  std::vector<bool> fixed(static_cast<size_t>(bits_.bits()), false);
  for (int q = 0; q < first; ++q) {
    const HarmonicaStage& earlier = stages_[static_cast<size_t>(q)];
    if (!earlier.believed) continue;
    for (const int bit : Variables(earlier.polynomial)) fixed[static_cast<size_t>(bit)] = true;
    // Weights of up to the largest double may sum to more; such residuals are not used.
    const Eigen::VectorXd rest = data.losses - EvaluateRows(earlier.polynomial, data.x);
    if (rest.allFinite()) data.losses = rest;
  }
  for (int bit = 0; bit < bits_.bits(); ++bit) {
    if (!fixed[static_cast<size_t>(bit)]) data.free.push_back(bit);
  }
  return data;
}

absl::StatusOr<HarmonicaStage> HarmonicaStages::Learn(const HarmonicaData& data, const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(
      const spectral::Recovery recovery,
      spectral::Recover(data.x, data.losses, data.free, RecoveryOptionsOf(options_, plan_.degree), stop));
  HarmonicaStage stage;
  stage.polynomial = recovery.polynomial;
  stage.believed = recovery.believed;
  stage.results = static_cast<int32_t>(data.losses.size());
  stage.failed = data.failed;
  const auto finite = [](double x) { return std::isfinite(x) ? x : std::numeric_limits<double>::max(); };
  stage.variance = finite(recovery.variance);
  stage.r2 = recovery.r2;
  stage.cv_r2 = recovery.cv_r2;
  stage.factor = recovery.factor;
  if (!stage.believed) return stage;
  stage.dropped = spectral::LimitVariables(&stage.polynomial);
  const std::vector<int> variables = Variables(stage.polynomial);
  // Among few settings at most the best quarter is kept: with two variables, four restrictions would restrict nothing.
  const int settings = 1 << variables.size();
  const int count = std::min(options_.restrictions, std::max(1, settings / kKeepOneIn));
  // Asks for more than needed, since two codes of a label have equal values and are merged.
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Assignment> least,
                           spectral::Minimizers(stage.polynomial, 16 * count, stop));
  stage.restrictions = Merge(least, variables, bits_, count);
  for (Assignment& restriction : stage.restrictions) restriction.value = finite(restriction.value);
  return stage;
}

absl::Status HarmonicaStages::Read(const study::History& history, const base::StopToken& stop) {
  states_.clear();
  stages_.clear();
  next_sample_ = 0;
  next_base_ = 0;
  // By stage: the first ask that has its record, and the stage.
  std::vector<std::pair<uint64_t, std::optional<HarmonicaStage>>> records;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingAState));
    HarmonicaState& state = states_.emplace_back();
    if (!trial.ask_index) continue;
    state = ReadHarmonicaState(trial.designer_state);
    for (const auto& [number, stage] : state.records) {
      const auto at = static_cast<size_t>(number);
      if (number < 0 || number >= plan_.stages) continue;
      if (records.size() <= at) records.resize(at + 1, {UINT64_MAX, std::nullopt});
      if (*trial.ask_index < records[at].first) records[at] = {*trial.ask_index, stage};
    }
  }
  for (auto& [ask, stage] : records) {
    if (!stage) break;
    const std::vector<int> variables = Variables(stage->polynomial);
    if (!variables.empty() && variables.back() >= bits_.bits()) break;
    stages_.push_back(*std::move(stage));
  }
  recorded_ = static_cast<int>(stages_.size());
  while (!done()) {
    const auto stage = static_cast<int>(stages_.size());
    if (!Closing(history, stage)) break;
    LUTHIER_ASSIGN_OR_RETURN(HarmonicaStage learnt, Learn(Data(history, stage), stop));
    stages_.push_back(std::move(learnt));
  }
  for (const HarmonicaState& state : states_) {
    if (state.kind == 's' && state.stage == static_cast<int>(stages_.size())) ++next_sample_;
    if (state.kind == 'b') ++next_base_;
  }
  return absl::OkStatus();
}

HarmonicaData HarmonicaStages::Data(const study::History& history, int stage) const {
  std::vector<std::vector<size_t>> closings;
  for (int q = 0; q <= stage; ++q) closings.push_back(Closing(history, q).value_or(std::vector<size_t>()));
  return DataOf(history, closings, stage);
}

}  // namespace luthier::search
