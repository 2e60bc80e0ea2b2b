#include "worker/flags.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"
#include "lib/base/ownership.h"
#include "lib/base/secret.h"
#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/command_line/command_line.h"
#include "lib/study/project.h"
#include "lib/study/study_spec.h"
#include "lib/wire/channel.h"
#include "lib/wire/default_server.h"
#include "lib/wire/resource_name.h"
#include "worker/process/environment.h"
#include "worker/runtime/options.h"

namespace luthier::worker {
namespace {

constexpr char kDescription[] =
    "Evaluates trials of Luthier studies: asks the coordinator for them, runs their objective, sends the results.\n"
    "Start as many as you like, on any machine that reaches the server.";
constexpr char kFooter[] =
    "\nSIGTERM or SIGINT: asks for nothing more, lets running trials finish for --drain-timeout, gives the rest back\n"
    "with their checkpoints, and exits with --drain-exit-code. A second signal ends it at once.\n"
    "Exit codes: 0 drained, done or idle, 1 failed, 2 usage, 4 not allowed, 78 this worker can't evaluate the "
    "--study.\n"
    "Commands run with this user's rights, or those of --run-as: let only people you trust create studies.\n"
    "Manual: docs/reference/worker.md, docs/guide/command_objective.md";

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// hostname-pid: unique, and people recognize it.
std::string DefaultName() {
  char host[256] = "";
  gethostname(host, sizeof(host) - 1);
  constexpr size_t kMaxHost = 50;  // Leaves room for the process id within 64.
  return study::Slug(absl::StrCat(std::string(host).substr(0, kMaxHost), "-", getpid()));
}

// Returns the folder for state. Without a home directory it is one that any user could have made before, so it must
// belong to this user: files in it are sent as results.
absl::StatusOr<std::string> StateDirectory() {
  if (const std::string state = Environment("XDG_STATE_HOME"); !state.empty()) return state + "/luthier";
  if (const std::string home = Environment("HOME"); !home.empty()) return home + "/.local/state/luthier";
  std::string shared = absl::StrCat("/var/tmp/luthier-", geteuid());
  mkdir(shared.c_str(), 0700);
  if (const absl::Status owned = base::CheckOwnership(shared, geteuid()); !owned.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("--spool: is not given, there is no HOME, and ", owned.message(),
                                                   "; name a directory of your own"));
  }
  return shared;
}

// Returns the folder of a server's results: they must go to the server that granted their lease.
std::string ServerDirectory(const std::string& server) {
  return absl::StrCat(study::Slug(server), "-", base::Sha256Hex(server).substr(0, 8));
}

// Turns an error of lib/wire, which begins with an option without its dashes, or with a variable, into one of that
// option; any other error is one of `option`.
absl::Status AsOption(absl::string_view option, const absl::Status& status) {
  if (status.ok()) return status;
  const bool variable = absl::StartsWith(status.message(), "LUTHIER_");
  return absl::InvalidArgumentError(
      absl::StrCat(variable ? "" : "--", option, option.empty() ? "" : ": ", status.message()));
}

absl::Status Check(const Flags& flags) {
  if (const absl::Status sent = wire::CheckServer(flags.server, flags.security); !sent.ok()) {
    return AsOption("", sent);
  }
  if (!flags.study.empty()) {
    if (const absl::Status status = wire::ParseStudyName("--study", wire::StudyName(flags.study)).status();
        !status.ok()) {
      return status;
    }
  }
  if (const absl::Status status = study::ValidateId("--name", flags.name); !status.ok()) return status;
  if (!flags.pool.empty()) {
    if (const absl::Status status = study::ValidateId("--pool", flags.pool); !status.ok()) return status;
  }
  for (const std::string& project : flags.projects) {
    if (const absl::Status status = study::ValidateId("--project", project); !status.ok()) return status;
  }
  if (flags.projects.size() > 1 && !flags.study.empty()) {
    return absl::InvalidArgumentError("--project: several do not go together with --study, which is of one project");
  }
  if (flags.exit_when_done && flags.study.empty()) {
    return absl::InvalidArgumentError("--exit-when-done: needs --study, which says what is to be done");
  }
  return absl::OkStatus();
}

// Sets whose commands are run: as --commands-from says, else those that the worker is started for.
absl::Status SetCommands(const std::vector<std::string>& from, Flags* flags) {
  CommandPolicy& policy = flags->commands;
  for (const std::string& project : from) {
    const bool word = project == "any" || project == "none";
    if (word && from.size() > 1) {
      return absl::InvalidArgumentError(
          absl::StrCat("--commands-from ", project, ": stands alone; leave the others out"));
    }
    policy.any = project == "any";
    policy.none = project == "none";
    if (word) continue;
    if (const absl::Status status = study::ValidateId("--commands-from", project); !status.ok()) return status;
    policy.projects.insert(project);
  }
  if (!from.empty()) return absl::OkStatus();
  if (!flags->study.empty()) {
    policy.projects.insert(std::string(study::ProjectOf(flags->study)));
  } else {
    policy.projects.insert(flags->projects.begin(), flags->projects.end());
  }
  return absl::OkStatus();
}

// Sets as whom commands run: "USER" for all projects, "PROJECT=USER" for one.
absl::Status SetAccounts(const std::vector<std::string>& texts, Flags* flags) {
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    const std::string user = equals == std::string::npos ? text : text.substr(equals + 1);
    const std::string project = equals == std::string::npos ? "" : text.substr(0, equals);
    if (user.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("--run-as ", text, ": names no user; write USER or PROJECT=USER"));
    }
    if (equals == std::string::npos) {
      if (!flags->run_as.empty()) {
        return absl::InvalidArgumentError(absl::StrCat("--run-as: names two users for all projects, ", flags->run_as,
                                                       " and ", user, "; give each project its own as PROJECT=USER"));
      }
      flags->run_as = user;
      continue;
    }
    if (const absl::Status status = study::ValidateId("--run-as", project); !status.ok()) return status;
    if (!flags->run_as_of.emplace(project, user).second) {
      return absl::InvalidArgumentError(absl::StrCat("--run-as: names two users for project ", project));
    }
  }
  return absl::OkStatus();
}

