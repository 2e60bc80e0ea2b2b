#include "lib/study/history.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "lib/base/check.h"

namespace luthier::study {

void HistoryTrial::ClearResult() {
  value.reset();
  standard_error.reset();
  values.clear();
  standard_errors.clear();
  feasible = true;
  step = 0;
  gradient.reset();
  gradients.clear();
  failure.reset();
}

const HistoryTrial* History::LastAskBefore(uint64_t ask_index) const {
  const HistoryTrial* last = nullptr;
  for (const HistoryTrial& trial : trials_) {
    if (trial.ask_index && *trial.ask_index < ask_index && (!last || *trial.ask_index > *last->ask_index))
      last = &trial;
  }
  return last;
}

void History::AddStored(HistoryTrial trial) {
  LUTHIER_CHECK(trial.number == stored_ + 1);
  if (trial.ask_index) {
    const auto same_ask = [&](const HistoryTrial& t) { return t.number == 0 && t.ask_index == trial.ask_index; };
    trials_.erase(std::remove_if(trials_.begin() + stored_, trials_.end(), same_ask), trials_.end());
  }
  trial.setting = HashOf(trial.parameters);
  trials_.insert(trials_.begin() + stored_, std::move(trial));
  ++stored_;
}

void History::AddSuggested(uint64_t ask_index, Parameters parameters, std::string designer_state, int64_t resource) {
  HistoryTrial trial;
  trial.ask_index = ask_index;
  trial.parameters = std::move(parameters);
  trial.setting = HashOf(trial.parameters);
  trial.designer_state = std::move(designer_state);
  trial.resource = resource;
  auto place = trials_.begin() + stored_;
  while (place != trials_.end() && *place->ask_index < ask_index) ++place;
  trials_.insert(place, std::move(trial));
}

void History::Finish(int64_t number, TrialState state, std::optional<double> value, std::optional<Gradient> gradient,
                     std::optional<FailureKind> failure, const std::string& worker, int64_t step) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  LUTHIER_CHECK(IsFinal(state));
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(trial.open());
  trial.state = state;
  trial.value = value;
  trial.step = step;
  trial.gradient = std::move(gradient);
  trial.failure = failure;
  if (!worker.empty()) {
    trial.reporter = reporters_.try_emplace(worker, static_cast<int32_t>(reporters_.size())).first->second;
  }
  finished_.push_back(static_cast<int>(number - 1));
  Settle(number);
}

void History::NoteMetrics(int64_t number, const HistoryTrial& result) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(!trial.open());
  trial.standard_error = result.standard_error;
  trial.values = result.values;
  trial.standard_errors = result.standard_errors;
  trial.feasible = result.feasible;
  trial.gradients = result.gradients;
}

void History::Change(int64_t number, Parameters parameters) {
  LUTHIER_CHECK(number >= 1 && number <= stored_ && trials_[number - 1].open());
  trials_[number - 1].parameters = std::move(parameters);
  trials_[number - 1].setting = HashOf(trials_[number - 1].parameters);
}

void History::ExtendGradients(size_t dimensions) {
  const auto extend = [dimensions](std::optional<Gradient>& gradient) {
    if (!gradient) return;
    std::vector<double>& entries = gradient->full() ? gradient->values : gradient->direction;
    if (entries.size() < dimensions) entries.resize(dimensions, 0.0);
  };
  for (HistoryTrial& trial : trials_) {
    extend(trial.gradient);
    for (std::optional<Gradient>& gradient : trial.gradients) extend(gradient);
  }
}

void History::Remove(int64_t number) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(!trial.open());
  trial.state = TrialState::kCancelled;
  trial.ClearResult();
  trial.points.clear();
}

void History::Settle(int64_t number) {
  const auto index = static_cast<size_t>(number - 1);
  if (has_settled_.size() <= index) has_settled_.resize(index + 1, false);
  if (has_settled_[index]) return;
  has_settled_[index] = true;
  settled_.push_back(static_cast<int>(index));
}

void History::Report(int64_t number, CurvePoint point) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(trial.open());
  auto place = trial.points.end();
  while (place != trial.points.begin() && std::prev(place)->step >= point.step) --place;
  if (place != trial.points.end() && place->step == point.step)
    *place = std::move(point);
  else
    trial.points.insert(place, std::move(point));
}

void History::Pause(int64_t number) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(trial.open());
  trial.state = TrialState::kPaused;
  Settle(number);
}

void History::AddSuggestedResume(uint64_t ask_index, int64_t number, int64_t resource) {
  LUTHIER_CHECK(number >= 1 && number <= stored_);
  HistoryTrial& trial = trials_[number - 1];
  LUTHIER_CHECK(trial.state == TrialState::kPaused && resource > trial.resource);
  trial.state = TrialState::kPending;
  trial.resource = resource;
  resume_asks_.insert(ask_index);
}

void History::Resume(uint64_t ask_index, int64_t number, int64_t resource) {
  if (resume_asks_.count(ask_index) == 0) return AddSuggestedResume(ask_index, number, resource);
  LUTHIER_CHECK(number >= 1 && number <= stored_ && trials_[number - 1].resource == resource);
}

std::optional<History> History::ReproducibleView(int64_t parallel) const {
  const int64_t visible = static_cast<int64_t>(trials_.size()) - parallel + 1;
  History view = *this;
  view.finished_.clear();
  view.settled_.clear();
  view.has_settled_.clear();
  view.reporters_.clear();
  for (size_t i = 0; i < view.trials_.size(); ++i) {
    HistoryTrial& trial = view.trials_[i];
    trial.reporter = 0;
    if (static_cast<int64_t>(i) < visible) {
      if (trial.open()) return std::nullopt;
      view.finished_.push_back(static_cast<int>(i));
      view.Settle(static_cast<int64_t>(i) + 1);
    } else {
      trial.state = TrialState::kPending;
      trial.ClearResult();
    }
  }
  return view;
}

}  // namespace luthier::study
