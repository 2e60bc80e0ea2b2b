#include "lib/search/legacy_state.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "lib/base/checkpoint.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/cma_es/cma_es_designer.h"
#include "lib/search/designer_state.h"
#include "lib/search/harmonica/stages.h"
#include "lib/search/hoag/hoag_designer.h"

// The texts:
//   bo         parts with '|' between them, the last ones left out while they are empty
//     head         kind and index; then, once slopes were checked, the count of results and the reporters set aside
//     local        climb, climb, which was last, solved sites; with ',' between them
//     surrogate    observations, searches, choice, hyperparameters; ';' and each other choice; '@' and the chain
//     feasibility  trials, hyperparameters
//     box          its first trial
//     basins       as struct BasinsState; ';' and the rows and hyperparameters of the model of other basins
//   harmonica  "s STAGE INDEX" or "b INDEX SELECTION…"; a line "stage NUMBER RECORD" each; a line "--" and the base's
//   text hoag       "hoag CHAIN NUMBER" cma_es     GENERATION
namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();

// Reads the words of a text one after the other, and remembers the first failure.
class Words {
 public:
  explicit Words(absl::string_view text) : words_(absl::StrSplit(text, ' ', absl::SkipEmpty())) {}

  absl::string_view Next() {
    if (left() > 0) return words_[at_++];
    ok_ = false;
    return "";
  }
  int64_t Integer(int64_t low, int64_t high) {
    int64_t value = low;
    if (absl::SimpleAtoi(Next(), &value) && value >= low && value <= high) return value;
    ok_ = false;
    return low;
  }
  // Reads a decimal or hexadecimal number, for which SimpleAtod would not do. Our programs never leave the C locale.
  double Number() { return ToNumber(std::string(Next())); }
  // Reads all that are left.
  std::vector<double> Numbers() {
    std::vector<double> numbers;
    while (left() > 0 && ok_) numbers.push_back(Number());
    return numbers;
  }
  // Reads hyperparameters, of which all words that are left must be: four numbers, lengthscales, and 'g' with the noise
  // of slopes where there is some.
  gp::Hyperparameters Theta() {
    gp::Hyperparameters theta;
    if (left() > 0 && words_.back()[0] == 'g') {
      theta.slope_noise_variance = ToNumber(std::string(words_.back().substr(1)));
      words_.pop_back();
    }
    theta.signal_variance = Number();
    theta.noise_variance = Number();
    theta.mean = Number();
    theta.shape_parameter = Number();
    const std::vector<double> lengthscales = Numbers();
    theta.lengthscales = Eigen::Map<const VectorXd>(lengthscales.data(), static_cast<Index>(lengthscales.size()));
    return theta;
  }
  size_t left() const { return words_.size() - at_; }
  bool ok() const { return ok_; }
  bool AtEnd() const { return ok_ && left() == 0; }

 private:
  double ToNumber(const std::string& word) {
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (word.empty() || *end != '\0') ok_ = false;
    return value;
  }

  std::vector<absl::string_view> words_;
  size_t at_ = 0;
  bool ok_ = true;
};

std::optional<Climb> ReadClimb(absl::string_view text) {
  Words words(text);
  Climb climb;
  climb.site = words.Integer(0, kMost);
  const std::vector<double> numbers = words.Numbers();
  if (!words.ok()) return std::nullopt;
  if (numbers.empty()) return climb;
  const Index dim = (static_cast<Index>(numbers.size()) - 5) / 3;
  if (numbers.size() < 5 || static_cast<Index>(numbers.size()) != 5 + 3 * dim) return std::nullopt;
  TrustRegionState& state = climb.state;
  state.radius = numbers[0];
  state.anchor = numbers[1];
  state.predicted_gain = numbers[2];
  state.at_boundary = numbers[3] != 0.0;
  state.slope_error = numbers[4];
  const double* at = numbers.data() + 5;
  for (VectorXd* vector : {&state.centre, &state.step, &state.lengths}) {
    *vector = Eigen::Map<const VectorXd>(at, dim);
    at += dim;
  }
  return climb;
}

