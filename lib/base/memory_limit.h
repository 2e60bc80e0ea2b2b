#ifndef LUTHIER_LIB_BASE_MEMORY_LIMIT_H_
#define LUTHIER_LIB_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace luthier::base {

// A number of bytes, and where it comes from.
struct MemoryLimit {
  int64_t bytes = 0;  // 0: no limit.
  std::string source;
};

// Returns how much memory a program uses that was not told: four fifths of what its control group may have (version 1
// or 2, the least of its own and of those above it), half of the address space that it may have (RLIMIT_AS), or half of
// the machine's memory, as others work there, too; the least of them, and at least 64 MiB. `root` is put before /proc
// and /sys: tests have files of their own there.
MemoryLimit DefaultMemoryLimit(const std::string& root = "");

// The limit of this process's address space, RLIMIT_AS; the largest number without one.
int64_t AddressSpace();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_MEMORY_LIMIT_H_
