#ifndef LUTHIER_WORKER_RUN_AS_H_
#define LUTHIER_WORKER_RUN_AS_H_

#include <sys/types.h>

#include <optional>

#include "absl/status/statusor.h"
#include "worker/flags.h"
#include "worker/objectives/account.h"

namespace luthier::worker {

// Returns the account whose commands' processes are to be, or nothing where that is this process's own. `uid`: the user
// of this process. INVALID_ARGUMENT when --run-as can't be followed, and when root would run the commands of others
// without being told as whom. A root that works for one study may still find that it has no command: then
// `flags->commands.needs_account` is set instead.
//
// Root is spared where only itself can be asking: at a coordinator's Unix socket that belongs to it, in a folder where
// nobody else can put another one (base::CheckOwnership).
absl::StatusOr<std::optional<Account>> ChooseAccount(Flags* flags, uid_t uid);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUN_AS_H_
