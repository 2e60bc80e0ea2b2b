#ifndef LUTHIER_SERVER_MEMORY_LIMIT_H_
#define LUTHIER_SERVER_MEMORY_LIMIT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "lib/base/memory_limit.h"

namespace luthier::server {

using base::DefaultMemoryLimit;
using base::MemoryLimit;

// "512M" is 536870912, "2G", "1024", and "0" or "none" are 0. Negative: it is none of these.
int64_t ParseMemoryLimit(absl::string_view text);

// Bytes of memory that the process uses, of `limit`: resident ones, or as many as leave the rest of `limit` where that
// is all that the limit of the address space leaves. Beyond `limit` while the reserve below is gone.
int64_t UsedMemory(int64_t limit);

// Puts by some address space that nothing uses. When the process can get no more memory, that is given back, so that
// calls under way end well; UsedMemory puts it by again when it can. If memory ends nonetheless, so does the process,
// with 71 and a line that says why: its supervisor starts it again. Once, before threads start.
void ReserveMemory();

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_MEMORY_LIMIT_H_
