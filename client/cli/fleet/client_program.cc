#include "client/cli/fleet/client_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/clock.h"
#include "lib/base/descriptor.h"
#include "lib/base/status_macros.h"
#include "lib/wire/text.h"

namespace luthier::cli {
namespace {

constexpr absl::Duration kClientPatience = absl::Minutes(1);
constexpr size_t kMostClientOutput = 64 << 20;

absl::Status SystemFailure(const char* what) {
  return absl::InternalError(absl::StrCat("can't ", what, ": ", std::strerror(errno)));
}

// Returns the path of the program; empty: there is none.
std::string FindInPath(const std::string& path, const std::string& program) {
  if (absl::StrContains(program, '/')) return access(program.c_str(), X_OK) == 0 ? program : "";
  for (const absl::string_view folder : absl::StrSplit(path, ':', absl::SkipEmpty())) {
    std::string candidate = absl::StrCat(folder, "/", program);
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

// Reads both descriptors until they are closed. DEADLINE_EXCEEDED.
absl::Status ReadAllOutput(base::Descriptor* out, base::Descriptor* err, absl::Duration deadline,
                           ProgramResult* result) {
  const base::SystemClock clock;
  std::array<char, 65536> buffer;
  while (out->get() >= 0 || err->get() >= 0) {
    const absl::Duration left = deadline - clock.Monotonic();
    if (left <= absl::ZeroDuration()) return absl::DeadlineExceededError("");
    std::array<pollfd, 2> fds = {pollfd{out->get(), POLLIN, 0}, pollfd{err->get(), POLLIN, 0}};
    if (poll(fds.data(), fds.size(), static_cast<int>(absl::ToInt64Milliseconds(left)) + 1) < 0) continue;  // EINTR
    for (size_t i = 0; i < fds.size(); ++i) {
      if (fds[i].revents == 0) continue;
      base::Descriptor* from = i == 0 ? out : err;
      std::string& text = i == 0 ? result->out : result->err;
      const ssize_t got = read(from->get(), buffer.data(), buffer.size());
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0 || text.size() > kMostClientOutput) {
        *from = base::Descriptor();
      } else {
        text.append(buffer.data(), static_cast<size_t>(got));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status MakePipe(base::Descriptor* read_end, base::Descriptor* write_end) {
  std::array<int, 2> fds = {};
  if (pipe2(fds.data(), O_CLOEXEC) != 0) return SystemFailure("make a pipe");
  *read_end = base::Descriptor(fds[0]);
  *write_end = base::Descriptor(fds[1]);
  return absl::OkStatus();
}

// Makes a file in memory that holds the text, to be read from its beginning.
absl::Status HoldText(const std::string& text, base::Descriptor* file) {
  *file = base::Descriptor(memfd_create("input", MFD_CLOEXEC));
  if (file->get() < 0) return SystemFailure("make a file in memory");
  for (size_t done = 0; done < text.size();) {
    const ssize_t n = pwrite(file->get(), text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (n <= 0) return SystemFailure("write to memory");
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

// Returns what a program said, of a Python traceback in it only the error with which it ends.
std::string WithoutTraceback(const std::string& said) {
  static const std::string kTraceback = "Traceback (most recent call last):\n";
  const size_t begin = said.rfind(kTraceback);
  if (begin == std::string::npos) return said;
  std::vector<absl::string_view> error;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(said).substr(begin + kTraceback.size()), '\n')) {
    if (!error.empty() || !absl::StartsWith(line, " ")) error.push_back(line);
  }
  return absl::StrJoin(error, "\n");
}

}  // namespace

absl::StatusOr<ProgramResult> RunProgram(const std::string& path, const std::vector<std::string>& argv,
                                         const std::string& input, absl::Duration patience) {
  const std::string program = FindInPath(path, argv[0]);
  if (program.empty()) return absl::NotFoundError(absl::StrCat("there is no program ", argv[0], " in PATH"));
  std::vector<std::string> words = argv;
  std::vector<char*> arguments, variables;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "LUTHIER_TOKEN=")) variables.push_back(*variable);
  }
  variables.push_back(nullptr);

  base::Descriptor in, out, out_end, err, err_end;
  LUTHIER_RETURN_IF_ERROR(HoldText(input, &in));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&out, &out_end));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&err, &err_end));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out_end.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err_end.get(), STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  sigaddset(&defaults, SIGXFSZ);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int failed = posix_spawn(&pid, program.c_str(), &actions, &attributes, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failed != 0) {
    return absl::FailedPreconditionError(absl::StrCat("can't run ", program, ": ", std::strerror(failed)));
  }
  out_end = base::Descriptor();
  err_end = base::Descriptor();
  const base::SystemClock clock;
  ProgramResult result;
  const absl::Status read = ReadAllOutput(&out, &err, clock.Monotonic() + patience, &result);
  if (!read.ok()) kill(pid, SIGKILL);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!read.ok()) {
    return absl::DeadlineExceededError(
        absl::StrCat(argv[0], " did not answer within ", absl::FormatDuration(patience), "; is its server away?"));
  }
  result.code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  result.out = wire::ValidUtf8(result.out);
  result.err = wire::ValidUtf8(result.err);
  return result;
}

absl::StatusOr<std::string> ProgramOutput(const std::string& path, const std::vector<std::string>& argv,
                                          const std::string& input, const char* missing) {
  absl::StatusOr<ProgramResult> result = RunProgram(path, argv, input, kClientPatience);
  if (absl::IsNotFound(result.status())) {
    return absl::FailedPreconditionError(absl::StrCat(result.status().message(), "; ", missing));
  }
  LUTHIER_RETURN_IF_ERROR(result.status());
  if (result->code == 0) return std::move(result->out);
  std::string said(absl::StripAsciiWhitespace(WithoutTraceback(result->err.empty() ? result->out : result->err)));
  constexpr size_t kShown = 2000;
  if (said.size() > kShown) said = wire::ValidUtf8(said.substr(said.size() - kShown));
  return absl::FailedPreconditionError(
      absl::StrCat(argv[0], " ", argv.size() > 1 ? argv[1] : "", " ended with exit code ", result->code, ": ", said));
}

}  // namespace luthier::cli
