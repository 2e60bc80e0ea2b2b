#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/fleet/engine.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr absl::Duration kDownPatience = absl::Minutes(10);

std::string AbsolutePath(const std::string& path) {
  return path.empty() || path == "system" ? path : fs::absolute(path).lexically_normal().string();
}

// Returns the folder of the fleet on this machine.
absl::StatusOr<std::string> FleetDirectory(const Context& context, const Fleet& fleet) {
  std::string state = context.environment().getenv("XDG_STATE_HOME").value_or("");
  if (state.empty()) {
    const std::string home = context.environment().getenv("HOME").value_or("");
    if (home.empty()) return UsageError("HOME", "is not set, nor XDG_STATE_HOME; logs of workers are kept below them");
    state = home + "/.local/state";
  }
  return absl::StrCat(AbsolutePath(state), "/luthier/fleets/", fleet.Name());
}

absl::Status CheckFleetId(const char* option, const std::string& id) {
  if (id.empty()) return absl::OkStatus();
  const absl::Status valid = study::ValidateId(option, id);
  return valid.ok() ? valid : UsageError(option, base::GetErrorDetail(valid)->violations[0].description);
}

// Returns what the command line says of the fleet: by which it is known, and how it is ended.
absl::StatusOr<Fleet> NamedFleet(const Context& context) {
  const Options& options = context.options();
  Fleet fleet;
  fleet.pool = options.pool == "default" ? "" : options.pool;
  fleet.project = options.project;
  fleet.study = options.study;
  fleet.workers = options.fleet_workers;
  fleet.drain_timeout = options.drain_timeout;
  fleet.stop_grace = options.stop_grace;
  LUTHIER_RETURN_IF_ERROR(CheckFleetId("--pool", fleet.pool));
  LUTHIER_ASSIGN_OR_RETURN(fleet.directory, FleetDirectory(context, fleet));
  return fleet;
}

// Flags of luthier-worker that `up` sets itself.
absl::Status CheckWorkerFlags(const std::vector<std::string>& flags) {
  for (const std::string& flag : flags) {
    const std::string name = flag.substr(0, flag.find('='));
    for (const char* ours : {"--name", "--server", "--token-file", "--pool", "--study", "--slots", "--gpus",
                             "--drain-exit-code", "--drain-timeout", "--stop-grace"}) {
      if (name == ours) return UsageError(name, "is set by `worker up` itself; write it before the --");
    }
    const auto control = [](unsigned char c) { return absl::ascii_iscntrl(c); };
    if (std::any_of(flag.begin(), flag.end(), control)) {
      return UsageError(base::Quote(flag), "has a line break or another control character");
    }
  }
  return absl::OkStatus();
}

// Files of certificates are read by workers, which start later; a wrong name is found now.
absl::Status CheckCertificateFiles(const wire::ChannelSecurity& security) {
  const std::pair<const char*, const std::string&> files[] = {
      {"--tls-ca", security.tls_ca}, {"--tls-cert", security.tls_cert}, {"--tls-key", security.tls_key}};
  for (const auto& [option, path] : files) {
    if (path.empty() || path == "system" || access(path.c_str(), R_OK) == 0) continue;
    return UsageError(option, absl::StrCat(base::Quote(path), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Fleet> WantedFleet(const Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(Fleet fleet, NamedFleet(context));
  const bool elsewhere = options.engine != "local";
  if (elsewhere && options.security.only_own) {
    return UsageError("--server", "is missing; name the coordinator as the workers' machines reach it");
  }
  LUTHIER_ASSIGN_OR_RETURN(fleet.security, context.Security());
  fleet.server = options.server;
  if (absl::StartsWith(fleet.server, "unix:")) {
    if (elsewhere) return UsageError("--server", "is a socket of this machine, which others can't reach");
    fleet.server = absl::StrCat("unix:", AbsolutePath(fleet.server.substr(5)));
  }
  const absl::Status reached = wire::CheckServer(fleet.server, fleet.security);
  if (!reached.ok()) return UsageError(reached);
  LUTHIER_RETURN_IF_ERROR(CheckCertificateFiles(fleet.security));
  fleet.security.tls_ca = AbsolutePath(fleet.security.tls_ca);
  fleet.security.tls_cert = AbsolutePath(fleet.security.tls_cert);
  fleet.security.tls_key = AbsolutePath(fleet.security.tls_key);
  std::error_code error;
  // A pipe can be read once: workers get a file of their own.
  const bool in_file = !fleet.security.token_file.empty() && fs::is_regular_file(fleet.security.token_file, error);
  fleet.security.token_file = in_file ? AbsolutePath(fleet.security.token_file) : "";
  fleet.slots = options.slots;
  fleet.gpus = options.gpus_each;
  fleet.image = options.image;
  fleet.exit_when_idle = options.exit_when_idle;
  LUTHIER_RETURN_IF_ERROR(CheckWorkerFlags(options.worker_flags));
  LUTHIER_RETURN_IF_ERROR(CheckWorkerFlags({fleet.image, fleet.server}));
  fleet.worker_flags = options.worker_flags;
  fleet.worker_program = AbsolutePath(context.environment().program_directory) + "/luthier-worker";
  return fleet;
}

// Returns the fleet of that name; absent: there is none.
absl::StatusOr<std::optional<FleetState>> FindFleet(const Engine& engine, const std::string& name) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<FleetState> fleets, engine.List());
  for (const FleetState& fleet : fleets) {
    if (fleet.name == name) return std::optional<FleetState>(fleet);
  }
  return std::optional<FleetState>();
}

absl::StatusOr<FleetState> FindFleetOrExplain(const Engine& engine, const Fleet& fleet, const std::string& where) {
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<FleetState> there, FindFleet(engine, fleet.Name()));
  if (there) return *there;
  return absl::NotFoundError(absl::StrCat("there are no workers of ", fleet.WorksFor(), " on ", where,
                                          "; luthier worker status --on ", where, " shows which there are"));
}

std::string WorkersText(int count) {
  return absl::StrCat(count, count == 1 ? " worker" : " workers");
}

// Returns the command that `verb` ("down", "status") of these workers is.
std::string CommandFor(const char* verb, const std::string& where, const Fleet& fleet) {
  std::string command = absl::StrCat("luthier worker ", verb, " --on ", where);
  const std::pair<const char*, std::string> names[] = {
      {"--pool", fleet.pool}, {"--study", fleet.study}, {"--project", fleet.project == "default" ? "" : fleet.project}};
  for (const auto& [option, name] : names) {
    if (!name.empty()) absl::StrAppend(&command, " ", option, " ", name);
  }
  return command;
}

Json FleetJson(const FleetState& fleet) {
  return {{"name", fleet.name},       {"works_for", fleet.works_for}, {"id", fleet.id},     {"workers", fleet.workers},
          {"running", fleet.running}, {"waiting", fleet.waiting},     {"over", fleet.over}, {"note", fleet.note}};
}

}  // namespace

