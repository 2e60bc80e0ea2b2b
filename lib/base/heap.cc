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

}  // namespace luthier::base
