#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/spec_change.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/messages/study_checks.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"

namespace luthier::coordinator {
namespace {

absl::Status CheckRangeChanges(const Context& c, const Study& s) {
  LUTHIER_ASSIGN_OR_RETURN(const int64_t changes, s.CountSpecChanges());
  // Former specs do not tell declarations in an open space from other changes.
  const int64_t limit = c.options.limits.range_changes + (s.spec()->open_space ? c.options.limits.declarations : 0);
  if (changes < limit) return absl::OkStatus();
  return LimitExceeded("range_changes", limit,
                       absl::StrCat("the ranges of a study can be changed ", limit, " times; start another study"));
}

// Returns the changed spec. Errors: those of study::ChangeSpec and CheckChanged, and a budget below the number of
// trials.
absl::StatusOr<study::StudySpec> Changed(const Context& c, const Study& s, const UpdateStudyOp& op) {
  LUTHIER_RETURN_IF_ERROR(s.CheckMayGoOn());
  LUTHIER_ASSIGN_OR_RETURN(study::StudySpec next, study::ChangeSpec(s.record().spec, op.change));
  base::Violations violations;
  const int64_t rows = s.size();
  if (next.budget.max_trials < rows) {
    violations.Add("budget.max_trials",
                   absl::StrCat(next.budget.max_trials, " is less than the ", rows, " trials that the study has"));
  }
  violations.AddAll("", CheckChanged(s.record().spec, next));
  if (op.fits) violations.AddAll("", op.fits(next));
  if (!violations.empty()) return violations.ToStatus();
  if (!study::SameButMaxTrials(s.record().spec, next)) LUTHIER_RETURN_IF_ERROR(CheckRangeChanges(c, s));
  return next;
}

}  // namespace

void Run(Context& c, UpdateStudyOp op) {
  RunOnce<storage::ChangedStudy, StudyReply>(
      c, op, [&](const auto& stored) { return RebuildStudy(c, op.id, stored); },
      [&](Study& s, storage::ChangedStudy* stored) -> absl::StatusOr<StudyReply> {
        LUTHIER_ASSIGN_OR_RETURN(study::StudySpec next, Changed(c, s, op));
        if (!(next == s.record().spec)) {
          const std::string what = study::DescribeChange(s.record().spec, next);
          s.ChangeSpec(std::move(next), op.actor);
          s.GoOnOrEnd(what, op.actor);
        }
        *stored = {s.record().update_seq, s.record().key};
        return StudyReply{s.record(), s.record().update_seq};
      });
}

}  // namespace luthier::coordinator
