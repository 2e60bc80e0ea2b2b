#include "worker/process/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"
#include "worker/process/descendants.h"
#include "worker/process/supervisor.h"

namespace luthier::worker {
namespace {

constexpr int kSocketFd = 3;
constexpr int kMaxSupervisors = 1024;  // A worker has at most 64 slots; the rest is for runs that wait for a disk.
constexpr int kPatienceMilliseconds = 2000;
constexpr int kAgainMilliseconds = 5;

int64_t Milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// The keeper's own process. It must be async-signal-safe, since it may be forked again from a process with threads.
class KeeperProcess {
 public:
  [[noreturn]] void Run(int socket) {
    NameProcess("luthier-keeper");
    prctl(PR_SET_PDEATHSIG, SIGCONT);  // Continues a stopped keeper, so that it ends the runs.
    setsid();
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    // The keeper holds no descriptor of the worker open: not its terminal, its log, or a lock of its parent. The socket
    // is moved first: in a worker that was started without standard descriptors it is one of these.
    if (socket != kSocketFd) dup3(socket, kSocketFd, O_CLOEXEC);
    const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < kSocketFd; ++fd) dup2(null, fd);
    if (syscall(SYS_close_range, kSocketFd + 1, ~0U, 0) != 0) {
      for (int fd = kSocketFd + 1; fd < 65536; ++fd) close(fd);
    }
    signals_ = OpenSignals();
    if (signals_ < 0) _exit(1);
    while (Step()) {
    }
    // The supervisors have seen the worker's end, too.
    const int64_t until = Milliseconds() + kPatienceMilliseconds;
    Reap();
    while (!alone_ && Milliseconds() < until) {
      // Kills supervisors that are stopped again and again.
      if (Milliseconds() > until - kPatienceMilliseconds / 2) KillSupervisors();
      EndStrays();
      AwaitChild(signals_, kAgainMilliseconds);
      Reap();
    }
    _exit(0);
  }

 private:
  // Makes one step. False once the worker is gone.
  bool Step() {
    pollfd fds[2] = {{kSocketFd, POLLIN, 0}, {signals_, POLLIN, 0}};
    poll(fds, 2, -1);
    if (fds[1].revents != 0) {
      AwaitChild(signals_, 0);
      Reap();
      EndStrays();
    }
    return fds[0].revents == 0 || Receive();
  }

  bool Receive() {
    char byte = 0;
    iovec data = {&byte, 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(LaunchDescriptors))];
    msghdr message = {};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t got = recvmsg(kSocketFd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (got <= 0) return false;
    LaunchDescriptors descriptors;
    const cmsghdr* const header = CMSG_FIRSTHDR(&message);
    // If no descriptor was free, some are missing; the worker then sees the end of the control socket.
    if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof(descriptors))) {
      syscall(SYS_close_range, signals_ + 1, ~0U, 0);
      return true;
    }
    memcpy(&descriptors, CMSG_DATA(header), sizeof(descriptors));
    Launch(descriptors);
    for (const int fd : {descriptors.output, descriptors.error, descriptors.result, descriptors.reply,
                         descriptors.control, descriptors.request}) {
      close(fd);
    }
    return true;
  }

  void Launch(const LaunchDescriptors& descriptors) {
    const pid_t self = getpid();
    errno = EAGAIN;
    const pid_t pid = count_ < kMaxSupervisors ? fork() : -1;
    if (pid == 0) {
      close(kSocketFd);
      close(signals_);
      Supervise(descriptors, self);
    }
    if (pid > 0) {
      supervisors_[count_++] = pid;
      return;
    }
    const SupervisorNews news = {SupervisorNews::kRefused, errno};
    send(descriptors.control, &news, sizeof(news), MSG_NOSIGNAL);
  }

  void Reap() {
    int status = 0;
    pid_t pid = 0;
    while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED)) > 0) {
      pid_t* const end = supervisors_ + count_;
      pid_t* const at = std::find(supervisors_, end, pid);
      if (at == end) continue;
      if (WIFSTOPPED(status)) {  // A run may have stopped its supervisor, which must see the run's end.
        kill(pid, SIGCONT);
        continue;
      }
      *at = supervisors_[--count_];
      strays_ = strays_ || WIFSIGNALED(status);
    }
    alone_ = pid < 0 && errno == ECHILD;
  }

  void KillSupervisors() const {
    for (int i = 0; i < count_; ++i) kill(supervisors_[i], SIGKILL);
  }

  // Ends what a killed supervisor has left.
  void EndStrays() {
    const int64_t until = Milliseconds() + kPatienceMilliseconds;
    while (strays_ && Milliseconds() < until) {
      strays_ = KillChildren(supervisors_, count_) > 0;
      if (strays_) AwaitChild(signals_, kAgainMilliseconds);
      Reap();
    }
  }

  int signals_ = -1;
  pid_t supervisors_[kMaxSupervisors] = {};
  int count_ = 0;
  bool strays_ = false;  // There may be children that are not supervisors.
  bool alone_ = false;   // There is no child.
};

absl::Status MachineError(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Keeper>> Keeper::Start() {
  auto keeper = std::unique_ptr<Keeper>(new Keeper());
  const base::MutexLock lock(&keeper->mutex_);
  LUTHIER_RETURN_IF_ERROR(keeper->Fork());
  return keeper;
}

Keeper::~Keeper() {
  const base::MutexLock lock(&mutex_);
  WaitForEnd();
}

pid_t Keeper::pid() const {
  const base::MutexLock lock(&mutex_);
  return pid_;
}

void Keeper::WaitForEnd() {
  socket_ = base::Descriptor();
  if (pid_ < 0) return;
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

absl::Status Keeper::Fork() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return MachineError("cannot make a socket to the process that starts commands");
  }
  base::Descriptor ours(ends[0]);
  const base::Descriptor theirs(ends[1]);
  // No signal handler of ours may run in the child, where it would act in our name.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t pid = fork();
  if (pid == 0) KeeperProcess().Run(theirs.get());
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = error;
  if (pid < 0) return MachineError("cannot start the process that starts commands");
  pid_ = pid;
  socket_ = std::move(ours);
  return absl::OkStatus();
}

absl::Status Keeper::Launch(const LaunchDescriptors& descriptors) {
  char byte = 0;
  iovec data = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(descriptors))] = {};
  msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(descriptors));
  memcpy(CMSG_DATA(header), &descriptors, sizeof(descriptors));
  const base::MutexLock lock(&mutex_);
  if (pid_ > 0) kill(pid_, SIGCONT);  // A run may have stopped it.
  const auto send = [&](int socket) {
    ssize_t sent = 0;
    do sent = sendmsg(socket, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == 1;
  };
  if (send(socket_.get())) return absl::OkStatus();
  if (errno != EPIPE && errno != ECONNRESET) return MachineError("cannot hand a program over");
  base::LogWarning("keeper_killed", {{"pid", absl::StrCat(pid_)}});
  WaitForEnd();
  LUTHIER_RETURN_IF_ERROR(Fork());
  return send(socket_.get()) ? absl::OkStatus() : MachineError("cannot hand a program over");
}

}  // namespace luthier::worker
