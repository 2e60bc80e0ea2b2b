// Runs searches whose names it reads, a line each, and keeps their results, one file a run. bench/reproduce/run tells
// it which.
//
//   echo branin se-bo-ei 0 100 | reproduce --results=FOLDER
//
// Runs that are there already are not run again, so it can be stopped at any time and started anew.

#include <cstdio>
#include <iostream>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "bench/reproduce/run.h"

ABSL_FLAG(std::string, results, "", "folder of the results: PROBLEM/SETTING/SEED.csv");
ABSL_FLAG(bool, problems, false, "print the problems with their dimensions and optima, and end");

namespace luthier::reproduce {
namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "reproduce: %s\n", std::string(status.message()).c_str());
  return 2;
}

int Main() {
  if (absl::GetFlag(FLAGS_problems)) {
    const absl::StatusOr<std::string> table = ProblemTable();
    if (!table.ok()) return Fail(table.status());
    std::fputs(table->c_str(), stdout);
    return 0;
  }
  const std::string folder = absl::GetFlag(FLAGS_results);
  if (folder.empty()) return Fail(absl::InvalidArgumentError("--results is missing: name a folder"));
  for (std::string line; std::getline(std::cin, line);) {
    const absl::StatusOr<Case> run = ParseCase(line);
    if (!run.ok()) return Fail(run.status());
    if (IsDone(folder, *run)) continue;
    if (const absl::Status status = Execute(folder, *run); !status.ok()) {
      return Fail(absl::Status(status.code(), absl::StrCat(line, ": ", status.message())));
    }
    std::printf("%s\n", line.c_str());
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace luthier::reproduce

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Runs searches that it reads from its standard input, as lines PROBLEM SETTING SEED EVALUATIONS.");
  absl::ParseCommandLine(argc, argv);
  return luthier::reproduce::Main();
}
