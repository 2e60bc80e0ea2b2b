#include "lib/base/heap.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace luthier::base {

void KeepFreedMemory() {
#ifdef __GLIBC__
  // Larger blocks are mapped one by one, and unmapped when freed. Setting one of the two ends the automatic choice of
  // both.
  mallopt(M_MMAP_THRESHOLD, 8 << 20);
  mallopt(M_TRIM_THRESHOLD, 32 << 20);
#endif
}

void LimitArenas([[maybe_unused]] int arenas) {
#ifdef __GLIBC__
  mallopt(M_ARENA_MAX, arenas);
#endif
}

size_t AllocatedBytes() {
#ifdef __GLIBC__
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;
#else
  return 0;
#endif
}

void GiveBackFreed() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace luthier::base
