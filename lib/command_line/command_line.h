#ifndef LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_
#define LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/time/time.h"

// Reports mistakes on the command line in the same way for all programs.
namespace luthier::command_line {

inline constexpr int kExitUsage = 2;

// Parses `args` (without the program's name) into the variables that `app` is bound to. Returns std::nullopt if the
// program goes on. Otherwise everything has been printed and the program ends with the returned code: 0 for help and
// version (to `out`), 2 for a mistake (to `err`), as
//   PROGRAM: there is no option "--sever" (did you mean "--server"?)
//   for help: PROGRAM VERB --help
std::optional<int> Parse(CLI::App& app, const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

// Does the same with main's arguments.
std::optional<int> Parse(CLI::App& app, int argc, char** argv);

// Accepts whole numbers of at least 1.
CLI::Validator AtLeastOne();

// Adds an option that takes seconds, or a duration such as 90s, 10m or 1h30m, from zero on.
CLI::Option* AddDuration(CLI::App& app, const char* name, absl::Duration* duration, const char* what);

}  // namespace luthier::command_line

#endif  // LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_
