#include "worker/process/private_directory.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace luthier::worker {

absl::StatusOr<PrivateDirectory> PrivateDirectory::Create(const std::string& root) {
  std::string base = root;
  if (base.empty()) {
    const char* tmpdir = std::getenv("TMPDIR");
    base = tmpdir != nullptr && tmpdir[0] != '\0' ? tmpdir : "/tmp";
  }
  std::string path = base + "/luthier-run-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a directory in ", base, ": ", std::strerror(errno)));
  }
  return PrivateDirectory(std::move(path));
}

PrivateDirectory::~PrivateDirectory() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

absl::Status PrivateDirectory::HandTo(const Account& account) const {
  std::error_code error;
  bool handed = true;
  for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
    handed = handed && lchown(entry.path().c_str(), account.uid, account.gid) == 0;
  }
  if (handed && !error && lchown(path_.c_str(), account.uid, account.gid) == 0) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot hand ", path_, " to ", account.name));
}

}  // namespace luthier::worker
