#include "lib/study/gradients.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "lib/base/error.h"
#include "lib/study/metrics.h"
#include "lib/study/search_space.h"

namespace luthier::study {
namespace {

// Brings one gradient into its stored form.
absl::Status TakeGradient(const StudySpec& spec, const Parameters& setting, Gradient* gradient) {
  if (!gradient->by_name.empty()) {
    absl::StatusOr<Gradient> known = FromNames(spec.space, setting, *gradient);
    if (!known.ok()) return known.status();
    *gradient = *std::move(known);
  }
  return ValidateGradient(*gradient, static_cast<int>(spec.space.differentiable().size()));
}

int64_t NumbersOf(const Gradient& gradient) {
  return static_cast<int64_t>(gradient.values.size() + gradient.direction.size());
}

}  // namespace

absl::Status TakeGradients(const StudySpec& spec, const Parameters& setting, Measurement* measurement) {
  if (measurement->gradients.empty()) return absl::OkStatus();
  const absl::Span<const MetricSpec> metrics = MetricsOf(spec);
  std::map<std::string, Gradient> kept;
  base::Violations violations;
  for (auto& [name, gradient] : measurement->gradients) {
    const bool declared =
        std::any_of(metrics.begin(), metrics.end(), [&](const MetricSpec& metric) { return metric.name == name; });
    if (!declared) continue;
    const std::string at = absl::StrCat("gradients[", base::Quote(name), "]");
    if (const absl::Status taken = TakeGradient(spec, setting, &gradient); !taken.ok()) {
      violations.AddAll(at, taken);
    } else if (name != spec.metric.name) {
      kept.emplace(name, std::move(gradient));
    } else if (!measurement->gradient) {
      measurement->gradient = std::move(gradient);
    } else if (*measurement->gradient != gradient) {
      violations.Add(at, absl::StrCat("is not `gradient`, which is of ", name, ", too; give one of them"));
      measurement->gradient.reset();
    }
  }
  measurement->gradients = std::move(kept);
  return violations.ToStatus();
}

std::vector<std::optional<Gradient>> GradientsOf(const StudySpec& spec, const Measurement& measurement) {
  if (spec.metrics.empty() || (!measurement.gradient && measurement.gradients.empty())) return {};
  std::vector<std::optional<Gradient>> gradients;
  for (const MetricSpec& metric : spec.metrics) {
    const auto found = measurement.gradients.find(metric.name);
    if (metric.name == spec.metric.name) {
      gradients.push_back(measurement.gradient);
    } else {
      gradients.push_back(found == measurement.gradients.end() ? std::nullopt : std::optional(found->second));
    }
  }
  return gradients;
}

void ClearGradients(Measurement* measurement) {
  measurement->gradient.reset();
  measurement->gradients.clear();
}

int64_t GradientBytes(const Measurement& measurement) {
  int64_t numbers = measurement.gradient ? NumbersOf(*measurement.gradient) : 0;
  for (const auto& [name, gradient] : measurement.gradients) numbers += NumbersOf(gradient);
  return static_cast<int64_t>(sizeof(double)) * numbers;
}

}  // namespace luthier::study
