#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/legal_settings.h"
#include "lib/study/rung_schedule.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"

namespace luthier::coordinator {
namespace {

using base::MakeError;
using base::Quote;

absl::Status TooManyBytes(int64_t limit, size_t fitting, size_t trials) {
  return LimitExceeded("enqueued_bytes", limit,
                       absl::StrCat("with their defaults filled in, only the first ", fitting, " of the ", trials,
                                    " trials fit a reply of ", limit, " bytes; add fewer in one call"));
}

// Returns the settings with defaults filled in. INVALID_ARGUMENT names every field that is wrong. RESOURCE_EXHAUSTED as
// soon as the reply would have more than `max_bytes`: no more settings are completed then.
absl::StatusOr<std::vector<study::Parameters>> CompleteSettings(const study::StudySpec& spec,
                                                                const std::vector<NewTrial>& trials,
                                                                int64_t max_bytes) {
  const study::SearchSpace& space = spec.space;
  const study::LegalSettings legal(space, spec.constraints);
  base::Violations violations;
  std::vector<study::Parameters> settings;
  size_t bytes = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    absl::StatusOr<study::Parameters> setting = space.Complete(trials[i].parameters);
    const std::string at = absl::StrCat("trials[", i, "].parameters");
    if (!setting.ok()) {
      violations.AddAll(at, setting.status());
    } else {
      if (const std::string why = legal.WhyNot(*setting); !why.empty()) violations.Add(at, why);
      settings.push_back(*std::move(setting));
    }
    if (violations.empty()) bytes += BytesOf(settings.back(), trials[i].attributes);
    if (bytes > static_cast<size_t>(max_bytes)) return TooManyBytes(max_bytes, i, trials.size());
  }
  if (trials.empty()) violations.Add("trials", "is empty; give at least one");
  if (!violations.empty()) return violations.ToStatus();
  return settings;
}

// Checks settings of an open space, with the parameters that it has. No defaults are filled in, since objectives
// declare the parameters that they need.
absl::StatusOr<std::vector<study::Parameters>> KnownSettings(const study::SearchSpace& space,
                                                             const std::vector<NewTrial>& trials, int64_t max_bytes) {
  base::Violations violations;
  std::vector<study::Parameters> settings(trials.size());
  size_t bytes = 0;
  for (size_t i = 0; i < trials.size(); ++i) {
    for (const auto& [name, value] : trials[i].parameters) {
      const std::string at = absl::StrCat("trials[", i, "].parameters.", study::IsName(name) ? name : Quote(name));
      const std::optional<int> place = space.Find(name);
      if (!place) {
        if (!study::IsName(name)) violations.Add(at, "is not a name: letters, digits, '_' and '.'");
        continue;
      }
      absl::StatusOr<study::ParameterValue> canonical =
          study::CanonicalValue(space.parameters()[static_cast<size_t>(*place)], value);
      if (canonical.ok()) {
        settings[i][name] = *std::move(canonical);
      } else {
        violations.AddAll(at, canonical.status());
      }
    }
    bytes += BytesOf(trials[i].parameters, trials[i].attributes);
    const bool fits = bytes <= static_cast<size_t>(max_bytes);
    if (!fits) return TooManyBytes(max_bytes, i, trials.size());
  }
  if (trials.empty()) violations.Add("trials", "is empty; give at least one");
  if (!violations.empty()) return violations.ToStatus();
  return settings;
}

absl::StatusOr<std::vector<study::Parameters>> Check(const Study& s, const EnqueueOp& op, const Limits& limits) {
  if (study::IsFinished(s.record().state)) {
    return MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kStudyFinished,
                     absl::StrCat("study ", Quote(op.id), " is ", study::StudyStateName(s.record().state),
                                  "; it takes no more trials"));
  }
  LUTHIER_ASSIGN_OR_RETURN(std::vector<study::Parameters> settings,
                           s.spec()->open_space ? KnownSettings(s.spec()->space, op.trials, limits.enqueued_bytes)
                                                : CompleteSettings(*s.spec(), op.trials, limits.enqueued_bytes));
  const int64_t room = s.spec()->budget.max_trials - s.size();
  if (static_cast<int64_t>(op.trials.size()) <= room) return settings;
  return LimitExceeded("max_trials", s.spec()->budget.max_trials,
                       absl::StrCat("the budget of study ", Quote(op.id), " has room for ", room, " more trials, not ",
                                    op.trials.size(), "; add fewer, or raise max_trials (`luthier study update`)"));
}

int64_t Store(Study& s, study::Parameters setting, NewTrial added, const std::string& actor) {
  study::Trial trial;
  trial.parameters = std::move(setting);
  trial.attributes = std::move(added.attributes);
  if (s.spec()->open_space) {
    // Keeps values of parameters that are still to be declared.
    for (auto& [name, value] : added.parameters) {
      if (trial.parameters.count(name) == 0) trial.unused.emplace(name, std::move(value));
    }
  }
  trial.provenance.designer = "user";
  trial.provenance.origin = "enqueued";
  trial.provenance.resource = study::FirstTarget(*s.spec());
  return s.Enqueue(std::move(trial), storage::EventType::kTrialEnqueued, actor);
}

absl::StatusOr<EnqueueReply> Enqueue(Context& c, Study& s, EnqueueOp& op, storage::StoredTrials* stored) {
  LUTHIER_RETURN_IF_ERROR(CheckBytes(c, study::ProjectOf(op.id)));
  LUTHIER_ASSIGN_OR_RETURN(std::vector<study::Parameters> settings, Check(s, op, c.options.limits));
  EnqueueReply reply;
  stored->study = s.record().key;
  for (size_t i = 0; i < settings.size(); ++i) {
    const int64_t number = Store(s, std::move(settings[i]), std::move(op.trials[i]), op.actor);
    reply.trials.push_back(s.slot(number).record->trial);
    stored->trials.push_back(number);
  }
  // Suggestions stay valid though these trials took the room for which they were computed: they wait for later room.
  // But where trials are trained in parts, room may never come, and other suggestions wait behind them.
  if (s.spec()->resource) s.DropReady();
  stored->seq = reply.seq = c.state.counters.seq;
  stored->whole = reply.trials;
  return reply;
}

}  // namespace

void Run(Context& c, EnqueueOp op) {
  RunOnce<storage::StoredTrials, EnqueueReply>(
      c, op, [&](const auto& stored) { return RebuildTrials(c, op.id, op.request_id, stored); },
      [&](Study& s, storage::StoredTrials* stored) { return Enqueue(c, s, op, stored); });
}

}  // namespace luthier::coordinator
