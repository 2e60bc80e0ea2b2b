#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/fleet/engine.h"
#include "lib/base/status_macros.h"

// A fleet is processes of this machine, which outlive the program that started them. They are known by the names that
// they were started with, which /proc shows; nothing starts them again but another `up`.
namespace luthier::cli {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kFirstMoment = absl::Milliseconds(600);
constexpr absl::Duration kSlowStart = absl::Seconds(10);  // A busy machine takes longer to begin.
constexpr int kMostLocalWorkers = 1000;
constexpr char kFleetVariable[] = "LUTHIER_FLEET";  // Variable of the workers: "SETTINGS;WORKS_FOR".

struct WorkerProcess {
  pid_t pid = 0;
  std::string fleet;
  int number = 0;  // From 1 within the fleet.
  std::string settings, works_for;
};

// Returns the parts of a file of /proc that end in a zero byte.
std::vector<std::string> ZeroSplit(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return absl::StrSplit(text.str(), '\0', absl::SkipEmpty());
}

// Returns what a process was started as, if it is one of a fleet's workers.
std::optional<WorkerProcess> ReadWorkerProcess(const fs::path& folder) {
  WorkerProcess process;
  if (!absl::SimpleAtoi(folder.filename().string(), &process.pid)) return std::nullopt;
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 || info.st_uid != geteuid()) return std::nullopt;
  const std::vector<std::string> words = ZeroSplit(folder / "cmdline");
  if (words.empty() || fs::path(words[0]).filename() != "luthier-worker") return std::nullopt;
  const auto name = std::find(words.begin(), words.end(), "--name");
  if (name == words.end() || name + 1 == words.end()) return std::nullopt;
  const size_t dot = (name + 1)->rfind('.');
  if (dot == std::string::npos || !absl::SimpleAtoi((name + 1)->substr(dot + 1), &process.number)) return std::nullopt;
  process.fleet = (name + 1)->substr(0, dot);
  // A worker leads a session. What it forks does not, and has its words until it takes a name of its own.
  if (getsid(process.pid) != process.pid) return std::nullopt;
  for (const std::string& variable : ZeroSplit(folder / "environ")) {
    absl::string_view value = variable;
    if (!absl::ConsumePrefix(&value, absl::StrCat(kFleetVariable, "="))) continue;
    const std::vector<std::string> parts = absl::StrSplit(value, absl::MaxSplits(';', 1));
    process.settings = parts[0];
    process.works_for = parts.size() > 1 ? parts[1] : "";
    return process;
  }
  return std::nullopt;
}

