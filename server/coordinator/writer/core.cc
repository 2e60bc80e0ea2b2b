#include "server/coordinator/writer/core.h"

#include <algorithm>
#include <functional>
#include <set>
#include <utility>
#include <variant>

#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "server/coordinator/granting/deadlines.h"
#include "server/coordinator/granting/serve.h"
#include "server/coordinator/granting/suggestions.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/commit.h"
#include "server/coordinator/studies/counts.h"
#include "server/coordinator/studies/hidden.h"
#include "server/coordinator/studies/index.h"
#include "server/coordinator/studies/invariants.h"
#include "server/coordinator/studies/load.h"
#include "server/storage/damage.h"

namespace luthier::coordinator {

using storage::StudyKey;

Core::Core(storage::Storage* storage, const base::Clock* clock, LeaseTable* leases, Options options)
    : context_{storage, clock, leases, std::move(options), RequestLog(storage), {}, {}, {}} {}

absl::Status Core::Load(Extent extent) {
  context_.batch.now = context_.clock->Monotonic();
  context_.batch.wall = context_.clock->Wall();
  LUTHIER_RETURN_IF_ERROR(LoadState(context_, extent));
  context_.batch.uptime = context_.batch.now + context_.state.uptime_offset;
  return absl::OkStatus();
}

absl::StatusOr<bool> Core::LoadMore(int most) {
  std::set<StudyKey>& put_off = context_.state.put_off;
  for (int i = 0; i < most && !put_off.empty(); ++i) {
    const absl::Status status = LoadPutOff(context_, *put_off.begin());
    if (!storage::IsDamage(status)) LUTHIER_RETURN_IF_ERROR(status);
  }
  return !put_off.empty();
}

void Core::BeginBatch() {
  Batch& batch = context_.batch;
  const absl::Time wall = context_.clock->Wall();
  batch.now = context_.clock->Monotonic();
  batch.wall = wall;
  batch.uptime = context_.clock->Monotonic() + context_.state.uptime_offset;
  batch.at_begin = context_.state.counters;
  CheckDeadlines(context_);
  EraseOld(context_);
  CheckQuotas();
}

void Core::CheckQuotas() {
  CoreState& state = context_.state;
  const study::QuotaTable* const quotas = context_.options.quotas;
  if (quotas == nullptr || quotas->version() == state.quotas_version) return;
  state.quotas_version = quotas->version();
  for (auto& [project, use] : state.projects) {
    Unstall(state, use);
    NoteStalled(state, project);
  }
}

void Core::Apply(Operation operation, const std::shared_ptr<const base::Permit>& permit) {
  if (permit != nullptr) {
    if (const absl::Status allowed = permit->Check(context_.batch.wall); !allowed.ok()) {
      Refuse(operation, allowed);
      return;
    }
    if (auto* const ask = std::get_if<SuggestOp>(&operation)) ask->permit = permit;
  }
  std::visit([this](auto& op) { Run(context_, std::move(op)); }, operation);
}

void Core::ServeWaiting() {
  StoreLate(context_);
  Serve(context_);
}

const storage::WriteBatch& Core::Seal() {
  ServeDue(context_);
  return coordinator::Seal(context_);
}

absl::Status Core::EndBatch(const absl::Status& committed) {
  return coordinator::EndBatch(context_, committed);
}

std::vector<ProposalRequest> Core::TakeProposalRequests(const std::function<bool(StudyKey)>& which) {
  return coordinator::TakeProposalRequests(context_, which);
}

std::vector<HistoryUpdate> Core::TakeHistoryUpdates() {
  return std::exchange(context_.outbox.updates, {});
}
std::vector<storage::Event> Core::TakeEvents() {
  return std::exchange(context_.outbox.events, {});
}
std::vector<StudyKey> Core::TakeInvalidated() {
  return std::exchange(context_.outbox.invalidated, {});
}

std::shared_ptr<const study::StudySpec> Core::SpecOf(StudyKey key) const {
  const auto found = context_.state.studies.find(key);
  return found == context_.state.studies.end() ? nullptr : found->second.spec();
}

std::vector<StudyKey> Core::Studies() const {
  std::vector<StudyKey> keys;
  for (const auto& [key, s] : context_.state.studies) keys.push_back(key);
  return keys;
}

absl::Duration Core::NextDeadline() const {
  return context_.state.waiters.NextDeadline();
}

void Core::ExtendLeases(absl::Duration by) {
  coordinator::ExtendLeases(context_, by);
}

void Core::RefuseWaiting(const absl::Status& status) {
  coordinator::RefuseWaiting(context_.state, status);
}

std::array<int64_t, study::kTrialStateCount> Core::CountTrials() const {
  return context_.state.totals;
}

std::map<std::string, PoolSlots> Core::CountSlots() const {
  std::map<std::string, PoolSlots> slots;
  std::map<std::string, int64_t, std::less<>> room;  // Projects with a quota.
  for (const auto& [key, s] : context_.state.studies) {
    const auto running = static_cast<int64_t>(s.running().size() - s.expired().size());
    int64_t wanted = s.WantedSlots();
    if (wanted == 0 && (running == 0 || !s.ForAnyWorker())) continue;
    const std::string project(study::ProjectOfPool(s.pool()));
    const int64_t quota = context_.options.quotas == nullptr ? 0 : context_.options.quotas->Of(project).running_trials;
    if (quota > 0) {
      const auto used = context_.state.projects.find(project);
      const int64_t runs = used == context_.state.projects.end() ? 0 : used->second.running;
      int64_t& left = room.try_emplace(project, std::max<int64_t>(0, quota - runs)).first->second;
      wanted = std::min(wanted, left);
      left -= wanted;
    }
    PoolSlots& pool = slots[s.pool()];
    pool.running += running;
    pool.wanted += wanted;
  }
  return slots;
}

absl::Status Core::CheckInvariants() const {
  LUTHIER_RETURN_IF_ERROR(coordinator::CheckInvariants(context_.storage, context_.state));
  return CheckIndexes(context_);
}

}  // namespace luthier::coordinator
