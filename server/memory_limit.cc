#include "server/memory_limit.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace luthier::server {
namespace {

constexpr int64_t kLeast = int64_t{64} << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();
constexpr size_t kReserve = size_t{64} << 20;
constexpr int64_t kAddressMargin = int64_t{128} << 20;  // For stacks of threads, and arenas of the allocator.
constexpr int kExitNoMemory = 71;                       // EX_OSERR of sysexits.h.

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::string(absl::StripAsciiWhitespace(text.str()));
}

// The number in a file; kNoLimit where there is none, as "max" is.
int64_t NumberIn(const std::string& path) {
  int64_t value = 0;
  return absl::SimpleAtoi(Read(path), &value) && value > 0 ? value : kNoLimit;
}

// The least limit of the group at `path` below `mount` and of all above it.
int64_t LeastOnTheWay(const std::string& mount, std::string path, const char* file) {
  int64_t least = NumberIn(absl::StrCat(mount, "/", file));
  while (!path.empty() && path != "/") {
    least = std::min(least, NumberIn(absl::StrCat(mount, path, "/", file)));
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  return least;
}

int64_t ControlGroupLimit(const std::string& root) {
  int64_t least = kNoLimit;
  for (const absl::string_view line : absl::StrSplit(Read(root + "/proc/self/cgroup"), '\n')) {
    // "0::/path" of version 2; "4:cpu,memory:/path" of version 1.
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[0] == "0" && parts[1].empty()) {
      least = std::min(least, LeastOnTheWay(root + "/sys/fs/cgroup", parts[2], "memory.max"));
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      least = std::min(least, LeastOnTheWay(root + "/sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes"));
    }
  }
  return least;
}

int64_t MachineMemory(const std::string& root) {
  for (const absl::string_view line : absl::StrSplit(Read(root + "/proc/meminfo"), '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    int64_t kibibytes = 0;
    if (words.size() >= 2 && words[0] == "MemTotal:" && absl::SimpleAtoi(words[1], &kibibytes)) return kibibytes << 10;
  }
  // A service may see its own processes alone.
  struct sysinfo info;
  if (!root.empty() || sysinfo(&info) != 0) return kNoLimit;
  return static_cast<int64_t>(info.totalram) * static_cast<int64_t>(info.mem_unit);
}

int64_t AddressSpace() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
}

std::atomic<void*> reserve{nullptr};
std::atomic<bool> reserving{false};  // ReserveMemory was called.

void PutBy() {
  void* const kept = mmap(nullptr, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (kept == MAP_FAILED) return;
  void* none = nullptr;
  if (!reserve.compare_exchange_strong(none, kept)) munmap(kept, kReserve);
}

void Say(absl::string_view text) {
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

// Called by operator new, which tries again when this returns.
void OutOfMemory() {
  if (void* const kept = reserve.exchange(nullptr)) {
    munmap(kept, kReserve);
    Say("luthierd: the system gives no more memory; new work is refused until there is some again\n");
    return;
  }
  Say("luthierd: the system gives no more memory: set a smaller --memory-limit, or allow more; ends with 71\n");
  _exit(kExitNoMemory);
}

}  // namespace

MemoryLimit DefaultMemoryLimit(const std::string& root) {
  MemoryLimit limit{kNoLimit, ""};
  const auto consider = [&](int64_t all, double share, const char* source) {
    if (all == kNoLimit) return;
    const auto bytes = static_cast<int64_t>(share * static_cast<double>(all));
    if (bytes < limit.bytes) limit = {bytes, source};
  };
  const int64_t machine = MachineMemory(root);
  consider(machine, 0.5, "half of the machine's memory");
  const int64_t group = ControlGroupLimit(root);
  // Version 1 has a number of its own for no limit, which is beyond any machine.
  if (group < machine) {
    limit = {kNoLimit, ""};  // The machine is shared out already.
    consider(group, 0.8, "four fifths of the control group's memory");
  }
  consider(AddressSpace(), 0.5, "half of the address space's limit");
  if (limit.bytes == kNoLimit) return {0, "unknown memory"};
  limit.bytes = std::max(limit.bytes, kLeast);
  return limit;
}

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
  if (const int64_t most = AddressSpace(); most != kNoLimit) {
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
