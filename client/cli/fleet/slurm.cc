#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/fleet/client_program.h"
#include "client/cli/fleet/engine.h"
#include "lib/base/status_macros.h"

// A fleet is one array job. Its limit of tasks at once is the number of workers; the tasks beyond it take the places of
// workers that end before the work does, which Slurm would not start again. Slurm keeps the fleet's settings in the
// job's comment.
namespace luthier::cli {
namespace {

constexpr char kSlurmMissing[] =
    "run this where jobs are submitted from, or see with --dry-run what would be, and hand it to sbatch there";
constexpr int kArrayTasks = 1000;  // The largest index of an array, unless a site allows more.

// The part of a batch script that looks after its worker. The script alone gets the signal before the end
// (--signal=B:).
constexpr char kBatchScript[] = R"(sent=0
worker=
trap 'sent=1; [ -z "$worker" ] || kill -TERM "$worker" 2>/dev/null' TERM
"${command[@]}" &
worker=$!
[ "$sent" = 0 ] || kill -TERM "$worker" 2>/dev/null
wait "$worker"; code=$?
while [ "$sent" = 1 ]; do  # The signal ended `wait`, not the worker.
  sent=0
  wait "$worker"; again=$?
  [ "$again" = 127 ] || code=$again
done
case $code in
  # 0: nothing is left to do; 2, 4, 78: no other worker would fare better. Nobody is to take this one's place.
  0 | 2 | 4 | 78) scancel --state=PENDING "$SLURM_ARRAY_JOB_ID" ;;
  75) ;;       # It was sent away: the next one takes its place.
  *) sleep 5 ;;  # It died. Not too many in a row.
esac
exit "$code"
)";

class SlurmEngine final : public Engine {
 public:
  explicit SlurmEngine(const Environment& environment) : path_(environment.getenv("PATH").value_or("")) {}

