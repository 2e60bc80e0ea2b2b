#ifndef LUTHIER_LIB_BASE_HEAP_H_
#define LUTHIER_LIB_BASE_HEAP_H_

namespace luthier::base {

// For programs that compute suggestions; once, before threads start. The allocator keeps up to 32 MB that were freed
// (in each of its arenas) instead of giving them back to the system at once: temporary matrices of some hundred
// kilobytes come and go, and fetching their pages anew cost 5 to 10 % of a suggestion from 200 results. Only time
// depends on it. Where the C library has no such setting nothing happens.
void KeepFreedMemory();

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_HEAP_H_
