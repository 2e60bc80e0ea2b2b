#ifndef LUTHIER_WORKER_PROCESS_ENVIRONMENT_H_
#define LUTHIER_WORKER_PROCESS_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// Selects the worker's variables that its commands get. Commands are other people's: variables for the worker itself
// (keys of a store, tokens of a service, the socket of an agent) are kept from them unless an option names them.
namespace luthier::worker {

// Checks a pattern of --env-allow: a variable's name, in which * and ? stand for any characters. INVALID_ARGUMENT for
// an invalid name, and for LUTHIER_*, which is never passed on.
absl::Status CheckEnvironmentPattern(const std::string& pattern);

struct InheritedVariables {
  std::vector<std::string> passed;    // NAME=value.
  std::vector<std::string> withheld;  // Names, without LUTHIER_* and the variables of a shell.
};

// Sorts `environment` (NAME=value) by `allowed`, patterns that were checked, and by the list of the variables that
// programs need to run at all: PATH, HOME and the like, language, time zone, folders, interpreters, libraries, threads,
// accelerators, proxies and certificates, the batch system. That list passes nothing that looks like a secret: a name
// with a word such as TOKEN or KEY, also plural or glued to another, or a value with me:word@host or password=word.
// `allowed` passes whatever it names.
InheritedVariables SortEnvironment(const std::vector<std::string>& environment,
                                   const std::vector<std::string>& allowed);

// Returns the environment of this process.
std::vector<std::string> OwnEnvironment();

// True if `text` has `name` as a word.
bool SpeaksOf(absl::string_view text, absl::string_view name);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_ENVIRONMENT_H_
