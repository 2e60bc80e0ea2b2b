#include <algorithm>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"
#include "lib/search/effective.h"
#include "lib/search/registry.h"
#include "lib/study/project.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/index.h"

namespace luthier::coordinator {
namespace {

// True if UpdateStudy can change the field of a study that has trials.
bool CanChange(absl::string_view field) {
  constexpr absl::string_view kFields[] = {
      "display_name",        "description",         "labels",          "weight",          "budget.max_trials",
      "budget.max_parallel", "budget.target_value", "budget.patience", "budget.max_wall", "budget.until_answered"};
  return std::find(std::begin(kFields), std::end(kFields), field) != std::end(kFields);
}

absl::Status StudyExists(const std::string& id, const std::string& differing_field) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kStudyExists;
  detail.metadata["field"] = differing_field;
  const std::string remedy =
      CanChange(differing_field)
          ? absl::StrCat("to change it there, with all trials kept: `luthier study update ", id,
                         "`, in Python luthier.load(\"", id, "\").update(",
                         differing_field.substr(differing_field.rfind('.') + 1), "=...)")
          : absl::StrCat(absl::StartsWith(differing_field, "space")
                             ? "ranges can be made wider, with all trials kept (`luthier study update`); else choose "
                             : "it can't be changed there: choose ",
                         "another name, and take the trials along: `luthier study export ", id,
                         "` and `luthier study import`, in Python other.add_trials(luthier.load(\"", id, "\").trials)");
  return base::MakeError(absl::StatusCode::kAlreadyExists,
                         absl::StrCat("study ", base::Quote(id),
                                      " exists with another specification; they first "
                                      "differ in ",
                                      differing_field, "; ", remedy),
                         std::move(detail));
}

// Returns where an existing study differs from the one that is asked for; empty: nowhere. The parameters of an open
// space were declared by trials, so they are no difference.
std::string Difference(const Study& s, const CreateStudyOp& op) {
  study::StudySpec asked = s.record().spec;  // Without what imports and retries added.
  asked.budget.max_trials -= s.record().added_trials;
  const bool now = s.record().spec == op.spec || (!op.digest.empty() && op.digest == s.record().created_digest);
  if (now) return "";
  if (asked.open_space && op.spec.open_space) {
    study::StudySpec there = asked;
    there.space = op.spec.space;
    const std::string field = study::FirstDifference(there, op.spec);
    if (!field.empty() || op.spec.space.parameters().empty()) return field;
  }
  return study::FirstDifference(asked, op.spec);
}

absl::Status TooManyStudies(size_t studies, int64_t limit) {
  return LimitExceeded("studies", limit,
                       absl::StrCat("there are ", studies,
                                    " studies, the most there may be; delete some that are no "
                                    "longer needed (`luthier study delete`)"));
}

// Checks that the project may have one more study.
absl::Status CheckQuota(const Context& c, const std::string& id) {
  if (c.options.quotas == nullptr) return absl::OkStatus();
  const std::string project(study::ProjectOf(id));
  if (absl::Status bytes = CheckBytes(c, project); !bytes.ok()) return bytes;
  const int64_t quota = c.options.quotas->Of(project).studies;
  const auto used = c.state.projects.find(project);
  if (quota == 0 || used == c.state.projects.end() || used->second.studies < quota) return absl::OkStatus();
  return LimitExceeded("project_studies", quota,
                       absl::StrCat("project ", base::Quote(project), " has ", used->second.studies,
                                    " studies, the most that its quota allows; delete some that are no longer needed "
                                    "(`luthier study delete`), or ask an admin for more"));
}

}  // namespace

absl::Status CheckRoomForStudy(const Context& c, const std::string& id) {
  const int64_t limit = c.options.limits.studies;
  if (static_cast<int64_t>(c.state.studies.size()) >= limit) return TooManyStudies(c.state.studies.size(), limit);
  return CheckQuota(c, id);
}

void Run(Context& c, CreateStudyOp op) {
  CoreState& state = c.state;
  if (const auto found = state.by_id.find(op.id); found != state.by_id.end()) {
    // Creating the same study again has no further effect, so it may be repeated.
    const Study& s = state.studies.at(found->second);
    const std::string field = Difference(s, op);
    if (!field.empty()) return Answer<StudyReply>(c, op.done, StudyExists(op.id, field));
    return Answer<StudyReply>(c, op.done, StudyReply{s.record(), s.record().update_seq});
  }
  if (const auto damaged = state.damaged.find(op.id); damaged != state.damaged.end()) {
    return Answer<StudyReply>(c, op.done, damaged->second.damage);
  }
  if (absl::Status room = CheckRoomForStudy(c, op.id); !room.ok()) {
    return Answer<StudyReply>(c, op.done, std::move(room));
  }
  storage::StudyRecord record;
  record.key = ++state.counters.key;
  record.id = op.id;
  record.spec = std::move(op.spec);
  record.created_digest = std::move(op.digest);
  record.owner = std::move(op.owner);
  record.create_time = c.batch.wall;
  record.create_uptime = c.batch.uptime;
  Study& s = AddStudy(state, Study::New(&c, std::move(record)));
  s.NoteCreated(op.actor);
  Answer<StudyReply>(c, op.done, StudyReply{s.record(), s.record().create_seq});
}

}  // namespace luthier::coordinator
