#include "worker/program.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "lib/base/printable.h"
#include "lib/base/secret.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/wire/channel.h"
#include "lib/wire/steady_waits.h"
#include "worker/disk/checkpoint_store.h"
#include "worker/disk/spool.h"
#include "worker/flags.h"
#include "worker/grpc_coordinator.h"
#include "worker/objectives/builtin.h"
#include "worker/objectives/command.h"
#include "worker/objectives/command_gate.h"
#include "worker/objectives/dispatch.h"
#include "worker/process/environment.h"
#include "worker/process/keeper.h"
#include "worker/run_as.h"
#include "worker/runtime/runtime.h"
#include "worker/runtime/wait_clock.h"
#include "worker/signal_watcher.h"

namespace luthier::worker {
namespace {

constexpr int kExitCannotEvaluate = 78;  // EX_CONFIG of sysexits.h.

int Complain(const char* what, const absl::Status& status, int exit_code) {
  std::cerr << "luthier-worker: " << what << ": " << base::PrintableLines(base::HideTokens(status.message())) << "\n";
  return exit_code;
}

// Request ids of two processes must differ.
uint64_t EntropySeed() {
  uint64_t seed = 0;
  LUTHIER_CHECK(getrandom(&seed, sizeof(seed), 0) == sizeof(seed));
  return seed;
}

// Logs the names of variables that commands do not get, for users who miss one.
void LogWithheld(const Flags& flags) {
  if (flags.commands.none) return;
  const std::vector<std::string> names = SortEnvironment(OwnEnvironment(), flags.environment_allowed).withheld;
  if (names.empty()) return;
  base::LogInfo("variables_withheld", {{"names", absl::StrJoin(names, ",")}, {"mend", "--env-allow NAME"}});
}

int Run(Flags flags) {
  base::SetLogLevel(flags.log_level);
  // Started before there are threads.
  const absl::StatusOr<std::unique_ptr<Keeper>> keeper = Keeper::Start();
  if (!keeper.ok()) return Complain("commands", keeper.status(), 1);
  wire::PrepareGrpc();
  wire::KeepWaitsSteady();
  wire::LookAfterConnections();
  absl::StatusOr<std::optional<Account>> account = ChooseAccount(&flags, geteuid());
  if (!account.ok()) return Complain("--run-as", account.status(), 2);
  auto accounts = ChooseAccountsOf(flags, geteuid());
  if (!accounts.ok()) return Complain("--run-as", accounts.status(), 2);
  const absl::StatusOr<data::DataRoot> root = data::DataRoot::Open(flags.data_root);
  // A missing folder may appear later, for instance when it is mounted: then the worker should be started again.
  if (!root.ok()) return Complain("--data-root", root.status(), absl::IsNotFound(root.status()) ? 1 : 2);
  const absl::StatusOr<Spool> spool = Spool::Open(flags.spool);
  if (!spool.ok()) return Complain("--spool", spool.status(), 2);
  const absl::StatusOr<CheckpointStore> checkpoints = CheckpointStore::Open(flags.checkpoints);
  if (!checkpoints.ok()) return Complain("--checkpoint-dir", checkpoints.status(), 2);
  absl::StatusOr<std::unique_ptr<CoordinatorApi>> api = ConnectCoordinator(
      flags.server, flags.security,
      {.pool = flags.pool, .projects = flags.projects, .instance = absl::StrCat(absl::Hex(EntropySeed()))});
  if (!api.ok()) return Complain("--server", api.status(), 2);

  std::optional<data::DataCache> cache;
  if (flags.data_cache_bytes > 0) {
    absl::StatusOr<data::DataCache> opened =
        data::DataCache::Open(flags.data_cache, {.max_bytes = flags.data_cache_bytes});
    if (opened.ok()) {
      cache = *std::move(opened);
    } else {  // Without the cache it is slower, not wrong.
      base::LogWarning("no_data_cache", {{"error", std::string(opened.status().message())}});
    }
  }

  BuiltinRunner builtin(&*root, &*checkpoints, cache ? &*cache : nullptr);
  CommandOptions command_options;
  command_options.gpus = flags.gpus;
  command_options.grace = flags.stop_grace;
  command_options.account = *std::move(account);
  command_options.accounts = *std::move(accounts);
  command_options.environment_allowed = flags.environment_allowed;
  LogWithheld(flags);
  CommandRunner command(keeper->get(), command_options);
  CommandGate gate(&command, flags.commands, flags.study, [&api] { return (*api)->OwnProjects(); });
  Dispatch runner(&builtin, &gate);
  SystemWaitClock clock;
  RuntimeOptions options;
  options.worker = flags.name;
  options.study = flags.study;
  options.slots = flags.slots;
  options.exit_when_done = flags.exit_when_done;
  options.exit_when_idle = flags.exit_when_idle;
  options.max_trials = flags.max_trials;
  options.drain_timeout = flags.drain_timeout;
  options.seed = EntropySeed();
  Runtime runtime(options, api->get(), &runner, &*spool, &clock);
  const SignalWatcher signals([&runtime](int signal, int count) {
    if (count == 1) return runtime.Drain();
    runtime.Abort();
    _exit(128 + signal);
  });
  const absl::Status status = runtime.Run();
  if (status.ok()) return runtime.Drained() ? flags.drain_exit_code : 0;
  if (absl::IsFailedPrecondition(status)) {
    std::cerr << "luthier-worker: " << base::PrintableLines(status.message()) << "\n";
    return kExitCannotEvaluate;
  }
  const bool forbidden = absl::IsUnauthenticated(status) || absl::IsPermissionDenied(status);
  return Complain("the coordinator refuses", status, forbidden ? 4 : 1);
}

}  // namespace

int Main(int argc, char** argv) {
  SignalWatcher::BlockSignals();
  int exit_code = 0;
  const std::optional<Flags> flags = ParseFlags(argc, argv, &exit_code);
  return flags ? Run(*flags) : exit_code;
}

}  // namespace luthier::worker
