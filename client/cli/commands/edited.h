#ifndef LUTHIER_CLIENT_CLI_COMMANDS_EDITED_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_EDITED_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/context.h"
#include "client/cpp/client.h"
#include "luthier/v1/study.pb.h"

// Results from before a program was edited differ from those after by the names of the workers of `luthier run`, which
// every attempt has: "local-1.0123456789ab". The Python package does the same (luthier/_fingerprint.py).
namespace luthier::cli {

// Returns 12 hexadecimal digits for a command: a digest of its arguments, its variables and the files that arguments
// name, such as its script, but not of files that these read in turn. "" for other objectives.
std::string FingerprintOf(const v1::Objective& objective);

// Returns the fingerprint that a worker's name carries; "" if it has none.
std::string FingerprintIn(absl::string_view worker);

// Compares a fingerprint with those of a study's trials. If they have others, follows --if-changed: continue, raise
// (FAILED_PRECONDITION) or fresh, which returns the id of a new study, NAME-2 and so on; without it warns. Returns the
// id of the study to go on with.
absl::StatusOr<std::string> LookForEdit(Context& context, client::Client& client, const std::string& study,
                                        const std::string& fingerprint);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_EDITED_H_
