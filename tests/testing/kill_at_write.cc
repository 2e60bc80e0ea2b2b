// Preloaded into a program, it kills the program with SIGKILL right before one of its steps on disk: writes to files at
// a position, syncs, cuts and removals. Which one says the number in the file that LUTHIER_KILL_AT names: 4 bytes in
// this machine's order, 1 for the next step, 0 for never. The file is shared: who starts the program arms it later.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace {

std::atomic<int32_t>* Remaining() {
  static std::atomic<int32_t>* const kRemaining = []() -> std::atomic<int32_t>* {
    const char* path = std::getenv("LUTHIER_KILL_AT");
    const int fd = path == nullptr ? -1 : open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) return nullptr;
    void* const shared = mmap(nullptr, sizeof(int32_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return shared == MAP_FAILED ? nullptr : static_cast<std::atomic<int32_t>*>(shared);
  }();
  return kRemaining;
}

void Step() {
  std::atomic<int32_t>* const remaining = Remaining();
  if (remaining != nullptr && remaining->load() > 0 && remaining->fetch_sub(1) == 1) kill(getpid(), SIGKILL);
}

template <typename F>
F* Next(const char* name) {
  return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t pwrite64(int fd, const void* data, size_t size, off64_t offset) {
  static auto* const next = Next<ssize_t(int, const void*, size_t, off64_t)>("pwrite64");
  Step();
  return next(fd, data, size, offset);
}

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  return pwrite64(fd, data, size, offset);
}

int fsync(int fd) {
  static auto* const next = Next<int(int)>("fsync");
  Step();
  return next(fd);
}

int fdatasync(int fd) {
  static auto* const next = Next<int(int)>("fdatasync");
  Step();
  return next(fd);
}

int ftruncate64(int fd, off64_t size) noexcept {
  static auto* const next = Next<int(int, off64_t)>("ftruncate64");
  Step();
  return next(fd, size);
}

int ftruncate(int fd, off_t size) noexcept {
  return ftruncate64(fd, size);
}

int unlink(const char* path) noexcept {
  static auto* const next = Next<int(const char*)>("unlink");
  Step();
  return next(path);
}

}  // extern "C"
