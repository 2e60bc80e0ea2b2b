#ifndef LUTHIER_LIB_BASE_DESCRIPTOR_H_
#define LUTHIER_LIB_BASE_DESCRIPTOR_H_

#include <unistd.h>

#include <utility>

namespace luthier::base {

// Owns a file descriptor and closes it. A negative number means that there is none.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }

  int get() const { return fd_; }
  // The caller owns it from now on.
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_DESCRIPTOR_H_