std::optional<LocalSearchState> ReadLocal(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ',');
  if (parts.size() != 4) return std::nullopt;
  const std::optional<Climb> incumbent = ReadClimb(parts[0]), other = ReadClimb(parts[1]);
  if (!incumbent.has_value() || !other.has_value()) return std::nullopt;
  LocalSearchState state{*incumbent, *other, parts[2] == "1", {}};
  Words solved(parts[3]);
  while (solved.left() > 0 && solved.ok()) state.solved.push_back(solved.Integer(1, kMost));
  return solved.ok() ? std::optional<LocalSearchState>(std::move(state)) : std::nullopt;
}

std::optional<SurrogateState> ReadSurrogate(absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits('@', 1));
  const std::vector<absl::string_view> parts = absl::StrSplit(ends[0], ';');
  constexpr int kInt = std::numeric_limits<int>::max();
  SurrogateState state;
  Words used(parts[0]);
  state.observations = used.Integer(0, kMost);
  state.searches = static_cast<int>(used.Integer(0, kInt));
  state.choice = static_cast<int>(used.Integer(0, kInt));
  state.theta = used.Theta();
  bool ok = used.AtEnd();
  for (size_t k = 1; k < parts.size() && ok; ++k) {
    Words other(parts[k]);
    SurrogateState::Start start;
    start.choice = static_cast<int>(other.Integer(0, kInt));
    start.margin = other.Number();
    start.theta = other.Theta();
    state.others.push_back(std::move(start));
    ok = other.AtEnd();
  }
  if (ends.size() == 2 && ok) {
    Words chain(ends[1]);
    const std::vector<double> numbers = chain.Numbers();
    state.chain = Eigen::Map<const VectorXd>(numbers.data(), static_cast<Index>(numbers.size()));
    ok = chain.AtEnd() && !numbers.empty();
  }
  return ok ? std::optional<SurrogateState>(std::move(state)) : std::nullopt;
}

std::optional<FeasibilityState> ReadFeasibility(absl::string_view text) {
  Words words(text);
  FeasibilityState state;
  state.trials = words.Integer(1, kMost);
  state.theta = words.Theta();
  return words.AtEnd() ? std::optional<FeasibilityState>(std::move(state)) : std::nullopt;
}

BasinsState ReadBasins(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ';');
  Words words(parts[0]);
  BasinsState state;
  state.away = words.Integer(0, 1) == 1;
  state.log_ei = words.Number();
  state.turns = static_cast<int>(words.Integer(0, std::numeric_limits<int>::max()));
  state.best_other = words.Integer(0, kMost);
  while (words.left() > 0 && words.ok()) state.maxima.push_back(words.Integer(1, kMost));
  if (!words.ok() || state.maxima.empty() || (parts.size() != 1 && parts.size() != 3)) return {};
  if (parts.size() == 1) return state;
  Words rows(parts[1]), theta(parts[2]);
  state.rows = rows.Integer(1, kMost);
  state.theta = theta.Theta();
  return rows.AtEnd() && theta.AtEnd() ? state : BasinsState();
}

std::string ReadBo(absl::string_view text) {
  const std::vector<absl::string_view> parts = absl::StrSplit(text, absl::MaxSplits('|', 5));
  if (parts.size() < 3 || parts[0].empty()) return "";
  Words head(parts[0].substr(1));
  BoState state;
  state.kind = static_cast<AskKind>(text[0]);
  state.index = head.Integer(0, kExplorations - 1);
  if (head.left() > 0) state.checked = head.Integer(1, kMost);
  while (head.left() > 0 && head.ok()) {
    state.set_aside.push_back(static_cast<int32_t>(head.Integer(INT32_MIN, INT32_MAX)));
  }
  if (!head.ok() || !std::is_sorted(state.set_aside.begin(), state.set_aside.end())) return "";
  state.local = ReadLocal(parts[1]);
  state.surrogate = ReadSurrogate(parts[2]);
  if (parts.size() > 3) state.feasibility = ReadFeasibility(parts[3]);
  if (parts.size() > 4 && !parts[4].empty()) state.box = Words(parts[4]).Integer(0, kMost);
  if (parts.size() > 5) state.basins = ReadBasins(parts[5]);
  return FormatBoState(std::move(state));
}

