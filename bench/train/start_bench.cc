// How long a worker needs from a lease to its first gradient: a chunker on CoNLL-2000, wall milliseconds.
//
//   start_bench --data=DIR [--cache=DIR]        DIR/conll2000/train.txt.xz
//
// Three workers: one that finds nothing kept, its second trial (data in memory), and a worker that starts anew and maps
// what the first one kept. "load" is CreateObjective, "to the first gradient" everything of a trial before the solver
// looks at its first sequence: attributes, overlap counts, tables of gradients.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "lib/base/check.h"
#include "lib/learn/data_cache.h"
#include "lib/objectives/cancellation.h"
#include "lib/objectives/registry.h"

ABSL_FLAG(std::string, data, "", "data root with conll2000/train.txt.xz");
ABSL_FLAG(std::string, cache, "", "directory of the cache, emptied first; default: below the temporary directory");

namespace luthier::objectives {
namespace {

double Milliseconds(absl::Time since) {
  return absl::ToDoubleMilliseconds(absl::Now() - since);
}

std::unique_ptr<Objective> Load(const learn::DataRoot& root, const learn::DataCache* cache, const char* who) {
  study::BuiltinObjective objective;
  objective.model = "crf";
  objective.data = "conll2000/train.txt.xz";
  objective.split.validation = 0.2;
  objective.split.seed = 1;
  objective.options = {{"min_count", 3.0}};
  const absl::Time begin = absl::Now();
  absl::StatusOr<std::unique_ptr<Objective>> made = CreateObjective(
      objective, SuggestedSpace(**FindObjective("crf")), {"validation_f1", study::Goal::kMaximize}, &root, cache);
  if (!made.ok()) absl::FPrintF(stderr, "%s\n", std::string(made.status().message()));
  LUTHIER_CHECK(made.ok());
  absl::PrintF("%-44s load %7.1f", who, Milliseconds(begin));
  return *std::move(made);
}

// A trial that is told to stop before its first sequence.
void Begin(const Objective& objective, double l2) {
  Cancellation cancellation;
  cancellation.Cancel();
  EvaluationContext context;
  context.parameters = {{"l2", l2}};
  context.cancellation = &cancellation;
  const absl::Time begin = absl::Now();
  const absl::StatusOr<EvaluationResult> result = objective.Evaluate(context);
  LUTHIER_CHECK(result.ok() && result->outcome == EvaluationOutcome::kCancelled);
  absl::PrintF("   to the first gradient %7.1f\n", Milliseconds(begin));
}

void Run() {
  std::string directory = absl::GetFlag(FLAGS_cache);
  if (directory.empty()) directory = (std::filesystem::temp_directory_path() / "luthier-start-bench").string();
  std::filesystem::remove_all(directory);
  const learn::DataRoot root = learn::DataRoot::Open(absl::GetFlag(FLAGS_data)).value();
  const learn::DataCache cache = learn::DataCache::Open(directory, {}).value();
  {
    const std::unique_ptr<Objective> first = Load(root, &cache, "nothing kept, first trial");
    Begin(*first, 1.0);
    absl::PrintF("%-44s load %7.1f", "the same worker, second trial", 0.0);
    Begin(*first, 2.0);
  }
  for (int k = 0; k < 3; ++k) Begin(*Load(root, &cache, "a new worker, first trial, from the cache"), 3.0);
  std::filesystem::remove_all(directory);
}

}  // namespace
}  // namespace luthier::objectives

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("start_bench --data=DIR: milliseconds from a lease to the first gradient");
  absl::ParseCommandLine(argc, argv);
  luthier::objectives::Run();
  return 0;
}