std::vector<WorkerProcess> WorkerProcesses() {
  std::vector<WorkerProcess> processes;
  std::error_code error;
  for (auto it = fs::directory_iterator("/proc", error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (std::optional<WorkerProcess> process = ReadWorkerProcess(it->path())) processes.push_back(*std::move(process));
  }
  std::sort(processes.begin(), processes.end(), [](const WorkerProcess& a, const WorkerProcess& b) {
    return std::pair(a.fleet, a.number) < std::pair(b.fleet, b.number);
  });
  return processes;
}

std::vector<WorkerProcess> ProcessesOfFleet(const std::string& fleet) {
  std::vector<WorkerProcess> processes = WorkerProcesses();
  processes.erase(std::remove_if(processes.begin(), processes.end(),
                                 [&](const WorkerProcess& process) { return process.fleet != fleet; }),
                  processes.end());
  return processes;
}

class LocalEngine final : public Engine {
 public:
  absl::Status Check(const Fleet& fleet) const override {
    if (fleet.workers > kMostLocalWorkers) {
      return absl::InvalidArgumentError(absl::StrCat("-n ", fleet.workers, ": a machine takes at most ",
                                                     kMostLocalWorkers, " workers; give each of them more --slots"));
    }
    if (!fleet.image.empty()) {
      return absl::InvalidArgumentError("--image: is for k8s; here workers run the program beside this one");
    }
    // Worker and rule: worker/run_as.h. Of a socket the worker itself finds out whose it is.
    const auto says_whose = [](const std::string& flag) {
      return absl::StartsWith(flag, "--run-as") || absl::StartsWith(flag, "--commands-from");
    };
    if (geteuid() == 0 && fleet.study.empty() && !absl::StartsWith(fleet.server, "unix:") &&
        std::none_of(fleet.worker_flags.begin(), fleet.worker_flags.end(), says_whose)) {
      return absl::InvalidArgumentError(
          "started as root, workers run commands as a user that is named to them: write `-- --run-as USER` at the end, "
          "or `-- --commands-from none` if they are to run none");
    }
    if (access(fleet.worker_program.c_str(), X_OK) != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("there is no program ", fleet.worker_program, "; luthier-worker must be beside luthier"));
    }
    return absl::OkStatus();
  }

  std::string Manifest(const Fleet& fleet) const override {
    std::string text =
        absl::StrCat("# ", fleet.workers, " processes of this machine, with logs in ", fleet.directory, "\n");
    for (int number = 1; number <= fleet.workers; ++number) {
      std::vector<std::string> words;
      for (const std::string& word : Words(fleet, number)) words.push_back(ShellWord(word));
      absl::StrAppend(&text, absl::StrJoin(words, " "), "\n");
    }
    return text;
  }

  absl::StatusOr<std::vector<FleetState>> List() const override {
    std::vector<FleetState> fleets;
    for (const WorkerProcess& process : WorkerProcesses()) {
      if (fleets.empty() || fleets.back().name != process.fleet) {
        FleetState& fleet = fleets.emplace_back();
        fleet.name = process.fleet;
        fleet.works_for = process.works_for;
        fleet.settings = process.settings;
      }
      ++fleets.back().workers;
      ++fleets.back().running;
    }
    return fleets;
  }

  absl::StatusOr<std::string> Start(const Fleet& fleet) const override {
    SetLogsAside(fleet);
    LUTHIER_RETURN_IF_ERROR(Fill(fleet, {}));
    // Wrong flags, and GPUs that there are not, end a worker at once.
    AwaitGone(kFirstMoment, [] { return false; }).IgnoreError();
    AwaitGone(kSlowStart, [&fleet] { return EachBeganOrEnded(fleet); }).IgnoreError();
    if (ProcessesOfFleet(fleet.Name()).size() >= static_cast<size_t>(fleet.workers)) {
      return absl::StrCat("logs in ", fleet.directory);
    }
    for (const WorkerProcess& process : ProcessesOfFleet(fleet.Name())) kill(process.pid, SIGTERM);
    std::ostringstream why;
    PrintLogFiles(fleet, 3, why).IgnoreError();
    return absl::FailedPreconditionError(
        absl::StrCat("workers ended as soon as they had begun, so none is left:\n", absl::StripSuffix(why.str(), "\n"),
                     "\nflags of luthier-worker are given behind --: luthier worker up "
                     "--on local … -- --run-as USER"));
  }

  absl::Status Resize(const Fleet& fleet, const FleetState&) const override {
    const std::vector<WorkerProcess> there = ProcessesOfFleet(fleet.Name());
    for (size_t i = static_cast<size_t>(fleet.workers); i < there.size(); ++i) kill(there[i].pid, SIGTERM);
    return Fill(fleet, there);
  }

  absl::Status Logs(const Fleet& fleet, const FleetState&, int lines, std::ostream& out) const override {
    return PrintLogFiles(fleet, lines, out);
  }

  absl::Status Stop(const Fleet& fleet, const FleetState&, absl::Duration patience) const override {
    for (const WorkerProcess& process : ProcessesOfFleet(fleet.Name())) kill(process.pid, SIGTERM);
    const absl::Status gone = AwaitGone(patience, [&] { return ProcessesOfFleet(fleet.Name()).empty(); });
    if (!gone.ok()) {
      for (const WorkerProcess& process : ProcessesOfFleet(fleet.Name())) kill(process.pid, SIGKILL);
      LUTHIER_RETURN_IF_ERROR(AwaitGone(absl::Seconds(5), [&] { return ProcessesOfFleet(fleet.Name()).empty(); }));
    }
    if (fleet.security.token_file.empty()) unlink((fleet.directory + "/token").c_str());
    return absl::OkStatus();
  }

 private:
  // True once each worker that is there has said so in its log, or is told to log less than that.
  static bool EachBeganOrEnded(const Fleet& fleet) {
    const auto quiet = [](const std::string& flag) { return absl::StartsWith(flag, "--log-level"); };
    if (std::any_of(fleet.worker_flags.begin(), fleet.worker_flags.end(), quiet)) return true;
    const std::vector<WorkerProcess> there = ProcessesOfFleet(fleet.Name());
    return std::all_of(there.begin(), there.end(), [&fleet](const WorkerProcess& process) {
      std::ifstream log(absl::StrCat(fleet.directory, "/", process.number, ".log"));
      std::ostringstream text;
      text << log.rdbuf();
      return absl::StrContains(text.str(), " worker_start ");
    });
  }

  // Renames the logs of workers that were there before, which `logs` is not to show: 2.log becomes 2.log.old.
  static void SetLogsAside(const Fleet& fleet) {
    std::error_code error;
    std::vector<fs::path> logs;
    for (auto it = fs::directory_iterator(fleet.directory, error); !error && it != fs::directory_iterator();
         it.increment(error)) {
      if (it->path().extension() == ".log") logs.push_back(it->path());
    }
    for (const fs::path& log : logs) fs::rename(log, absl::StrCat(log.string(), ".old"), error);
  }
  static std::vector<std::string> Words(const Fleet& fleet, int number) {
    std::vector<std::string> gpus;
    for (int i = 0; i < fleet.gpus; ++i) gpus.push_back(absl::StrCat((number - 1) * fleet.gpus + i));
    const std::string token = fleet.security.token.empty()        ? ""
                              : fleet.security.token_file.empty() ? fleet.directory + "/token"
                                                                  : fleet.security.token_file;
    std::vector<std::string> words = {fleet.worker_program};
    const std::vector<std::string> flags =
        WorkerFlags(fleet, {token, fleet.security.tls_ca, fleet.security.tls_cert, fleet.security.tls_key},
                    absl::StrCat(absl::StrJoin(gpus, ","), ","));
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {"--name", absl::StrCat(fleet.Name(), ".", number)});
    return words;
  }

  // Starts the numbers that are not there.
  static absl::Status Fill(const Fleet& fleet, const std::vector<WorkerProcess>& there) {
    LUTHIER_RETURN_IF_ERROR(MakeFleetDirectory(fleet));
    LUTHIER_RETURN_IF_ERROR(TokenFileFor(fleet).status());
    int missing = fleet.workers - static_cast<int>(there.size());
    for (int number = 1; missing > 0; ++number) {
      const auto taken = [number](const WorkerProcess& process) { return process.number == number; };
      if (std::any_of(there.begin(), there.end(), taken)) continue;
      LUTHIER_RETURN_IF_ERROR(Launch(fleet, number));
      --missing;
    }
    return absl::OkStatus();
  }

  static absl::Status Launch(const Fleet& fleet, int number) {
    std::vector<std::string> words = Words(fleet, number);
    std::string label = absl::StrCat(kFleetVariable, "=", fleet.Settings(), ";", fleet.WorksFor());
    std::vector<char*> arguments, variables = {label.data()};
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    for (char** variable = environ; *variable != nullptr; ++variable) {
      const absl::string_view text(*variable);
      if (!absl::StartsWith(text, "LUTHIER_TOKEN") && !absl::StartsWith(text, kFleetVariable))
        variables.push_back(*variable);
    }
    variables.push_back(nullptr);
    const std::string log = absl::StrCat(fleet.directory, "/", number, ".log");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE);
    sigaddset(&defaults, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF);
    pid_t pid = -1;
    const int failed = posix_spawn(&pid, arguments[0], &actions, &attributes, arguments.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (failed == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("can't start ", words[0], ": ", std::strerror(failed)));
  }
};

}  // namespace

std::unique_ptr<Engine> MakeLocalEngine(const Environment&) {
  return std::make_unique<LocalEngine>();
}

}  // namespace luthier::cli
