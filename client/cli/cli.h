#ifndef LUTHIER_CLIENT_CLI_CLI_H_
#define LUTHIER_CLIENT_CLI_CLI_H_

#include <string>
#include <vector>

#include "client/cli/environment.h"

namespace luthier::cli {

// Runs the program `luthier`. `args` lacks the program's name. Returns the exit code. docs/reference/cli.md is the
// manual.
int RunCli(const std::vector<std::string>& args, const Environment& environment);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_CLI_H_
