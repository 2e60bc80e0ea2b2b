#ifndef LUTHIER_CLIENT_CLI_COMMANDS_REMARKS_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_REMARKS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/cli/context.h"

namespace luthier::cli {

inline constexpr int kEqualResults = 10;

// Returns a warning if at least `kEqualResults` trials are complete, not all at one setting, and all their results are
// equal, so that the search learns nothing; else "". Reads trials until one differs. Errors of the server.
absl::StatusOr<std::string> EqualResultsWarning(client::Client& client, const v1::Study& study);

// Returns a note if the best value of a finished study was reached, to six digits, so early that half of the results,
// and at least `kUnchangedResults`, did not improve it: a smaller budget would have sufficed; else "". "" for noisy
// studies, too. Reads one trial. Errors of the server.
// studies. Reads one trial. Errors of the server.
inline constexpr int64_t kUnchangedResults = 10;
absl::StatusOr<std::string> UnchangedBestNote(client::Client& client, const v1::Study& study);

// Returns a warning when a search goes by gradients alone and no complete trial has one, so that its settings were
// random; else "". Reads trials until one has a gradient. Errors of the server.
absl::StatusOr<std::string> NoGradientsWarning(client::Client& client, const v1::Study& study);

// Returns a note when a study has no result because all of its trials were pruned, with a value of the first that is
// not finite, which never goes on; else "". Reads one trial. Errors of the server.
absl::StatusOr<std::string> OnlyPrunedNote(client::Client& client, const v1::Study& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_REMARKS_H_
