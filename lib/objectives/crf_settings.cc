#include "lib/objectives/crf_settings.h"

#include <algorithm>
#include <cstdlib>

#include "lib/catalogue/settings.h"
#include "lib/notation/templates.h"

namespace luthier::objectives {
namespace {

// Penalties of l2 below which the curvature falls so far in training that constants must be searched at every visit.
constexpr double kWeak = 1.0;

// The templates that the trial's switches leave.
std::vector<notation::Template> Reduce(const std::vector<notation::Template>& all, int64_t window,
                                       int64_t max_positions) {
  std::vector<notation::Template> kept;
  for (const notation::Template& one : all) {
    const bool inside = std::all_of(one.positions.begin(), one.positions.end(),
                                    [&](const notation::Position& p) { return std::abs(p.offset) <= window; });
    if (inside && static_cast<int64_t>(one.positions.size()) <= max_positions) kept.push_back(one);
  }
  return kept;
}

}  // namespace

crf::FeatureOptions ChainFeatureOptions(const catalogue::Settings& settings,
                                        const std::vector<notation::Template>& templates) {
  crf::FeatureOptions options;
  options.templates = Reduce(templates, settings.Int("window"), settings.Int("max_positions"));
  options.lower_words = settings.Bool("lower_words");
  const std::string& boundary = settings.Text("boundary");
  options.boundary = boundary == "single"     ? crf::Boundary::kSingle
                     : boundary == "numbered" ? crf::Boundary::kNumbered
                                              : crf::Boundary::kSkip;
  options.min_count = settings.Int("min_count");
  options.hash_bits = static_cast<int>(settings.Int("hash_bits"));
  return options;
}

crf::ChainTrainerOptions ChainTrainingOptions(const catalogue::Settings& settings, uint64_t seed) {
  crf::ChainTrainerOptions options;
  const std::string& solver = settings.Text("solver");
  options.method = solver == "auto" ? "sag" : solver;
  // The longer steps of kHedge may keep saga going about the optimum (docs/reference/crf.md).
  if (options.method == "saga") options.average.step = stochastic::StepRule::kLmax;
  options.average.skip_checks = options.method != "sag" || settings.Number("l2") >= kWeak;
  options.average.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  options.average.seed = seed;
  options.threads = static_cast<int>(settings.Int("threads"));
  options.tolerance = settings.Number("tolerance");
  options.max_passes = static_cast<double>(settings.Int("max_passes"));
  return options;
}

}  // namespace luthier::objectives
