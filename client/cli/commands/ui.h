#ifndef LUTHIER_CLIENT_CLI_COMMANDS_UI_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_UI_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace luthier::cli {

// Returns the address of the coordinator's page, at a study if `study` is not empty, with a token where one can be made
// and nobody in between reads it. A coordinator of this user opens a page. FAILED_PRECONDITION: there is none.
absl::StatusOr<std::string> PageAddress(client::Client& client, const std::string& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_UI_H_
