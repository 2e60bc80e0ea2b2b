// What a warm start (option warm_start) saves each method for conditional random fields: several penalties in random
// order, each from zero and from the nearest of those before it. Prints the passes of all together, and how far the
// last weights are from the optimum of another solver. The tables of pages/training.md are made with it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "bench/lab/crf/methods.h"
#include "lib/base/checkpoint.h"
#include "lib/base/random.h"
#include "lib/catalogue/crf_info.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/objectives/chain_penalty.h"
#include "lib/objectives/chain_source.h"
#include "lib/objectives/crf_settings.h"

ABSL_FLAG(std::string, data, "synth:sequences?sentences=500", "Generated sequences.");
ABSL_FLAG(std::string, what, "l2",
          "Strengths that vary: l2, l1 (with l2 = 0.1), groups (l2 of pairs of words and of the rest).");
ABSL_FLAG(std::vector<std::string>, solvers,
          std::vector<std::string>({"sag", "saga", "saga2", "lbfgs", "hybrid", "oeg", "sg", "asg", "adagrad", "smd"}),
          "Methods.");
ABSL_FLAG(int, strengths, 13, "How many strengths, from 0.01 to 100.");
ABSL_FLAG(double, max_passes, 50.0, "Training ends after so many passes.");
ABSL_FLAG(double, tolerance, 1e-5, "Or when the largest entry of the gradient is so much of the one at zero.");
ABSL_FLAG(double, rate, 0.1, "constant_step.");
ABSL_FLAG(std::string, step_rule, "hedge", "Of the average gradient methods.");
ABSL_FLAG(std::string, memory, "mixed", "Of the average gradient methods.");
ABSL_FLAG(bool, each, false, "Prints the passes at each strength, too.");
ABSL_FLAG(int, threads, 1, "Of those that can have more.");
ABSL_FLAG(int, seed, 1, "Of the order, and of all methods.");

namespace luthier {
namespace {

using crf::ChainOutcome;
using Eigen::VectorXd;
using objectives::ChainPenalty;

constexpr char kKind[] = "bench.warm_start/1";

struct Penalties {
  std::vector<double> l2, l1;  // Of what is in no group, and of the group.
};

double Distance(const Penalties& a, const Penalties& b) {
  double sum = 0.0;
  for (size_t k = 0; k < a.l2.size(); ++k) sum += std::abs(std::log(a.l2[k] / b.l2[k]));
  for (size_t k = 0; k < a.l1.size(); ++k) sum += a.l1[k] == b.l1[k] ? 0.0 : std::abs(std::log(a.l1[k] / b.l1[k]));
  return sum;
}

std::vector<Penalties> MakeStrengths(const std::string& what, int count, uint64_t seed) {
  std::vector<double> levels;
  for (int k = 0; k < count; ++k) levels.push_back(0.01 * std::pow(10.0, 4.0 * k / (count - 1)));
  std::vector<double> others = levels;
  base::RandomStream(seed, "bench.order").Shuffle(levels);
  base::RandomStream(seed, "bench.others").Shuffle(others);
  std::vector<Penalties> all;
  for (size_t k = 0; k < levels.size(); ++k) {
    if (what == "l2") all.push_back({{levels[k]}, {0.0}});
    if (what == "l1") all.push_back({{0.1}, {levels[k]}});
    if (what == "groups") all.push_back({{levels[k], others[k]}, {0.0, 0.0}});
  }
  return all;
}

class Bench {
 public:
  explicit Bench(const objectives::ChainFold* fold, int32_t transitions_group)
      : fold_(fold), transitions_group_(transitions_group) {}

  struct Result {
    ChainOutcome outcome = ChainOutcome::kRunning;
    double passes = 0.0, value = 0.0;
    std::string model;
  };

  Result Train(const Penalties& penalties, crf::ChainTrainerOptions options, const Penalties* from,
               const std::string& model) const {
    const ChainPenalty penalty(fold_->row_group, transitions_group_, penalties.l2, penalties.l1);
    crf::ChainData scaled;
    if (!penalty.uniform()) scaled = penalty.Scaled(fold_->train);
    const crf::ChainData& data = penalty.uniform() ? fold_->train : scaled;
    options.l1 = penalty.l1();
    crf::ChainTrainer trainer = crf::ChainTrainer::Create(&data, penalty.l2(), options).value();
    if (from != nullptr) {
      const ChainPenalty other(fold_->row_group, transitions_group_, from->l2, from->l1);
      base::CheckpointReader reader = base::CheckpointReader::Open(model, kKind).value();
      const absl::Status started = trainer.WarmStart(&reader, "", penalty.From(other));
      if (!started.ok()) std::fprintf(stderr, "%s\n", started.ToString().c_str());
    }
    Result result;
    while ((result.outcome = trainer.Advance({}).value()) == ChainOutcome::kRunning) continue;
    result.passes = trainer.passes();
    const VectorXd w = trainer.Weights();
    result.value = Value(data, penalty, w);
    base::CheckpointWriter writer(kKind);
    trainer.SaveModel(&writer, "");
    result.model = std::move(writer).Finish();
    return result;
  }

