#ifndef LUTHIER_SERVER_MEMORY_LIMIT_H_
#define LUTHIER_SERVER_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "lib/base/memory_limit.h"

namespace luthier::server {

using base::DefaultMemoryLimit;
using base::MemoryLimit;

// Reads "512M" (536870912), "2G", "1024", and "0" or "none" (0). Negative: `text` is none of these.
int64_t ParseMemoryLimit(absl::string_view text);

// Returns the bytes of memory that the process uses, of `limit`. These are the resident ones, or more if the limit of
// the address space leaves less than the rest of `limit`. More than `limit` while the reserve below is gone.
int64_t UsedMemory(int64_t limit);

// Reserves some address space that nothing uses. When the process can get no more memory, the reserve is given back, so
// that calls under way end well; UsedMemory reserves it again when it can. If memory ends nonetheless, the process ends
// with 71 and a line that says why, and its supervisor starts it again. To be called once, before threads start.
void ReserveMemory();

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_MEMORY_LIMIT_H_
