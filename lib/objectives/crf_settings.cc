#include "lib/objectives/crf_settings.h"

#include <algorithm>
#include <cstdlib>

#include "lib/base/status_macros.h"
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

absl::StatusOr<crf::ChainTrainerOptions> ChainTrainingOptions(const catalogue::Settings& settings, uint64_t seed) {
  crf::ChainTrainerOptions options;
  LUTHIER_ASSIGN_OR_RETURN(options.method, crf::ParseChainMethod(settings.Text("solver")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.sampling, stochastic::ParseSampling(settings.Text("sampling")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.step, stochastic::ParseStepRule(settings.Text("step_rule")));
  LUTHIER_ASSIGN_OR_RETURN(options.average.memory, crf::ParseMemoryMode(settings.Text("memory")));
  const std::string& search = settings.Text("line_search");
  options.average.search_remembered = search == "remembered";
  const bool weak = settings.Number("l2") < kWeak;
  const bool always = search == "always" || (search == "auto" && options.method == crf::ChainMethod::kSag && weak);
  options.average.skip_checks = !always;
  options.average.constant_step = options.rate = settings.Number("constant_step");
  options.average.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  options.average.seed = seed;
  options.threads = static_cast<int>(settings.Int("threads"));
  options.tolerance = settings.Number("tolerance");
  options.max_passes = static_cast<double>(settings.Int("max_passes"));
  return options;
}

}  // namespace luthier::objectives
