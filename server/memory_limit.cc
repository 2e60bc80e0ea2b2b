#include "server/memory_limit.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"

namespace luthier::server {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr size_t kReservedBytes = size_t{64} << 20;
constexpr int64_t kAddressMargin = int64_t{128} << 20;  // For stacks of threads, and arenas of the allocator.
constexpr int kExitNoMemory = 71;                       // EX_OSERR of sysexits.h.

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::string(absl::StripAsciiWhitespace(text.str()));
}

std::atomic<void*> reserve{nullptr};
std::atomic<bool> reserving{false};  // True once ReserveMemory was called.

void PutBy() {
  void* const kept = mmap(nullptr, kReservedBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (kept == MAP_FAILED) return;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, kept)) munmap(kept, kReservedBytes);
}

void Say(absl::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

// Called by operator new, which tries again when this returns.
void OutOfMemory() {
  if (void* const kept = reserve.exchange(nullptr)) {
    munmap(kept, kReservedBytes);
    Say("luthierd: the system gives no more memory; new work is refused until there is some again\n");
    return;
  }
  Say("luthierd: the system gives no more memory: set a smaller --memory-limit, or allow more; ends with 71\n");
  _exit(kExitNoMemory);
}

}  // namespace

int64_t ParseMemoryLimit(absl::string_view text) {
  std::string lower = absl::AsciiStrToLower(text);
  if (lower == "none") return 0;
  int shift = 0;
  for (const absl::string_view end : {"ib", "b"}) {
    if (lower.size() > end.size() && absl::EndsWith(lower, end)) {
      lower.resize(lower.size() - end.size());
      break;
    }
  }
  constexpr absl::string_view kUnits = "kmgt";
  if (!lower.empty() && absl::StrContains(kUnits, lower.back())) {
    shift = 10 * (static_cast<int>(kUnits.find(lower.back())) + 1);
    lower.pop_back();
  }
  lower = std::string(absl::StripTrailingAsciiWhitespace(lower));
  int64_t value = 0;
  const bool digits = !lower.empty() && std::all_of(lower.begin(), lower.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(lower, &value) || value > (kNoLimit >> shift)) return -1;
  return value << shift;
}

int64_t UsedMemory(int64_t limit) {
  std::istringstream statm(Read("/proc/self/statm"));
  int64_t all = 0, resident = 0;
  if (!(statm >> all >> resident)) return 0;
  const int64_t page = sysconf(_SC_PAGESIZE);
  int64_t used = resident * page;
  if (const int64_t most = base::AddressSpace(); most != kNoLimit) {
    used = std::max(used, limit - std::max<int64_t>(0, most - kAddressMargin - all * page));
  }
  if (!reserving || reserve != nullptr) return used;
  PutBy();
  return reserve != nullptr ? used : std::max(used, 2 * limit);
}

void ReserveMemory() {
  PutBy();
  reserving = true;
  std::set_new_handler(OutOfMemory);
}

}  // namespace luthier::server
