#include "server/coordinator/batch/find.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::coordinator {

using base::MakeError;
using base::Quote;
using storage::TrialRecord;

absl::StatusOr<StudyState*> FindStudy(Context& c, const std::string& id) {
  const auto found = c.state.by_id.find(id);
  if (found == c.state.by_id.end()) {
    if (const auto damaged = c.state.damaged.find(id); damaged != c.state.damaged.end()) return damaged->second.damage;
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("study ", Quote(id), " does not exist; `luthier study list` shows those that do"));
  }
  return FindStudy(c, found->second);
}

absl::StatusOr<StudyState*> FindStudy(Context& c, storage::StudyKey key) {
  LUTHIER_RETURN_IF_ERROR(LoadPutOff(SourceOf(c), key, c.state));
  for (const auto& [id, damaged] : c.state.damaged) {
    if (damaged.key == key) return damaged.damage;
  }
  const auto found = c.state.studies.find(key);
  return found == c.state.studies.end() ? nullptr : &found->second;
}

absl::StatusOr<TrialSlot*> FindTrial(Context& c, StudyState& s, int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(s.trials.size())) {
    return MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound,
                     absl::StrCat("trial ", number, " of study ", Quote(s.record.id), " does not exist; it has ",
                                  s.trials.size(), " trials"));
  }
  TrialSlot& slot = s.trials[number - 1];
  if (!slot.record) {
    LUTHIER_ASSIGN_OR_RETURN(TrialRecord record, c.storage->GetTrial(s.record.key, number));
    slot.record = std::make_unique<TrialRecord>(std::move(record));
    c.batch.pinned_trials.emplace(s.record.key, number);
  }
  return &slot;
}

absl::StatusOr<FoundTrial> FindTrial(Context& c, const std::string& id, int64_t number) {
  LUTHIER_ASSIGN_OR_RETURN(StudyState* const s, FindStudy(c, id));
  LUTHIER_ASSIGN_OR_RETURN(TrialSlot* const slot, FindTrial(c, *s, number));
  return FoundTrial{s, slot};
}

}  // namespace luthier::coordinator
