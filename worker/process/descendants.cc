#include "worker/process/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>

namespace luthier::worker {
namespace {

struct Stat {
  long parent = 0, group = 0, session = 0;
};

// Reads the number at *text, and moves *text behind it; 0 if there is none.
unsigned long NumberAt(const char** text) {
  unsigned long value = 0;
  while (**text == ' ') ++*text;
  for (; **text >= '0' && **text <= '9'; ++*text) value = value * 10 + static_cast<unsigned long>(**text - '0');
  return value;
}

// Reads up to `size` bytes of /proc/`pid`/stat; pid 0: our own. False if there is no such process.
bool ReadStat(pid_t pid, char* text, size_t size) {
  char path[40] = "/proc/self/stat";
  if (pid != 0) {
    char digits[16];
    int count = 0;
    for (pid_t rest = pid; rest > 0; rest /= 10) digits[count++] = static_cast<char>('0' + rest % 10);
    char* at = path + 6;
    while (count > 0) *at++ = digits[--count];
    memcpy(at, "/stat", 6);
  }
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t got = read(fd, text, size - 1);
  close(fd);
  if (got <= 0) return false;
  text[got] = '\0';
  return true;
}

bool StatOf(pid_t pid, Stat* stat) {
  char text[512];
  if (!ReadStat(pid, text, sizeof(text))) return false;
  const char* at = strrchr(text, ')');  // The name before it may contain anything.
  if (at == nullptr || strlen(at) < 4) return false;
  at += 3;  // ") S"
  stat->parent = static_cast<long>(NumberAt(&at));
  stat->group = static_cast<long>(NumberAt(&at));
  stat->session = static_cast<long>(NumberAt(&at));
  return true;
}

struct Entry {  // linux_dirent64
  uint64_t inode;
  int64_t offset;
  uint16_t size;
  uint8_t type;
  char name[1];
};

}  // namespace

int KillChildren(const pid_t* spared, int spared_count) {
  const int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (proc < 0) return -1;
  const pid_t self = getpid(), own_session = getsid(0);
  int found = 0;
  for (;;) {
    alignas(Entry) char buffer[16384];
    const long size = syscall(SYS_getdents64, proc, buffer, sizeof(buffer));
    if (size <= 0) break;
    pid_t pids[sizeof(buffer) / 24];
    int count = 0;
    for (long at = 0; at < size;) {
      const Entry* const entry = reinterpret_cast<const Entry*>(buffer + at);
      at += entry->size;
      const char* name = entry->name;
      if (const unsigned long pid = NumberAt(&name); pid > 0 && *name == '\0') pids[count++] = static_cast<pid_t>(pid);
    }
    // The newest comes first, so that a process that keeps forking is caught at its newest child.
    for (int i = count - 1; i >= 0; --i) {
      Stat stat;
      if (!StatOf(pids[i], &stat) || stat.parent != self) continue;
      if (std::find(spared, spared + spared_count, pids[i]) != spared + spared_count) continue;
      ++found;
      kill(pids[i], SIGKILL);
      if (stat.session != own_session && stat.group > 1) kill(static_cast<pid_t>(-stat.group), SIGKILL);
    }
  }
  close(proc);
  return found;
}

void AwaitChild(int signals, int milliseconds) {
  pollfd fd = {signals, POLLIN, 0};
  if (poll(&fd, 1, milliseconds) <= 0) return;
  signalfd_siginfo info;
  [[maybe_unused]] const ssize_t got = read(signals, &info, sizeof(info));
}

void NameProcess(const char* name) {
  prctl(PR_SET_NAME, name);
  char text[1024];
  if (!ReadStat(0, text, sizeof(text))) return;
  const char* at = strrchr(text, ')');
  if (at == nullptr) return;
  // Skips from the state, field 3, to the addresses of the arguments, fields 48 and 49 of proc(5).
  for (int field = 2; field < 48 && at != nullptr; ++field) at = strchr(at + 1, ' ');
  if (at == nullptr) return;
  const unsigned long begin = NumberAt(&at), end = NumberAt(&at);
  const size_t length = strlen(name);
  if (begin == 0 || end <= begin + length) return;
  char* const arguments = reinterpret_cast<char*>(begin);
  memset(arguments, 0, end - begin);
  memcpy(arguments, name, length);
}

int OpenSignals() {
  sigset_t set;
  sigfillset(&set);
  sigprocmask(SIG_SETMASK, &set, nullptr);
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  sigaddset(&set, SIGTERM);
  // An ignored SIGCHLD is never seen, and the wait status is lost with it.
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &action, nullptr);
  return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace luthier::worker
