#ifndef LUTHIER_LIB_BASE_HEAP_H_
#define LUTHIER_LIB_BASE_HEAP_H_

#include <cstddef>

namespace luthier::base {

// Keeps up to 32 MB of freed memory in each arena of the allocator instead of giving it back to the system at once:
// temporary matrices of some hundred kilobytes come and go, and fetching their pages anew cost 5 to 10 % of a
// suggestion from 200 results. Only time depends on it. For programs that compute suggestions; call it once, before
// threads start. Here and below nothing happens if the C library has no such setting.
void KeepFreedMemory();

// Limits the number of arenas for a server; call it before threads start. At best each thread that allocates at the
// same moment has an arena. Every arena keeps its freed memory and takes 64 MiB of address space.
void LimitArenas(int arenas);

// Returns the number of bytes that are allocated now, in all arenas; 0 if it is not known.
size_t AllocatedBytes();
// Gives pages of freed memory back to the system. Takes some milliseconds for each 100 MiB.
void GiveBackFreed();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_HEAP_H_
