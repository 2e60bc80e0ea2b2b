#ifndef LUTHIER_CLIENT_CLI_PROGRAM_H_
#define LUTHIER_CLIENT_CLI_PROGRAM_H_

#include <string>

namespace luthier::cli {

// The program luthier, the command line. Takes what main takes and the folder of luthier-worker; returns the exit code.
int Main(int argc, char** argv, const std::string& program_directory);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_PROGRAM_H_
