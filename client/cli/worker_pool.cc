#include "client/cli/worker_pool.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/text.h"

namespace luthier::cli {
namespace {

constexpr absl::Duration kFirstDelay = absl::Milliseconds(500);
constexpr absl::Duration kLongestDelay = absl::Seconds(30);
constexpr absl::Duration kQuick = absl::Seconds(5);
constexpr int kMaxQuickDeaths = 5;
// Exit codes of luthier-worker after which it is not started again: a wrong command line, and a study that it can't
// evaluate.
constexpr int kUsageError = 2;
constexpr int kCannotEvaluate = 78;

std::string EndOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  constexpr std::streamoff kShown = 500;
  file.seekg(0, std::ios::end);
  const std::streamoff size = file.tellg();
  file.seekg(std::max<std::streamoff>(0, size - kShown));
  text << file.rdbuf();
  std::string end = text.str();
  // The text begins with a whole line, if there is one.
  if (const size_t newline = end.find('\n'); size > kShown && newline + 1 < end.size()) end.erase(0, newline + 1);
  return wire::ValidUtf8(end);
}

// Returns the last line, without the program's name.
std::string LastWords(const std::string& path) {
  const std::string end(absl::StripTrailingAsciiWhitespace(EndOf(path)));
  const size_t newline = end.rfind('\n');
  return std::string(
      absl::StripPrefix(newline == std::string::npos ? end : end.substr(newline + 1), "luthier-worker: "));
}

// Returns the environment without tokens and certificates, which are for other coordinators: the socket that the
// workers get needs none, and must not fail because of them.
std::vector<char*> Variables() {
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const absl::string_view text(*variable);
    const bool of_others = absl::StartsWith(text, "LUTHIER_TOKEN") || absl::StartsWith(text, "LUTHIER_TLS_") ||
                           absl::StartsWith(text, "LUTHIER_ACCEPT_PLAINTEXT");
    if (!of_others) variables.push_back(*variable);
  }
  variables.push_back(nullptr);
  return variables;
}

}  // namespace

WorkerPool::WorkerPool(std::vector<Worker> workers, const base::Clock* clock) : clock_(clock) {
  for (Worker& worker : workers) slots_.push_back({.worker = std::move(worker), .pid = -1, .started = {}, .due = {}});
}

WorkerPool::~WorkerPool() {
  Stop(absl::ZeroDuration());
}

absl::Status WorkerPool::Launch(Slot* slot) {
  // Everything that allocates memory happens before fork: the child may only make system calls.
  std::vector<char*> argv;
  for (std::string& argument : slot->worker.argv) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<char*> variables = Variables();
  const int log = open(slot->worker.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (log < 0) return absl::InternalError(absl::StrCat("can't write ", slot->worker.log, ": ", std::strerror(errno)));
  const pid_t parent = getpid();
  sigset_t none;
  sigemptyset(&none);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // The parent died before the line above.
    setpgid(0, 0);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    const int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    execve(argv[0], argv.data(), variables.data());
    _exit(127);
  }
  close(log);
  if (pid < 0) return absl::InternalError(absl::StrCat("can't start a process: ", std::strerror(errno)));
  slot->pid = pid;
  slot->started = clock_->Monotonic();
  return absl::OkStatus();
}

bool WorkerPool::Reap(Slot* slot, int* code) {
  if (slot->pid < 0) return true;
  int status = 0;
  const pid_t reaped = waitpid(slot->pid, &status, WNOHANG);
  if (reaped == 0 || (reaped < 0 && errno == EINTR)) return false;
  slot->pid = -1;
  *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

absl::Status WorkerPool::Tick() {
  const absl::Duration now = clock_->Monotonic();
  for (Slot& slot : slots_) {
    int code = -1;
    const bool ran = slot.pid >= 0;
    if (!Reap(&slot, &code)) continue;
    if (ran) {
      ++restarts_;
      slot.quick_deaths = code != 0 && now - slot.started < kQuick ? slot.quick_deaths + 1 : 0;
      if (code == kCannotEvaluate) {
        return absl::FailedPreconditionError(
            absl::StrCat(LastWords(slot.worker.log), "\nno trial was spent on it; the log is ", slot.worker.log));
      }
      if (code == 127 || code == kUsageError || slot.quick_deaths >= kMaxQuickDeaths) {
        return absl::FailedPreconditionError(absl::StrCat("the workers end at once (exit code ", code, "); the end of ",
                                                          slot.worker.log, ":\n", EndOf(slot.worker.log)));
      }
      absl::Duration delay = kFirstDelay;
      for (int i = 1; i < slot.quick_deaths; ++i) delay = std::min(2 * delay, kLongestDelay);
      slot.due = now + delay;
    }
    if (now >= slot.due) LUTHIER_RETURN_IF_ERROR(Launch(&slot));
  }
  return absl::OkStatus();
}

void WorkerPool::Stop(absl::Duration patience, const std::function<bool()>& hurry) {
  const auto signal_all = [&](int number) {
    for (const Slot& slot : slots_) {
      if (slot.pid >= 0) kill(slot.pid, number);
    }
  };
  const auto all_ended = [&] {
    int code = 0;
    bool all = true;
    for (Slot& slot : slots_) all = Reap(&slot, &code) && all;
    return all;
  };
  if (patience > absl::ZeroDuration()) signal_all(SIGTERM);
  const absl::Duration until = clock_->Monotonic() + patience;
  while (!all_ended() && clock_->Monotonic() < until && !hurry()) {
    const timespec pause = {0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  signal_all(SIGKILL);
  for (Slot& slot : slots_) {
    if (slot.pid >= 0) waitpid(slot.pid, nullptr, 0);
    slot.pid = -1;
  }
}

}  // namespace luthier::cli
