#ifndef LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_
#define LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

// One way for all programs to say what is wrong with a command line.
namespace luthier::command_line {

inline constexpr int kExitUsage = 2;

// Parses `args` (without the program's name) into what `app` is bound to. Absent: go on. Else everything was said, and
// the program ends with this code: 0 for help and version (to `out`), 2 for a mistake (to `err`), as
//   PROGRAM: there is no option "--sever" (did you mean "--server"?)
//   for help: PROGRAM VERB --help
std::optional<int> Parse(CLI::App& app, const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

// For main's arguments.
std::optional<int> Parse(CLI::App& app, int argc, char** argv);

// A whole number of at least 1.
CLI::Validator AtLeastOne();

}  // namespace luthier::command_line

#endif  // LUTHIER_LIB_COMMAND_LINE_COMMAND_LINE_H_
