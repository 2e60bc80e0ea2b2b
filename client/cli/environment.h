#ifndef LUTHIER_CLIENT_CLI_ENVIRONMENT_H_
#define LUTHIER_CLIENT_CLI_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

namespace luthier::cli {

// Everything outside the program that it uses, so that tests can replace it.
struct Environment {
  std::ostream* out = nullptr;  // Takes results, and nothing else.
  // Returns true if nobody reads `out` any more (the other end of a pipe was closed). Null: never.
  std::function<bool()> out_closed;
  std::ostream* err = nullptr;  // Takes everything for people.
  std::istream* in = nullptr;   // Read for the file name "-".
  std::function<std::optional<std::string>(const std::string&)> getenv;
  uint64_t seed = 0;       // Seed of request ids and jitter: different in each process.
  int terminal_width = 0;  // Columns of `err`; 0: not a terminal.
  int out_width = 0;       // Columns of `out`; 0: not a terminal.
  // Opens a page in the user's browser. Null: there is no terminal, or no screen.
  std::function<void(const std::string& address)> open_browser = nullptr;
  std::string program_directory;  // The folder in which luthier-worker is looked for.
  std::string host;               // For the default name of the worker that asks.
};

// Exit codes of every verb.
inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnreachable = 3;
inline constexpr int kExitNotAllowed = 4;
inline constexpr int kExitNotFound = 5;
inline constexpr int kExitTimedOut = 124;
inline constexpr int kExitInterrupted = 130;
inline constexpr int kExitPipe = 141;  // Exit code that a shell shows for a program that SIGPIPE ended.

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_ENVIRONMENT_H_
