#include "lib/search/untried.h"

#include <algorithm>
#include <utility>
#include <variant>
#include <vector>

#include "Eigen/Core"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/study/compact_column.h"

namespace luthier::search {
namespace {

constexpr int kTries = 64;                    // Number of settings near the suggestion that are tried.
constexpr int64_t kMostScanned = 10'000'000;  // Grid points that are looked at, with constraints, for an untried one.
constexpr int kDrawsEach = 8;                 // Number of tries after which one parameter more is drawn anew.

absl::Status Exhausted() {
  return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kSpaceExhausted,
                         "every setting of the search space has been tried; widen the space, or take algorithm auto or "
                         "bo with noisy: true if repeating a setting gives new information");
}

}  // namespace

bool IsFinite(const study::SearchSpace& space) {
  const auto& parameters = space.parameters();
  return std::none_of(parameters.begin(), parameters.end(), [](const study::ParameterSpec& parameter) {
    const auto* range = std::get_if<study::FloatRange>(&parameter.domain);
    return range != nullptr && range->min < range->max && !range->step;
  });
}

UntriedDesigner::UntriedDesigner(const study::StudySpec& spec, std::unique_ptr<Designer> inner)
    : seed_(spec.seed),
      in_parts_(spec.resource.has_value()),
      encoding_(spec.space, spec.constraints),
      grid_(encoding_, /*levels=*/2),
      inner_(std::move(inner)) {
  LUTHIER_CHECK(IsFinite(spec.space) && spec.space.size() > 0);
}

absl::StatusOr<Suggestion> UntriedDesigner::Suggest(const study::History& history, uint64_t ask_index,
                                                    const base::StopToken& stop) {
  absl::StatusOr<Suggestion> suggestion = inner_->Suggest(history, ask_index, stop);
  if (!in_parts_ && base::GetReason(suggestion.status()) == base::reason::kSpaceExhausted) {
    // The algorithm has exhausted the part of the space to which it restricted itself.
    base::RandomStream random(seed_, "untried/random", ask_index);
    suggestion = Suggestion();
    suggestion->origin = "random";
    suggestion->parameters = encoding_.Sample(random);
  }
  if (!suggestion.ok() || suggestion->resume) return suggestion;
  const uint64_t hash = study::HashOf(suggestion->parameters);
  const std::vector<study::HistoryTrial>& trials = history.trials();
  if (std::none_of(trials.begin(), trials.end(), [&](const auto& trial) { return trial.setting == hash; })) {
    return suggestion;
  }
  Tried tried;
  base::Pace pace(stop);
  for (const study::HistoryTrial& trial : trials) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    tried.insert(trial.setting);
  }
  LUTHIER_ASSIGN_OR_RETURN(study::Parameters setting, Untried(suggestion->parameters, tried, ask_index, stop));
  if (study::HashOf(setting) != hash) suggestion->origin = "untried";
  suggestion->parameters = std::move(setting);
  return suggestion;
}

absl::StatusOr<study::Parameters> UntriedDesigner::Untried(const study::Parameters& near, const Tried& tried,
                                                           uint64_t ask_index, const base::StopToken& stop) const {
  if (grid_.size() && static_cast<int64_t>(tried.size()) >= *grid_.size()) return Exhausted();
  base::RandomStream random(seed_, "untried", ask_index);
  base::Pace pace(stop);
  const int columns = encoding_.compact_dim();
  const int64_t cost = base::kRandomAccess * (10 + encoding_.space().size());
  const Eigen::VectorXd start = encoding_.ToCompact(near);
  const bool anywhere = study::AnyUnordered(encoding_);
  for (int i = 0; i < kTries && columns > 0; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(cost));
    study::Parameters setting;
    if (anywhere) {
      setting = encoding_.Sample(random);
    } else {
      Eigen::VectorXd u = start;
      for (int k = 0; k <= i / kDrawsEach; ++k) {
        const auto column = static_cast<int>(random.UniformInt(static_cast<uint64_t>(columns)));
        u(column) = random.Uniform();
      }
      setting = encoding_.FromCompact(u);
      if (!encoding_.IsLegal(setting)) continue;
    }
    if (tried.count(study::HashOf(setting)) == 0) return setting;
  }
  if (!grid_.size()) return near;  // There are more than 2^63 settings: most were not tried, wherever they are.
  // At most tried.size() settings in a row can have been tried, and with constraints any number can be illegal.
  const int64_t size = *grid_.size();
  const bool all_legal = encoding_.legal() == nullptr;
  const int64_t looks = all_legal ? static_cast<int64_t>(tried.size()) + 1 : std::min(size, kMostScanned);
  const auto begin = static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(size)));
  for (int64_t i = 0; i < looks; ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(cost));
    const int64_t at = begin < size - i ? begin + i : begin - (size - i);
    study::Parameters setting = grid_.Point(at);
    if (encoding_.IsLegal(setting) && tried.count(study::HashOf(setting)) == 0) return setting;
  }
  if (looks < size && !all_legal) return near;  // The rest is not looked through.
  return Exhausted();
}

absl::StatusOr<std::vector<Prediction>> UntriedDesigner::Predict(const study::History& history,
                                                                 const std::vector<study::Parameters>& settings,
                                                                 const base::StopToken& stop) {
  return inner_->Predict(history, settings, stop);
}

}  // namespace luthier::search
