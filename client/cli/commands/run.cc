#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/edited.h"
#include "client/cli/commands/follow.h"
#include "client/cli/commands/front.h"
#include "client/cli/commands/remarks.h"
#include "client/cli/commands/ui.h"
#include "client/cli/show.h"
#include "client/cli/worker_pool.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/command_template.h"
#include "lib/wire/json.h"
#include "worker/disk/spool.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// Prefix of the names of the workers that `run` starts. Workers of another host or user are never mistaken for ours.
constexpr char kWorkerPrefix[] = "local-";
constexpr absl::Duration kStopPatience = absl::Seconds(10);
constexpr int64_t kShownTrials = 10;

std::string WorkerDirectory(const std::string& directory, const std::string& worker) {
  return absl::StrCat(directory, "/workers/", worker);
}

// All workers share one spool, so that whatever a worker of an earlier run left there is delivered, even if fewer are
// started now.
std::string SpoolDirectory(const std::string& directory) {
  return directory + "/workers/spool";
}

// Returns the number of workers: as asked for, else one a core, but never more than can be busy.
int WorkerCount(const Options& options, const v1::StudySpec& spec) {
  if (options.workers > 0) return options.workers;
  if (!options.gpus.empty()) return 1;  // It runs a trial on each GPU.
  const auto cores = static_cast<int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  const int64_t parallel = spec.budget().max_parallel();
  const int64_t useful = parallel > 0 ? (parallel + options.slots - 1) / options.slots : cores;
  return static_cast<int>(std::clamp<int64_t>(std::min(cores, useful), 1, 1000));
}

absl::StatusOr<std::vector<WorkerPool::Worker>> Workers(const Context& context, const std::string& directory,
                                                        const std::string& address, const std::string& study,
                                                        const std::string& fingerprint, int count) {
  const Options& options = context.options();
  const std::string program = context.environment().program_directory + "/luthier-worker";
  if (access(program.c_str(), X_OK) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("there is no program ", program, "; luthier-worker must be beside luthier"));
  }
  std::vector<WorkerPool::Worker> workers;
  for (int i = 1; i <= count; ++i) {
    const std::string name = absl::StrCat(kWorkerPrefix, i);
    const std::string own = WorkerDirectory(directory, name);
    std::error_code error;
    fs::create_directories(own, error);
    if (error) return absl::FailedPreconditionError(absl::StrCat("can't make ", own, ": ", error.message()));
    workers.push_back({.argv = {program, "--server", address, "--study", study, "--name",
                                fingerprint.empty() ? name : absl::StrCat(name, ".", fingerprint), "--data-root",
                                options.data_root, "--spool", SpoolDirectory(directory), "--checkpoint-dir",
                                directory + "/checkpoints", "--exit-when-done"},
                       .log = own + "/log"});
    std::vector<std::string>& argv = workers.back().argv;
    if (options.gpus.empty()) {
      argv.insert(argv.end(), {"--slots", absl::StrCat(options.slots)});
    } else {
      argv.insert(argv.end(), {"--gpus", options.gpus});
    }
    // The study is the user's own, and so are the variables; commands of a study of root's run as root.
    workers.back().argv.insert(workers.back().argv.end(), {"--env-allow", "*"});
    if (geteuid() == 0) workers.back().argv.insert(workers.back().argv.end(), {"--run-as", "0"});
  }
  return workers;
}

// INVALID_ARGUMENT if the program of a command, or the script that an interpreter gets first, is missing on this
// machine: the user learns of it before the first trial fails. Words with placeholders are not checked.
absl::Status CheckProgram(const Context& context, const v1::Objective::Command& command) {
  if (command.argv().empty()) return absl::OkStatus();
  base::Violations violations;
  const std::string& program = command.argv(0);
  std::error_code error;
  const auto there = [&](const std::string& path) {
    return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path, error);
  };
  const bool literal = !absl::StrContains(program, '{');
  const std::optional<std::string> path = context.environment().getenv("PATH");
  bool found = !literal || !path || command.environment().contains("PATH");
  if (absl::StrContains(program, '/')) {
    found = !literal || there(program);
  } else {
    for (const absl::string_view folder : absl::StrSplit(path.value_or(""), ':', absl::SkipEmpty())) {
      found = found || there(absl::StrCat(folder, "/", program));
    }
  }
  if (!found) {
    violations.Add("objective.command.argv[0]",
                   absl::StrCat("there is no program ", base::Quote(program),
                                absl::StrContains(program, '/') ? " that can be run" : " in PATH"));
  }
  if (command.argv_size() > 1 && literal && study::IsInterpreter(program)) {
    const std::string& script = command.argv(1);
    if (!script.empty() && script[0] != '-' && !absl::StrContains(script, '{') && !fs::exists(script, error)) {
      violations.Add("objective.command.argv[1]",
                     absl::StrCat("there is no file ", base::Quote(script), " in ", fs::current_path(error).string()));
    }
  }
  return violations.ToStatus();
}

