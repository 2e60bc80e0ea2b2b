#include "server/coordinator/proposals/suggestion_queue.h"

#include <algorithm>

#include "lib/base/executor.h"

namespace luthier::coordinator {
namespace {

// Number of updates that are passed on even without a request.
constexpr size_t kManyUpdates = 64;
// A study for which nothing was computed yet, as after a restart, counts as light with fewer asks than this.
constexpr uint64_t kFewAsks = 10;
// Time over which the quota of a project that computes nothing adds up.
constexpr absl::Duration kBurst = absl::Minutes(1);

}  // namespace

SuggestionQueue::SuggestionQueue(storage::Storage* storage, const base::Clock* clock, Options options, Deliver deliver,
                                 Observe observe)
    : storage_(storage),
      clock_(clock),
      options_(std::move(options)),
      deliver_(std::move(deliver)),
      observe_(std::move(observe)) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(/*light_only=*/false); });
  threads_.emplace_back([this] { Loop(/*light_only=*/true); });
}

SuggestionQueue::~SuggestionQueue() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
    for (const auto& [study, line] : lines_) {
      if (line.work != nullptr) line.work->stop.RequestStop();  // Stops all computations.
    }
  }
  changed_.SignalAll();
  for (std::thread& thread : threads_) thread.join();
}

void SuggestionQueue::Request(const ProposalRequest& request, std::shared_ptr<const study::StudySpec> spec) {
  base::MutexLock lock(&mutex_);
  Line& line = lines_[request.study];
  if (line.project == nullptr) {
    line.project = &projects_[request.project];
    line.project->name = request.project;
    ++line.project->lines;
  }
  if (line.work == nullptr) line.work = std::make_shared<Work>();
  if (line.work->spec == nullptr) line.work->spec = std::move(spec);
  if (!line.light.has_value() && request.first_ask_index >= kFewAsks) line.light = false;
  line.work->tasks.emplace_back(request);
  Place(request.study, line);
}

void SuggestionQueue::Update(HistoryUpdate update) {
  base::MutexLock lock(&mutex_);
  const storage::StudyKey study = update.study;
  const auto found = lines_.find(study);
  if (found == lines_.end() || found->second.work == nullptr) return;  // It will be read from storage.
  found->second.work->tasks.emplace_back(std::move(update));
  Place(study, found->second);
}

void SuggestionQueue::Forget(storage::StudyKey study) {
  base::MutexLock lock(&mutex_);
  const auto found = lines_.find(study);
  if (found == lines_.end()) return;
  Line& line = found->second;
  if (line.work != nullptr) line.work->stop.RequestStop();
  Drop(study, line);
}

void SuggestionQueue::Drop(storage::StudyKey study, Line& line) {
  SetIdle(study, line, false);
  line.work = nullptr;
  Place(study, line);
  if (!line.busy) Erase(study);
}

void SuggestionQueue::Erase(storage::StudyKey study) {
  Project* const project = lines_.at(study).project;
  lines_.erase(study);
  if (--project->lines > 0) return;
  Leave(*project);
  projects_.erase(std::string(project->name));
}

void SuggestionQueue::Leave(Project& project) {
  light_.erase({project.time, &project});
  ready_.erase({project.time, &project});
}

void SuggestionQueue::Enter(Project& project) {
  if (!project.light.empty()) light_.emplace(project.time, &project);
  if (!project.light.empty() || !project.heavy.empty()) ready_.emplace(project.time, &project);
}

absl::Duration SuggestionQueue::MayCompute(const Project& project, absl::Duration now) {
  const double quota = options_.quotas == nullptr ? 0.0 : options_.quotas->Of(project.name).suggest_cpu;
  if (quota <= 0.0) {
    credits_.erase(project.name);  // Time used without a quota does not count against a later quota.
    return now;
  }
  const double most = quota * absl::ToDoubleSeconds(kBurst);
  Credit& credit = credits_.try_emplace(project.name, Credit{most, now}).first->second;
  credit.seconds = std::min(most, credit.seconds + quota * absl::ToDoubleSeconds(now - credit.at));
  credit.at = now;
  if (credit.seconds > 0.0) return now;
  return now + absl::Seconds(-credit.seconds / quota) + absl::Milliseconds(1);
}

bool SuggestionQueue::IsLight(const Line& line) const {
  return options_.light > absl::ZeroDuration() && line.light.value_or(true);
}

void SuggestionQueue::SetIdle(storage::StudyKey study, Line& line, bool idle) {
  if (idle == (line.idle_since != 0)) return;
  if (idle) {
    line.idle_since = ++last_idle_;
    idle_.emplace(line.idle_since, study);
    idle_bytes_ += line.work->bytes;
    return;
  }
  idle_.erase(line.idle_since);
  line.idle_since = 0;
  idle_bytes_ -= line.work->bytes;
}