std::optional<HarmonicaStage> ReadStage(Words* words) {
  const auto integer = [words](int64_t high) { return static_cast<int32_t>(words->Integer(0, high)); };
  HarmonicaStage stage;
  stage.believed = words->Integer(0, 1) == 1;
  stage.results = integer(INT32_MAX);
  stage.failed = integer(INT32_MAX);
  stage.dropped = integer(INT32_MAX);
  for (double* number : {&stage.variance, &stage.r2, &stage.cv_r2, &stage.factor, &stage.polynomial.intercept}) {
    *number = words->Number();
  }
  for (int64_t terms = words->Integer(0, 64); terms > 0 && words->ok(); --terms) {
    spectral::Term& term = stage.polynomial.terms.emplace_back();
    term.weight = words->Number();
    for (int64_t size = words->Integer(1, spectral::kMaxDegree); size > 0; --size) {
      term.bits.push_back(integer(kMostHarmonicaBits - 1));
    }
  }
  for (int64_t count = words->Integer(0, 64); count > 0 && words->ok(); --count) {
    const auto code = static_cast<uint32_t>(words->Integer(0, UINT32_MAX));
    stage.restrictions.push_back({code, words->Number()});
  }
  return words->AtEnd() ? std::optional<HarmonicaStage>(std::move(stage)) : std::nullopt;
}

std::string ReadHarmonica(absl::string_view text) {
  const std::vector<absl::string_view> ends = absl::StrSplit(text, absl::MaxSplits("\n--\n", 1));
  const std::vector<absl::string_view> lines = absl::StrSplit(ends[0], '\n');
  HarmonicaState state;
  Words head(lines[0].substr(2));
  state.kind = text[0];
  if (state.kind == 's') state.stage = static_cast<int>(head.Integer(0, 100));
  state.index = head.Integer(0, kMost);
  while (state.kind == 'b' && head.left() > 0 && head.ok()) {
    state.selection.push_back(static_cast<int>(head.Integer(0, 1000)));
  }
  if (!head.AtEnd()) return "";
  for (size_t k = 1; k < lines.size(); ++k) {
    Words words(lines[k]);
    if (words.Next() != "stage") return "";
    const int number = static_cast<int>(words.Integer(0, 100));
    std::optional<HarmonicaStage> stage = ReadStage(&words);
    if (!stage.has_value()) return "";
    state.records.push_back({number, *std::move(stage)});
  }
  if (ends.size() == 2) state.base = CurrentState(ends[1]);
  return EncodeState(kHarmonicaStateKind, state);
}

std::string ReadHoag(absl::string_view text) {
  Words words(text);
  HoagState state;
  state.chain = static_cast<int>(words.Integer(0, std::numeric_limits<int>::max()));
  state.evaluation = static_cast<int>(words.Integer(1, std::numeric_limits<int>::max()));
  return words.AtEnd() ? EncodeState(kHoagStateKind, state) : "";
}

bool IsCheckpoint(absl::string_view bytes) {
  return !absl::IsDataLoss(base::CheckpointReader::Open(bytes, "").status());
}

}  // namespace

std::string CurrentState(absl::string_view stored) {
  if (stored.empty() || IsCheckpoint(stored)) return std::string(stored);
  if (absl::ConsumePrefix(&stored, "hoag ")) return ReadHoag(stored);
  if (absl::StartsWith(stored, "s ") || absl::StartsWith(stored, "b ")) return ReadHarmonica(stored);
  CmaEsState generation;
  if (absl::SimpleAtoi(stored, &generation.generation)) return EncodeState(kCmaEsStateKind, generation);
  return ReadBo(stored);
}

}  // namespace luthier::search
