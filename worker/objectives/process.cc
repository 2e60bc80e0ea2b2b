#include "worker/objectives/process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::worker {
namespace {

using base::Descriptor;

constexpr int kResultFd = 3;
constexpr int kReplyFd = 4;
// Our ends of pipes are moved above this, so that no dup2 in the child overwrites one it still needs.
constexpr int kFirstFd = 10;

absl::Status MachineError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status MakePipe(Descriptor* read_end, Descriptor* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return MachineError("cannot make a pipe");
  for (int i = 0; i < 2; ++i) {
    const int moved = fcntl(fds[i], F_DUPFD_CLOEXEC, kFirstFd);
    const int error = errno;
    close(fds[i]);
    errno = error;
    *(i == 0 ? read_end : write_end) = Descriptor(moved);
  }
  if (read_end->get() < 0 || write_end->get() < 0) return MachineError("cannot make a pipe");
  return absl::OkStatus();
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> out;
  out.reserve(strings.size() + 1);
  for (const std::string& s : strings) out.push_back(const_cast<char*>(s.c_str()));  // execve does not write to them.
  out.push_back(nullptr);
  return out;
}

// All that the child needs between fork and exec, computed before: it may neither allocate nor lock.
struct ChildPlan {
  const char* path;
  char* const* argv;
  char* const* environment;
  int null_fd, stdout_fd, stderr_fd, result_fd, reply_fd, error_fd;
  rlim_t memory_limit;
  const Account* account;
  pid_t parent;
};

// Sends errno; below zero when it is about the account.
[[noreturn]] void ChildFail(int error_fd, bool of_account = false) {
  const int error = of_account ? -errno : errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

// The kernel forgets who is to die with its parent when a process changes its user.
void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // It died before the line above.
}

// Async-signal-safe calls only.
[[noreturn]] void RunChild(const ChildPlan& plan) {
  setpgid(0, 0);
  DieWithParent(plan.parent);
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(plan.null_fd, STDIN_FILENO) < 0 || dup2(plan.stdout_fd, STDOUT_FILENO) < 0 ||
      dup2(plan.stderr_fd, STDERR_FILENO) < 0 || dup2(plan.result_fd, kResultFd) < 0 ||
      dup2(plan.reply_fd, kReplyFd) < 0) {
    ChildFail(plan.error_fd);
  }
  // Whatever some library opened without O_CLOEXEC. The error pipe closes itself at exec.
  if (plan.error_fd > kReplyFd + 1) syscall(SYS_close_range, kReplyFd + 1, plan.error_fd - 1, 0);
  if (syscall(SYS_close_range, plan.error_fd + 1, ~0U, 0) != 0) {
    for (int fd = kReplyFd + 1; fd < 65536; ++fd) {
      if (fd != plan.error_fd) close(fd);
    }
  }
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (oom >= 0) {
    [[maybe_unused]] const ssize_t written = write(oom, "500", 3);
    close(oom);
  }
  if (plan.memory_limit > 0) {
    const rlimit memory = {plan.memory_limit, plan.memory_limit};
    setrlimit(RLIMIT_AS, &memory);
  }
  if (plan.account != nullptr) {
    if (!BecomeAccount(*plan.account) || chdir(".") != 0) ChildFail(plan.error_fd, /*of_account=*/true);
    DieWithParent(plan.parent);
  }
  execve(plan.path, plan.argv, plan.environment);
  ChildFail(plan.error_fd);
}

absl::Status ExecError(int error, const std::string& path, const ProcessSpec& spec) {
  const bool limited = spec.memory_limit_bytes > 0;
  const std::string whose = spec.account == nullptr ? "" : absl::StrCat(" as ", spec.account->name);
  const std::string at = absl::StrCat("cannot run ", base::Quote(path), whose, ": ");
  switch (error) {
    case ENOENT:
      return absl::NotFoundError(absl::StrCat(at, "the interpreter in its first line is missing"));
    case ENOEXEC:
      return absl::InvalidArgumentError(
          absl::StrCat(at, "it is no program; give a script a first line such as #!/usr/bin/env python3"));
    case E2BIG:
      return absl::InvalidArgumentError(absl::StrCat(at, "its arguments and environment are too long"));
    case EACCES:
    case EPERM:
      return absl::PermissionDeniedError(absl::StrCat(at, std::strerror(error)));
    case ENOMEM:
      if (limited) {
        return base::MakeError(absl::StatusCode::kResourceExhausted, base::reason::kLimitExceeded,
                               absl::StrCat(at, "the memory limit is too small to start it"));
      }
      [[fallthrough]];
    case EAGAIN:
    case EMFILE:
    case ENFILE:
      return absl::UnavailableError(absl::StrCat(at, std::strerror(error)));
    default:
      return absl::InvalidArgumentError(absl::StrCat(at, std::strerror(error)));
  }
}

std::string EnvironmentPath(const std::vector<std::string>& environment) {
  for (const std::string& entry : environment) {
    if (absl::StartsWith(entry, "PATH=")) return entry.substr(5);
  }
  return "/usr/local/bin:/usr/bin:/bin";
}

}  // namespace

