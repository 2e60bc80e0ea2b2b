#include "server/storage/memory_storage.h"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"
#include "server/storage/rules.h"

namespace luthier::storage {
namespace {

// Returns rows of a map with keys above `after` for which `keep` is true, at most `limit`.
template <typename Map, typename Key, typename Keep>
auto Page(const Map& rows, const Key& after, int limit, Keep keep) {
  std::vector<std::decay_t<decltype(*keep(rows.begin()->second))>> page;
  for (auto it = rows.upper_bound(after); it != rows.end() && static_cast<int>(page.size()) < limit; ++it) {
    if (const auto* kept = keep(it->second)) page.push_back(*kept);
  }
  return page;
}

}  // namespace

struct MemoryStorage::Undo {
  struct Study {
    StudyKey key;
    std::optional<StudyRecord> old;
  };
  struct WholeStudy {
    StudyRows rows;
  };
  struct Hidden {
    StudyKey key;
    std::optional<Deletion> old;
    std::string id;
  };
  struct NewFormerSpec {
    StudyKey study;
  };
  struct Trial {
    StudyKey study;
    int64_t number;
    std::optional<TrialRecord> old;
  };
  struct Point {
    StudyKey study;
    PointKey key;
    std::optional<study::Measurement> old;
  };
  struct NewEvent {
    StudyKey study;
  };
  struct NewRequest {
    std::string id;
  };
  struct OldRequest {
    RequestRecord old;
  };
  std::variant<Study, WholeStudy, Hidden, NewFormerSpec, Trial, Point, NewEvent, NewRequest, OldRequest> what;
};

absl::Status MemoryStorage::Commit(const WriteBatch& batch) {
  base::MutexLock lock(&mutex_);
  const Counters before = counters_;
  std::vector<Undo> undo;
  for (const Mutation& mutation : batch) {
    absl::Status status = CheckMutation(mutation);
    if (status.ok()) {
      status = std::visit(
          [&](const auto& m) {
            mutex_.AssertHeld();
            return Apply(m, before.key, &undo);
          },
          mutation);
    }
    if (!status.ok()) {
      RollBack(std::move(undo));
      counters_ = before;
      return status;
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const PutStudy& put, StudyKey keys_before, std::vector<Undo>* undo) {
  const StudyRecord& r = put.record;
  const auto same_id = ids_.find(r.id);
  if (same_id != ids_.end() && same_id->second != r.key) {
    return Violation(absl::StrCat("another study has the id ", base::Quote(r.id)));
  }
  const auto found = studies_.find(r.key);
  if (found == studies_.end()) {
    LUTHIER_RETURN_IF_ERROR(counters_.TakeNewStudy(r.key, keys_before));
    studies_[r.key].record = r;
    ids_[r.id] = r.key;
    undo->push_back({Undo::Study{r.key, std::nullopt}});
    return absl::OkStatus();
  }
  StudyRecord& stored = found->second.record;
  if (stored.deletion) return Violation(absl::StrCat("study key ", r.key, " is hidden"));
  LUTHIER_RETURN_IF_ERROR(CheckSameStudy(stored.id, stored.spec, r));
  undo->push_back({Undo::Study{r.key, std::exchange(stored, r)}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const DeleteStudy& deletion, StudyKey, std::vector<Undo>* undo) {
  counters_.TakeDeletedStudy(deletion.key);
  auto node = studies_.extract(deletion.key);
  if (node.empty()) return absl::OkStatus();
  if (!node.mapped().record.deletion) ids_.erase(node.mapped().record.id);
  undo->push_back({Undo::WholeStudy{std::move(node.mapped())}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const HideStudy& hiding, StudyKey, std::vector<Undo>* undo) {
  const auto found = studies_.find(hiding.key);
  if (found == studies_.end() || found->second.record.deletion) {
    return NotThereToHide(hiding.key);
  }
  undo->push_back({Undo::Hidden{hiding.key, std::exchange(found->second.record.deletion, hiding.deletion),
                                found->second.record.id}});
  ids_.erase(found->second.record.id);
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const UnhideStudy& unhiding, StudyKey, std::vector<Undo>* undo) {
  const auto found = studies_.find(unhiding.key);
  if (found == studies_.end() || !found->second.record.deletion) {
    return NotHidden(unhiding.key);
  }
  StudyRecord& record = found->second.record;
  if (!ids_.try_emplace(unhiding.id, record.key).second) {
    return Violation(absl::StrCat("another study has the id ", base::Quote(unhiding.id)));
  }
  undo->push_back({Undo::Hidden{unhiding.key, std::exchange(record.deletion, std::nullopt),
                                std::exchange(record.id, unhiding.id)}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const PutFormerSpec& put, StudyKey, std::vector<Undo>* undo) {
  const auto study = studies_.find(put.study);
  if (study == studies_.end()) return Violation(absl::StrCat("a former spec of study key ", put.study));
  study->second.former_specs.push_back(put.former);
  undo->push_back({Undo::NewFormerSpec{put.study}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const PutTrial& put, StudyKey, std::vector<Undo>* undo) {
  const int64_t number = put.record.trial.number;
  const auto study = studies_.find(put.study);
  if (study == studies_.end() || study->second.record.deletion) return TrialWithoutStudy(put.study);
  const auto [trial, inserted] = study->second.trials.try_emplace(number, put.record);
  if (inserted) {
    undo->push_back({Undo::Trial{put.study, number, std::nullopt}});
    return absl::OkStatus();
  }
  const study::TrialState old_state = trial->second.trial.state;
  if (study::IsFinal(old_state) && put.record.trial.state != old_state) return FinalTrialWouldChange(number);
  undo->push_back({Undo::Trial{put.study, number, std::exchange(trial->second, put.record)}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const PutMeasurement& put, StudyKey, std::vector<Undo>* undo) {
  const MeasurementRecord& r = put.record;
  const auto study = studies_.find(r.study);
  if (study == studies_.end() || study->second.trials.count(r.trial) == 0) return MeasurementWithoutTrial(r.trial);
  const PointKey key(r.trial, r.attempt, r.measurement.step);
  const auto [point, inserted] = study->second.points.try_emplace(key, r.measurement);
  std::optional<study::Measurement> old;
  if (!inserted) old = std::exchange(point->second, r.measurement);
  undo->push_back({Undo::Point{r.study, key, std::move(old)}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const AppendEvent& append, StudyKey, std::vector<Undo>* undo) {
  const Event& event = append.event;
  LUTHIER_RETURN_IF_ERROR(counters_.TakeSeq(event.seq));
  events_[event.study].push_back(event);
  undo->push_back({Undo::NewEvent{event.study}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const PutRequest& put, StudyKey, std::vector<Undo>* undo) {
  if (!requests_.try_emplace(put.record.id, put.record).second) {
    return Violation(absl::StrCat("request id ", base::Quote(put.record.id), " is stored already"));
  }
  undo->push_back({Undo::NewRequest{put.record.id}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const ChangeRequest& change, StudyKey, std::vector<Undo>* undo) {
  const auto found = requests_.find(change.record.id);
  if (found == requests_.end()) return NoSuchRequest(change.record.id);
  undo->push_back({Undo::OldRequest{std::exchange(found->second, change.record)}});
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const ForgetRequestsBefore& forget, StudyKey, std::vector<Undo>* undo) {
  for (auto it = requests_.begin(); it != requests_.end();) {
    if (it->second.uptime < forget.uptime) {
      undo->push_back({Undo::OldRequest{std::move(it->second)}});
      it = requests_.erase(it);
    } else {
      ++it;
    }
  }
  return absl::OkStatus();
}

absl::Status MemoryStorage::Apply(const SetUptime& set, StudyKey, std::vector<Undo>*) {
  return counters_.TakeUptime(set.uptime);
}

absl::Status MemoryStorage::Apply(const SetFence& set, StudyKey, std::vector<Undo>*) {
  return counters_.TakeFence(set.fence);
}

void MemoryStorage::RollBack(std::vector<Undo> undo) {
  const auto restore = [this](auto& entry) {
    mutex_.AssertHeld();
    using Entry = std::decay_t<decltype(entry)>;
    if constexpr (std::is_same_v<Entry, Undo::Study>) {
      const auto found = studies_.find(entry.key);
      if (entry.old) {
        found->second.record = std::move(*entry.old);
      } else {
        ids_.erase(found->second.record.id);
        studies_.erase(found);
      }
    } else if constexpr (std::is_same_v<Entry, Undo::WholeStudy>) {
      const StudyKey key = entry.rows.record.key;
      if (!entry.rows.record.deletion) ids_[entry.rows.record.id] = key;
      studies_[key] = std::move(entry.rows);
    } else if constexpr (std::is_same_v<Entry, Undo::Hidden>) {
      StudyRecord& record = studies_.find(entry.key)->second.record;
      record.deletion = entry.old;
      if (entry.old) {
        ids_.erase(record.id);
      } else {
        ids_[entry.id] = entry.key;
      }
      record.id = entry.id;
    } else if constexpr (std::is_same_v<Entry, Undo::NewFormerSpec>) {
      studies_[entry.study].former_specs.pop_back();
    } else if constexpr (std::is_same_v<Entry, Undo::Trial>) {
      auto& trials = studies_[entry.study].trials;
      if (entry.old)
        trials[entry.number] = std::move(*entry.old);
      else
        trials.erase(entry.number);
    } else if constexpr (std::is_same_v<Entry, Undo::Point>) {
      auto& points = studies_[entry.study].points;
      if (entry.old)
        points[entry.key] = std::move(*entry.old);
      else
        points.erase(entry.key);
    } else if constexpr (std::is_same_v<Entry, Undo::NewEvent>) {
      const auto found = events_.find(entry.study);
      found->second.pop_back();
      if (found->second.empty()) events_.erase(found);
    } else if constexpr (std::is_same_v<Entry, Undo::NewRequest>) {
      requests_.erase(entry.id);
    } else {
      const std::string id = entry.old.id;
      requests_[id] = std::move(entry.old);
    }
  };
  for (auto it = undo.rbegin(); it != undo.rend(); ++it) std::visit(restore, it->what);
}

absl::StatusOr<uint64_t> MemoryStorage::LastSeq() {
  base::MutexLock lock(&mutex_);
  return counters_.seq;
}

absl::StatusOr<uint64_t> MemoryStorage::LastFence() {
  base::MutexLock lock(&mutex_);
  return counters_.fence;
}

absl::StatusOr<absl::Duration> MemoryStorage::LastUptime() {
  base::MutexLock lock(&mutex_);
  return counters_.uptime;
}

absl::StatusOr<StudyKey> MemoryStorage::LastStudyKey() {
  base::MutexLock lock(&mutex_);
  return counters_.key;
}

absl::StatusOr<std::vector<StudyRecord>> MemoryStorage::ListStudies(const std::string& after_id, int limit) {
  base::MutexLock lock(&mutex_);
  return Page(ids_, after_id, limit, [this](StudyKey key) -> const StudyRecord* {
    mutex_.AssertHeld();
    return &studies_.find(key)->second.record;
  });
}

absl::StatusOr<StudyRecord> MemoryStorage::GetStudy(const std::string& id) {
  base::MutexLock lock(&mutex_);
  const auto found = ids_.find(id);
  if (found == ids_.end()) return NoSuchStudy(id);
  return studies_.find(found->second)->second.record;
}

absl::StatusOr<std::vector<StudyRecord>> MemoryStorage::ListDeleted(StudyKey after, int limit) {
  base::MutexLock lock(&mutex_);
  return Page(studies_, after, limit, [](const StudyRows& rows) -> const StudyRecord* {
    return rows.record.deletion ? &rows.record : nullptr;
  });
}

absl::StatusOr<TrialRecord> MemoryStorage::GetTrial(StudyKey study, int64_t number) {
  base::MutexLock lock(&mutex_);
  const auto rows = studies_.find(study);
  if (rows == studies_.end()) return NoSuchTrial(study, number);
  const auto trial = rows->second.trials.find(number);
  if (trial == rows->second.trials.end()) return NoSuchTrial(study, number);
  return trial->second;
}

absl::StatusOr<std::vector<FormerSpec>> MemoryStorage::ListFormerSpecs(StudyKey study) {
  base::MutexLock lock(&mutex_);
  const auto rows = studies_.find(study);
  return rows == studies_.end() ? std::vector<FormerSpec>() : rows->second.former_specs;
}

absl::StatusOr<std::vector<TrialRecord>> MemoryStorage::ListTrials(StudyKey study, const TrialFilter& filter,
                                                                   int64_t after, int limit) {
  base::MutexLock lock(&mutex_);
  const auto rows = studies_.find(study);
  if (rows == studies_.end()) return std::vector<TrialRecord>();
  const auto keep = [&filter](const TrialRecord& record) {
    const auto& states = filter.states;
    const bool kept = states.empty() || std::find(states.begin(), states.end(), record.trial.state) != states.end();
    return kept ? &record : nullptr;
  };
  return Page(rows->second.trials, after, limit, keep);
}

absl::StatusOr<std::vector<TrialSketch>> MemoryStorage::SketchTrials(const StudyRecord& study,
                                                                     const std::vector<study::TrialState>& whole,
                                                                     int64_t after, int limit) {
  base::MutexLock lock(&mutex_);
  std::vector<TrialSketch> page;
  const auto rows = studies_.find(study.key);
  if (rows == studies_.end()) return page;
  const auto& trials = rows->second.trials;
  for (auto it = trials.upper_bound(after); it != trials.end() && static_cast<int>(page.size()) < limit; ++it) {
    page.push_back(SketchOf(it->second, study.spec));
    if (std::find(whole.begin(), whole.end(), it->second.trial.state) != whole.end()) page.back().record = it->second;
  }
  return page;
}

absl::StatusOr<std::vector<study::Measurement>> MemoryStorage::ListMeasurements(StudyKey study, int64_t trial,
                                                                                int32_t attempt) {
  base::MutexLock lock(&mutex_);
  std::vector<study::Measurement> out;
  const auto rows = studies_.find(study);
  if (rows == studies_.end()) return out;
  const auto& points = rows->second.points;
  const PointKey first(trial, attempt, std::numeric_limits<int64_t>::min());
  for (auto it = points.lower_bound(first); it != points.end(); ++it) {
    if (std::get<0>(it->first) != trial || std::get<1>(it->first) != attempt) break;
    out.push_back(it->second);
  }
  return out;
}

absl::StatusOr<std::vector<Event>> MemoryStorage::ListEvents(StudyKey study, uint64_t after, int limit) {
  base::MutexLock lock(&mutex_);
  const auto found = events_.find(study);
  if (found == events_.end() || limit <= 0) return std::vector<Event>();
  const std::vector<Event>& events = found->second;
  const auto first = std::upper_bound(events.begin(), events.end(), after,
                                      [](uint64_t seq, const Event& event) { return seq < event.seq; });
  return std::vector<Event>(first, first + std::min<std::ptrdiff_t>(limit, events.end() - first));
}

absl::StatusOr<std::vector<Event>> MemoryStorage::ListEventsBefore(StudyKey study, uint64_t before, int limit) {
  base::MutexLock lock(&mutex_);
  const auto found = events_.find(study);
  if (found == events_.end() || limit <= 0) return std::vector<Event>();
  const std::vector<Event>& events = found->second;
  const auto end = std::lower_bound(events.begin(), events.end(), before,
                                    [](const Event& event, uint64_t seq) { return event.seq < seq; });
  std::vector<Event> newest;
  for (auto it = end; it != events.begin() && static_cast<int>(newest.size()) < limit;) newest.push_back(*--it);
  return newest;
}

absl::StatusOr<std::vector<SetAside>> MemoryStorage::ListSetAside(StudyKey study, int64_t after, int limit) {
  base::MutexLock lock(&mutex_);
  std::map<int64_t, std::string> workers;
  const auto found = events_.find(study);
  if (found != events_.end()) {
    for (const Event& event : found->second) {
      if (event.type == EventType::kGradientSetAside && event.trial > after) workers.emplace(event.trial, event.actor);
    }
  }
  std::vector<SetAside> page;
  for (const auto& [trial, worker] : workers) {
    if (static_cast<int>(page.size()) >= limit) break;
    page.push_back({trial, worker});
  }
  return page;
}

absl::StatusOr<std::optional<RequestRecord>> MemoryStorage::FindRequest(const std::string& id) {
  base::MutexLock lock(&mutex_);
  const auto found = requests_.find(id);
  return found == requests_.end() ? std::nullopt : std::optional<RequestRecord>(found->second);
}

absl::StatusOr<Storage::Summary> MemoryStorage::Summarize(const StudyRecord& study) {
  base::MutexLock lock(&mutex_);
  Summary summary;
  const auto rows = studies_.find(study.key);
  if (rows == studies_.end()) return summary;
  const study::MetricSpec& metric = study.spec.metric;
  const bool ranked = study::ObjectiveCount(study.spec) == 1;
  for (const auto& [number, record] : rows->second.trials) {
    ++(record.trial.deleted ? summary.deleted : summary.by_state[static_cast<size_t>(record.trial.state)]);
    if (!record.trial.deleted && record.trial.retried_by != 0) ++summary.retried;
    summary.resource_spent += study::ResourceSpent(record.trial);
    if (const std::optional<study::TrainingOutcome> training = CountedTraining(record)) {
      ++summary.trainings[static_cast<size_t>(*training)];
    }
    const std::optional<double> value = RankedValue(record, study.spec);
    if (!value || !ranked) continue;
    if (!summary.best_value || Score(metric.goal, *value) > Score(metric.goal, *summary.best_value)) {
      summary.best_trial = number;
      summary.best_value = value;
    }
  }
  return summary;
}

}  // namespace luthier::storage
