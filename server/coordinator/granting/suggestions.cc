#include "server/coordinator/granting/suggestions.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "lib/search/registry.h"
#include "server/coordinator/batch/changes.h"
#include "server/coordinator/batch/find.h"
#include "server/coordinator/granting/grant.h"
#include "server/coordinator/granting/room.h"
#include "server/coordinator/proposals/late.h"
#include "server/coordinator/state/index.h"
#include "server/coordinator/trials/attempts.h"

namespace luthier::coordinator {
namespace {

using storage::EventType;

// Takes out the first ready suggestion. Returns its provenance as it is to be stored; the rest goes to `suggestion`.
study::Provenance TakeReady(StudyState& s, search::Suggestion* suggestion) {
  study::Provenance provenance;
  provenance.prefix_seq = s.ready.front().first;
  *suggestion = std::move(s.ready.front().second);
  s.ready.pop_front();
  provenance.designer = study::AlgorithmName(s.spec->algorithm);
  provenance.algorithm_version = search::VersionOf(*s.spec);
  provenance.ask_index = s.asks_stored++;
  provenance.origin = std::move(suggestion->origin);
  provenance.details = std::move(suggestion->details);
  provenance.designer_state = std::move(suggestion->designer_state);
  provenance.direction = std::move(suggestion->direction);
  provenance.tolerance = suggestion->tolerance;
  provenance.resource = suggestion->resource;
  return provenance;
}

// Returns those of the trials `numbers` that have a gradient and were not set aside before.
std::vector<int64_t> NewlySetAside(Context& c, StudyState& s, const std::vector<int64_t>& numbers) {
  std::vector<int64_t> fresh;
  for (const int64_t number : numbers) {
    if (s.set_aside.count(number) > 0) continue;
    const absl::StatusOr<TrialSlot*> slot = FindTrial(c, s, number);
    // Only a trial with a gradient can lose it. (A row that can't be read now is noted with a later suggestion.)
    if (!slot.ok() || !study::IsFinal((*slot)->state)) continue;
    const study::Trial& trial = (*slot)->record->trial;
    if (trial.final_measurement && trial.final_measurement->gradient) fresh.push_back(number);
  }
  return fresh;
}

void NoteSetAside(Context& c, StudyState& s, const std::vector<int64_t>& numbers) {
  for (const int64_t number : numbers) {
    s.set_aside.insert(number);
    const storage::TrialRecord* const record = s.trials[number - 1].record.get();  // Loaded by NewlySetAside.
    storage::Event& event = AddEvent(c, s, EventType::kGradientSetAside, record);
    event.actor = study::ReporterOf(record->trial);
    event.detail = "the gradients of this worker contradict the losses it reported; the losses are kept";
  }
}

// Returns the number of suggestions to ask of the designer now.
int64_t Missing(const StudyState& s) {
  if (Computing(s) || s.exhausted || s.blocked || !s.history.ok()) return 0;
  if (s.record.state != study::StudyState::kActive) return 0;
  return s.demand - static_cast<int64_t>(s.ready.size());
}

}  // namespace

bool CanGrantReady(const Context& c, const StudyState& s) {
  const search::Suggestion& suggestion = s.ready.front().second;
  return suggestion.resume ? s.paused.count(*suggestion.resume) > 0 : RoomForNew(c, s) > 0;
}

int64_t StoreReady(Context& c, StudyState& s) {
  search::Suggestion suggestion;
  study::Provenance provenance = TakeReady(s, &suggestion);
  if (suggestion.resume) {
    PromoteTrial(c, s, std::move(provenance), *suggestion.resume);
    return *suggestion.resume;
  }
  study::Trial trial;
  trial.parameters = std::move(suggestion.parameters);
  trial.provenance = std::move(provenance);
  const std::vector<int64_t> set_aside = NewlySetAside(c, s, suggestion.set_aside);
  trial.provenance.set_aside = set_aside;
  const int64_t number = StoreTrial(c, s, std::move(trial), EventType::kTrialSuggested);
  NoteSetAside(c, s, set_aside);
  return number;
}

void StoreLate(Context& c) {
  // At least two studies wait for suggestions as long as there are two here.
  while (c.state.computing.size() >= 2) {
    const auto [since, key] = *c.state.computing.begin();
    if (c.batch.now - since < c.options.suggest_deadline) return;
    StudyState& s = c.state.studies.at(key);
    SetComputing(c.state, s, c.batch.now);
    if (!MayBeLate(*s.spec) || s.record.state != study::StudyState::kActive) continue;
    const int64_t waited_for = s.demand - static_cast<int64_t>(s.ready.size());
    const int64_t count = std::min({waited_for, RoomForNew(c, s), RoomToRun(c, s)});
    for (int64_t i = 0; i < count; ++i) {
      study::Trial trial;
      trial.parameters = LatePoint(*s.spec, static_cast<int64_t>(s.trials.size()) + 1);
      trial.provenance.prefix_seq = s.record.update_seq;
      trial.provenance.designer = study::AlgorithmName(s.spec->algorithm);
      trial.provenance.algorithm_version = search::VersionOf(*s.spec);
      trial.provenance.origin = kLateOrigin;
      s.enqueued.insert(StoreTrial(c, s, std::move(trial), EventType::kTrialSuggested));
    }
    if (count > 0) Wake(c.state, key);
  }
}

std::vector<ProposalRequest> TakeProposalRequests(Context& c, const std::function<bool(storage::StudyKey)>& which) {
  CoreState& state = c.state;
  std::vector<ProposalRequest> requests;
  for (auto it = state.wanting.begin(); it != state.wanting.end();) {
    const storage::StudyKey key = *it;
    StudyState& s = state.studies.at(key);
    ++state.steps;
    const int64_t missing = Missing(s);
    if (missing > 0 && !which(key)) {
      ++it;
      continue;
    }
    it = state.wanting.erase(it);
    if (missing <= 0) continue;
    SetComputing(state, s, c.batch.now);
    ProposalRequest request;
    request.project = std::string(study::ProjectOf(s.record.id));
    request.study = key;
    request.generation = s.generation;
    request.prefix_seq = s.record.update_seq;
    request.first_ask_index = s.asks_stored + s.ready.size();
    request.count = static_cast<int>(std::min(missing, kMaxProposals));
    requests.push_back(request);
  }
  return requests;
}

}  // namespace luthier::coordinator
