#include "worker/process/supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "worker/process/account.h"
#include "worker/process/descendants.h"

namespace luthier::worker {
namespace {

constexpr int kResultFd = 3;
constexpr int kReplyFd = 4;
// Ends of pipes are moved above this, so that no dup2 in the program's process overwrites one that is still needed.
constexpr int kFirstFd = 10;

// Sends errno, or -errno if the account is the cause.
[[noreturn]] void ProgramFails(int error_fd, bool of_account = false) {
  const int error = of_account ? -errno : errno;
  [[maybe_unused]] const ssize_t written = write(error_fd, &error, sizeof(error));
  _exit(127);
}

// Makes this process die with its parent. The kernel forgets that when a process changes its user.
void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // The parent died before the line above.
}

// Closes descriptors that some library opened without O_CLOEXEC. The error pipe closes itself at exec.
void CloseOthers(int error_fd) {
  if (error_fd > kReplyFd + 1) syscall(SYS_close_range, kReplyFd + 1, error_fd - 1, 0);
  if (syscall(SYS_close_range, error_fd + 1, ~0U, 0) == 0) return;
  for (int fd = kReplyFd + 1; fd < 65536; ++fd) {
    if (fd != error_fd) close(fd);
  }
}

[[noreturn]] void BecomeProgram(const LaunchRequest& request, const LaunchDescriptors& fds, int null_fd, int error_fd,
                                pid_t supervisor) {
  DieWithParent(supervisor);
  if (setsid() < 0) ProgramFails(error_fd);
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal) sigaction(signal, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (dup2(null_fd, STDIN_FILENO) < 0 || dup2(fds.output, STDOUT_FILENO) < 0 || dup2(fds.error, STDERR_FILENO) < 0 ||
      dup2(fds.result, kResultFd) < 0 || dup2(fds.reply, kReplyFd) < 0) {
    ProgramFails(error_fd);
  }
  CloseOthers(error_fd);
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  const int oom = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (oom >= 0) {
    [[maybe_unused]] const ssize_t written = write(oom, "500", 3);
    close(oom);
  }
  if (request.memory_limit > 0) {
    const rlimit memory = {request.memory_limit, request.memory_limit};
    setrlimit(RLIMIT_AS, &memory);
  }
  if (request.has_account) {
    if (!BecomeUser(request.uid, request.gid, request.groups, request.group_count) || chdir(".") != 0) {
      ProgramFails(error_fd, /*of_account=*/true);
    }
    DieWithParent(supervisor);
  }
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) ProgramFails(error_fd);
  execve(request.path, request.argv, request.environment);
  ProgramFails(error_fd);
}

class Supervisor {
 public:
  Supervisor(const LaunchDescriptors& descriptors, pid_t keeper) : fds_(descriptors), keeper_(keeper) {}

  [[noreturn]] void Run() {
    NameProcess("luthier-run");
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    // Supervisor and keeper both look after each run. If one is gone, the other ends the run.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    signals_ = OpenSignals();
    if (signals_ < 0) Refuse(errno);
    Start();
    Watch();
    EndAll();
    _exit(0);
  }

 private:
  void Tell(SupervisorNews::Kind kind, int value) const {
    const SupervisorNews news = {kind, value};
    send(fds_.control, &news, sizeof(news), MSG_NOSIGNAL);
  }
  [[noreturn]] void Refuse(int error) const {
    Tell(error < 0 ? SupervisorNews::kAccountRefused : SupervisorNews::kRefused, error < 0 ? -error : error);
    _exit(0);
  }

  void Start() {
    LaunchRequest request;
    if (!MapRequest(fds_.request, &request)) Refuse(errno);
    int null_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int error_pipe[2] = {-1, -1};
    if (null_fd < 0 || pipe2(error_pipe, O_CLOEXEC) != 0) Refuse(errno);
    for (int* fd : {&fds_.output, &fds_.error, &fds_.result, &fds_.reply, &null_fd, &error_pipe[1]}) {
      const int moved = fcntl(*fd, F_DUPFD_CLOEXEC, kFirstFd);
      if (moved < 0) Refuse(errno);
      close(*fd);
      *fd = moved;
    }
    const pid_t self = getpid();
    program_ = fork();
    if (program_ == 0) BecomeProgram(request, fds_, null_fd, error_pipe[1], self);
    if (program_ < 0) Refuse(errno);
    for (const int fd : {fds_.output, fds_.error, fds_.result, fds_.reply, fds_.request, null_fd, error_pipe[1]}) {
      close(fd);
    }
    int error = 0;
    ssize_t got = 0;
    do got = read(error_pipe[0], &error, sizeof(error));
    while (got < 0 && errno == EINTR);
    close(error_pipe[0]);
    if (got > 0) {
      waitpid(program_, nullptr, 0);
      Refuse(error);
    }
    // The pipe ended without an error: exec succeeded (or the program was killed).
    Tell(SupervisorNews::kStarted, program_);
  }

  // Returns when the run is to end.
  void Watch() {
    while (getppid() == keeper_) {
      pollfd fds[2] = {{fds_.control, POLLIN, 0}, {signals_, POLLIN, 0}};
      poll(fds, 2, -1);
      if (fds[1].revents != 0) AwaitChild(signals_, 0);
      Reap();
      if (fds[0].revents == 0) continue;
      SupervisorOrder order;
      const ssize_t got = recv(fds_.control, &order, sizeof(order), MSG_DONTWAIT);
      if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (got != sizeof(order)) return;  // The worker is gone, or needs nothing more.
      if (order.signal == SupervisorOrder::kKillAll) {
        EndAll();
      } else if (!reaped_) {  // No other process or group can have its number before the program is reaped.
        kill(-program_, order.signal);
      }
    }
  }

  void Reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid != program_ || reaped_) continue;
      reaped_ = true;
      // If the keeper's end was the cause, the wait status says nothing.
      if (getppid() == keeper_) Tell(SupervisorNews::kEnded, status);
    }
    alone_ = pid < 0 && errno == ECHILD;
  }

  // Returns when nothing of the run is left.
  void EndAll() {
    if (!reaped_) kill(-program_, SIGKILL);
    for (;;) {
      Reap();
      if (alone_ || KillChildren(nullptr, 0) < 0) return;
      constexpr int kAgain = 5;  // Milliseconds: the child of a dead child may have become ours unseen.
      AwaitChild(signals_, kAgain);
    }
  }

  LaunchDescriptors fds_;
  const pid_t keeper_;
  int signals_ = -1;
  pid_t program_ = -1;
  bool reaped_ = false;  // True once the program itself was reaped.
  bool alone_ = false;   // There is no child.
};

}  // namespace

void Supervise(const LaunchDescriptors& descriptors, pid_t keeper) {
  Supervisor(descriptors, keeper).Run();
}

}  // namespace luthier::worker
