#include "server/service/memory_guard.h"

#include <fcntl.h>
#include <malloc.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"

namespace luthier::service {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(10);
constexpr absl::Duration kGiveBackEvery = absl::Seconds(1);

// True for one of the callers when `next` has come; it is `period` later then.
bool Due(std::atomic<int64_t>& next, int64_t now, absl::Duration period) {
  int64_t planned = next.load();
  return now >= planned && next.compare_exchange_strong(planned, now + absl::ToInt64Nanoseconds(period));
}

}  // namespace

MemoryGuard::MemoryGuard(Options options, const base::Clock* clock) : options_(std::move(options)), clock_(clock) {}

absl::Status MemoryGuard::Admit(int64_t limit) const {
  if (options_.limit == 0) return absl::OkStatus();
  const int64_t used = Used();
  if (used < limit) return absl::OkStatus();
  base::ErrorDetail detail;
  detail.reason = base::reason::kMemory;
  detail.retry_delay = absl::Seconds(2);
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the server uses ", used >> 20, " MiB of memory, of ", options_.limit >> 20,
                                      " MiB that it may; try again shortly"),
                         std::move(detail));
}

int64_t MemoryGuard::Used() const {
  const int64_t now = absl::ToInt64Nanoseconds(clock_->Monotonic());
  if (!Due(next_look_ns_, now, kLookEvery)) return used_;
  int64_t used = options_.used();
  if (used >= options_.limit && Due(next_give_back_ns_, now, kGiveBackEvery)) {
    options_.give_back();
    used = options_.used();
  }
  used_ = used;
  return used;
}

int64_t MemoryGuard::ResidentBytes() {
  const base::Descriptor fd(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (fd.get() < 0 || read(fd.get(), text, sizeof(text) - 1) <= 0) return 0;
  const char* resident = std::strchr(text, ' ');  // After the size.
  return resident == nullptr ? 0 : std::atoll(resident) * sysconf(_SC_PAGESIZE);
}

void MemoryGuard::GiveBack() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

}  // namespace luthier::service
