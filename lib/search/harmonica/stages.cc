#include "lib/search/harmonica/stages.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
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
constexpr char kBaseSeparator[] = "\n--\n";
constexpr int64_t kReadingACarry = 1000;  // Operations.

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

std::string Hex(double x) {
  return absl::StrFormat("%a", x);
}

// Reads the words of a record one after the other; remembers the first failure.
class Words {
 public:
  explicit Words(absl::string_view text) : words_(absl::StrSplit(text, ' ', absl::SkipEmpty())) {}
  std::string Next() {
    if (at_ >= words_.size()) {
      ok_ = false;
      return "";
    }
    return words_[at_++];
  }
  int64_t Integer(int64_t low, int64_t high) {
    int64_t value = low;
    if (!absl::SimpleAtoi(Next(), &value) || value < low || value > high) {
      ok_ = false;
      return low;
    }
    return value;
  }
  // SimpleAtod reads no hexadecimal; strtod does, in the C locale that our programs never leave.
  double Number() {
    const std::string word = Next();
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0' || !std::isfinite(value)) ok_ = false;
    return value;
  }
  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ == words_.size(); }

 private:
  std::vector<std::string> words_;
  size_t at_ = 0;
  bool ok_ = true;
};

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

std::string FormatStage(const HarmonicaStage& stage) {
  std::string text =
      absl::StrCat(stage.believed ? 1 : 0, " ", stage.results, " ", stage.failed, " ", stage.dropped, " ",
                   Hex(stage.variance), " ", Hex(stage.r2), " ", Hex(stage.cv_r2), " ", Hex(stage.factor), " ",
                   Hex(stage.polynomial.intercept), " ", stage.polynomial.terms.size());
  for (const Term& term : stage.polynomial.terms) {
    absl::StrAppend(&text, " ", Hex(term.weight), " ", term.bits.size(), " ", absl::StrJoin(term.bits, " "));
  }
  absl::StrAppend(&text, " ", stage.restrictions.size());
  for (const Assignment& restriction : stage.restrictions) {
    absl::StrAppend(&text, " ", restriction.code, " ", Hex(restriction.value));
  }
  return text;
}

std::optional<HarmonicaStage> ParseStage(absl::string_view text) {
  Words words(text);
  HarmonicaStage stage;
  stage.believed = words.Integer(0, 1) == 1;
  stage.results = static_cast<int32_t>(words.Integer(0, INT32_MAX));
  stage.failed = static_cast<int32_t>(words.Integer(0, INT32_MAX));
  stage.dropped = static_cast<int32_t>(words.Integer(0, INT32_MAX));
  stage.variance = words.Number();
  stage.r2 = words.Number();
  stage.cv_r2 = words.Number();
  stage.factor = words.Number();
  stage.polynomial.intercept = words.Number();
  for (int64_t terms = words.Integer(0, 64); terms > 0 && words.ok(); --terms) {
    Term term;
    term.weight = words.Number();
    for (int64_t size = words.Integer(1, spectral::kMaxDegree); size > 0; --size) {
      term.bits.push_back(static_cast<int>(words.Integer(0, kMostHarmonicaBits - 1)));
    }
    stage.polynomial.terms.push_back(std::move(term));
  }
  for (int64_t count = words.Integer(0, 64); count > 0 && words.ok(); --count) {
    Assignment restriction;
    restriction.code = static_cast<uint32_t>(words.Integer(0, UINT32_MAX));
    restriction.value = words.Number();
    stage.restrictions.push_back(restriction);
  }
  if (!words.ok() || !words.AtEnd()) return std::nullopt;
  return stage;
}

std::string FormatState(const HarmonicaState& state) {
  std::string text = state.kind == 's' ? absl::StrCat("s ", state.stage, " ", state.index)
                                       : absl::StrCat("b ", state.index, state.selection.empty() ? "" : " ",
                                                      absl::StrJoin(state.selection, " "));
  for (const auto& [stage, record] : state.records) absl::StrAppend(&text, "\nstage ", stage, " ", record);
  if (!state.base.empty()) absl::StrAppend(&text, kBaseSeparator, state.base);
  return text;
}

HarmonicaState ParseState(absl::string_view text) {
  HarmonicaState state;
  if (const size_t at = text.find(kBaseSeparator); at != absl::string_view::npos) {
    state.base = std::string(text.substr(at + sizeof(kBaseSeparator) - 1));
    text = text.substr(0, at);
  }
  const std::vector<std::string> lines = absl::StrSplit(text, '\n');
  Words head(lines[0]);
  const std::string kind = head.Next();
  if (kind == "s") {
    state.stage = static_cast<int>(head.Integer(0, 100));
    state.index = head.Integer(0, INT64_MAX);
  } else if (kind == "b") {
    state.index = head.Integer(0, INT64_MAX);
    while (!head.AtEnd()) state.selection.push_back(static_cast<int>(head.Integer(0, 1000)));
  } else {
    return HarmonicaState();
  }
  if (!head.ok()) return HarmonicaState();
  state.kind = kind[0];
  for (size_t k = 1; k < lines.size(); ++k) {
    const std::vector<std::string> parts = absl::StrSplit(lines[k], absl::MaxSplits(' ', 2));
    int stage = 0;
    if (parts.size() != 3 || parts[0] != "stage" || !absl::SimpleAtoi(parts[1], &stage)) continue;
    state.records.emplace_back(stage, parts[2]);
  }
  return state;
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
  if (!options_.strict) {
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
  std::vector<size_t> samples;
  for (size_t k = 0; k < trials.size(); ++k) {
    if (is_sample(k)) samples.push_back(k);
  }
  std::sort(samples.begin(), samples.end(), by_index);
  for (const size_t k : samples) {
    if (trials[k].open() && trials[k].state != study::TrialState::kPaused) return std::nullopt;
    if (!Done(trials[k])) continue;
    found.push_back(k);
    if (found.size() == wanted) return found;
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
  // By stage: the first ask that carries its record, and the record.
  std::vector<std::pair<uint64_t, std::string>> records;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : history.trials()) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingACarry));
    states_.push_back(trial.ask_index ? ParseState(trial.designer_state) : HarmonicaState());
    for (const auto& [stage, text] : states_.back().records) {
      const auto at = static_cast<size_t>(stage);
      if (stage < 0 || stage >= plan_.stages) continue;
      if (records.size() <= at) records.resize(at + 1, {UINT64_MAX, ""});
      if (*trial.ask_index < records[at].first) records[at] = {*trial.ask_index, text};
    }
  }
  for (const auto& [ask, text] : records) {
    std::optional<HarmonicaStage> stage = ParseStage(text);
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
