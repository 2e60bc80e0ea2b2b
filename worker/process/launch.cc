#include "worker/process/launch.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

namespace luthier::worker {
namespace {

// The beginning of a request. It is followed by the pointers of argv and environment as offsets from the beginning (0:
// null), the groups, and the texts with a zero byte behind each.
struct Header {
  uint64_t memory_limit;
  uint64_t has_account, uid, gid, group_count;
  uint64_t argc, envc;
  uint64_t path;  // Offset of the path.
};
static_assert(sizeof(char*) == sizeof(uint64_t));

}  // namespace

std::string PackRequest(const std::string& path, const ProcessSpec& spec) {
  const std::vector<gid_t> groups = spec.account != nullptr ? spec.account->groups : std::vector<gid_t>();
  Header header = {};
  header.memory_limit = static_cast<uint64_t>(spec.memory_limit_bytes);
  header.has_account = spec.account != nullptr ? 1 : 0;
  header.uid = spec.account != nullptr ? spec.account->uid : 0;
  header.gid = spec.account != nullptr ? spec.account->gid : 0;
  header.group_count = groups.size();
  header.argc = spec.argv.size();
  header.envc = spec.environment.size();
  std::vector<uint64_t> offsets;
  const uint64_t texts_at =
      sizeof(Header) + (header.argc + header.envc + 2) * sizeof(uint64_t) + groups.size() * sizeof(gid_t);
  std::string texts;
  const auto add = [&](const std::string& text) {
    const uint64_t offset = texts_at + texts.size();
    texts.append(text);
    texts.push_back('\0');
    return offset;
  };
  header.path = add(path);
  for (const std::vector<std::string>* list : {&spec.argv, &spec.environment}) {
    for (const std::string& text : *list) offsets.push_back(add(text));
    offsets.push_back(0);
  }
  std::string out(reinterpret_cast<const char*>(&header), sizeof(header));
  out.append(reinterpret_cast<const char*>(offsets.data()), offsets.size() * sizeof(uint64_t));
  out.append(reinterpret_cast<const char*>(groups.data()), groups.size() * sizeof(gid_t));
  return out + texts;
}

bool MapRequest(int fd, LaunchRequest* request) {
  struct stat info;
  if (fstat(fd, &info) != 0) return false;
  void* const mapped = mmap(nullptr, static_cast<size_t>(info.st_size), PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  if (mapped == MAP_FAILED) return false;
  char* const base = static_cast<char*>(mapped);
  Header header;
  memcpy(&header, base, sizeof(header));
  char* const offsets = base + sizeof(Header);
  const uint64_t count = header.argc + header.envc + 2;
  for (uint64_t i = 0; i < count; ++i) {
    uint64_t offset = 0;
    memcpy(&offset, offsets + i * sizeof(offset), sizeof(offset));
    char* const pointer = offset == 0 ? nullptr : base + offset;
    memcpy(offsets + i * sizeof(pointer), &pointer, sizeof(pointer));
  }
  request->path = base + header.path;
  request->argv = reinterpret_cast<char* const*>(offsets);
  request->environment = request->argv + header.argc + 1;
  request->memory_limit = header.memory_limit;
  request->has_account = header.has_account != 0;
  request->uid = static_cast<uid_t>(header.uid);
  request->gid = static_cast<gid_t>(header.gid);
  request->group_count = header.group_count;
  request->groups = reinterpret_cast<const gid_t*>(offsets + count * sizeof(uint64_t));
  return true;
}

}  // namespace luthier::worker
