#include "tests/testing/storage_model.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "absl/strings/str_cat.h"
#include "tests/testing/storage_records.h"

namespace luthier::testing {
namespace {

using storage::StudyKey;

constexpr uint64_t kStudies = 4;
constexpr uint64_t kTrials = 6;
constexpr int kPage = 3;  // Small, so that paging is exercised.

std::string Compare(const std::string& what, const std::string& wanted, const std::string& got) {
  return wanted == got ? "" : absl::StrCat(what, "\n  wanted ", wanted, "\n  got    ", got, "\n");
}

template <typename T>
std::string Outcome(const absl::StatusOr<T>& result) {
  return result.ok() ? Text(*result) : absl::StrCat("error ", absl::StatusCodeToString(result.status().code()));
}

std::string Number(const absl::StatusOr<uint64_t>& result) {
  return result.ok() ? absl::StrCat(*result) : result.status().ToString();
}

bool IsOpen(const storage::TrialRecord& record) {
  return record.trial.state == study::TrialState::kPending || record.trial.state == study::TrialState::kRunning ||
         record.trial.state == study::TrialState::kPaused;
}

// Reads all pages of `read(after)`, where key(item) is the next `after`.
template <typename Read, typename After, typename Key>
auto AllPages(Read read, After after, Key key) {
  decltype(read(after)) all = read(after);
  auto page = all;
  while (page.ok() && page->size() == kPage) {
    page = read(key(page->back()));
    if (page.ok()) all->insert(all->end(), page->begin(), page->end());
  }
  return all;
}

}  // namespace

bool StorageModel::Apply(const storage::Mutation& mutation, StudyKey keys_before, State& s) {
  if (const auto* put = std::get_if<storage::PutStudy>(&mutation)) {
    const storage::StudyRecord& r = put->record;
    for (const auto& [key, other] : s.studies) {
      if (other.id == r.id && key != r.key && !other.deletion) return false;
    }
    if (s.studies.count(r.key) != 0 && s.studies[r.key].deletion) return false;
    if (s.studies.count(r.key) == 0 && r.key <= keys_before) return false;
    if (s.studies.count(r.key) != 0 && s.studies[r.key].id != r.id) return false;
    s.studies[r.key] = r;
    s.last_key = std::max(s.last_key, r.key);
  } else if (const auto* hiding = std::get_if<storage::HideStudy>(&mutation)) {
    const auto found = s.studies.find(hiding->key);
    if (found == s.studies.end() || found->second.deletion) return false;
    found->second.deletion = hiding->deletion;
  } else if (const auto* unhiding = std::get_if<storage::UnhideStudy>(&mutation)) {
    const auto found = s.studies.find(unhiding->key);
    if (found == s.studies.end() || !found->second.deletion) return false;
    for (const auto& [key, other] : s.studies) {
      if (other.id == unhiding->id && !other.deletion) return false;
    }
    found->second.deletion.reset();
    found->second.id = unhiding->id;
  } else if (const auto* deletion = std::get_if<storage::DeleteStudy>(&mutation)) {
    s.studies.erase(deletion->key);
    std::erase_if(s.trials, [&](const auto& entry) { return entry.first.first == deletion->key; });
    std::erase_if(s.points, [&](const auto& entry) { return std::get<0>(entry.first) == deletion->key; });
    s.former_specs.erase(deletion->key);
    s.last_key = std::max(s.last_key, deletion->key);
  } else if (const auto* former = std::get_if<storage::PutFormerSpec>(&mutation)) {
    if (s.studies.count(former->study) == 0) return false;
    s.former_specs[former->study].push_back(former->former);
  } else if (const auto* trial = std::get_if<storage::PutTrial>(&mutation)) {
    if (s.studies.count(trial->study) == 0 || s.studies[trial->study].deletion) return false;
    const TrialKey key(trial->study, trial->record.trial.number);
    const auto found = s.trials.find(key);
    if (found != s.trials.end() && !IsOpen(found->second) && found->second.trial.state != trial->record.trial.state) {
      return false;
    }
    s.trials[key] = trial->record;
  } else if (const auto* point = std::get_if<storage::PutMeasurement>(&mutation)) {
    const storage::MeasurementRecord& r = point->record;
    if (s.trials.count({r.study, r.trial}) == 0) return false;
    s.points[{r.study, r.trial, r.attempt, r.measurement.step}] = r.measurement;
  } else if (const auto* append = std::get_if<storage::AppendEvent>(&mutation)) {
    if (append->event.seq <= (s.events.empty() ? 0 : s.events.back().seq)) return false;
    s.events.push_back(append->event);
  } else if (const auto* request = std::get_if<storage::PutRequest>(&mutation)) {
    if (!s.requests.emplace(request->record.id, request->record).second) return false;
  } else if (const auto* forget = std::get_if<storage::ForgetRequestsBefore>(&mutation)) {
    std::erase_if(s.requests, [&](const auto& entry) { return entry.second.uptime < forget->uptime; });
  } else if (const auto* change = std::get_if<storage::ChangeRequest>(&mutation)) {
    const auto found = s.requests.find(change->record.id);
    if (found == s.requests.end()) return false;
    found->second = change->record;
  } else if (const auto* set = std::get_if<storage::SetUptime>(&mutation)) {
    if (set->uptime < s.uptime) return false;
    s.uptime = set->uptime;
  } else {
    const uint64_t fence = std::get<storage::SetFence>(mutation).fence;
    if (fence < s.fence) return false;
    s.fence = fence;
  }
  return true;
}

bool StorageModel::Commit(const storage::WriteBatch& batch) {
  State next = state_;
  for (const storage::Mutation& mutation : batch) {
    if (!Apply(mutation, state_.last_key, next)) return false;
  }
  state_ = std::move(next);
  return true;
}

storage::Storage::Summary StorageModel::Summarize(const storage::StudyRecord& study) const {
  storage::Storage::Summary summary;
  const bool maximize = study.spec.metric.goal == study::Goal::kMaximize;
  for (const auto& [key, record] : state_.trials) {
    if (key.first != study.key) continue;
    const study::Trial& trial = record.trial;
    ++(trial.deleted ? summary.deleted : summary.by_state[static_cast<size_t>(trial.state)]);
    if (!trial.deleted && trial.retried_by != 0) ++summary.retried;
    summary.resource_spent += study::ResourceSpent(record.trial);
    if (record.trial.state != study::TrialState::kComplete || !record.trial.final_measurement) continue;
    if (trial.deleted || trial.retried_by != 0) continue;
    if (const auto& training = record.trial.final_measurement->training; training.has_value()) {
      ++summary.trainings[static_cast<size_t>(training->outcome)];
    }
    const auto& metrics = record.trial.final_measurement->metrics;
    const auto value = metrics.find(study.spec.metric.name);
    if (value == metrics.end() || !std::isfinite(value->second)) continue;
    const bool better =
        !summary.best_value || (maximize ? value->second > *summary.best_value : value->second < *summary.best_value);
    if (!better) continue;
    summary.best_trial = key.second;
    summary.best_value = value->second == 0.0 ? 0.0 : value->second;  // Either zero is given as the positive one.
  }
  return summary;
}

std::string StorageModel::StudyDifference(storage::Storage& storage, StudyKey key) const {
  std::string out;
  std::map<std::string, std::vector<storage::TrialRecord>> wanted;  // By what is asked for.
  std::vector<storage::Event> events;
  const std::map<std::string, std::vector<study::TrialState>> filters = {
      {"all", {}},
      {"pending", {study::TrialState::kPending}},
      {"paused", {study::TrialState::kPaused}},
      {"open", {study::TrialState::kRunning, study::TrialState::kPending, study::TrialState::kRunning}},
      {"final",
       {study::TrialState::kComplete, study::TrialState::kPruned, study::TrialState::kFailed,
        study::TrialState::kCancelled}}};
  for (const auto& [name, states] : filters) {
    std::vector<storage::TrialRecord> kept;
    for (const auto& [trial, record] : state_.trials) {
      const bool wants = states.empty() || std::count(states.begin(), states.end(), record.trial.state) > 0;
      if (trial.first == key && wants) kept.push_back(record);
    }
    const auto got = AllPages([&](int64_t after) { return storage.ListTrials(key, {states}, after, kPage); },
                              int64_t{0}, [](const storage::TrialRecord& r) { return r.trial.number; });
    out += Compare(absl::StrCat("trials ", name, " of study ", key), Text(kept), Outcome(got));
  }
  const auto former = state_.former_specs.find(key);
  out += Compare(absl::StrCat("former specs of study ", key),
                 Text(former == state_.former_specs.end() ? std::vector<storage::FormerSpec>() : former->second),
                 Outcome(storage.ListFormerSpecs(key)));
  if (const auto study = state_.studies.find(key); study != state_.studies.end()) {
    const std::vector<study::TrialState> whole = {study::TrialState::kRunning, study::TrialState::kComplete};
    std::vector<storage::TrialSketch> sketches;
    for (const auto& [trial, record] : state_.trials) {
      if (trial.first != key) continue;
      storage::TrialSketch& sketch = sketches.emplace_back();
      sketch.number = trial.second;
      sketch.state = record.trial.state;
      sketch.finish_seq = record.finish_seq;
      sketch.asks = static_cast<int64_t>(record.trial.promotions.size());
      if (record.trial.provenance.ask_index) ++sketch.asks;
      sketch.removed = record.trial.deleted || record.trial.retried_by != 0;
      if (!sketch.removed && record.trial.state == study::TrialState::kComplete && record.trial.final_measurement) {
        const auto& metrics = record.trial.final_measurement->metrics;
        const auto value = metrics.find(study->second.spec.metric.name);
        if (value != metrics.end() && std::isfinite(value->second)) sketch.value = value->second + 0.0;
      }
      if (std::count(whole.begin(), whole.end(), record.trial.state) > 0) sketch.record = record;
    }
    const auto got = AllPages([&](int64_t after) { return storage.SketchTrials(study->second, whole, after, kPage); },
                              int64_t{0}, [](const storage::TrialSketch& sketch) { return sketch.number; });
    out += Compare(absl::StrCat("sketches of study ", key), Text(sketches), Outcome(got));
  }
  for (int64_t number = 1; number <= static_cast<int64_t>(kTrials); ++number) {
    const auto found = state_.trials.find({key, number});
    out += Compare(absl::StrCat("trial ", number, " of study ", key),
                   found == state_.trials.end() ? "error NOT_FOUND" : Text(found->second),
                   Outcome(storage.GetTrial(key, number)));
    for (int32_t attempt = 1; attempt <= 2; ++attempt) {
      std::vector<study::Measurement> points;
      for (const auto& [point, measurement] : state_.points) {
        if (std::get<0>(point) == key && std::get<1>(point) == number && std::get<2>(point) == attempt) {
          points.push_back(measurement);
        }
      }
      out += Compare(absl::StrCat("points of trial ", number, " of study ", key), Text(points),
                     Outcome(storage.ListMeasurements(key, number, attempt)));
    }
  }
  for (const storage::Event& event : state_.events) {
    if (event.study == key) events.push_back(event);
  }
  const auto got = AllPages([&](uint64_t after) { return storage.ListEvents(key, after, kPage); }, uint64_t{0},
                            [](const storage::Event& event) { return event.seq; });
  out += Compare(absl::StrCat("events of study ", key), Text(events), Outcome(got));
  std::map<int64_t, storage::SetAside> set_aside;
  for (const storage::Event& event : events) {
    if (event.type != storage::EventType::kGradientSetAside || event.trial < 1) continue;
    set_aside.emplace(event.trial, storage::SetAside{event.trial, event.actor});
  }
  std::vector<storage::SetAside> in_order;
  for (const auto& [trial, entry] : set_aside) in_order.push_back(entry);
  out += Compare(absl::StrCat("gradients set aside of study ", key), Text(in_order),
                 Outcome(AllPages([&](int64_t after) { return storage.ListSetAside(key, after, kPage); }, int64_t{0},
                                  [](const storage::SetAside& entry) { return entry.trial; })));
  return out;
}

std::string StorageModel::Difference(storage::Storage& storage) const {
  std::string out = Compare("seq", absl::StrCat(seq()), Number(storage.LastSeq()));
  out += Compare("fence", absl::StrCat(state_.fence), Number(storage.LastFence()));
  const absl::StatusOr<absl::Duration> uptime = storage.LastUptime();
  out += Compare("uptime", absl::FormatDuration(state_.uptime), uptime.ok() ? absl::FormatDuration(*uptime) : "error");
  const absl::StatusOr<StudyKey> last_key = storage.LastStudyKey();
  out += Compare("last key", absl::StrCat(state_.last_key), last_key.ok() ? absl::StrCat(*last_key) : "error");
  std::map<std::string, storage::StudyRecord> by_id;
  std::vector<storage::StudyRecord> hidden;
  for (const auto& [key, record] : state_.studies) {
    if (record.deletion) {
      hidden.push_back(record);
    } else {
      by_id[record.id] = record;
    }
  }
  out += Compare("hidden studies", Text(hidden),
                 Outcome(AllPages([&](StudyKey after) { return storage.ListDeleted(after, kPage); }, StudyKey{0},
                                  [](const storage::StudyRecord& r) { return r.key; })));
  std::vector<storage::StudyRecord> studies;
  for (const auto& [id, record] : by_id) {
    studies.push_back(record);
    const absl::StatusOr<storage::StudyRecord> got = storage.GetStudy(id);
    out += Compare("study", Text(record), Outcome(got));
    if (got.ok() && !(got->spec == record.spec)) out += "the spec differs\n";
    out += Compare("summary of " + id, Text(Summarize(record)), Outcome(storage.Summarize(record)));
  }
  out += Compare("studies", Text(studies),
                 Outcome(AllPages([&](const std::string& after) { return storage.ListStudies(after, kPage); },
                                  std::string(), [](const storage::StudyRecord& r) { return r.id; })));
  for (StudyKey key = 1; key <= state_.last_key + 1; ++key) out += StudyDifference(storage, key);
  for (uint64_t i = 0; i < 10; ++i) {
    const std::string id = absl::StrCat("r", i);
    const auto found = state_.requests.find(id);
    out += Compare("request " + id, found == state_.requests.end() ? "none" : Text(found->second),
                   Outcome(storage.FindRequest(id)));
  }
  return out;
}

storage::Mutation StorageModel::RandomMutation(base::RandomStream& random, State& s) const {
  const uint64_t pick = random.UniformInt(100);
  const auto some_key = [&]() -> StudyKey {
    if (s.studies.empty() || random.UniformInt(50) == 0) return s.last_key + 1;
    return std::next(s.studies.begin(), static_cast<std::ptrdiff_t>(random.UniformInt(s.studies.size())))->first;
  };
  if (pick < 12) {
    const bool fresh = s.studies.size() < kStudies && random.UniformInt(3) != 0;
    const StudyKey key = fresh ? s.last_key + 1 : some_key();
    const auto found = s.studies.find(key);
    // Now and then an id that is taken.
    storage::StudyRecord record =
        found != s.studies.end() ? found->second
                                 : Study(key, absl::StrCat("study-", random.UniformInt(kStudies + 2)),
                                         random.UniformInt(2) == 0 ? study::Goal::kMinimize : study::Goal::kMaximize);
    record.state = static_cast<study::StudyState>(random.UniformInt(5));
    record.state_reason = RandomText(random);
    record.update_time = absl::FromUnixNanos(static_cast<int64_t>(random.NextU64() >> 2));
    record.update_seq = random.NextU64() >> 1;
    record.resume_seq = random.UniformInt(100);
    record.added_trials = static_cast<int64_t>(random.UniformInt(10));
    record.bytes = static_cast<int64_t>(random.UniformInt(1'000'000'000'000));
    record.deletion.reset();
    if (found == s.studies.end() && random.UniformInt(2) == 0) record.owner = RandomText(random);
    if (found == s.studies.end()) record.created_digest = absl::StrCat("digest ", random.UniformInt(100));
    if (random.UniformInt(4) == 0) record.spec.budget.max_trials = 1 + static_cast<int64_t>(random.UniformInt(1000));
    return storage::PutStudy{record};
  }
  if (pick < 13) return storage::DeleteStudy{some_key()};
  if (pick < 15) {
    const StudyKey key = some_key();
    const auto found = s.studies.find(key);
    const bool hidden = found != s.studies.end() && found->second.deletion.has_value();
    if (hidden && random.UniformInt(8) != 0) {
      const bool renamed = random.UniformInt(3) == 0;
      return storage::UnhideStudy{key,
                                  renamed ? absl::StrCat("study-", random.UniformInt(kStudies + 2)) : found->second.id};
    }
    return storage::HideStudy{key,
                              {absl::FromUnixNanos(static_cast<int64_t>(random.NextU64() >> 2)),
                               absl::Nanoseconds(static_cast<int64_t>(random.NextU64() >> 4))}};
  }
  if (pick < 18) {
    const StudyKey key = some_key();
    storage::FormerSpec former;
    const auto found = s.former_specs.find(key);
    former.until_seq = 1 + random.UniformInt(5) + (found == s.former_specs.end() ? 0 : found->second.back().until_seq);
    former.max_trials = static_cast<int64_t>(1 + random.UniformInt(100));
    const auto study = s.studies.find(key);
    if (study != s.studies.end() && random.UniformInt(2) == 0) former.spec = study->second.spec;
    if (random.UniformInt(2) == 0) {
      study::SpecChange& back = former.back.emplace();
      if (random.UniformInt(2) == 0) back.description = absl::StrCat("text ", random.UniformInt(5));
      if (random.UniformInt(2) == 0) back.labels = std::map<std::string, std::string>{{"a", "b"}};
      if (random.UniformInt(2) == 0) back.max_parallel = static_cast<int64_t>(random.UniformInt(5));
      if (random.UniformInt(2) == 0) back.target_value.emplace(std::nullopt);
      if (random.UniformInt(2) == 0) back.max_wall.emplace(absl::Hours(1));
      back.weight = 2.5;
      if (random.UniformInt(2) == 0) back.command = study::CommandObjective{{"true"}, {}, absl::Minutes(1), 0, {}};
    }
    return storage::PutFormerSpec{key, former};
  }
  if (pick < 50) {
    const auto number = static_cast<int64_t>(1 + random.UniformInt(kTrials));
    const auto state = static_cast<study::TrialState>(random.UniformInt(study::kTrialStateCount));
    const StudyKey key = some_key();
    // A legal state most times.
    const auto found = s.trials.find({key, number});
    const bool keep = found != s.trials.end() && !IsOpen(found->second) && random.UniformInt(10) != 0;
    return storage::PutTrial{key, RandomTrial(random, number, keep ? found->second.trial.state : state)};
  }
  if (pick < 65) {
    storage::MeasurementRecord record;
    if (!s.trials.empty() && random.UniformInt(20) != 0) {
      const auto at = static_cast<std::ptrdiff_t>(random.UniformInt(s.trials.size()));
      std::tie(record.study, record.trial) = std::next(s.trials.begin(), at)->first;
    } else {
      record.study = some_key();
      record.trial = static_cast<int64_t>(1 + random.UniformInt(kTrials));
    }
    record.attempt = static_cast<int32_t>(1 + random.UniformInt(2));
    record.measurement = RandomMeasurement(random, static_cast<int64_t>(random.UniformInt(4)));
    return storage::PutMeasurement{record};
  }
  if (pick < 85) {
    const uint64_t last = s.events.empty() ? 0 : s.events.back().seq;
    const uint64_t seq = random.UniformInt(30) == 0 ? last : last + 1 + random.UniformInt(3);
    return storage::AppendEvent{RandomEvent(random, seq, some_key())};
  }
  if (pick < 92) {
    return storage::PutRequest{
        Request(absl::StrCat("r", random.UniformInt(10)), static_cast<int64_t>(random.UniformInt(100)))};
  }
  if (pick < 95) return storage::ForgetRequestsBefore{absl::Seconds(static_cast<int64_t>(random.UniformInt(100)))};
  if (pick < 97) {
    return storage::ChangeRequest{
        Request(absl::StrCat("r", random.UniformInt(10)), static_cast<int64_t>(random.UniformInt(100)))};
  }
  if (pick < 98) {
    const absl::Duration step = absl::Nanoseconds(static_cast<int64_t>(random.UniformInt(2'000'000'000)));
    return storage::SetUptime{s.uptime + (random.UniformInt(30) == 0 ? -step : step)};
  }
  return storage::SetFence{random.UniformInt(30) == 0 ? s.fence / 2 : s.fence + random.UniformInt(3)};
}

storage::WriteBatch StorageModel::RandomBatch(base::RandomStream& random) const {
  State preview = state_;
  storage::WriteBatch batch;
  for (uint64_t i = 1 + random.UniformInt(8); i > 0; --i) {
    batch.push_back(RandomMutation(random, preview));
    Apply(batch.back(), state_.last_key, preview);
  }
  return batch;
}

}  // namespace luthier::testing
