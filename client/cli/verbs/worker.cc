// Verbs of workers.
#include "client/cli/commands/commands.h"
#include "client/cli/fleet/engine.h"
#include "client/cli/verbs/verbs.h"

namespace luthier::cli {
namespace {

// Adds the options by which workers that were started together are known.
void FleetOptions(CLI::App& app, Options& o) {
  app.add_option("--on", o.engine, "local, slurm, k8s or ray: what runs them")
      ->required()
      ->check(CLI::IsMember(std::vector<std::string>(std::begin(kEngineNames), std::end(kEngineNames))));
  app.add_option("--pool", o.pool, "The pool they work for (default: default)");
  app.add_option("--study", o.study, "The one study they work for; default: all of the pool");
}

void UpOptions(CLI::App& app, Options& o) {
  FleetOptions(app, o);
  app.add_option("-n,--workers", o.fleet_workers, "How many workers there are to be")
      ->required()
      ->check(CLI::Range(1, 10000));
  CLI::Option* slots = app.add_option("--slots", o.slots, "Trials at once of each worker")
                           ->check(CLI::Range(1, 64))
                           ->capture_default_str();
  app.add_option("--gpus", o.gpus_each, "GPUs of each worker, which runs one trial on each")
      ->check(CLI::Range(1, 64))
      ->excludes(slots);
  app.add_option("--image", o.image, "k8s: image with luthier-worker and what commands need");
  command_line::AddDuration(app, "--exit-when-idle", &o.exit_when_idle,
                            "A worker leaves after so long without a trial, as 10m (default: never)");
  command_line::AddDuration(app, "--drain-timeout", &o.drain_timeout,
                            "How long running trials get to finish when a worker is sent away (default: 5s)");
  command_line::AddDuration(app, "--stop-grace", &o.stop_grace,
                            "How long a command then gets to save its state (default: 20s)");
  app.add_flag("--dry-run", o.dry_run, "Print what would be handed to the engine, and do nothing");
  app.add_option("FLAGS", o.worker_flags, "Behind a --: further flags of luthier-worker")->take_all();
}

void LogsOptions(CLI::App& app, Options& o) {
  FleetOptions(app, o);
  app.add_option("--lines", o.lines, "Lines of each worker")->check(CLI::Range(1, 1000000))->capture_default_str();
}

void DownOptions(CLI::App& app, Options& o) {
  FleetOptions(app, o);
  command_line::AddDuration(app, "--timeout", &o.timeout, "How long to wait for their end (default: 10m)");
}

}  // namespace

std::vector<Verb> WorkerVerbs() {
  return {
      {{"worker", "list"},
       "Workers that asked since the coordinator started, and how their attempts ended",
       "luthier worker list",
       None,
       WorkerList},
      {{"worker", "up"},
       "Keep workers running on this machine, Slurm, Kubernetes or Ray",
       "luthier worker up --on slurm -n 20 --server coordinator:7790 -- --checkpoint-dir /scratch/luthier",
       UpOptions,
       WorkerUp},
      {{"worker", "status"},
       "How workers fare that `worker up` started",
       "luthier worker status --on slurm",
       FleetOptions,
       WorkerStatus},
      {{"worker", "logs"}, "What these workers wrote last", "luthier worker logs --on slurm", LogsOptions, WorkerLogs},
      {{"worker", "down"}, "End these workers", "luthier worker down --on slurm", DownOptions, WorkerDown},
  };
}

}  // namespace luthier::cli