  absl::Status Check(const Fleet& fleet) const override {
    if (fleet.workers > kArrayTasks) {
      return absl::InvalidArgumentError(
          absl::StrCat("-n ", fleet.workers, ": Slurm's arrays have at most ", kArrayTasks,
                       " tasks; give each worker more --slots, or start fleets of several pools"));
    }
    if (!fleet.image.empty()) {
      return absl::InvalidArgumentError("--image: is for k8s; on Slurm workers run the program beside this one");
    }
    static const auto* const kPlain = new RE2("[A-Za-z0-9_./+@=,:-]+");
    if (!RE2::FullMatch(fleet.directory, *kPlain)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the folder of logs, ", fleet.directory,
          ", has characters that sbatch reads otherwise; set XDG_STATE_HOME to a plain one that all nodes see"));
    }
    return absl::OkStatus();
  }

  std::string Manifest(const Fleet& fleet) const override {
    const std::string token = fleet.security.token.empty()        ? ""
                              : fleet.security.token_file.empty() ? fleet.directory + "/token"
                                                                  : fleet.security.token_file;
    const int64_t signal =
        std::max<int64_t>(90, absl::ToInt64Seconds(absl::Ceil(fleet.EndsWithin(), absl::Seconds(1))));
    std::string text = absl::StrCat(
        "#!/bin/bash\n"
        "# Workers of Luthier, as `luthier worker up --on slurm` submits them. Each task of the array is a worker; "
        "the\n"
        "# tasks beyond the limit take the places of workers that end before the work does.\n"
        "#SBATCH --job-name=",
        fleet.Name(), "\n#SBATCH --comment=\"", Comment(fleet), "\"\n#SBATCH --array=1-", kArrayTasks, "%",
        fleet.workers, "\n#SBATCH --nodes=1\n#SBATCH --ntasks=1\n#SBATCH --cpus-per-task=", fleet.TrialsAtOnce(), "\n");
    if (fleet.gpus > 0) absl::StrAppend(&text, "#SBATCH --gres=gpu:", fleet.gpus, "\n");
    absl::StrAppend(&text, "#SBATCH --requeue\n#SBATCH --signal=B:TERM@", signal,
                    "\n#SBATCH --open-mode=append\n#SBATCH --output=", fleet.directory, "/%A_%a.log\n\ncommand=(");
    std::vector<std::string> words = {ShellWord(fleet.worker_program)};
    for (const std::string& flag :
         WorkerFlags(fleet, {token, fleet.security.tls_ca, fleet.security.tls_cert, fleet.security.tls_key}, "all")) {
      words.push_back(ShellWord(flag));
    }
    absl::StrAppend(&text, absl::StrJoin(words, " "), "\n  --name ", ShellWord(fleet.Name() + "."),
                    "\"$SLURM_ARRAY_TASK_ID\")\n", kBatchScript);
    return text;
  }

  absl::StatusOr<std::vector<FleetState>> List() const override {
    LUTHIER_ASSIGN_OR_RETURN(const std::string lines,
                             Call({"squeue", "--me", "--noheader", "--format=%F|%j|%T|%r|%k"}));
    std::map<std::string, FleetState> fleets;  // By the number of the array's job.
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      const std::vector<std::string> fields = absl::StrSplit(line, absl::MaxSplits('|', 4));
      static const auto* const kComment = new RE2("luthier-worker n=([0-9]+) settings=([0-9a-f]+) for=(.*)");
      int workers = 0;
      std::string settings, works_for;
      if (fields.size() != 5 ||
          !RE2::FullMatch(absl::StripAsciiWhitespace(fields[4]).data(), *kComment, &workers, &settings, &works_for)) {
        continue;
      }
      FleetState& fleet = fleets[fields[0]];
      fleet.id = fields[0];
      fleet.name = fields[1];
      fleet.workers = workers;
      fleet.settings = settings;
      fleet.works_for = works_for;
      const std::string& state = fields[2];
      if (state == "RUNNING") {
        ++fleet.running;
      } else if (state == "PENDING" && fields[3] != "None" && fields[3] != "JobArrayTaskLimit") {
        fleet.note = fields[3];
      }
    }
    std::vector<FleetState> list;
    for (auto& [id, fleet] : fleets) {
      fleet.waiting = std::max(0, fleet.workers - fleet.running);
      if (fleet.waiting == 0) fleet.note.clear();
      list.push_back(std::move(fleet));
    }
    return list;
  }

  absl::StatusOr<std::string> Start(const Fleet& fleet) const override {
    LUTHIER_RETURN_IF_ERROR(MakeFleetDirectory(fleet));
    LUTHIER_RETURN_IF_ERROR(TokenFileFor(fleet).status());
    LUTHIER_ASSIGN_OR_RETURN(const std::string answer, Call({"sbatch", "--parsable"}, Manifest(fleet)));
    const std::vector<std::string> parts = absl::StrSplit(absl::StripAsciiWhitespace(answer), ';');
    return absl::StrCat("job ", parts[0]);
  }

  absl::Status Resize(const Fleet& fleet, const FleetState& there) const override {
    LUTHIER_RETURN_IF_ERROR(TokenFileFor(fleet).status());
    LUTHIER_RETURN_IF_ERROR(
        Call({"scontrol", "update", absl::StrCat("JobId=", there.id), absl::StrCat("ArrayTaskThrottle=", fleet.workers),
              absl::StrCat("Comment=", Comment(fleet))})
            .status());
    if (fleet.workers >= there.running) return absl::OkStatus();
    LUTHIER_ASSIGN_OR_RETURN(const std::string lines, Call({"squeue", "--me", "--noheader", "--states=RUNNING",
                                                            absl::StrCat("--jobs=", there.id), "--format=%K"}));
    std::vector<int> tasks;
    for (const absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
      int task = 0;
      if (absl::SimpleAtoi(line, &task)) tasks.push_back(task);
    }
    std::sort(tasks.begin(), tasks.end());
    std::vector<std::string> command = {"scancel", "--batch", "--signal=TERM"};
    for (size_t i = static_cast<size_t>(fleet.workers); i < tasks.size(); ++i) {
      command.push_back(absl::StrCat(there.id, "_", tasks[i]));
    }
    return command.size() > 3 ? Call(command).status() : absl::OkStatus();
  }

  absl::Status Logs(const Fleet& fleet, const FleetState&, int lines, std::ostream& out) const override {
    return PrintLogFiles(fleet, lines, out);
  }

  absl::Status Stop(const Fleet& fleet, const FleetState& there, absl::Duration patience) const override {
    LUTHIER_RETURN_IF_ERROR(Call({"scancel", "--me", absl::StrCat("--name=", fleet.Name())}).status());
    LUTHIER_RETURN_IF_ERROR(AwaitGone(patience, [&]() -> absl::StatusOr<bool> {
      LUTHIER_ASSIGN_OR_RETURN(const std::string left, Call({"squeue", "--me", "--noheader", "--format=%F",
                                                             absl::StrCat("--name=", there.name)}));
      return absl::StripAsciiWhitespace(left).empty();
    }));
    if (fleet.security.token_file.empty()) unlink((fleet.directory + "/token").c_str());
    return absl::OkStatus();
  }

 private:
  static std::string Comment(const Fleet& fleet) {
    return absl::StrCat("luthier-worker n=", fleet.workers, " settings=", fleet.Settings(), " for=", fleet.WorksFor());
  }

  absl::StatusOr<std::string> Call(const std::vector<std::string>& argv, const std::string& input = "") const {
    return ProgramOutput(path_, argv, input, kSlurmMissing);
  }

  const std::string path_;
};

}  // namespace

std::unique_ptr<Engine> MakeSlurmEngine(const Environment& environment) {
  return std::make_unique<SlurmEngine>(environment);
}

}  // namespace luthier::cli
