#include "lib/simulate/preview.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>
#include <vector>

#include "lib/search/harmonica/plan.h"
#include "lib/search/registry.h"
#include "lib/study/rung_schedule.h"

namespace luthier::simulate {
namespace {

// Returns the rungs of a bracket that gets `settings` settings; for a full bracket those of its table.
Preview::Bracket RungsOf(const study::Bracket& bracket, int32_t eta, int64_t settings) {
  Preview::Bracket result;
  int64_t size = settings;
  int64_t before = 0;
  for (const int64_t step : bracket.steps) {
    result.rungs.push_back({step, size, static_cast<double>(size) * static_cast<double>(step - before)});
    size = std::max<int64_t>(1, size / eta);
    before = step;
  }
  return result;
}

int32_t EtaOf(const study::AlgorithmSpec& algorithm) {
  if (const auto* halving = std::get_if<study::SuccessiveHalvingOptions>(&algorithm)) return halving->eta;
  if (const auto* hyperband = std::get_if<study::HyperbandOptions>(&algorithm)) return hyperband->eta;
  return std::get<study::AshaOptions>(algorithm).eta;
}

// Previews the stages of Harmonica, and then its base's work on the remaining trials.
Preview PreviewOfStages(const study::StudySpec& spec, const study::HarmonicaOptions& options, int64_t workers) {
  const search::HarmonicaPlan plan = search::PlanHarmonica(spec, options);
  study::StudySpec base = search::BaseStudy(spec, options, plan);
  base.budget.max_trials = plan.left;
  Preview preview = PreviewOf(base, workers);
  if (!plan.staged) return preview;
  if (plan.left == 0) {
    preview.brackets.clear();
    preview.time_at_least = preview.time_at_most = 0.0;
  }
  preview.algorithm = study::AlgorithmName(spec.algorithm);
  preview.settings = spec.budget.max_trials;
  const double whole = spec.resource ? static_cast<double>(spec.resource->max) : 1.0;
  preview.training_without = static_cast<double>(preview.settings) * whole;
  const int64_t step = plan.resource > 0 ? plan.resource : spec.resource ? spec.resource->max : 0;
  const double each = step > 0 ? static_cast<double>(step) : 1.0;
  // A budget that ends within a stage cuts it short.
  Preview::Bracket stages;
  Preview::Bracket cut;
  const int64_t whole_stages = std::min<int64_t>(plan.stages, preview.settings / plan.samples);
  stages.times = whole_stages;
  stages.rungs = {{step, plan.samples, static_cast<double>(plan.samples) * each}};
  const int64_t rest = whole_stages < plan.stages ? preview.settings - whole_stages * plan.samples : 0;
  cut.rungs = {{step, rest, static_cast<double>(rest) * each}};
  std::vector<Preview::Bracket> before;
  if (whole_stages > 0) before.push_back(std::move(stages));
  if (rest > 0) before.push_back(std::move(cut));
  const auto k = static_cast<double>(preview.workers);
  for (const Preview::Bracket& bracket : before) {
    const double training = static_cast<double>(bracket.times) * bracket.rungs.front().training;
    preview.training += training;
    preview.training_from_scratch += training;
    preview.time_at_least += training / k;
    preview.time_at_most +=
        static_cast<double>(bracket.times) * std::ceil(static_cast<double>(bracket.rungs.front().settings) / k) * each;
  }
  preview.time_at_least = std::max(preview.time_at_least, each);
  preview.time_at_most = std::max(preview.time_at_most, preview.time_at_least);
  preview.brackets.insert(preview.brackets.begin(), before.begin(), before.end());
  return preview;
}

}  // namespace

Preview PreviewOf(const study::StudySpec& spec, int64_t workers) {
  if (const auto* harmonica = std::get_if<study::HarmonicaOptions>(&spec.algorithm)) {
    return PreviewOfStages(spec, *harmonica, workers);
  }
  Preview preview;
  preview.algorithm = study::AlgorithmName(search::Resolve(spec).algorithm);
  preview.settings = spec.budget.max_trials;
  preview.workers = spec.budget.max_parallel > 0 ? std::min(workers, spec.budget.max_parallel) : workers;
  preview.unit = spec.resource ? (spec.resource->unit.empty() ? "units" : spec.resource->unit) : "trials";
  const double whole = spec.resource ? static_cast<double>(spec.resource->max) : 1.0;
  preview.training_without = static_cast<double>(preview.settings) * whole;
  preview.at_most = spec.stopping.has_value();

  if (study::SamplerOf(spec.algorithm) == nullptr) {
    preview.brackets = {{1, {{spec.resource ? spec.resource->max : 0, preview.settings, preview.training_without}}}};
  } else {
    const auto* asha = std::get_if<study::AshaOptions>(&spec.algorithm);
    preview.at_most = preview.at_most || asha != nullptr;
    preview.about = asha != nullptr && asha->variant == study::AshaVariant::kStop;
    const std::vector<study::Bracket> table = study::BracketsOf(spec);
    int64_t round = 0;
    for (const study::Bracket& bracket : table) round += bracket.sizes.front();
    int64_t left = preview.settings % round;
    // Brackets in the order of the table: whole rounds, one more for brackets that the rest fills, and the bracket cut
    // short.
    Preview::Bracket cut;
    for (const study::Bracket& bracket : table) {
      Preview::Bracket shown = RungsOf(bracket, EtaOf(spec.algorithm), bracket.sizes.front());
      shown.times = preview.settings / round + (left >= bracket.sizes.front() ? 1 : 0);
      if (left > 0 && left < bracket.sizes.front()) cut = RungsOf(bracket, EtaOf(spec.algorithm), left);
      left = std::max<int64_t>(0, left - bracket.sizes.front());
      if (shown.times > 0) preview.brackets.push_back(std::move(shown));
    }
    if (!cut.rungs.empty()) preview.brackets.push_back(std::move(cut));
  }

  const auto k = static_cast<double>(preview.workers);
  double barriers = 0.0;
  double longest = 0.0;
  for (const Preview::Bracket& bracket : preview.brackets) {
    const auto times = static_cast<double>(bracket.times);
    int64_t before = 0;
    double alone = 0.0;
    for (const Preview::Rung& rung : bracket.rungs) {
      const auto settings = static_cast<double>(rung.settings);
      preview.training += times * rung.training;
      preview.training_from_scratch +=
          times * (rung.step > 0 ? settings * static_cast<double>(rung.step) : rung.training);
      const double each = rung.step > 0 ? static_cast<double>(rung.step - before) : 1.0;
      alone += std::ceil(settings / k) * each;
      before = rung.step;
    }
    barriers += times * alone;
    longest = std::max(longest, alone);
  }
  preview.time_at_least = std::max(preview.training / k, whole);
  // Nobody is idle until the last setting has begun; then the last bracket is left, or in asha one training.
  const bool asynchronous = std::holds_alternative<study::AshaOptions>(spec.algorithm);
  const double packed = preview.training / k + (asynchronous ? whole : longest);
  const bool overlaps = study::SamplerOf(spec.algorithm) != nullptr;
  preview.time_at_most = std::max(overlaps ? std::min(packed, barriers) : barriers, preview.time_at_least);
  return preview;
}

}  // namespace luthier::simulate
