#ifndef LUTHIER_LIB_BASE_MEMORY_LIMIT_H_
#define LUTHIER_LIB_BASE_MEMORY_LIMIT_H_

#include <cstdint>
#include <string>

namespace luthier::base {

// A number of bytes, and the source of the limit.
struct MemoryLimit {
  int64_t bytes = 0;  // 0: no limit.
  std::string source;
};

// Returns the default memory limit of a program: four fifths of the limit of its control group (version 1 or 2, the
// least of the group's own and those of the groups above it), half of the limit of its address space (RLIMIT_AS), or
// half of the machine's memory, as other programs run there, too. The least of them counts, and at least 64 MiB. `root`
// is put before /proc and /sys: tests have files of their own there.
MemoryLimit DefaultMemoryLimit(const std::string& root = "");

// Returns the limit of this process's address space, RLIMIT_AS; the largest number if there is none.
int64_t AddressSpace();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_MEMORY_LIMIT_H_
