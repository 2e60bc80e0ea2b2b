#include "server/coordinator/proposals/timeline.h"

#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/search/legacy_state.h"
#include "lib/study/metrics.h"
#include "lib/study/spec_change.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {
namespace {

using Kind = HistoryUpdate::Kind;
using storage::EventType;

constexpr int kTimelinePage = 1000;

// The updates of a study by seq, while they are gathered from its rows and its log.
struct Gathered {
  std::map<uint64_t, HistoryUpdate> updates;
  std::map<std::pair<int64_t, uint64_t>, int64_t> promotions;  // From the rows: trial and ask -> target step.
  int64_t trials = 0;
};

absl::Status Damaged(const storage::Event& event) {
  return storage::Damaged(event.study,
                          absl::StrCat("event ", event.seq, " of study ", event.study_id, " (trial ", event.trial, ", ",
                                       event.detail, "; it may not fit the trial's row)"));
}

// Gathers the creation and the end of a trial, if they are not after `until`.
void GatherRow(const storage::TrialRecord& record, storage::StudyKey study, const study::StudySpec& spec,
               uint64_t until, Gathered* gathered) {
  if (record.create_seq > until) return;
  gathered->trials = record.trial.number;
  HistoryUpdate update;
  update.study = study;
  update.trial = ToHistoryTrial(record.trial, spec);
  if (record.finish_seq != 0 && record.finish_seq <= until) {
    update.seq = record.finish_seq;
    update.kind = Kind::kFinished;
    update.worker = study::ReporterOf(record.trial);
    gathered->updates[update.seq] = update;
    update.worker.clear();
  }
  if (record.removed_seq != 0 && record.removed_seq <= until) {
    HistoryUpdate removed;
    removed.study = study;
    removed.seq = record.removed_seq;
    removed.kind = Kind::kRemoved;
    removed.trial.number = record.trial.number;
    gathered->updates[removed.seq] = std::move(removed);
  }
  update.seq = record.create_seq;
  update.kind = Kind::kStored;
  update.trial.parameters = study::SuggestedParameters(record.trial);
  update.trial.state = study::TrialState::kPending;
  update.trial.ClearResult();
  gathered->updates[update.seq] = std::move(update);
  for (const study::Provenance& promotion : record.trial.promotions) {
    if (promotion.ask_index) {
      gathered->promotions[{record.trial.number, *promotion.ask_index}] = promotion.resource;
    }
  }
}

// Gathers a point, a pause or a promotion; other events add nothing to the rows.
absl::Status GatherEvent(const storage::Event& event, Gathered* gathered) {
  HistoryUpdate update;
  update.study = event.study;
  update.seq = event.seq;
  update.trial.number = event.trial;
  // The log outlives a study.
  if (event.trial > gathered->trials) {
    return absl::NotFoundError(absl::StrCat("study ", event.study_id, " was deleted"));
  }
  if (event.type == EventType::kMeasurement) {
    if (!event.step) return Damaged(event);
    if (!event.value) return absl::OkStatus();  // The point has other metrics only.
    update.kind = Kind::kReported;
    update.point = {*event.step, *event.value, event.values};
  } else if (event.type == EventType::kTrialPaused) {
    update.kind = Kind::kPaused;
  } else if (event.type == EventType::kTrialPromoted) {
    if (!event.ask_index) return Damaged(event);
    const auto promotion = gathered->promotions.find({event.trial, *event.ask_index});
    if (promotion == gathered->promotions.end()) return Damaged(event);
    update.kind = Kind::kPromoted;
    update.ask_index = *event.ask_index;
    update.resource = promotion->second;
  } else {
    return absl::OkStatus();
  }
  gathered->updates[update.seq] = std::move(update);
  return absl::OkStatus();
}

// Checks that each update finds its trial in the state that it needs. If not, rows are missing or do not belong
// together, and study::History would fail on them.
absl::Status CheckOrder(storage::StudyKey study, const std::map<uint64_t, HistoryUpdate>& updates) {
  struct Seen {
    bool final = false;
    bool paused = false;
    int64_t resource = 0;
  };
  std::vector<Seen> trials;
  for (const auto& [seq, update] : updates) {
    const int64_t number = update.trial.number;
    const auto stored = static_cast<int64_t>(trials.size());
    bool fits = number >= 1 && number <= stored;
    if (update.kind == Kind::kStored) {
      fits = number == stored + 1;
      if (fits) trials.push_back({false, false, update.trial.resource});
    } else if (fits) {
      Seen& trial = trials[static_cast<size_t>(number - 1)];
      fits = trial.final == (update.kind == Kind::kRemoved);
      if (update.kind == Kind::kFinished) {
        fits = fits && study::IsFinal(update.trial.state);
        trial.final = true;
      }
      if (update.kind == Kind::kPromoted) {
        fits = fits && trial.paused && update.resource > trial.resource;
        trial.resource = update.resource;
      }
      if (update.kind == Kind::kPaused || update.kind == Kind::kPromoted) trial.paused = update.kind == Kind::kPaused;
    }
    if (!fits) {
      return storage::Damaged(study, absl::StrCat("its history, in which event ", seq, " does not fit trial ", number,
                                                  " as it was then (others are missing),"));
    }
  }
  return absl::OkStatus();
}

absl::Status GatherEvents(storage::Storage* storage, storage::StudyKey study, uint64_t until, Gathered* gathered) {
  for (uint64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::Event> page, storage->ListEvents(study, after, kTimelinePage));
    for (const storage::Event& event : page) {
      after = event.seq;
      if (after > until) return absl::OkStatus();
      LUTHIER_RETURN_IF_ERROR(GatherEvent(event, gathered));
    }
    if (page.size() < kTimelinePage) return absl::OkStatus();
  }
}

}  // namespace

