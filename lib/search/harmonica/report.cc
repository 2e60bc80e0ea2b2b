#include "lib/search/harmonica/report.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/search/harmonica/stages.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/spectral/recovery.h"

namespace luthier::search {
namespace {

// Limit of features times samples times resamples, which take a few seconds.
constexpr double kMostWork = 1e10;
constexpr int kLeastResamples = 5;
constexpr double kManyFailed = 0.3;

const std::string& ParameterOf(const spectral::BitEncoding& bits, const spectral::BitGroup& group) {
  return bits.encoding().space().parameters()[static_cast<size_t>(group.parameter)].name;
}

int Place(const spectral::BitGroup& group, int bit) {
  return 1 << (group.count - 1 - (bit - group.begin));
}

std::vector<std::string> Warnings(const HarmonicaStage& stage, const HarmonicaPlan& plan,
                                  const std::optional<study::Resource>& resource) {
  std::vector<std::string> warnings;
  if (resource && plan.resource > 0 && plan.resource < resource->max) {
    warnings.push_back(absl::StrCat("values after ", plan.resource, " of ", resource->max, " ",
                                    resource->unit.empty() ? "units" : resource->unit,
                                    " of training: what matters later may differ"));
  }
  if (!stage.believed) {
    warnings.push_back(stage.polynomial.terms.empty()
                           ? "nothing was found, so nothing is fixed"
                           : "the polynomial does not predict held-out samples, so nothing is fixed");
  }
  if (stage.results > 0 && stage.failed > kManyFailed * stage.results) {
    warnings.push_back(absl::StrCat(stage.failed, " of ", stage.results,
                                    " samples failed and count as the worst: what is learnt may be how to avoid that"));
  }
  if (stage.dropped > 0) {
    warnings.push_back(absl::StrCat("the ", stage.dropped,
                                    " terms of least weight were dropped: together they have more than ",
                                    spectral::kMaxEnumeratedBits, " variables"));
  }
  return warnings;
}

}  // namespace

HarmonicaReport ReportHarmonica(const study::StudySpec& spec, const study::History& history, int resamples) {
  HarmonicaReport report;
  const auto* options = std::get_if<study::HarmonicaOptions>(&spec.algorithm);
  if (options == nullptr) return report;
  const HarmonicaPlan plan = PlanHarmonica(spec, *options);
  if (!plan.staged) return report;
  const spectral::BitEncoding bits(spec.space, options->float_bits, spec.seed);
  HarmonicaStages stages(spec, *options, plan, bits);
  std::optional<study::History> view;
  if (spec.reproducible) view = history.ReproducibleView(spec.budget.max_parallel);
  const study::History& seen = view ? *view : history;
  LUTHIER_CHECK(stages.Read(seen, base::StopToken()).ok());
  const double sign = spec.metric.goal == study::Goal::kMinimize ? 1.0 : -1.0;
  std::set<int> selected;
  for (size_t q = 0; q < stages.stages().size(); ++q) {
    const HarmonicaStage& stage = stages.stages()[q];
    HarmonicaStageReport out;
    out.intercept = sign * stage.polynomial.intercept;
    out.believed = stage.believed;
    out.samples = stage.results;
    out.failed = stage.failed;
    out.r2 = stage.r2;
    out.cv_r2 = stage.cv_r2;
    out.warnings = Warnings(stage, plan, spec.resource);
    for (const spectral::Term& term : stage.polynomial.terms) {
      HarmonicaTerm t;
      for (const int bit : term.bits) {
        const spectral::BitGroup& group = bits.GroupOf(bit);
        t.factors.push_back(
            {ParameterOf(bits, group), group.count == 1 ? 0 : bit - group.begin + 1, bits.BitName(bit)});
        if (stage.believed) selected.insert(group.parameter);
      }
      t.weight = sign * term.weight;
      t.better_sign = term.weight > 0.0 ? -1 : 1;
      if (term.bits.size() == 1) {
        const spectral::BitGroup& group = bits.GroupOf(term.bits[0]);
        const int place = Place(group, term.bits[0]);
        t.better_values = bits.Describe(group, place, t.better_sign < 0 ? place : 0);
      }
      // Divides before squaring, since squares of large weights overflow.
      const double deviation = std::sqrt(stage.variance);
      const double ratio = deviation > 0.0 ? term.weight / deviation : 0.0;
      t.variance_share = ratio * ratio;
      out.terms.push_back(std::move(t));
    }
    const std::vector<int> variables = Variables(stage.polynomial);
    for (const spectral::Assignment& restriction : stage.restrictions) {
      HarmonicaRestriction r;
      r.value = sign * restriction.value;
      for (const spectral::BitGroup& group : bits.groups()) {
        int mask = 0;
        int code = 0;
        for (size_t k = 0; k < variables.size(); ++k) {
          if (variables[k] < group.begin || variables[k] >= group.begin + group.count) continue;
          mask |= Place(group, variables[k]);
          if ((restriction.code >> k) & 1) code |= Place(group, variables[k]);
        }
        if (mask != 0) r.values[ParameterOf(bits, group)] = bits.Describe(group, mask, code);
      }
      out.restrictions.push_back(std::move(r));
    }
    if (resamples > 0 && !stage.polynomial.terms.empty()) {
      const HarmonicaData data = stages.Data(seen, static_cast<int>(q));
      const double work =
          static_cast<double>(spectral::CountFeatures(static_cast<int>(data.free.size()), plan.degree)) *
          static_cast<double>(data.losses.size());
      const int count = static_cast<int>(std::min(static_cast<double>(resamples), kMostWork / std::max(work, 1.0)));
      if (count >= std::min(resamples, kLeastResamples) && data.losses.size() > 0) {
        spectral::RecoveryOptions again = RecoveryOptionsOf(*options, plan.degree);
        again.factor = stage.factor;
        // If lower degrees were needed to find the terms, triples would hide them again.
        size_t degree = 1;
        for (const spectral::Term& term : stage.polynomial.terms) degree = std::max(degree, term.bits.size());
        if (stage.believed) again.degree = static_cast<int>(degree);
        const std::vector<double> frequencies =
            spectral::BootstrapFrequencies(data.x, data.losses, data.free, again, stage.polynomial.terms,
                                           {count, spec.seed}, base::StopToken())
                .value();
        for (size_t k = 0; k < frequencies.size(); ++k) out.terms[k].bootstrap_frequency = frequencies[k];
      }
    }
    report.stages.push_back(std::move(out));
  }
  for (const spectral::BitGroup& group : bits.groups()) {
    if (!report.stages.empty() && !selected.contains(group.parameter)) {
      report.never_selected.push_back(ParameterOf(bits, group));
    }
  }
  return report;
}

}  // namespace luthier::search
