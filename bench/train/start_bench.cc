// How long a worker needs from a lease to its first gradient: a chunker on CoNLL-2000, wall milliseconds.
//
//   start_bench --data=DIR [--cache=DIR] [--file=NAME --format=FORMAT]        DIR/conll2000/train.txt.xz
//
// Three workers: one that finds nothing kept, its second trial (data in memory), and a worker that starts anew and maps
// what the first one kept. "load" is CreateObjective; "first gradient" is when the gradient of the first sequence is
// there and the weights have moved along it, counted from the lease of the trial (Evaluate); "first report" is the
// first point of the learning curve, a pass over the data and its measures later.
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
#include "lib/catalogue/registry.h"
#include "lib/data/data_cache.h"
#include "lib/objectives/create.h"

ABSL_FLAG(std::string, data, "", "data root");
ABSL_FLAG(std::string, file, "conll2000/train.txt.xz", "data file below it");
ABSL_FLAG(std::string, format, "columns", "its format: columns, attributes, letters");
ABSL_FLAG(std::string, cache, "", "directory of the cache, emptied first; default: below the temporary directory");

namespace luthier::objectives {
namespace {

double Milliseconds(absl::Time since) {
  return absl::ToDoubleMilliseconds(absl::Now() - since);
}

std::unique_ptr<Objective> Load(const data::DataRoot& root, const data::DataCache* cache, const char* who) {
  study::BuiltinObjective objective;
  objective.model = "crf";
  objective.data = absl::GetFlag(FLAGS_file);
  objective.split.validation = 0.2;
  objective.split.seed = 1;
  objective.options = {{"min_count", 3.0}, {"format", absl::GetFlag(FLAGS_format)}};
  const absl::Time begin = absl::Now();
  absl::StatusOr<std::unique_ptr<Objective>> made =
      CreateObjective(objective, catalogue::SuggestedSpace(**catalogue::FindObjective("crf")),
                      {"validation_f1", study::Goal::kMaximize}, &root, cache);
  if (!made.ok()) absl::FPrintF(stderr, "%s\n", std::string(made.status().message()));
  LUTHIER_CHECK(made.ok());
  absl::PrintF("%-44s load %7.1f", who, Milliseconds(begin));
  return *std::move(made);
}

// A trial that ends with its first report.
void Begin(const Objective& objective, double l2) {
  EvaluationContext context;
  context.parameters = {{"l2", l2}};
  double first_gradient = 0.0, first_report = 0.0;
  const absl::Time begin = absl::Now();
  context.first_gradient = [&] { first_gradient = Milliseconds(begin); };
  context.report = [&](const study::Measurement&) {
    first_report = Milliseconds(begin);
    return false;
  };
  const absl::StatusOr<EvaluationResult> result = objective.Evaluate(context);
  LUTHIER_CHECK(result.ok() && result->outcome == EvaluationOutcome::kStopped);
  absl::PrintF("   first gradient %7.1f   first report %7.1f\n", first_gradient, first_report);
}

void Run() {
  std::string directory = absl::GetFlag(FLAGS_cache);
  if (directory.empty()) directory = (std::filesystem::temp_directory_path() / "luthier-start-bench").string();
  std::filesystem::remove_all(directory);
  const data::DataRoot root = data::DataRoot::Open(absl::GetFlag(FLAGS_data)).value();
  const data::DataCache cache = data::DataCache::Open(directory, {}).value();
  {
    const std::unique_ptr<Objective> first = Load(root, &cache, "nothing kept, first trial");
    Begin(*first, 1.0);
    for (const double l2 : {2.0, 0.5, 4.0}) {
      absl::PrintF("%-44s load %7.1f", "the same worker, a further trial", 0.0);
      Begin(*first, l2);
    }
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