// Sets one GPU for each slot, and as many slots as GPUs unless fewer were asked for.
absl::Status SetGpus(const std::string& text, GpuSources sources, bool slots_given, Flags* flags) {
  if (text.empty()) return absl::OkStatus();
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible != nullptr && !sources.visible) {
    sources.visible = visible;
  }
  LUTHIER_ASSIGN_OR_RETURN(flags->gpus, ChooseGpus(text, sources));
  const int count = static_cast<int>(flags->gpus.size());
  if (!slots_given) {
    if (count > kMaxSlots) {
      return absl::InvalidArgumentError(absl::StrCat("--gpus ", text, ": a worker has at most ", kMaxSlots,
                                                     " slots, one for each GPU; start a second one for the rest"));
    }
    flags->slots = count;
  }
  if (flags->slots > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("--slots ", flags->slots, ": is more than the ", count, count == 1 ? " GPU" : " GPUs",
                     " of --gpus ", text, ", and each slot needs its own; leave --slots out, or name more GPUs"));
  }
  return absl::OkStatus();
}

// Sets directories that were not named. If the spool was named, the others lie beside it, and nothing is kept
// elsewhere.
absl::Status SetDirectories(Flags* flags) {
  const std::string server = ServerDirectory(flags->server);
  const bool named = !flags->spool.empty();
  std::string state;
  if (!named) {
    LUTHIER_ASSIGN_OR_RETURN(state, StateDirectory());
  }
  const auto beside = [spool = flags->spool](const char* name) {
    return (std::filesystem::path(spool) / ".." / name).lexically_normal().string();
  };
  if (flags->checkpoints.empty()) flags->checkpoints = named ? beside("checkpoints") : state + "/checkpoints/" + server;
  if (flags->data_cache.empty()) flags->data_cache = named ? beside("data-cache") : state + "/data-cache";
  if (!named) flags->spool = state + "/spool/" + server;
  return absl::OkStatus();
}

