#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_ALIKE_FAILURES_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_ALIKE_FAILURES_H_

#include <string>

#include "absl/strings/string_view.h"
#include "lib/study/trial.h"

// Finds failures with a cause which no setting will change: a mistake in the program.
namespace luthier::coordinator {

// Returns the last line of a failure's message that is not empty: in what programs print, the error itself.
std::string LastLine(absl::string_view message);

// True if both failures have one cause, as far as can be told: CONFIG, the same reason, and last lines that differ in
// digits alone. NON_FINITE, MEMORY_LIMIT and TIMEOUT, which depend on the setting, are never alike.
bool AreAlike(const study::Failure& a, const study::Failure& b);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_ALIKE_FAILURES_H_