// Returns the study of the file: a new one, or the one that an earlier run left.
absl::StatusOr<v1::Study> CreateOrFind(Context& context, client::Client& client, const Context::StudyToCreate& input) {
  const absl::StatusOr<v1::Study> study = client.CreateStudy(input.id, input.file.spec());
  if (context.options().update && base::GetReason(study.status()) == base::reason::kStudyExists) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study there, client.GetStudy(input.id));
    absl::StatusOr<v1::Study> updated = UpdateToFile(client, there, input.file.spec());
    if (!updated.ok()) return input.file.Locate(updated.status());
    return updated;
  }
  if (base::GetReason(study.status()) == base::reason::kStudyExists) {
    return absl::AlreadyExistsError(
        absl::StrCat(std::string(study.status().message()),
                     "\n--update changes what may change of it (budget, wider ranges, the "
                     "command, …); else give the changed file another name with --study, or "
                     "another database with --db"));
  }
  if (!study.ok()) return input.file.Locate(study.status());
  const int64_t done = DoneTrials(study->trials());
  if (done > 0 && !IsOver(*study)) context.err() << "going on with " << input.id << ": " << Summary(*study) << "\n";
  // Whoever runs a study again that was paused, by failures or by hand, wants it to go on.
  if (study->state() == v1::Study::PAUSED) {
    context.err() << "note: study " << input.id << " was paused"
                  << (study->state_reason().empty() ? "" : absl::StrCat(" (", Printable(study->state_reason()), ")"))
                  << " and goes on\n";
    return client.ResumeStudy(input.id);
  }
  return study;
}

// Gives back the trials of workers of a run that was killed, which are dead, too, so that they need not wait for the
// leases to end. A trial whose result is in the spool is kept: the workers that are started now deliver it.
void ReleaseOrphans(Context& context, client::Client& client, const std::string& directory,
                    const std::vector<client::LeaseRef>& orphans) {
  for (const client::LeaseRef& lease : orphans) {
    std::error_code error;
    if (fs::exists(absl::StrCat(SpoolDirectory(directory), "/", worker::SpoolFileName(lease.token)), error)) continue;
    const absl::Status released = client.Release(lease).status();
    if (!released.ok() && base::GetReason(released).empty()) {
      context.err() << "warning: trial " << lease.trial << " waits for its old lease: " << released.message() << "\n";
    }
  }
}

absl::StatusOr<std::vector<v1::Trial>> BestTrials(client::Client& client, const v1::Study& study) {
  std::vector<v1::Trial> trials;
  if (HasSeveralObjectives(study.spec())) {
    return study.front().empty() ? trials : FrontTrials(client, study, kShownTrials);
  }
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::COMPLETE}, [&](const v1::Trial& trial) {
    if (!trial.has_feasible() || trial.feasible()) trials.push_back(trial);
    return true;
  }));
  const std::string& metric = study.spec().metric().name();
  const double sign = study.spec().metric().goal() == v1::MAXIMIZE ? -1.0 : 1.0;
  const auto loss = [&](const v1::Trial& trial) {
    const auto found = trial.final_measurement().metrics().find(metric);
    return found == trial.final_measurement().metrics().end() ? HUGE_VAL : sign * found->second;
  };
  std::sort(trials.begin(), trials.end(), [&](const v1::Trial& a, const v1::Trial& b) {
    return std::make_pair(loss(a), a.number()) < std::make_pair(loss(b), b.number());
  });
  if (trials.size() > kShownTrials) trials.resize(kShownTrials);
  return trials;
}

// Reports the most frequent reason of failed trials, with the newest example: what to mend first.
absl::Status ExplainFailures(Context& context, client::Client& client, const v1::Study& study,
                             const std::string& directory) {
  struct Cause {
    int64_t count = 0;
    v1::Trial newest;
  };
  std::map<std::string, Cause> causes;
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::FAILED}, [&](const v1::Trial& trial) {
    Cause& cause = causes[absl::StrCat(v1::Failure::Kind_Name(trial.failure().kind()), " ", trial.failure().reason())];
    ++cause.count;
    cause.newest = trial;
    return true;
  }));
  if (causes.empty()) return absl::OkStatus();
  const auto& [name, cause] = *std::max_element(
      causes.begin(), causes.end(), [](const auto& a, const auto& b) { return a.second.count < b.second.count; });
  context.err() << "luthier: " << study.trials().failed() << " of " << DoneTrials(study.trials()) << " trials failed, "
                << cause.count << " of them with " << name << ", the last one trial " << cause.newest.number() << ":\n"
                << FailureText(cause.newest) << "to see more: luthier trial get " << IdOf(study) << " "
                << cause.newest.number() << " --db " << directory << "; the workers' logs are in " << directory
                << "/workers\nwith the cause mended: luthier trial retry " << IdOf(study) << " --failed --db "
                << directory << ", then the same command again\n";
  return absl::OkStatus();
}

