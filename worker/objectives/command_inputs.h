#ifndef LUTHIER_WORKER_OBJECTIVES_COMMAND_INPUTS_H_
#define LUTHIER_WORKER_OBJECTIVES_COMMAND_INPUTS_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/objectives/command_options.h"
#include "worker/process/launch.h"
#include "worker/process/private_directory.h"
#include "worker/run/runner.h"

// The program of a command objective gets arguments, an environment and files, which are made here.
namespace luthier::worker {

struct PreparedCommand {
  ProcessSpec process;
  std::vector<std::string> withheld;  // Names of this worker's variables that the program does not get.
};
// Writes the files of a run into the directory, which must outlive the process, and returns how to start its program.
// INVALID_ARGUMENT: the study's command makes no program of these parameters. UNAVAILABLE: the disk fails.
absl::StatusOr<PreparedCommand> PrepareCommand(const CommandOptions& options, const RunRequest& request,
                                               const PrivateDirectory& directory);

// The values from which a run's arguments and environment are made.
struct CommandInputs {
  std::map<std::string, std::string> values;     // Values of placeholders (study::ExpandTemplate).
  std::map<std::string, std::string> variables;  // LUTHIER_*, by name.
};
CommandInputs InputsOf(const RunRequest& request, const std::string& parameters_file,
                       const std::string& direction_file);

// Returns the contents of the parameters' file: a JSON object in the order of the space.
std::string ParametersJson(const RunRequest& request);

// Returns LUTHIER_PARAM_<NAME>: upper case, dots to underscores.
std::string ParameterVariable(const std::string& name);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_COMMAND_INPUTS_H_