// Values of the command line that Flags has in other forms.
struct Texts {
  std::string token_file;
  std::string gpus;
  std::vector<std::string> commands_from, run_as;
  int64_t cache_mib = 4096;
  std::string level = "info";
  const CLI::Option* slots = nullptr;
};

void AddConnectionFlags(CLI::App* app, Flags* flags, Texts* texts) {
  app->set_version_flag("--version", "luthier-worker " + base::VersionText());
  app->add_option("--server", flags->server,
                  "HOST:PORT of the coordinator; default: $LUTHIER_SERVER, else one of your own or root's: "
                  "./luthier-data/socket, localhost:7790")
      ->capture_default_str();
  app->add_option("--tls-ca", flags->security.tls_ca,
                  "PEM file with the certificate that signed the coordinator's, or system; makes the connection TLS. "
                  "Default: $LUTHIER_TLS_CA");
  app->add_option("--tls-cert", flags->security.tls_cert,
                  "PEM file with this worker's certificate, where one is asked for");
  app->add_option("--tls-key", flags->security.tls_key, "PEM file with its private key");
  app->add_option("--tls-server-name", flags->security.tls_server_name,
                  "Name in the coordinator's certificate, where it is not the HOST of --server");
  app->add_option("--token-file", texts->token_file,
                  "File with this worker's token, readable by this user alone; -: standard input. Default: "
                  "$LUTHIER_TOKEN_FILE, $LUTHIER_TOKEN");
  app->add_flag("--accept-plaintext", flags->security.accept_plaintext,
                "Send the token to another machine without TLS. Default: $LUTHIER_ACCEPT_PLAINTEXT");
}

void AddWorkFlags(CLI::App* app, Flags* flags, Texts* texts) {
  app->add_option("--pool", flags->pool, "Work for studies of this pool only; default: for those that name none");
  app->add_option("--project", flags->projects,
                  "Work for studies of this project, or of several in turn (vision,speech); default: that of the token")
      ->delimiter(',')
      ->take_all();
  app->add_option("--study", flags->study, "Work for this study only; default: for any");
  texts->slots = app->add_option("--slots", flags->slots, "Trials at once; with --gpus, as many as GPUs")
                     ->check(CLI::Range(1, kMaxSlots))
                     ->capture_default_str();
  app->add_option("--gpus", texts->gpus,
                  "all, how many, or which (0,2): each trial's command sees one of these GPUs alone, by "
                  "CUDA_VISIBLE_DEVICES; default: it sees all");
  app->add_option("--commands-from", texts->commands_from,
                  "Run commands of studies of this project alone (may be given several times); any, or none. Default: "
                  "the project of --project or --study, else that of the token")
      ->take_all();
  app->add_option("--run-as", texts->run_as,
                  "User as whom commands run, or PROJECT=USER for those of one project (may be given several times); a "
                  "worker that is started as root needs it, but for --commands-from none")
      ->take_all();
  app->add_option(
         "--env-allow", flags->environment_allowed,
         "Pass this variable on to commands, too; * and ? stand for any characters (may be given several times; "
         "'*': all). Default: what programs need to run, and nothing that looks like a secret")
      ->take_all();
}