void SuggestionQueue::Place(storage::StudyKey study, Line& line) {
  Project& project = *line.project;
  Leave(project);
  project.light.erase({line.time, study});
  project.heavy.erase({line.time, study});
  PlaceWithin(study, line);
  Enter(project);
}

void SuggestionQueue::PlaceWithin(storage::StudyKey study, Line& line) {
  if (line.busy || line.work == nullptr) return;
  const std::deque<Task>& tasks = line.work->tasks;
  const bool asked = std::any_of(tasks.begin(), tasks.end(),
                                 [](const Task& task) { return std::holds_alternative<ProposalRequest>(task); });
  if (!asked && tasks.size() < kManyUpdates) {
    SetIdle(study, line, true);
    return;
  }
  SetIdle(study, line, false);
  Project& project = *line.project;
  if (project.light.empty() && project.heavy.empty()) project.time = std::max(project.time, projects_now_);
  line.time = std::max(line.time, now_);
  (IsLight(line) || !asked ? project.light : project.heavy).emplace(line.time, study);
  changed_.SignalAll();
}

std::optional<storage::StudyKey> SuggestionQueue::Next(bool light_only, absl::Duration* again) {
  const absl::Duration now = clock_->Monotonic();
  for (const auto& [time, project] : light_only ? light_ : ready_) {
    if (const absl::Duration may = MayCompute(*project, now); may > now) {
      *again = std::min(*again, may - now);
      continue;
    }
    const bool heavy = !light_only && !project->heavy.empty() &&
                       (project->light.empty() || *project->heavy.begin() < *project->light.begin());
    return (heavy ? project->heavy : project->light).begin()->second;
  }
  return std::nullopt;
}

void SuggestionQueue::Loop(bool light_only) {
  base::LowerThreadPriority();
  base::MutexLock lock(&mutex_);
  while (!stopping_) {
    absl::Duration again = absl::InfiniteDuration();
    if (const std::optional<storage::StudyKey> study = Next(light_only, &again))
      RunOne(*study);
    else if (again < absl::InfiniteDuration())
      changed_.WaitFor(&mutex_, again);
    else
      changed_.Wait(&mutex_);
  }
}

void SuggestionQueue::RunOne(storage::StudyKey study) {
  Line& line = lines_.at(study);  // It stays while it is busy.
  Project& project = *line.project;
  const std::shared_ptr<Work> work = line.work;
  line.busy = true;
  now_ = std::max(now_, line.time);
  projects_now_ = std::max(projects_now_, project.time);
  Place(study, line);  // It leaves the order while it is busy.
  std::vector<HistoryUpdate> updates;
  while (!work->tasks.empty() && std::holds_alternative<HistoryUpdate>(work->tasks.front())) {
    updates.push_back(std::move(std::get<HistoryUpdate>(work->tasks.front())));
    work->tasks.pop_front();
  }
  std::optional<ProposalRequest> request;
  if (!work->tasks.empty()) request = std::get<ProposalRequest>(work->tasks.front());
  mutex_.Unlock();

  const absl::Duration begin = clock_->Monotonic();
  bool more = false;
  if (work->proposer == nullptr && request.has_value())
    work->proposer = std::make_unique<StudyProposer>(storage_, study, work->spec, options_.designers);
  if (work->proposer != nullptr) {
    for (const HistoryUpdate& update : updates) work->proposer->Update(update);
  }
  if (request.has_value()) {
    ProposalRequest one = *request;
    one.count = 1;
    absl::StatusOr<ProposalsOp> op = work->proposer->Propose(one, work->stop.token());
    const absl::Duration took = clock_->Monotonic() - begin;
    if (op.ok() && !work->stop.stop_requested()) {
      more = request->count > 1 && !op->suggestions.empty();
      op->more = more;
      if (observe_) observe_(*work->spec, took);
      deliver_(*std::move(op));
    }
  }
  const absl::Duration took = clock_->Monotonic() - begin;

  mutex_.Lock();
  line.busy = false;
  Leave(project);
  project.time += absl::ToDoubleSeconds(took);
  if (const auto credit = credits_.find(project.name); credit != credits_.end())
    credit->second.seconds -= absl::ToDoubleSeconds(took);
  Enter(project);
  line.time += absl::ToDoubleSeconds(took) / (work->spec != nullptr ? work->spec->weight : 1.0);
  if (request.has_value()) line.light = took < options_.light;
  if (line.work == work) {
    if (work->proposer != nullptr) work->bytes = work->proposer->bytes();
    if (more) {
      ProposalRequest& rest = std::get<ProposalRequest>(work->tasks.front());
      ++rest.first_ask_index;
      --rest.count;
    } else if (request.has_value()) {
      work->tasks.pop_front();
    }
  }
  if (line.work == nullptr)
    Erase(study);
  else
    Place(study, line);
  while (idle_bytes_ > options_.max_idle_bytes && !idle_.empty()) {
    const storage::StudyKey oldest = idle_.begin()->second;
    Drop(oldest, lines_.at(oldest));
  }
}

}  // namespace luthier::coordinator
