#include "server/coordinator/studies/find.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "server/coordinator/studies/load.h"

namespace luthier::coordinator {

using base::MakeError;
using base::Quote;

absl::StatusOr<Study*> FindStudy(Context& c, const std::string& id) {
  const auto found = c.state.by_id.find(id);
  if (found == c.state.by_id.end()) {
    if (const auto damaged = c.state.damaged.find(id); damaged != c.state.damaged.end()) return damaged->second.damage;
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("study ", Quote(id), " does not exist; `luthier study list` shows those that do"));
  }
  return FindStudy(c, found->second);
}

absl::StatusOr<Study*> FindStudy(Context& c, storage::StudyKey key) {
  LUTHIER_RETURN_IF_ERROR(LoadPutOff(c, key));
  for (const auto& [id, damaged] : c.state.damaged) {
    if (damaged.key == key) return damaged.damage;
  }
  const auto found = c.state.studies.find(key);
  return found == c.state.studies.end() ? nullptr : &found->second;
}

absl::Status CheckOwner(const storage::StudyRecord& study, const Authority& by) {
  if (by.all || study.owner.empty() || study.owner == by.owner) return absl::OkStatus();
  return MakeError(
      absl::StatusCode::kPermissionDenied, base::reason::kRole,
      absl::StrCat("study ", Quote(study.id), " was made by ", Quote(study.owner), ", not by ", Quote(by.owner),
                   ": its maker, a maintainer of the project or an admin changes and deletes it; ask an "
                   "admin for a token made with --role maintainer (docs/guide/security.md)"));
}

absl::StatusOr<FoundTrial> FindTrial(Context& c, const std::string& id, int64_t number) {
  LUTHIER_ASSIGN_OR_RETURN(Study* const s, FindStudy(c, id));
  LUTHIER_ASSIGN_OR_RETURN(TrialSlot* const slot, s->FindTrial(number));
  return FoundTrial{s, slot};
}

absl::StatusOr<FoundTrial> FindTrialToChange(Context& c, const std::string& id, int64_t number, const Authority& by) {
  LUTHIER_ASSIGN_OR_RETURN(Study* const s, FindStudy(c, id));
  LUTHIER_RETURN_IF_ERROR(CheckOwner(s->record(), by));
  LUTHIER_ASSIGN_OR_RETURN(TrialSlot* const slot, s->FindTrial(number));
  return FoundTrial{s, slot};
}

}  // namespace luthier::coordinator
