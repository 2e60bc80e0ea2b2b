#include "worker/run_as.h"

#include <sys/stat.h>

#include <filesystem>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "lib/base/ownership.h"
#include "lib/base/status_macros.h"

namespace luthier::worker {
namespace {

// True for a Unix socket that `uid` made, or, if it is missing, that nobody else can make.
bool IsOwnSocket(absl::string_view server, uid_t uid) {
  if (!absl::ConsumePrefix(&server, "unix:")) return false;
  if (absl::StartsWith(server, "//")) server.remove_prefix(2);
  const std::filesystem::path path{std::string(server)};
  const absl::Status owned = base::CheckOwnership(path, uid);
  struct stat info;
  if (!absl::IsNotFound(owned)) return owned.ok() && stat(path.c_str(), &info) == 0 && S_ISSOCK(info.st_mode);
  return base::CheckOwnership(path.has_parent_path() ? path.parent_path() : ".", uid).ok();
}

// Returns nothing for the user of this process. One without an entry may be named by number.
absl::StatusOr<std::optional<Account>> AccountNamed(const std::string& user, uid_t uid) {
  if (user == absl::StrCat(uid)) return std::optional<Account>();
  LUTHIER_ASSIGN_OR_RETURN(Account account, FindAccount(user));
  if (account.uid == uid) return std::optional<Account>();
  LUTHIER_RETURN_IF_ERROR(CheckAccount(account));
  return std::optional<Account>(std::move(account));
}

}  // namespace

absl::StatusOr<std::map<std::string, std::optional<Account>>> ChooseAccountsOf(const Flags& flags, uid_t uid) {
  std::map<std::string, std::optional<Account>> accounts;
  for (const auto& [project, user] : flags.run_as_of) {
    absl::StatusOr<std::optional<Account>> account = AccountNamed(user, uid);
    if (!account.ok()) {
      return absl::Status(account.status().code(), absl::StrCat(project, "=", user, ": ", account.status().message()));
    }
    accounts[project] = *std::move(account);
  }
  return accounts;
}

absl::StatusOr<std::optional<Account>> ChooseAccount(Flags* flags, uid_t uid) {
  if (!flags->run_as.empty()) return AccountNamed(flags->run_as, uid);
  if (uid == 0 && !flags->run_as_of.empty()) {
    std::set<std::string>& projects = flags->commands.with_account.emplace();
    for (const auto& [project, user] : flags->run_as_of) projects.insert(project);
    // Trials of other projects would only fail here.
    if (flags->study.empty() && flags->projects.empty()) flags->projects.assign(projects.begin(), projects.end());
    return std::optional<Account>();
  }
  if (uid != 0 || flags->commands.none || IsOwnSocket(flags->server, uid)) return std::optional<Account>();
  if (!flags->study.empty()) {
    flags->commands.needs_account = true;
    return std::optional<Account>();
  }
  return absl::InvalidArgumentError(absl::StrCat("is missing: started as root, this worker ", kNeedsAccount));
}

}  // namespace luthier::worker
