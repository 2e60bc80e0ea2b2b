#ifndef LUTHIER_CLIENT_CLI_FLEET_CLIENT_PROGRAM_H_
#define LUTHIER_CLIENT_CLI_FLEET_CLIENT_PROGRAM_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace luthier::cli {

// The end of a program that ran.
struct ProgramResult {
  int code = 0;  // Exit code, or 128 + signal.
  std::string out, err;
};

// Runs a program, argv[0] in `path` (as PATH), with `input` as its standard input, and returns what it printed. It gets
// this process's variables but for LUTHIER_TOKEN. FAILED_PRECONDITION if there is no such program, DEADLINE_EXCEEDED
// if it has not ended within `patience`; it is killed then.
absl::StatusOr<ProgramResult> RunProgram(const std::string& path, const std::vector<std::string>& argv,
                                         const std::string& input, absl::Duration patience);

// Does the same and returns its standard output. FAILED_PRECONDITION, with what it said, if it fails. `missing` says
// what to do where there is no such program.
absl::StatusOr<std::string> ProgramOutput(const std::string& path, const std::vector<std::string>& argv,
                                          const std::string& input, const char* missing);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_FLEET_CLIENT_PROGRAM_H_
