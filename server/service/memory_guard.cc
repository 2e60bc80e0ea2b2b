#include "server/service/memory_guard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/heap.h"
#include "lib/base/status_macros.h"

namespace luthier::service {
namespace {

constexpr absl::Duration kLookEvery = absl::Milliseconds(10);
constexpr absl::Duration kGiveBackEvery = absl::Seconds(1);

// True for one of the callers when `next` has come; `next` is then moved by `period`.
bool Due(std::atomic<int64_t>& next, int64_t now, absl::Duration period) {
  int64_t planned = next.load();
  return now >= planned && next.compare_exchange_strong(planned, now + absl::ToInt64Nanoseconds(period));
}

}  // namespace

MemoryGuard::MemoryGuard(Options options, const base::Clock* clock) : options_(std::move(options)), clock_(clock) {}

absl::Status MemoryGuard::Admit(Kind kind, int64_t promised, int64_t more) const {
  if (options_.limit == 0) return absl::OkStatus();
  const int64_t limit = kind == Kind::kWork ? options_.limit : options_.limit + options_.limit / 10;
  // A call that reserves nothing needs some memory nonetheless.
  const int64_t bearable = limit - promised - std::max<int64_t>(more, 1);
  const int64_t used = Used(bearable);
  if (used <= bearable) return absl::OkStatus();
  base::ErrorDetail detail;
  detail.reason = base::reason::kMemory;
  detail.retry_delay = absl::Seconds(2);
  const std::string wanted = more == 0 ? "" : absl::StrCat(", and this call may need ", (more >> 20) + 1, " MiB more");
  return base::MakeError(absl::StatusCode::kResourceExhausted,
                         absl::StrCat("the server uses ", (used + promised) >> 20, " MiB of memory, of ",
                                      options_.limit >> 20, " MiB that it may", wanted, "; try again shortly"),
                         std::move(detail));
}

absl::StatusOr<MemoryGuard::Promise> MemoryGuard::Take(Kind kind, int64_t bytes) const {
  // The bytes are promised before they are checked, so that two calls at once each count for the other.
  const int64_t before = promised_.fetch_add(bytes);
  Promise promise(this, bytes);
  LUTHIER_RETURN_IF_ERROR(Admit(kind, before, bytes));
  return promise;
}

int64_t MemoryGuard::Used(int64_t bearable) const {
  const int64_t now = absl::ToInt64Nanoseconds(clock_->Monotonic());
  if (Due(next_look_ns_, now, kLookEvery)) used_ = options_.used();
  if (used_ > bearable && Due(next_give_back_ns_, now, kGiveBackEvery)) {
    options_.give_back();
    used_ = options_.used();
  }
  return used_;
}

int64_t MemoryGuard::ResidentBytes() {
  const base::Descriptor fd(open("/proc/self/statm", O_RDONLY | O_CLOEXEC));
  char text[128] = {};
  if (fd.get() < 0 || read(fd.get(), text, sizeof(text) - 1) <= 0) return 0;
  const char* resident = std::strchr(text, ' ');  // The resident size follows the total one.
  return resident == nullptr ? 0 : std::atoll(resident) * sysconf(_SC_PAGESIZE);
}

void MemoryGuard::GiveBack() {
  base::GiveBackFreed();
}

}  // namespace luthier::service