absl::Status PrintResult(Context& context, client::Client& client, const v1::Study& study,
                         const std::string& directory) {
  if (context.structured()) {
    Json json = Json::object();
    json["study"] = StudyJson(study);
    json["best_trial"] = nullptr;
    if (study.best_trial() > 0) {
      LUTHIER_ASSIGN_OR_RETURN(const v1::Trial best, client.GetTrial(IdOf(study), study.best_trial()));
      json["best_trial"] = TrialJson(best);
    }
    if (HasSeveralObjectives(study.spec())) {
      json["front"] = std::vector<int64_t>(study.front().begin(), study.front().end());
    }
    json["counts"] = wire::ToJson(study.trials());
    context.Print(json);
    return absl::OkStatus();
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> best, BestTrials(client, study));
  if (context.names()) {
    context.out() << study.name() << "\n";
    return absl::OkStatus();
  }
  if (context.shown()) {
    context.out() << IdOf(study) << ": " << v1::Study::State_Name(study.state());
    if (!study.state_reason().empty()) context.out() << " (" << Printable(study.state_reason()) << ")";
    context.out() << ", " << Summary(study) << "\n";
  }
  if (!best.empty()) context.Print(TrialTable(study.spec(), best));
  if (HasSeveralObjectives(study.spec()) && static_cast<size_t>(study.front_size()) > best.size()) {
    context.err() << "note: these are " << best.size() << " of the " << study.front_size()
                  << " trials on the front; luthier trial best " << IdOf(study) << " --db " << directory
                  << " has all of them\n";
  }
  if (const std::string bounds = BoundsText(study); !bounds.empty()) context.err() << "note: " << bounds << "\n";
  if (const std::string noisy = RecommendationText(study); !noisy.empty()) {
    context.err() << "note: results are noisy; recommended: " << noisy << "\n";
  }
  return absl::OkStatus();
}

// Refuses what no worker here can evaluate.
absl::Status CheckRunnable(Context& context, const Context::StudyToCreate& input) {
  const v1::Objective& objective = input.file.spec().objective();
  if (objective.kind_case() == v1::Objective::kBuiltin) return absl::OkStatus();
  if (objective.kind_case() != v1::Objective::kCommand) {
    return absl::FailedPreconditionError(
        absl::StrCat(context.options().file,
                     ": its objective is external, so no worker can evaluate it; give it a command or a "
                     "builtin objective, or use `luthier study create`, `ask` and `tell`"));
  }
  const absl::Status programs = CheckProgram(context, objective.command());
  return programs.ok() ? programs : input.file.Locate(programs);
}

// Runs the workers until the study is over, pauses, or is interrupted.
absl::StatusOr<Followed> RunWorkers(Context& context, client::Client& client, const std::string& study,
                                    std::vector<WorkerPool::Worker> workers, SignalScope& signals) {
  const base::SystemClock clock;
  WorkerPool pool(std::move(workers), &clock);
  FollowOptions follow;
  follow.interval = absl::Milliseconds(100);
  follow.stop_when_paused = true;
  follow.tick = [&] { return pool.Tick(); };
  absl::StatusOr<Followed> outcome = Follow(context, client, study, follow, signals);
  if (outcome.ok() && outcome->ending == Ending::kInterrupted) {
    context.err() << "stopping the workers; a second Ctrl-C does not wait for them\n";
  }
  pool.Stop(kStopPatience, [&] { return signals.Wait(absl::ZeroDuration()); });
  return outcome;
}

// True if a trial is the best, or on the front of several objectives.
bool HasResult(const v1::Study& study) {
  return study.best_trial() > 0 || study.front_size() > 0 || study.front_overflowed();
}

// Says where the page of the study is, and opens it where there is a screen.
absl::Status ShowPage(Context& context, client::Client& client, const std::string& study) {
  LUTHIER_ASSIGN_OR_RETURN(const std::string address, PageAddress(client, study));
  context.err() << "page: " << address << "\n";
  if (context.environment().open_browser) context.environment().open_browser(address);
  return absl::OkStatus();
}

