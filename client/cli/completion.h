#ifndef LUTHIER_CLIENT_CLI_COMPLETION_H_
#define LUTHIER_CLIENT_CLI_COMPLETION_H_

#include <CLI/CLI.hpp>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::cli {

// Returns a script that lets a shell complete the verbs and options of `app`, with the descriptions of its help.
// `shell`: bash, zsh or fish. INVALID_ARGUMENT for others.
absl::StatusOr<std::string> CompletionScript(const CLI::App& app, absl::string_view shell);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMPLETION_H_
