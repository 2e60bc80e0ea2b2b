#ifndef LUTHIER_TESTS_CONTRACT_FAKE_STUDY_H_
#define LUTHIER_TESTS_CONTRACT_FAKE_STUDY_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lib/search/designer.h"
#include "lib/study/history.h"

// A study without a service, for tests of designers.
namespace luthier::contract {

struct Outcome {
  study::TrialState state = study::TrialState::kComplete;
  std::optional<double> value;
  std::optional<study::Gradient> gradient;
  std::optional<study::FailureKind> failure;
};

inline Outcome Complete(double value) {
  return {study::TrialState::kComplete, value, std::nullopt, std::nullopt};
}
inline Outcome Pruned(std::optional<double> value) {
  return {study::TrialState::kPruned, value, std::nullopt, std::nullopt};
}
inline Outcome Failed(study::FailureKind kind) {
  return {study::TrialState::kFailed, std::nullopt, std::nullopt, kind};
}
inline Outcome Cancelled() {
  return {study::TrialState::kCancelled, std::nullopt, std::nullopt, std::nullopt};
}

// One study as the service keeps it: a log of events, and the history that they make.
class FakeStudy {
 public:
  const study::History& history() const { return history_; }
  uint64_t asks() const { return asks_; }
  size_t events() const { return log_.size(); }
  const std::vector<int64_t>& open() const { return open_; }

  // A suggestion of ask asks(), not stored yet.
  void Suggested(const search::Suggestion& suggestion) {
    const uint64_t ask = asks_++;
    Append([=](study::History* h) {
      if (suggestion.resume)
        h->AddSuggestedResume(ask, *suggestion.resume, suggestion.resource);
      else
        h->AddSuggested(ask, suggestion.parameters, suggestion.designer_state, suggestion.resource);
    });
    waiting_.emplace_back(ask, suggestion);
  }
  // Stores waiting suggestion k; returns the number of its trial.
  int64_t Store(size_t k = 0) {
    const auto [ask, suggestion] = waiting_[k];
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(k));
    if (suggestion.resume) {
      const int64_t number = *suggestion.resume;
      Append([number, by = ask, to = suggestion.resource](study::History* h) { h->Resume(by, number, to); });
      open_.push_back(number);
      return number;
    }
    study::HistoryTrial trial;
    trial.ask_index = ask;
    trial.parameters = suggestion.parameters;
    trial.designer_state = suggestion.designer_state;
    trial.resource = suggestion.resource;
    return Add(std::move(trial));
  }
  int64_t Enqueue(study::Parameters parameters, int64_t resource = 0) {
    study::HistoryTrial trial;
    trial.resource = resource;
    trial.parameters = std::move(parameters);
    return Add(std::move(trial));
  }
  void Finish(int64_t number, const Outcome& outcome) {
    std::erase(open_, number);
    Append(
        [=](study::History* h) { h->Finish(number, outcome.state, outcome.value, outcome.gradient, outcome.failure); });
  }
  void Report(int64_t number, int64_t step, double value) {
    Append([=](study::History* h) { h->Report(number, step, value); });
  }
  void Pause(int64_t number) {
    std::erase(open_, number);
    Append([=](study::History* h) { h->Pause(number); });
  }
  // The history after the first `events` of the log, as a restarted service builds it.
  study::History Replay(size_t events) const {
    study::History history;
    for (size_t i = 0; i < events; ++i) log_[i](&history);
    return history;
  }

 private:
  using Event = std::function<void(study::History*)>;

  void Append(Event event) {
    event(&history_);
    log_.push_back(std::move(event));
  }
  int64_t Add(study::HistoryTrial trial) {
    trial.number = ++numbers_;
    open_.push_back(numbers_);
    Append([=](study::History* h) { h->AddStored(trial); });
    return numbers_;
  }

  study::History history_;
  std::vector<Event> log_;
  std::vector<std::pair<uint64_t, search::Suggestion>> waiting_;
  std::vector<int64_t> open_;
  uint64_t asks_ = 0;
  int64_t numbers_ = 0;
};

}  // namespace luthier::contract

#endif  // LUTHIER_TESTS_CONTRACT_FAKE_STUDY_H_
