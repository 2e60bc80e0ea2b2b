#include "worker/process/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/status_macros.h"

namespace luthier::worker {
namespace {

using base::Descriptor;

absl::Status NoProcess(absl::string_view what) {
  return absl::UnavailableError(absl::StrCat(what, ": ", std::strerror(errno)));
}

absl::Status MakePipe(Descriptor* read_end, Descriptor* write_end) {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return NoProcess("cannot make a pipe");
  *read_end = Descriptor(fds[0]);
  *write_end = Descriptor(fds[1]);
  return absl::OkStatus();
}

// Makes a file in memory with `text`.
absl::StatusOr<Descriptor> MemoryFile(const std::string& text) {
  constexpr unsigned kNeverExecuted = 8;  // MFD_NOEXEC_SEAL, which some machines require, and old ones do not know.
  int made = memfd_create("luthier-request", MFD_CLOEXEC | kNeverExecuted);
  if (made < 0 && errno == EINVAL) made = memfd_create("luthier-request", MFD_CLOEXEC);
  Descriptor file(made);
  if (made < 0) return NoProcess("cannot make a file in memory");
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = write(made, text.data() + written, text.size() - written);
    if (count < 0 && errno != EINTR) return NoProcess("cannot write a file in memory");
    if (count > 0) written += static_cast<size_t>(count);
  }
  return file;
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

absl::StatusOr<std::unique_ptr<Process>> Process::Start(Keeper* keeper, const ProcessSpec& spec) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string path, FindProgram(spec.argv[0], EnvironmentPath(spec.environment)));
  auto process = std::unique_ptr<Process>(new Process());
  Descriptor out_write, err_write, result_write, reply_read;
  LUTHIER_RETURN_IF_ERROR(MakePipe(&process->stdout_, &out_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&process->stderr_, &err_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&process->result_, &result_write));
  LUTHIER_RETURN_IF_ERROR(MakePipe(&reply_read, &process->reply_));
  if (spec.account != nullptr) {
    // Otherwise the account could not open them again, as by /dev/stderr.
    for (const Descriptor* fd : {&out_write, &err_write, &result_write, &reply_read}) {
      if (fchown(fd->get(), spec.account->uid, spec.account->gid) != 0) return NoProcess("cannot hand over a pipe");
    }
  }
  for (const Descriptor* fd : {&process->stdout_, &process->stderr_, &process->result_, &process->reply_}) {
    fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  int control[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, control) != 0) return NoProcess("cannot make a socket");
  process->control_ = Descriptor(control[0]);
  Descriptor theirs(control[1]);
  LUTHIER_ASSIGN_OR_RETURN(const Descriptor request, MemoryFile(PackRequest(path, spec)));
  LUTHIER_RETURN_IF_ERROR(keeper->Launch(
      {out_write.get(), err_write.get(), result_write.get(), reply_read.get(), theirs.get(), request.get()}));
  for (Descriptor* fd : {&out_write, &err_write, &result_write, &reply_read, &theirs}) *fd = Descriptor();
  LUTHIER_RETURN_IF_ERROR(process->AwaitStart(path, spec));
  return process;
}

absl::Status Process::AwaitStart(const std::string& path, const ProcessSpec& spec) {
  SupervisorNews news;
  ssize_t got = 0;
  do got = recv(control_.get(), &news, sizeof(news), 0);
  while (got < 0 && errno == EINTR);
  if (got == sizeof(news) && news.kind == SupervisorNews::kStarted) {
    pid_ = news.value;
    return absl::OkStatus();
  }
  ended_ = gone_ = true;
  if (got != sizeof(news)) return absl::UnavailableError("cannot start a process: the one that starts it was killed");
  if (news.kind == SupervisorNews::kAccountRefused) {
    return absl::UnavailableError(absl::StrCat("cannot run programs as ", spec.account->name,
                                               " in the worker's directory: ", std::strerror(news.value)));
  }
  return ExecError(news.value, path, spec);
}

Process::~Process() {
  if (gone_) return;
  if (!ended_) KillAll();
  Reap();
}

void Process::SendLine(const std::string& line) {
  // A program that has closed its end must not end this process, whatever that does about SIGPIPE.
  sigset_t pipe, before;
  sigemptyset(&pipe);
  sigaddset(&pipe, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &pipe, &before);
  const std::string text = line + "\n";
  const ssize_t written = write(reply_.get(), text.data(), text.size());  // At most PIPE_BUF: whole or not at all.
  if (written < 0 && errno == EPIPE) {
    const timespec now = {0, 0};
    sigtimedwait(&pipe, nullptr, &now);
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

void Process::Order(int signal) {
  const SupervisorOrder order = {signal};
  send(control_.get(), &order, sizeof(order), MSG_NOSIGNAL);  // If the supervisor is gone, it needs no order.
}

void Process::SignalGroup(int signal) {
  Order(signal);
}

void Process::KillAll() {
  Order(SupervisorOrder::kKillAll);
}

bool Process::Listen(int milliseconds) {
  pollfd fd = {control_.get(), POLLIN, 0};
  int ready = 0;
  do ready = poll(&fd, 1, milliseconds);
  while (ready < 0 && errno == EINTR);
  if (ready <= 0) return false;
  SupervisorNews news;
  const ssize_t got = recv(control_.get(), &news, sizeof(news), MSG_DONTWAIT);
  if (got == sizeof(news)) {
    ended_ = true;
    status_ = news.value;
    return true;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return true;
  lost_ = !ended_;
  ended_ = gone_ = true;
  return true;
}

bool Process::HasEnded() {
  while (!ended_ && Listen(0)) {
  }
  return ended_;
}

int Process::Reap() {
  while (!ended_) Listen(-1);
  shutdown(control_.get(), SHUT_WR);  // Tells the supervisor to end everything that is left.
  constexpr int kReapMilliseconds = 5000;
  while (!gone_) {
    if (Listen(kReapMilliseconds)) continue;
    base::LogWarning("processes_left", {{"of", absl::StrCat(pid_)}});
    break;
  }
  return status_;
}

}  // namespace luthier::worker
