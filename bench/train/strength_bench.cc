// How far the training of a conditional random field is after each pass, over penalties of l2: what `tolerance` and
// `max_passes` are worth, and what is held out says at each. One line of CSV a look:
//
//   l2,passes,seconds,gradient,objective,validation_loss,outcome
//
// passes: effective ones; seconds: CPU seconds of training alone; gradient: largest entry of the exact gradient over
// that at zero weights; objective: h over h(0). The tables of pages/crf.md are made with it.
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/train/problems.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/data_root.h"
#include "lib/objectives/chain_source.h"
#include "lib/objectives/crf_settings.h"

ABSL_FLAG(std::string, root, "", "Folder of the data.");
ABSL_FLAG(std::string, data, "synth:sequences?sentences=500", "File below it, or generated sequences.");
ABSL_FLAG(std::vector<std::string>, options, {}, "Options of objective crf, name=value; numbers, true, false or text.");
ABSL_FLAG(double, least, 1e-2, "Weakest strength.");
ABSL_FLAG(double, most, 1e2, "Strongest.");
ABSL_FLAG(int, strengths, 5, "How many, evenly on a log scale.");
ABSL_FLAG(double, validation, 0.2, "Share held out, by split seed 1.");
ABSL_FLAG(int, look_every, 5, "Rounds between looks; 0: at the end only.");
ABSL_FLAG(int, seed, 1, "Of the training.");

namespace luthier {
namespace {

study::ParameterValue Parse(const std::string& text) {
  double number = 0.0;
  if (absl::SimpleAtod(text, &number)) return number;
  if (text == "true" || text == "false") return text == "true";
  return text;
}

const char* Name(crf::ChainOutcome outcome) {
  switch (outcome) {
    case crf::ChainOutcome::kConverged:
      return "converged";
    case crf::ChainOutcome::kPrecision:
      return "precision";
    case crf::ChainOutcome::kPassLimit:
      return "limit";
    case crf::ChainOutcome::kDiverged:
      return "diverged";
    default:
      return "running";
  }
}

void Train(const objectives::ChainFold& fold, double l2, const crf::ChainTrainerOptions& options) {
  crf::ChainLoss loss(&fold.train), held_out(&fold.validation);
  const crf::ChainProblem h(&loss, l2);
  Eigen::VectorXd w = Eigen::VectorXd::Zero(loss.dim()), gradient;
  const double zero = h.Value(w, &gradient).value(), zero_gradient = gradient.lpNorm<Eigen::Infinity>();
  const int every = absl::GetFlag(FLAGS_look_every);
  double start = crf::CpuSeconds(), seconds = 0.0;
  crf::ChainTrainer trainer = crf::ChainTrainer::Create(&fold.train, l2, options).value();
  for (int round = 1;; ++round) {
    const crf::ChainOutcome outcome = trainer.Advance({}).value();
    const bool end = outcome != crf::ChainOutcome::kRunning;
    if (!end && (every == 0 || round % every != 0)) continue;
    seconds += crf::CpuSeconds() - start;
    trainer.CopyWeights(&w);
    const double value = h.Value(w, &gradient).value();
    std::printf("%.4g,%.1f,%.3f,%.3e,%.12g,%.9g,%s\n", l2, trainer.passes(), seconds,
                gradient.lpNorm<Eigen::Infinity>() / zero_gradient, value / zero,
                held_out.Evaluate(w).value().loss_nats, Name(outcome));
    std::fflush(stdout);
    if (end) return;
    start = crf::CpuSeconds();
  }
}

int Main() {
  study::BuiltinObjective objective;
  objective.model = "crf";
  objective.data = absl::GetFlag(FLAGS_data);
  objective.split.validation = absl::GetFlag(FLAGS_validation);
  objective.split.seed = 1;
  for (const std::string& option : absl::GetFlag(FLAGS_options)) {
    const std::vector<std::string> parts = absl::StrSplit(option, absl::MaxSplits('=', 1));
    objective.options[parts[0]] = Parse(parts.size() > 1 ? parts[1] : "");
  }
  std::optional<data::DataRoot> root;
  if (!absl::GetFlag(FLAGS_root).empty()) root = data::DataRoot::Open(absl::GetFlag(FLAGS_root)).value();
  const auto settings = catalogue::Settings::Resolve(catalogue::CrfInfo(), objective.options, {{"l2", 1.0}});
  if (!settings.ok()) {
    std::fprintf(stderr, "strength_bench: %s\n", settings.status().ToString().c_str());
    return 1;
  }
  const auto source = objectives::ChainSource::Open(objective, root ? &*root : nullptr, nullptr, {});
  if (!source.ok()) {
    std::fprintf(stderr, "strength_bench: %s\n", source.status().ToString().c_str());
    return 1;
  }
  const auto data = (*source)->Encode(*settings, {}).value();
  const objectives::ChainFold& fold = data->folds[0];
  std::fprintf(stderr, "# %lld sequences, %lld tokens, %d labels, %lld weights, kernels %s\n",
               static_cast<long long>(fold.train.sequences()), static_cast<long long>(fold.train.tokens()),
               fold.train.labels(), static_cast<long long>(fold.train.shape().parameters()), crf::BestKernels().name);
  const int count = absl::GetFlag(FLAGS_strengths);
  const double least = absl::GetFlag(FLAGS_least), most = absl::GetFlag(FLAGS_most);
  for (int k = 0; k < count; ++k) {
    const double t = count > 1 ? static_cast<double>(k) / (count - 1) : 0.0;
    const double l2 = least * std::pow(most / least, t);
    // What a default stands for may depend on the penalty.
    const auto at = catalogue::Settings::Resolve(catalogue::CrfInfo(), objective.options, {{"l2", l2}}).value();
    Train(fold, l2, objectives::ChainTrainingOptions(at, static_cast<uint64_t>(absl::GetFlag(FLAGS_seed))));
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