absl::StatusOr<std::string> FindProgram(const std::string& program, const std::string& path) {
  struct stat info;
  if (absl::StrContains(program, "/")) {
    if (stat(program.c_str(), &info) != 0) {
      return absl::NotFoundError(
          absl::StrCat("there is no program ", base::Quote(program), " on this worker: ", std::strerror(errno)));
    }
    if (!S_ISREG(info.st_mode) || access(program.c_str(), X_OK) != 0) {
      return absl::PermissionDeniedError(absl::StrCat(base::Quote(program), " is not executable; try chmod +x"));
    }
    return program;
  }
  for (const absl::string_view directory : absl::StrSplit(path, ':')) {
    const std::string candidate = absl::StrCat(directory.empty() ? "." : directory, "/", program);
    if (stat(candidate.c_str(), &info) == 0 && S_ISREG(info.st_mode) && access(candidate.c_str(), X_OK) == 0) {
      return candidate;
    }
  }
  return absl::NotFoundError(
      absl::StrCat("there is no program ", base::Quote(program), " in the worker's PATH, ", base::Quote(path)));
}

absl::StatusOr<std::unique_ptr<Process>> Process::Start(const ProcessSpec& spec) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string path, FindProgram(spec.argv[0], EnvironmentPath(spec.environment)));
  const Descriptor null_low(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (null_low.get() < 0) return MachineError("cannot open /dev/null");
  const Descriptor null_fd(fcntl(null_low.get(), F_DUPFD_CLOEXEC, kFirstFd));
  if (null_fd.get() < 0) return MachineError("cannot open /dev/null");
  Descriptor out_read, out_write, err_read, err_write, result_read, result_write, reply_read, reply_write, error_read,
      error_write;
  LUTHIER_RETURN_IF_ERROR(MakePipe(&out_read, &out_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&err_read, &err_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&result_read, &result_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&reply_read, &reply_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&error_read, &error_write));
  if (spec.account != nullptr) {
    // Else it could not open them again, as by /dev/stderr.
    for (const Descriptor* fd : {&out_write, &err_write, &result_write, &reply_read}) {
      if (fchown(fd->get(), spec.account->uid, spec.account->gid) != 0) return MachineError("cannot hand over a pipe");
    }
  }
  const std::vector<char*> argv = Pointers(spec.argv);
  const std::vector<char*> environment = Pointers(spec.environment);
  const ChildPlan plan = {path.c_str(),
                          argv.data(),
                          environment.data(),
                          null_fd.get(),
                          out_write.get(),
                          err_write.get(),
                          result_write.get(),
                          reply_read.get(),
                          error_write.get(),
                          static_cast<rlim_t>(spec.memory_limit_bytes),
                          spec.account,
                          getpid()};

  // No handler of ours may run in the child: it would act in our name.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) RunChild(plan);
  const int fork_error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    errno = fork_error;
    return MachineError("cannot start a process");
  }
  for (Descriptor* fd : {&out_write, &err_write, &result_write, &reply_read, &error_write}) *fd = Descriptor();
  int error = 0;
  ssize_t got;
  do got = read(error_read.get(), &error, sizeof(error));
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    if (error < 0) {
      return absl::UnavailableError(absl::StrCat("cannot run programs as ", spec.account->name,
                                                 " in the worker's directory: ", std::strerror(-error)));
    }
    return ExecError(error, path, spec);
  }
  // The end of the pipe without an error: exec succeeded, so the group exists (or the child was killed).
  auto process = std::unique_ptr<Process>(new Process());
  process->pid_ = pid;
  process->stdout_ = out_read.Release();
  process->stderr_ = err_read.Release();
  process->result_ = result_read.Release();
  process->reply_ = reply_write.Release();
  for (const int fd : {process->stdout_, process->stderr_, process->result_, process->reply_}) {
    fcntl(fd, F_SETFL, O_NONBLOCK);
  }
  process->exit_ = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return process;
}

Process::~Process() {
  if (!reaped_) {
    SignalGroup(SIGKILL);
    Reap();
  }
  for (const int fd : {stdout_, stderr_, result_, reply_, exit_}) {
    if (fd >= 0) close(fd);
  }
}

void Process::SendLine(const std::string& line) {
  // A program that has closed its end must not cost us our life, whatever the process does about SIGPIPE.
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const std::string text = line + "\n";
  const ssize_t written = write(reply_, text.data(), text.size());  // At most PIPE_BUF: whole or not at all.
  if (written < 0 && errno == EPIPE) {
    const timespec now = {0, 0};
    sigtimedwait(&pipe, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Process::SignalGroup(int signal) {
  if (reaped_) return;
  // Until it is reaped its pid, and so the group's id, belongs to nobody else.
  kill(-pid_, signal);
}

bool Process::HasEnded() {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

int Process::Reap() {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
  }
  SignalGroup(SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  reaped_ = true;
  return status;
}

}  // namespace luthier::worker
