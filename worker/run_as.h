#ifndef LUTHIER_WORKER_RUN_AS_H_
#define LUTHIER_WORKER_RUN_AS_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "worker/flags.h"
#include "worker/process/account.h"

namespace luthier::worker {

// Returns the account under which commands run, or nothing if it is this process's own. `uid` is the user of this
// process. INVALID_ARGUMENT if --run-as can't be followed, and if root would run the commands of others without
// --run-as. A root that works for one study may still find that it has no command: then `flags->commands.needs_account`
// is set instead.
//
// Root needs no --run-as if all asks come from itself: at a coordinator's Unix socket that belongs to root, in a folder
// where no other user can replace it (base::CheckOwnership).
//
// Users that --run-as names for projects are those of ChooseAccountsOf. With them, root that has no user for all
// projects takes commands of theirs alone, and asks for theirs alone unless it was told for which.
absl::StatusOr<std::optional<Account>> ChooseAccount(Flags* flags, uid_t uid);

// Returns the accounts under which commands of projects run, or nothing for one that is this process's own, as --run-as
// PROJECT=USER says. Errors as ChooseAccount.
absl::StatusOr<std::map<std::string, std::optional<Account>>> ChooseAccountsOf(const Flags& flags, uid_t uid);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUN_AS_H_
