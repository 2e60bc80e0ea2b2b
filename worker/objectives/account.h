#ifndef LUTHIER_WORKER_OBJECTIVES_ACCOUNT_H_
#define LUTHIER_WORKER_OBJECTIVES_ACCOUNT_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// The user as whom programs are run.
namespace luthier::worker {

struct Account {
  std::string name, home, shell;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;  // All that it is a member of.
};

// Finds an account by name or number. INVALID_ARGUMENT when there is none.
absl::StatusOr<Account> FindAccount(const std::string& user);

// Makes this process that user's, with no way back. False, with errno, when that fails. Async-signal-safe, and about
// the calling thread alone: for the child of a fork.
bool BecomeUser(uid_t uid, gid_t gid, const gid_t* groups, size_t group_count);

// Returns OK if this process can run programs as the account, in the present working directory. Tries it in a child.
// INVALID_ARGUMENT with what to change.
absl::Status CheckAccount(const Account& account);

// Sets what tells programs whose they are: HOME, USER, LOGNAME, SHELL. Takes away what is about the old user's folders.
void SetAccountVariables(const Account& account, std::vector<std::string>* environment);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_OBJECTIVES_ACCOUNT_H_