absl::StatusOr<int> WorkerUp(Context& context) {
  const std::string& where = context.options().engine;
  LUTHIER_ASSIGN_OR_RETURN(const Fleet fleet, WantedFleet(context));
  const std::unique_ptr<Engine> engine = MakeEngine(where, context.environment());
  if (const absl::Status possible = engine->Check(fleet); !possible.ok()) {
    return absl::IsInvalidArgument(possible) ? UsageError(where, possible.message()) : possible;
  }
  if (context.options().dry_run) {
    context.out() << engine->Manifest(fleet);
    return kExitDone;
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<FleetState> there, FindFleet(*engine, fleet.Name()));
  if (there && there->over) {
    LUTHIER_RETURN_IF_ERROR(engine->Stop(fleet, *there, kDownPatience));
    there.reset();
  }
  std::string done;
  if (!there) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string id, engine->Start(fleet));
    done = absl::StrCat(WorkersText(fleet.workers), " of ", fleet.WorksFor(), " on ", where, ", ", id);
  } else if (there->settings != fleet.Settings()) {
    return absl::FailedPreconditionError(
        absl::StrCat("the workers of ", fleet.WorksFor(), " on ", where,
                     " were started with other settings; end them first: ", CommandFor("down", where, fleet)));
  } else {
    LUTHIER_RETURN_IF_ERROR(engine->Resize(fleet, *there));
    done = absl::StrCat(WorkersText(fleet.workers), " of ", fleet.WorksFor(), " on ", where, ", ",
                        there->workers == fleet.workers ? "which were there" : absl::StrCat("before ", there->workers));
  }
  if (context.structured()) {
    context.Print(Json{{"name", fleet.Name()}, {"works_for", fleet.WorksFor()}, {"workers", fleet.workers}});
  } else {
    context.out() << done << "\n";
  }
  context.err() << "how they fare: " << CommandFor("status", where, fleet)
                << "; to end them: " << CommandFor("down", where, fleet) << "\n";
  return kExitDone;
}

absl::StatusOr<int> WorkerStatus(Context& context) {
  const Options& options = context.options();
  const std::unique_ptr<Engine> engine = MakeEngine(options.engine, context.environment());
  LUTHIER_ASSIGN_OR_RETURN(std::vector<FleetState> fleets, engine->List());
  if (!options.pool.empty() || !options.study.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const Fleet fleet, NamedFleet(context));
    fleets.erase(std::remove_if(fleets.begin(), fleets.end(),
                                [&](const FleetState& there) { return there.name != fleet.Name(); }),
                 fleets.end());
  }
  if (context.structured()) {
    Json list = Json::array();
    for (const FleetState& fleet : fleets) list.push_back(FleetJson(fleet));
    context.Print(list);
    return kExitDone;
  }
  Table table({"workers of", "wanted", "running", "waiting", "id", "note"});
  for (const FleetState& fleet : fleets) {
    table.Add({Cell::Text(fleet.works_for), Cell::Integer(fleet.workers), Cell::Integer(fleet.running),
               Cell::Integer(fleet.waiting), Cell::Text(fleet.id),
               Cell::Text(fleet.over ? "over: " + fleet.note : fleet.note)});
  }
  context.Print(table);
  if (fleets.empty()) context.err() << "no workers of `luthier worker up` are on " << options.engine << "\n";
  return kExitDone;
}

absl::StatusOr<int> WorkerLogs(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(const Fleet fleet, NamedFleet(context));
  const std::unique_ptr<Engine> engine = MakeEngine(options.engine, context.environment());
  LUTHIER_ASSIGN_OR_RETURN(const FleetState there, FindFleetOrExplain(*engine, fleet, options.engine));
  LUTHIER_RETURN_IF_ERROR(engine->Logs(fleet, there, options.lines, context.out()));
  return kExitDone;
}

absl::StatusOr<int> WorkerDown(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(const Fleet fleet, NamedFleet(context));
  const std::unique_ptr<Engine> engine = MakeEngine(options.engine, context.environment());
  LUTHIER_ASSIGN_OR_RETURN(const FleetState there, FindFleetOrExplain(*engine, fleet, options.engine));
  LUTHIER_RETURN_IF_ERROR(engine->Stop(fleet, there, std::min(options.timeout, kDownPatience)));
  context.out() << "the workers of " << fleet.WorksFor() << " on " << options.engine
                << (engine->TellsEnd() || there.over
                        ? " have ended\n"
                        : " end now, within the --drain-timeout and --stop-grace that they were started with\n");
  return kExitDone;
}

}  // namespace luthier::cli