// Says what came out, and what a user should know of it.
absl::Status Conclude(Context& context, client::Client& client, const v1::Study& study, const std::string& directory,
                      Ending ending) {
  LUTHIER_RETURN_IF_ERROR(PrintResult(context, client, study, directory));
  if (const std::string warning = LimitWarning(study); !warning.empty()) {
    context.err() << "warning: " << warning << "; see luthier trial list " << IdOf(study) << " --db " << directory
                  << "\n";
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::string equal, EqualResultsWarning(client, study));
  if (!equal.empty()) context.err() << "warning: " << equal << "\n";
  LUTHIER_ASSIGN_OR_RETURN(const std::string unchanged, UnchangedBestNote(client, study));
  if (!unchanged.empty()) context.err() << "note: " << unchanged << "\n";
  LUTHIER_ASSIGN_OR_RETURN(const std::string random, NoGradientsWarning(client, study));
  if (!random.empty()) context.err() << "warning: " << random << "\n";
  LUTHIER_ASSIGN_OR_RETURN(const std::string pruned, OnlyPrunedNote(client, study));
  if (!pruned.empty()) context.err() << "note: " << pruned << "\n";
  if (ending == Ending::kPaused || (ending == Ending::kOver && !HasResult(study))) {
    return ExplainFailures(context, client, study, directory);
  }
  return absl::OkStatus();
}

// Returns the exit code, and says why where it is not that of a study with a result.
int ExitCode(Context& context, const v1::Study& study, Ending ending) {
  if (ending == Ending::kInterrupted) {
    context.err() << "luthier: interrupted; the same command goes on from here\n";
    return kExitInterrupted;
  }
  if (ending == Ending::kTimedOut) return kExitTimedOut;
  // Workers may have ended a paused study since, with what they held.
  if (ending == Ending::kPaused && study.state() == v1::Study::PAUSED) {
    context.err() << "luthier: the study is paused: " << Printable(study.state_reason())
                  << "; the same command goes on from here\n";
    return kExitFailed;
  }
  if (HasResult(study)) return kExitDone;
  context.err() << "luthier: the study has no result: "
                << (study.infeasible() > 0 ? "no trial meets the bounds of its metrics" : "no trial is COMPLETE")
                << "\n";
  return kExitFailed;
}

}  // namespace

absl::StatusOr<int> Run(Context& context) {
  const Options& options = context.options();
  if (!options.gpus.empty() && (options.workers > 1 || options.slots > 1)) {
    return UsageError("--gpus", "starts one worker with a slot for each GPU; leave --workers and --slots out");
  }
  SignalScope signals;  // Before any thread starts.
  LUTHIER_ASSIGN_OR_RETURN(Context::StudyToCreate input, context.ReadStudy(options.file, options.study));
  LUTHIER_RETURN_IF_ERROR(CheckRunnable(context, input));
  if (options.db.empty()) LUTHIER_RETURN_IF_ERROR(CheckDefaultDirectory());
  const std::string directory = DataDirectory(options.db.empty() ? kDefaultDirectory : options.db);
  // If the database can't be read, the server explains that below.
  const std::vector<client::LeaseRef> orphans =
      LeasesOfWorkers(directory, input.id, kWorkerPrefix).value_or(std::vector<client::LeaseRef>());
  LUTHIER_ASSIGN_OR_RETURN(std::unique_ptr<LocalServer> server, LocalServer::Start(directory, LocalServer::Use::kRun));
  const std::string address = server->address();
  LUTHIER_RETURN_IF_ERROR(context.UseLocal(std::move(server)));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  const std::string fingerprint = FingerprintOf(input.file.spec().objective());
  LUTHIER_ASSIGN_OR_RETURN(input.id, LookForEdit(context, *client, input.id, fingerprint));
  LUTHIER_ASSIGN_OR_RETURN(v1::Study study, CreateOrFind(context, *client, input));
  context.options().verbose ? PrintResolution(context.err(), study) : PrintChoice(context.err(), study);
  if (const std::string legal = LegalShareText(study); !legal.empty()) context.err() << legal << "\n";
  if (options.ui) LUTHIER_RETURN_IF_ERROR(ShowPage(context, *client, input.id));

  Ending ending = Ending::kOver;
  if (!IsOver(study)) {
    ReleaseOrphans(context, *client, directory, orphans);
    const int count = WorkerCount(options, study.spec());
    LUTHIER_ASSIGN_OR_RETURN(std::vector<WorkerPool::Worker> workers,
                             Workers(context, directory, address, input.id, fingerprint, count));
    context.err() << "study " << input.id << " in " << directory << ", " << count
                  << (count == 1 ? " worker" : " workers") << "; Ctrl-C stops, the same command goes on\n";
    LUTHIER_ASSIGN_OR_RETURN(const Followed followed,
                             RunWorkers(context, *client, input.id, std::move(workers), signals));
    ending = followed.ending;
  }
  // Read again now that no worker changes it any more.
  LUTHIER_ASSIGN_OR_RETURN(study, client->GetRecommendation(input.id));
  LUTHIER_RETURN_IF_ERROR(Conclude(context, *client, study, directory, ending));
  if (options.ui)
    context.err() << "the page ends with this command; to see it again: luthier ui --db " << directory << "\n";
  return ExitCode(context, study, ending);
}

}  // namespace luthier::cli
