#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_ALIKE_FAILURES_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_ALIKE_FAILURES_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/coordinator/batch/context.h"

// Finds studies that fail for a cause which no setting will change: a mistake in their program.
namespace luthier::coordinator {

// Returns the last line of a failure's message that is not empty: in what programs print, the error itself.
std::string LastLine(absl::string_view message);

// True if both failures have one cause, as far as can be told: CONFIG, the same reason, and last lines that differ in
// digits alone. NON_FINITE, MEMORY_LIMIT and TIMEOUT, which depend on the setting, are never alike.
bool AreAlike(const study::Failure& a, const study::Failure& b);

// Returns the newest of the study's failures, if since it was made or resumed there are Options::alike_to_pause of them
// and all have one cause: the trials run a command, none has ever succeeded, those that failed had different settings,
// reported no step, ran no longer than Options::alike_within, and are alike. Absent otherwise. Reads their rows.
std::optional<study::Failure> CommonFailure(Context& c, StudyState& s);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_ALIKE_FAILURES_H_
