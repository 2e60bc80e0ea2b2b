#include "lib/base/ownership.h"

#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::base {
namespace {

constexpr uid_t kRoot = 0;
constexpr int kMaxLinks = 40;  // The kernel's own limit.
constexpr size_t kEntryBytes = 64 << 10;

struct User {
  std::string name;
  gid_t group;
};

std::optional<User> FindUser(uid_t uid) {
  std::vector<char> buffer(kEntryBytes);
  passwd entry = {};
  passwd* found = nullptr;
  if (getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return std::nullopt;
  return User{entry.pw_name, entry.pw_gid};
}

// Returns true if nobody but `uid` is in the group; many systems make such a one for each user.
bool IsAloneIn(gid_t gid, uid_t uid) {
  const std::optional<User> user = FindUser(uid);
  if (!user || user->group != gid) return false;
  std::vector<char> buffer(kEntryBytes);
  group entry = {};
  group* found = nullptr;
  if (getgrgid_r(gid, &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return false;
  if (user->name != entry.gr_name) return false;
  for (char** member = entry.gr_mem; *member != nullptr; ++member) {
    if (user->name != *member) return false;
  }
  return true;
}

absl::Status Refuse(const std::string& where, absl::string_view why) {
  return absl::FailedPreconditionError(
      absl::StrCat(where.empty() ? std::string("the current folder") : Quote(where), " ", why));
}

absl::Status Errno(const std::string& where, int problem) {
  if (problem == ENOENT || problem == ENOTDIR) return absl::NotFoundError(absl::StrCat(where, ": is not there"));
  return Refuse(where, absl::StrCat("can't be looked at: ", std::strerror(problem)));
}

// Walks once along a path, as the kernel does.
class Walk {
 public:
  explicit Walk(uid_t uid) : uid_(uid) {}

  absl::Status Go(const std::string& path, CurrentFolder current) {
    Prepend(path);
    LUTHIER_RETURN_IF_ERROR(Begin(absl::StartsWith(path, "/"), current == CurrentFolder::kTrusted));
    while (!left_.empty()) {
      const std::string name = std::move(left_.front());
      left_.pop_front();
      LUTHIER_RETURN_IF_ERROR(Step(name));
    }
    return absl::OkStatus();
  }

 private:
  bool Ours(uid_t owner) const { return owner == uid_ || owner == kRoot; }

  void Prepend(absl::string_view path) {
    std::deque<std::string> names;
    for (const absl::string_view name : absl::StrSplit(path, '/', absl::SkipEmpty())) {
      if (name != ".") names.emplace_back(name);
    }
    left_.insert(left_.begin(), names.begin(), names.end());
  }

  absl::Status Begin(bool at_root, bool trusted) {
    where_ = at_root ? "/" : "";
    folder_ = Descriptor(open(at_root ? "/" : ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
    return trusted && !at_root ? absl::OkStatus() : CheckFolder(where_, /*last=*/left_.empty());
  }

  // Checks the folder in which the next name is looked up, or the folder at the end of the path.
  absl::Status CheckFolder(const std::string& where, bool last) const {
    struct stat info;
    if (folder_.get() < 0 || fstat(folder_.get(), &info) != 0) return Errno(where, errno);
    if (!Ours(info.st_uid)) return Foreign(where, info.st_uid);
    const bool group = (info.st_mode & S_IWGRP) != 0 && !IsAloneIn(info.st_gid, uid_) && !IsAloneIn(info.st_gid, kRoot);
    if ((info.st_mode & S_IWOTH) == 0 && !group) return absl::OkStatus();
    if (!last && (info.st_mode & S_ISVTX) != 0) return absl::OkStatus();
    return Refuse(where,
                  absl::StrCat("can be written to by ", (info.st_mode & S_IWOTH) != 0 ? "everybody" : "its group"));
  }

  absl::Status Foreign(const std::string& where, uid_t owner) const {
    const std::string ours =
        uid_ == kRoot ? "not to root" : absl::StrCat("neither to ", UserName(uid_), " nor to root");
    return Refuse(where, absl::StrCat("belongs to ", UserName(owner), ", ", ours));
  }

  absl::Status Step(const std::string& name) {
    const std::string where = where_.empty() || where_ == "/" ? where_ + name : absl::StrCat(where_, "/", name);
    struct stat info;
    if (fstatat(folder_.get(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0) return Errno(where, errno);
    if (!Ours(info.st_uid)) return Foreign(where, info.st_uid);
    if (S_ISLNK(info.st_mode)) return Follow(name, where);
    if (!S_ISDIR(info.st_mode)) return left_.empty() ? absl::OkStatus() : Errno(where, ENOTDIR);
    folder_ = Descriptor(openat(folder_.get(), name.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    where_ = where;
    return CheckFolder(where_, left_.empty());
  }

  absl::Status Follow(const std::string& name, const std::string& where) {
    if (++links_ > kMaxLinks) return Errno(where, ELOOP);
    std::string target(PATH_MAX, '\0');
    const ssize_t size = readlinkat(folder_.get(), name.c_str(), target.data(), target.size());
    if (size < 0) return Errno(where, errno);
    target.resize(static_cast<size_t>(size));
    Prepend(target);
    // A relative target goes on in the folder of the link, which has been checked.
    return absl::StartsWith(target, "/") ? Begin(true, false) : absl::OkStatus();
  }

  const uid_t uid_;
  std::deque<std::string> left_;
  Descriptor folder_;
  std::string where_;  // The name of that folder, for people.
  int links_ = 0;
};

}  // namespace

absl::Status CheckOwnership(const std::string& path, uid_t uid, CurrentFolder current) {
  struct stat info;
  // The folders on the way don't matter if nothing is there.
  if (stat(path.c_str(), &info) != 0 && (errno == ENOENT || errno == ENOTDIR)) return Errno(path, errno);
  return Walk(uid).Go(path, current);
}

std::string UserName(uid_t uid) {
  const std::optional<User> user = FindUser(uid);
  return user ? user->name : absl::StrCat("user ", uid);
}

}  // namespace luthier::base
