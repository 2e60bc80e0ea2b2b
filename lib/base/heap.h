#ifndef LUTHIER_LIB_BASE_HEAP_H_
#define LUTHIER_LIB_BASE_HEAP_H_

#include <cstddef>

namespace luthier::base {

// For programs that compute suggestions; once, before threads start. The allocator keeps up to 32 MB that were freed
// (in each of its arenas) instead of giving them back to the system at once: temporary matrices of some hundred
// kilobytes come and go, and fetching their pages anew cost 5 to 10 % of a suggestion from 200 results. Only time
// depends on it. Where the C library has no such setting nothing happens, here and below.
void KeepFreedMemory();

// For a server, besides; before threads start. At most so many arenas, one for each thread that allocates at the same
// moment at best: every arena keeps what was freed in it, and takes 64 MiB of address space.
void LimitArenas(int arenas);

// Bytes that are allocated now, in all arenas; 0 where that is not known.
size_t AllocatedBytes();
// Gives pages of freed memory back to the system. Takes some milliseconds for each 100 MiB.
void GiveBackFreed();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_HEAP_H_