void Apply(const HistoryUpdate& update, study::History* history) {
  const study::HistoryTrial& trial = update.trial;
  switch (update.kind) {
    case Kind::kStored:
      return history->AddStored(trial);
    case Kind::kFinished:
      if (trial.parameters != history->trials()[static_cast<size_t>(trial.number - 1)].parameters) {
        history->Change(trial.number, trial.parameters);
      }
      history->Finish(trial.number, trial.state, trial.value, trial.gradient, trial.failure, update.worker, trial.step);
      return history->NoteMetrics(trial.number, trial);
    case Kind::kReported:
      return history->Report(trial.number, update.point);
    case Kind::kPaused:
      return history->Pause(trial.number);
    case Kind::kPromoted:
      return history->Resume(update.ask_index, trial.number, update.resource);
    case Kind::kRemoved:
      return history->Remove(trial.number);
  }
}

study::HistoryTrial ToHistoryTrial(const study::Trial& trial, const study::StudySpec& spec) {
  study::HistoryTrial out;
  out.number = trial.number;
  out.ask_index = trial.provenance.ask_index;
  out.parameters = trial.parameters;
  out.state = trial.state;
  out.designer_state = search::CurrentState(trial.provenance.designer_state);
  out.resource = trial.provenance.resource;
  if (trial.failure) out.failure = trial.failure->kind;
  if (trial.final_measurement && study::IsFinal(trial.state)) {
    const auto value = trial.final_measurement->metrics.find(spec.metric.name);
    if (value != trial.final_measurement->metrics.end() && std::isfinite(value->second)) out.value = value->second;
    const auto error = trial.final_measurement->standard_errors.find(spec.metric.name);
    if (out.value && error != trial.final_measurement->standard_errors.end()) out.standard_error = error->second;
    out.gradient = trial.final_measurement->gradient;
    out.step = trial.final_measurement->step;
    study::FillMetrics(spec, *trial.final_measurement, &out);
  }
  return out;
}

bool NeedsCurves(const study::StudySpec& spec) {
  return spec.resource.has_value() || spec.stopping.has_value();
}

absl::StatusOr<std::vector<HistoryUpdate>> ReadTimeline(storage::Storage* storage, storage::StudyKey study,
                                                        const study::StudySpec& spec, uint64_t until) {
  Gathered gathered;
  for (int64_t after = 0;;) {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::TrialRecord> page,
                             storage->ListTrials(study, {}, after, kTimelinePage));
    for (const storage::TrialRecord& record : page) {
      after = record.trial.number;
      GatherRow(record, study, spec, until, &gathered);
    }
    if (page.size() < kTimelinePage) break;
  }
  if (NeedsCurves(spec)) LUTHIER_RETURN_IF_ERROR(GatherEvents(storage, study, until, &gathered));
  // A study that was deleted after `until` has its events still, but no rows, or some of them.
  constexpr uint64_t kEnd = std::numeric_limits<int64_t>::max();
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::Event> newest, storage->ListEventsBefore(study, kEnd, 1));
  if (!newest.empty() && newest.back().type == storage::EventType::kStudyDeleted) {
    return absl::NotFoundError("the study was deleted while its history was read");
  }
  LUTHIER_RETURN_IF_ERROR(CheckOrder(study, gathered.updates));
  std::vector<HistoryUpdate> updates;
  updates.reserve(gathered.updates.size());
  for (auto& [seq, update] : gathered.updates) updates.push_back(std::move(update));
  return updates;
}

absl::StatusOr<SpecHistory> SpecHistory::Read(storage::Storage* storage, const storage::StudyRecord& study) {
  SpecHistory history;
  history.newest_ = study.spec;
  LUTHIER_ASSIGN_OR_RETURN(history.former_, storage->ListFormerSpecs(study.key));
  return history;
}

study::StudySpec SpecHistory::At(uint64_t seq) const {
  study::StudySpec spec = newest_;
  for (auto it = former_.rbegin(); it != former_.rend() && it->until_seq > seq; ++it) {
    if (it->spec) {
      spec = *it->spec;
    } else if (it->back) {
      absl::StatusOr<study::StudySpec> back = study::ChangeSpec(spec, *it->back);
      if (back.ok()) spec = *std::move(back);
    }
    spec.budget.max_trials = it->max_trials;
  }
  return spec;
}

size_t SpecHistory::Changes(uint64_t seq) const {
  size_t changes = former_.size();
  while (changes > 0 && former_[changes - 1].until_seq > seq) --changes;
  return changes;
}

absl::StatusOr<study::History> HistoryAt(storage::Storage* storage, storage::StudyKey study,
                                         const study::StudySpec& spec, uint64_t until) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<HistoryUpdate> updates, ReadTimeline(storage, study, spec, until));
  study::History history;
  for (const HistoryUpdate& update : updates) Apply(update, &history);
  return history;
}

}  // namespace luthier::coordinator
