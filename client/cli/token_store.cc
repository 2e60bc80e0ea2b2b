#include "client/cli/token_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {
namespace {

using PlainJson = nlohmann::json;

absl::Status SystemError(const char* what, const std::string& path) {
  return absl::InternalError(absl::StrCat("can't ", what, " ", path, ": ", std::strerror(errno)));
}

// The file, locked for this process while the object lives. Writers change it in place under the lock. A crash
// meanwhile leaves a damaged file, which counts as empty: tokens can always be given by hand.
class LockedFile {
 public:
  LockedFile() = default;
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() {
    if (fd_ >= 0) close(fd_);
  }
  absl::Status Open(const std::string& path, bool create) {
    fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT : 0), 0600);
    if (fd_ < 0) return errno == ENOENT ? absl::NotFoundError(path) : SystemError("open", path);
    if (flock(fd_, LOCK_EX) != 0) return SystemError("lock", path);
    return absl::OkStatus();
  }
  absl::StatusOr<std::string> Read() const {
    std::string text;
    char buffer[65536];
    for (ssize_t n; (n = pread(fd_, buffer, sizeof(buffer), static_cast<off_t>(text.size()))) != 0;) {
      if (n < 0) return SystemError("read", "the tokens");
      text.append(buffer, static_cast<size_t>(n));
    }
    return text;
  }
  absl::Status Write(const std::string& text) const {
    if (ftruncate(fd_, 0) != 0) return SystemError("write", "the tokens");
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = pwrite(fd_, text.data() + done, text.size() - done, static_cast<off_t>(done));
      if (n <= 0) return SystemError("write", "the tokens");
      done += static_cast<size_t>(n);
    }
    return absl::OkStatus();
  }

 private:
  int fd_ = -1;
};

// Reads a list of {server, study, trial, token}, newest last.
PlainJson Parse(const std::string& text) {
  const PlainJson json = PlainJson::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_array() ? json : PlainJson::array();
}

bool Is(const PlainJson& entry, const std::string& server, const std::string& study, int64_t trial) {
  return entry.is_object() && entry.value("server", PlainJson()) == server &&
         entry.value("study", PlainJson()) == study && entry.value("trial", PlainJson()) == trial;
}

}  // namespace

absl::Status TokenStore::Put(const std::string& server, const std::vector<client::LeaseRef>& leases) const {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(directory_).parent_path(), error);
  if (mkdir(directory_.c_str(), 0700) != 0 && errno != EEXIST) return SystemError("make", directory_);
  LockedFile file;
  LUTHIER_RETURN_IF_ERROR(file.Open(path(), /*create=*/true));
  LUTHIER_ASSIGN_OR_RETURN(const std::string text, file.Read());
  const PlainJson before = Parse(text);
  PlainJson after = PlainJson::array();
  for (const PlainJson& entry : before) {
    const bool replaced = std::any_of(leases.begin(), leases.end(), [&](const client::LeaseRef& lease) {
      return Is(entry, server, lease.study, lease.trial);
    });
    if (!replaced) after.push_back(entry);
  }
  for (const client::LeaseRef& lease : leases) {
    after.push_back({{"server", server},
                     {"study", lease.study},
                     {"trial", lease.trial},
                     {"token", absl::BytesToHexString(lease.token)}});
  }
  if (after.size() > kMaxTokens) {
    after.erase(after.begin(), after.begin() + static_cast<PlainJson::difference_type>(after.size() - kMaxTokens));
  }
  return file.Write(after.dump(0, ' ', false, PlainJson::error_handler_t::replace));
}

absl::StatusOr<std::optional<std::string>> TokenStore::Find(const std::string& server, const std::string& study,
                                                            int64_t trial) const {
  LockedFile file;
  const absl::Status opened = file.Open(path(), /*create=*/false);
  if (absl::IsNotFound(opened)) return std::optional<std::string>();
  LUTHIER_RETURN_IF_ERROR(opened);
  LUTHIER_ASSIGN_OR_RETURN(const std::string text, file.Read());
  for (const PlainJson& entry : Parse(text)) {
    if (!Is(entry, server, study, trial) || !entry.value("token", PlainJson()).is_string()) continue;
    return std::optional<std::string>(absl::HexStringToBytes(entry["token"].get<std::string>()));
  }
  return std::optional<std::string>();
}

}  // namespace luthier::cli
