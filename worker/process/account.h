#ifndef LUTHIER_WORKER_PROCESS_ACCOUNT_H_
#define LUTHIER_WORKER_PROCESS_ACCOUNT_H_

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
  std::vector<gid_t> groups;  // Groups of which it is a member.
};

// Finds an account by name or number. INVALID_ARGUMENT if there is none.
absl::StatusOr<Account> FindAccount(const std::string& user);

// Makes this process run as that user, with no way back. False, with errno, if that fails. Async-signal-safe, and for
// the calling thread alone: for the child of a fork.
bool BecomeUser(uid_t uid, gid_t gid, const gid_t* groups, size_t group_count);

// Returns OK if this process can run programs as the account, in the present working directory, which a child process
// tries. INVALID_ARGUMENT says what to change.
absl::Status CheckAccount(const Account& account);

// Sets the variables that tell programs their user: HOME, USER, LOGNAME, SHELL. Removes those about the old user's
// folders.
void SetAccountVariables(const Account& account, std::vector<std::string>* environment);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_ACCOUNT_H_