void AddMachineFlags(CLI::App* app, Flags* flags, Texts* texts) {
  app->add_option("--name", flags->name, "Name of this worker, unique at its coordinator")->capture_default_str();
  app->add_option("--data-root", flags->data_root, "Directory below which studies may name data files")
      ->capture_default_str();
  app->add_option("--spool", flags->spool,
                  "Directory for results that are not delivered yet; keep it across restarts. Default: below "
                  "$XDG_STATE_HOME or ~/.local/state");
  app->add_option("--checkpoint-dir", flags->checkpoints,
                  "Directory for snapshots of builtin objectives; workers that share it can continue each other's "
                  "trials. Default: beside the spool");
  app->add_option(
      "--data-cache", flags->data_cache,
      "Directory for parsed data sets, so that later workers on this machine start at once; workers may share "
      "it. Default: beside the spool");
  app->add_option("--data-cache-mib", texts->cache_mib, "Limit of that directory; 0: keep nothing")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 24))
      ->capture_default_str();
  app->add_flag("--exit-when-done", flags->exit_when_done, "Exit with 0 when the study is done");
  app->add_option("--max-trials", flags->max_trials,
                  "Exit with 0 when so many trials have ended here (default: no limit)")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command_line::AddDuration(*app, "--exit-when-idle", &flags->exit_when_idle,
                            "Exit with 0 after so long without a trial, as 90s, while the coordinator answers that it "
                            "has none (default: never)");
  command_line::AddDuration(*app, "--drain-timeout", &flags->drain_timeout,
                            "How long running trials get to finish after SIGTERM (default: 2s)");
  command_line::AddDuration(*app, "--stop-grace", &flags->stop_grace,
                            "How long a command gets from SIGTERM to SIGKILL, to save its state (default: 5s)");
  app->add_option("--drain-exit-code", flags->drain_exit_code,
                  "Exit code after SIGTERM or SIGINT; 75 tells an engine that the work is not done")
      ->check(CLI::Range(0, 125))
      ->capture_default_str();
  app->add_option("--log-level", texts->level, "debug, info, warning, error or off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
}

// Completes flags that were parsed. `unnamed` is the server where none was `named`.
absl::Status Resolve(const Texts& texts, bool named, const wire::DefaultServer& unnamed, GpuSources gpus,
                     Flags* flags) {
  // Resources may be given by their full names.
  if (const absl::StatusOr<std::string> id = wire::ParseStudyName("--study", flags->study); id.ok()) {
    flags->study = *id;
  } else if (flags->projects.size() == 1 && !flags->study.empty()) {
    flags->study = study::IdWithin(flags->projects[0], flags->study);
  }
  const absl::StatusOr<wire::ChannelSecurity> security = wire::SecurityFrom(flags->security, texts.token_file);
  if (security.ok()) flags->security = *security;
  flags->data_cache_bytes = texts.cache_mib << 20;
  base::ParseLogLevel(texts.level, &flags->log_level);
  flags->security.only_own = !named;
  if (!named) LUTHIER_RETURN_IF_ERROR(AsOption("server", unnamed.trust));
  LUTHIER_RETURN_IF_ERROR(AsOption("", security.status()));
  LUTHIER_RETURN_IF_ERROR(Check(*flags));
  LUTHIER_RETURN_IF_ERROR(SetDirectories(flags));
  LUTHIER_RETURN_IF_ERROR(SetAccounts(texts.run_as, flags));
  LUTHIER_RETURN_IF_ERROR(SetCommands(texts.commands_from, flags));
  for (const std::string& pattern : flags->environment_allowed) {
    LUTHIER_RETURN_IF_ERROR(CheckEnvironmentPattern(pattern));
  }
  return SetGpus(texts.gpus, std::move(gpus), texts.slots->count() > 0, flags);
}

}  // namespace

std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code, GpuSources gpus) {
  Flags flags;
  Texts texts;
  flags.server = Environment("LUTHIER_SERVER");
  const bool in_environment = !flags.server.empty();
  const wire::DefaultServer unnamed = in_environment ? wire::DefaultServer() : wire::FindDefaultServer();
  if (!in_environment) flags.server = unnamed.address;
  flags.name = DefaultName();
  flags.data_root = ".";

  CLI::App app(kDescription, "luthier-worker");
  app.footer(kFooter);
  AddConnectionFlags(&app, &flags, &texts);
  AddWorkFlags(&app, &flags, &texts);
  AddMachineFlags(&app, &flags, &texts);
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) {
    *exit_code = *code;
    return std::nullopt;
  }
  const bool named = in_environment || app.count("--server") > 0;
  const absl::Status status = Resolve(texts, named, unnamed, std::move(gpus), &flags);
  if (!status.ok()) {
    std::cerr << "luthier-worker: " << base::HideTokens(status.message()) << "\nfor help: luthier-worker --help\n";
    *exit_code = command_line::kExitUsage;
    return std::nullopt;
  }
  return flags;
}

}  // namespace luthier::worker
