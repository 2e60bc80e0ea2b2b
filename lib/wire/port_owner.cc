#include "lib/wire/port_owner.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/ownership.h"
#include "lib/base/status_macros.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kListens = "0A";  // TCP_LISTEN of the kernel.

struct Entry {
  uint32_t port = 0;
  bool loopback = false;  // A connection to this machine's loopback can end here.
  bool listens = false;
  uid_t uid = 0;
};

// Checks an IPv4 address, in the byte order of this machine.
bool TakesLoopback(uint32_t address) {
  return address == INADDR_ANY || address >> 24 == IN_LOOPBACKNET;
}

// "0100007F", or four such words of IPv6: each as this machine reads four bytes of the address.
bool TakesLoopback(absl::string_view text) {
  std::array<uint32_t, 4> words = {};
  const size_t count = text.size() / 8;
  if (text.size() % 8 != 0 || (count != 1 && count != 4)) return true;  // The form is unknown: the socket may take it.
  for (size_t i = 0; i < count; ++i) {
    if (!absl::SimpleHexAtoi(text.substr(8 * i, 8), &words[i])) return true;
  }
  if (count == 1) return TakesLoopback(ntohl(words[0]));
  in6_addr address = {};
  std::memcpy(&address, words.data(), sizeof(address));
  if (IN6_IS_ADDR_V4MAPPED(&address)) return TakesLoopback(ntohl(words[3]));
  return IN6_IS_ADDR_UNSPECIFIED(&address) || IN6_IS_ADDR_LOOPBACK(&address);
}

// Parses "  0: 0100007F:1E6E 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000 0 12345 ...".
std::optional<Entry> Parse(absl::string_view line) {
  const std::vector<absl::string_view> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  if (words.size() < 8) return std::nullopt;
  const std::vector<absl::string_view> local = absl::StrSplit(words[1], ':');
  Entry entry;
  if (local.size() != 2 || !absl::SimpleHexAtoi(local[1], &entry.port) || !absl::SimpleAtoi(words[7], &entry.uid)) {
    return std::nullopt;
  }
  entry.loopback = TakesLoopback(local[0]);
  entry.listens = words[3] == kListens;
  return entry;
}

// Sets `*listens` if somebody listens.
absl::Status Look(const std::string& path, bool needed, int port, uid_t uid, bool* listens) {
  std::ifstream file(path);
  if (!file) {
    if (!needed && errno == ENOENT) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("it can't be told who listens there: ", path, " can't be read"));
  }
  std::string line;
  std::getline(file, line);  // The heading.
  while (std::getline(file, line)) {
    const std::optional<Entry> entry = Parse(line);
    if (!entry) return absl::FailedPreconditionError(absl::StrCat("it can't be told who listens there, by ", path));
    if (entry->port != static_cast<uint32_t>(port) || !entry->loopback) continue;
    if (entry->uid != uid && entry->uid != 0) {
      return absl::FailedPreconditionError(absl::StrCat(base::UserName(entry->uid), " listens there"));
    }
    *listens = *listens || entry->listens;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckPortOwner(int port, uid_t uid, const std::string& proc) {
  bool listens = false;
  LUTHIER_RETURN_IF_ERROR(Look(proc + "/net/tcp", /*needed=*/true, port, uid, &listens));
  LUTHIER_RETURN_IF_ERROR(Look(proc + "/net/tcp6", /*needed=*/false, port, uid, &listens));
  return listens ? absl::OkStatus() : absl::UnavailableError("nobody is seen to listen there");
}

}  // namespace luthier::wire
