// How long a linear trial goes on after it was asked to stop, at random moments from its lease to its result: wall
// milliseconds, from the request to the end of the call, with the checkpoint made and everything freed.
//
//   stop_bench [--data=synth:logistic?...] [--dir=DIR] [--stops=N] [--only=dual,svrg]
//
// The generated rows are written to DIR as LIBSVM text first, which is then the data set.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "lib/base/check.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/registry.h"
#include "lib/data/data_cache.h"
#include "lib/data/synth.h"
#include "lib/objectives/create.h"

ABSL_FLAG(std::string, data, "synth:logistic?rows=200000&cols=1000&density=0.1&seed=1", "generated data");
ABSL_FLAG(std::string, dir, "", "directory for the data and their cache; default: below the temporary directory");
ABSL_FLAG(int, stops, 60, "of each kind");
ABSL_FLAG(double, seconds, 8.0, "the longest that a trial is let go on before it is stopped");
ABSL_FLAG(std::vector<std::string>, only, {}, "which: parse and keep, cache, layout, lbfgs, ...; all");

namespace luthier::objectives {
namespace {

double Milliseconds(absl::Time since) {
  return absl::ToDoubleMilliseconds(absl::Now() - since);
}

void WriteRows(const std::string& uri, const std::string& path) {
  const data::Dataset dataset = data::SynthesizeRows(uri, data::Task::kClassification).value();
  FILE* const file = std::fopen(path.c_str(), "w");
  LUTHIER_CHECK(file != nullptr);
  const data::SparseMatrix& x = dataset.x;
  for (int64_t i = 0; i < x.rows; ++i) {
    absl::FPrintF(file, "%d", dataset.label[i]);
    for (int64_t e = x.row_start[i]; e < x.row_start[i + 1]; ++e) {
      absl::FPrintF(file, " %d:%.4g", x.column[e] + 1, x.value[e]);
    }
    absl::FPrintF(file, "\n");
  }
  std::fclose(file);
  absl::PrintF("%d rows, %d columns, %d entries\n", x.rows, x.cols, x.nonzeros());
}

// Calls `run` to its end, or `longest` milliseconds, then again and again with a stop at a random moment of that time.
// `run` returns whether it was stopped.
void Measure(const std::string& what, const std::function<bool(const base::StopSource&)>& run) {
  const std::vector<std::string>& only = absl::GetFlag(FLAGS_only);
  if (!only.empty() && std::find(only.begin(), only.end(), what) == only.end()) return;
  const double limit = 1e3 * absl::GetFlag(FLAGS_seconds);
  const auto stop_after = [&](double milliseconds, double* took) {
    base::StopSource source;
    std::atomic<bool> done = false;
    absl::Time asked = absl::InfiniteFuture();
    std::thread stopper([&] {
      const absl::Time begin = absl::Now();
      while (!done && Milliseconds(begin) < milliseconds) absl::SleepFor(absl::Microseconds(200));
      asked = absl::Now();
      source.RequestStop();
    });
    const absl::Time begin = absl::Now();
    const bool stopped = run(source);
    const absl::Time end = absl::Now();
    done = true;
    stopper.join();
    *took = stopped ? absl::ToDoubleMilliseconds(end - asked) : absl::ToDoubleMilliseconds(end - begin);
    return stopped;
  };
  double whole = 0.0;
  if (stop_after(limit, &whole)) whole = limit;
  base::RandomStream random(1, "stop_bench");
  double sum = 0.0, worst = 0.0, worst_at = 0.0;
  int stops = 0;
  for (int k = 0; k < absl::GetFlag(FLAGS_stops); ++k) {
    const double moment = random.Uniform() * whole;
    double took = 0.0;
    if (!stop_after(moment, &took)) continue;
    ++stops;
    sum += took;
    if (took > worst) worst = took, worst_at = moment;
  }
  absl::PrintF("%-18s whole %7.0f ms   %3d stops: mean %6.2f ms, worst %6.2f ms (at %.0f)\n", what, whole, stops,
               sum / std::max(1, stops), worst, worst_at);
  std::fflush(stdout);
}

void Run() {
  std::string directory = absl::GetFlag(FLAGS_dir);
  if (directory.empty()) directory = (std::filesystem::temp_directory_path() / "luthier-stop-bench").string();
  std::filesystem::create_directories(directory);
  WriteRows(absl::GetFlag(FLAGS_data), directory + "/rows.svm");
  const data::DataRoot root = data::DataRoot::Open(directory).value();
  const std::string cache_directory = directory + "/cache";
  std::filesystem::remove_all(cache_directory);
  const data::DataCache cache = data::DataCache::Open(cache_directory, {.settle_nanoseconds = 0}).value();
  const auto make = [&](const char* solver, const base::StopToken& stop, double iterations = 1000.0) {
    study::BuiltinObjective objective;
    objective.model = "logistic";
    objective.data = "rows.svm";
    objective.split.validation = 0.2;
    objective.split.seed = 1;
    objective.options = {{"solver", std::string(solver)},
                         {"penalize_intercept", true},
                         {"tolerance", 1e-10},
                         {"max_iterations", iterations}};
    absl::StatusOr<std::unique_ptr<Objective>> made =
        CreateObjective(objective, catalogue::SuggestedSpace(**catalogue::FindObjective("logistic")),
                        {"validation_loss", study::Goal::kMinimize}, &root, &cache, stop);
    LUTHIER_CHECK(made.ok() || absl::IsCancelled(made.status()));
    return made;
  };
  const auto evaluate = [](const Objective& objective, study::Parameters parameters, const base::StopSource& source) {
    EvaluationContext context;
    parameters["l2"] = 0.1;
    context.parameters = std::move(parameters);
    context.stop = source.token();
    context.report = [](const study::Measurement&) { return true; };
    context.save_checkpoint = [](const std::string&) {};
    const absl::StatusOr<EvaluationResult> result = objective.Evaluate(context);
    LUTHIER_CHECK(result.ok());
    return result->outcome == EvaluationOutcome::kCancelled;
  };
  Measure("parse and keep", [&](const base::StopSource& source) {
    for (const auto& entry : std::filesystem::directory_iterator(cache_directory)) {
      std::filesystem::remove(entry.path());
    }
    return !make("lbfgs", source.token()).ok();
  });
  LUTHIER_CHECK(make("lbfgs", {}).ok());
  Measure("cache", [&](const base::StopSource& source) { return !make("lbfgs", source.token()).ok(); });
  {
    // One that was made is kept, but not of so many settings.
    const std::unique_ptr<Objective> objective = make("lbfgs", {}, 1.0).value();
    int next = 0;
    Measure("layout", [&](const base::StopSource& source) {
      const bool standardize = next % 2 == 0, intercept = next / 2 % 2 == 0;
      ++next;
      return evaluate(*objective, {{"standardize", standardize}, {"intercept", intercept}}, source);
    });
  }
  for (const char* solver : {"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"}) {
    const std::unique_ptr<Objective> objective = make(solver, {}).value();
    Measure(solver, [&](const base::StopSource& source) { return evaluate(*objective, {}, source); });
  }
  std::filesystem::remove_all(cache_directory);
}

}  // namespace
}  // namespace luthier::objectives

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("stop_bench: how long a linear trial goes on after it was asked to stop");
  absl::ParseCommandLine(argc, argv);
  luthier::objectives::Run();
  return 0;
}
