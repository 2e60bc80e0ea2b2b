#include "worker/process/account.h"

#include <grp.h>
#include <pwd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"

namespace luthier::worker {
namespace {

// Exit codes of the child that tries an account.
constexpr int kMayNot = 100, kNoDirectory = 101;

}  // namespace

absl::StatusOr<Account> FindAccount(const std::string& user) {
  std::vector<char> text(1 << 16);
  passwd entry = {};
  passwd* found = nullptr;
  getpwnam_r(user.c_str(), &entry, text.data(), text.size(), &found);
  uid_t number = 0;
  if (found == nullptr && absl::SimpleAtoi(user, &number)) {
    getpwuid_r(number, &entry, text.data(), text.size(), &found);
  }
  if (found == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no user ", base::Quote(user), " on this machine; useradd makes one"));
  }
  Account account{found->pw_name, found->pw_dir, found->pw_shell, found->pw_uid, found->pw_gid, {}};
  int count = 64;
  account.groups.resize(static_cast<size_t>(count));
  if (getgrouplist(found->pw_name, account.gid, account.groups.data(), &count) < 0) {
    account.groups.resize(static_cast<size_t>(count));
    getgrouplist(found->pw_name, account.gid, account.groups.data(), &count);
  }
  account.groups.resize(static_cast<size_t>(count));
  return account;
}

bool BecomeUser(uid_t uid, gid_t gid, const gid_t* groups, size_t group_count) {
  // The functions of the C library would signal the other threads, of which the child has none.
  return syscall(SYS_setgroups, group_count, groups) == 0 && syscall(SYS_setresgid, gid, gid, gid) == 0 &&
         syscall(SYS_setresuid, uid, uid, uid) == 0;
}

absl::Status CheckAccount(const Account& account) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (!BecomeUser(account.uid, account.gid, account.groups.data(), account.groups.size())) _exit(kMayNot);
    _exit(chdir(".") == 0 ? 0 : kNoDirectory);
  }
  int status = 0;
  while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  const int code = pid < 0 || !WIFEXITED(status) ? kMayNot : WEXITSTATUS(status);
  if (code == 0) return absl::OkStatus();
  if (code == kNoDirectory) {
    std::error_code error;
    return absl::InvalidArgumentError(absl::StrCat(account.name, " may not enter ",
                                                   std::filesystem::current_path(error).string(),
                                                   ", where its commands would run; start the worker in a directory "
                                                   "that it may"));
  }
  return absl::InvalidArgumentError(absl::StrCat("only root may run commands as ", account.name,
                                                 "; start the worker as ", account.name,
                                                 " and leave --run-as out, or start it as root"));
}

void SetAccountVariables(const Account& account, std::vector<std::string>* environment) {
  const auto of_old_user = [](const std::string& entry) {
    constexpr std::array<absl::string_view, 7> kNames = {
        "HOME=", "USER=", "LOGNAME=", "SHELL=", "MAIL=", "XDG_", "SUDO_"};
    return std::any_of(kNames.begin(), kNames.end(),
                       [&](absl::string_view name) { return absl::StartsWith(entry, name); });
  };
  environment->erase(std::remove_if(environment->begin(), environment->end(), of_old_user), environment->end());
  for (const auto& [name, value] : {std::pair("HOME", account.home), std::pair("USER", account.name),
                                    std::pair("LOGNAME", account.name), std::pair("SHELL", account.shell)}) {
    environment->push_back(absl::StrCat(name, "=", value));
  }
}

}  // namespace luthier::worker
