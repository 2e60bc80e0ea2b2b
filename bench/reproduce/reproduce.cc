// Runs the experiments behind the thesis' claims and keeps their results, one file a run; report.py judges them.
//
//   reproduce --claims=CS3,CS4 --seeds=10 --jobs=2
//
// Runs that are there already are not run again, so it can be stopped at any time and started anew.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "bench/reproduce/run.h"

ABSL_FLAG(std::string, claims, "", "claims separated by ','; empty: all");
ABSL_FLAG(std::string, problems, "", "problems separated by ','; empty: all");
ABSL_FLAG(int, seeds, 10, "runs of each experiment, with seeds 0, 1, …");
ABSL_FLAG(bool, fast, false, "leave out the settings that draw hyperparameters by MCMC: most of the time is theirs");
ABSL_FLAG(int, jobs, 1, "processes");
ABSL_FLAG(std::string, results, "", "folder of the results; empty: reproduce, beside the programs' folder bin");
ABSL_FLAG(bool, list, false, "print the runs that are missing instead of running them");

namespace luthier::reproduce {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "reproduce: %s\n", std::string(status.message()).c_str());
  return 2;
}

// The part of a job: every jobs-th missing run from number `job` on.
int Work(const std::string& folder, const std::vector<Case>& missing, size_t job, size_t jobs) {
  for (size_t r = job; r < missing.size(); r += jobs) {
    const absl::Time start = absl::Now();
    if (const absl::Status status = Execute(folder, missing[r]); !status.ok()) {
      return Fail(absl::Status(status.code(), absl::StrCat(PathOf("", missing[r]), ": ", status.message())));
    }
    absl::FPrintF(stderr, "%d/%d %s %.1f s\n", r + 1, missing.size(), PathOf("", missing[r]),
                  absl::ToDoubleSeconds(absl::Now() - start));
  }
  return 0;
}

int Main(const std::string& program) {
  std::vector<std::string> claims;
  if (!absl::GetFlag(FLAGS_claims).empty()) claims = absl::StrSplit(absl::GetFlag(FLAGS_claims), ',');
  const absl::StatusOr<std::vector<Case>> runs = Plan(claims, absl::GetFlag(FLAGS_seeds));
  if (!runs.ok()) return Fail(runs.status());
  std::string folder = absl::GetFlag(FLAGS_results);
  if (folder.empty()) folder = program.substr(0, program.rfind('/') + 1) + "../reproduce";
  if (const absl::Status status = WriteTables(folder); !status.ok()) return Fail(status);
  const std::vector<std::string> problems = absl::StrSplit(absl::GetFlag(FLAGS_problems), ',', absl::SkipEmpty());
  std::vector<Case> missing;
  for (const Case& run : *runs) {
    if (!problems.empty() && std::find(problems.begin(), problems.end(), run.problem) == problems.end()) continue;
    if (absl::GetFlag(FLAGS_fast) && IsSlow(*run.setting)) continue;
    if (!IsDone(folder, run)) missing.push_back(run);
  }
  if (absl::GetFlag(FLAGS_list)) {
    for (const Case& run : missing) absl::PrintF("%s %d\n", PathOf("", run), run.evaluations);
    return 0;
  }
  const int jobs = std::max(1, absl::GetFlag(FLAGS_jobs));
  std::vector<pid_t> children;
  for (int job = 0; job < jobs; ++job) {
    const pid_t child = fork();
    if (child == 0) std::_Exit(Work(folder, missing, static_cast<size_t>(job), static_cast<size_t>(jobs)));
    if (child < 0) return Fail(absl::UnavailableError("no process can be started"));
    children.push_back(child);
  }
  bool ok = true;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    ok = ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  return ok ? 0 : 2;
}

}  // namespace
}  // namespace luthier::reproduce

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Runs the experiments behind the claims about harmless, first-order and Lipschitz Bayesian optimization.");
  absl::ParseCommandLine(argc, argv);
  return luthier::reproduce::Main(argv[0]);
}