  double AtZero() const {
    crf::ChainLoss loss(&fold_->train);
    return loss.Value(VectorXd::Zero(loss.dim()), nullptr).value();
  }

 private:
  static double Value(const crf::ChainData& data, const ChainPenalty& penalty, const VectorXd& w) {
    crf::ChainLoss loss(&data);
    double value = crf::ChainProblem(&loss, penalty.l2()).Value(w, nullptr).value();
    for (Eigen::Index j = 0; j < w.size(); ++j) value += penalty.l1().Of(j / data.shape().stride()) * std::abs(w[j]);
    return value;
  }

  const objectives::ChainFold* fold_;
  int32_t transitions_group_;
};

int Main() {
  const std::string what = absl::GetFlag(FLAGS_what);
  study::BuiltinObjective objective;
  objective.model = "crf";
  objective.data = absl::GetFlag(FLAGS_data);
  study::Parameters options;
  if (what == "groups") options[catalogue::kGroupsOption] = std::string("pairs: *|*");
  objective.options = options;
  const auto groups = catalogue::GroupsOf(options).value();
  const catalogue::ObjectiveInfo info = catalogue::WithPenaltyGroups(catalogue::CrfInfo(), groups);
  study::Parameters at = {{"l2", 1.0}};
  for (const auto& group : groups) at[catalogue::PenaltyName(group)] = 1.0;
  const auto source = objectives::ChainSource::Open(objective, nullptr, nullptr, {}).value();
  const auto encoded = source->Encode(catalogue::Settings::Resolve(info, options, at).value(), {}).value();
  const Bench bench(&encoded->folds[0], source->transitions_group());
  const auto seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  const std::vector<Penalties> penalties = MakeStrengths(what, absl::GetFlag(FLAGS_strengths), seed);

  crf::ChainTrainerOptions oracle;
  oracle.method = what == "l1" ? "saga" : "lbfgs";
  oracle.average.step = stochastic::StepRule::kLmax;
  oracle.tolerance = 1e-8;
  oracle.max_passes = 3000.0;
  std::vector<double> optimum;
  for (const Penalties& one : penalties) optimum.push_back(bench.Train(one, oracle, nullptr, "").value);
  const double zero = bench.AtZero();

  std::printf("%-14s %8s %8s %6s   %s\n", "", "cold", "warm", "less", "gap: cold, warm (mean of logs; largest); done");
  for (const std::string& name : absl::GetFlag(FLAGS_solvers)) {
    crf::ChainTrainerOptions method;
    method.method = name;
    method.average.step = stochastic::ParseStepRule(absl::GetFlag(FLAGS_step_rule)).value();
    method.average.memory = crf::ParseMemoryMode(absl::GetFlag(FLAGS_memory)).value();
    method.average.seed = seed;
    method.rate = absl::GetFlag(FLAGS_rate);
    method.tolerance = absl::GetFlag(FLAGS_tolerance);
    method.max_passes = absl::GetFlag(FLAGS_max_passes);
    method.threads = absl::GetFlag(FLAGS_threads);
    double passes[2] = {}, logs[2] = {}, worst[2] = {};
    int done[2] = {};
    std::vector<std::string> models;
    for (size_t k = 0; k < penalties.size(); ++k) {
      size_t nearest = 0;
      for (size_t j = 0; j < k; ++j) {
        if (Distance(penalties[j], penalties[k]) <= Distance(penalties[nearest], penalties[k])) nearest = j;
      }
      Bench::Result results[2];
      results[0] = bench.Train(penalties[k], method, nullptr, "");
      results[1] = k == 0 ? results[0] : bench.Train(penalties[k], method, &penalties[nearest], models[nearest]);
      models.push_back(results[1].model);
      if (absl::GetFlag(FLAGS_each)) {
        std::printf("  %8.3g %8.3g  %8.1f %8.1f  %.3g\n", penalties[k].l2.back(),
                    penalties[k].l2[0] + penalties[k].l1[0], results[0].passes, results[1].passes,
                    std::exp(Distance(penalties[nearest], penalties[k])));
      }
      for (int w = 0; w < 2; ++w) {
        const double gap = (results[w].value - optimum[k]) / (zero - optimum[k]);
        passes[w] += results[w].passes;
        logs[w] += std::log10(std::max(gap, 1e-16)) / static_cast<double>(penalties.size());
        worst[w] = std::max(worst[w], gap);
        done[w] += results[w].outcome != ChainOutcome::kPassLimit ? 1 : 0;
      }
    }
    std::printf("%-14s %8.0f %8.0f %5.0f%%   1e%.1f 1e%.1f; %.1e %.1e; %d %d\n", name.c_str(), passes[0], passes[1],
                100.0 * (1.0 - passes[1] / passes[0]), logs[0], logs[1], worst[0], worst[1], done[0], done[1]);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  luthier::crf::lab::RegisterMethods();
  absl::ParseCommandLine(argc, argv);
  return luthier::Main();
}
