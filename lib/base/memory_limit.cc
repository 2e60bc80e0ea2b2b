#include "lib/base/memory_limit.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace luthier::base {
namespace {

constexpr int64_t kLeast = int64_t{64} << 20;
constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return std::string(absl::StripAsciiWhitespace(text.str()));
}

// Reads the number in a file; kNoLimit for a missing file, or for text such as "max".
int64_t NumberIn(const std::string& path) {
  int64_t value = 0;
  return absl::SimpleAtoi(Read(path), &value) && value > 0 ? value : kNoLimit;
}

// Returns the least limit of the group at `path` below `mount` and of all groups above it.
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

}  // namespace

int64_t AddressSpace() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return static_cast<int64_t>(std::min<rlim_t>(limit.rlim_cur, kNoLimit));
}

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
  // Version 1 expresses no limit by a number beyond any machine's memory.
  if (group < machine) {
    limit = {kNoLimit, ""};  // The machine is shared out already.
    consider(group, 0.8, "four fifths of the control group's memory");
  }
  consider(AddressSpace(), 0.5, "half of the address space's limit");
  if (limit.bytes == kNoLimit) return {0, "unknown memory"};
  limit.bytes = std::max(limit.bytes, kLeast);
  return limit;
}

}  // namespace luthier::base
