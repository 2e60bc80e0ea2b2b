#ifndef LUTHIER_CLIENT_CLI_PROGRAM_H_
#define LUTHIER_CLIENT_CLI_PROGRAM_H_

#include <string>

namespace luthier::cli {

// Runs the program luthier, the command line, with the arguments of main and the folder of luthier-worker. Returns the
// exit code.
int Main(int argc, char** argv, const std::string& program_directory);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_PROGRAM_H_
