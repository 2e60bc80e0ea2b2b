#include "server/coordinator/messages/measurements.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/study/parameters.h"

namespace luthier::coordinator {
namespace {

using base::Quote;

constexpr size_t kMaxCheckpoint = 1024;
constexpr size_t kMaxMetrics = 32;

}  // namespace

absl::Status CheckMeasurement(const study::Measurement& m, const std::string& at) {
  base::Violations violations;
  if (m.step < 0) violations.Add(at + ".step", absl::StrCat(m.step, " is below 0"));
  if (m.metrics.size() > kMaxMetrics) {
    violations.Add(at + ".metrics",
                   absl::StrCat("has ", m.metrics.size(), " entries; at most ", kMaxMetrics, " are allowed"));
  }
  for (const auto& [name, value] : m.metrics) {
    if (!study::IsName(name)) violations.Add(at + ".metrics", absl::StrCat(Quote(name), " is not a metric's name"));
  }
  if (m.elapsed_seconds && !(*m.elapsed_seconds >= 0.0 && std::isfinite(*m.elapsed_seconds))) {
    violations.Add(at + ".elapsed_seconds", "must be finite and at least 0");
  }
  return violations.ToStatus();
}

absl::Status CheckTraining(const study::Measurement& m) {
  base::Violations violations;
  if (m.training) violations.AddAll("training", ValidateTraining(*m.training));
  if (m.gradient_seconds) violations.AddAll("", study::ValidateSeconds(*m.gradient_seconds, "gradient_seconds"));
  return violations.ToStatus();
}

absl::Status CheckCheckpoint(const std::string& checkpoint, std::optional<int64_t> step) {
  if (step && *step < 0) return base::BadField("checkpoint_step", absl::StrCat(*step, " is below 0"));
  if (checkpoint.size() <= kMaxCheckpoint) return absl::OkStatus();
  return base::BadField("checkpoint",
                        absl::StrCat("is longer than ", kMaxCheckpoint, " bytes; send a reference, not the data"));
}

absl::Status CheckStartStep(std::optional<int64_t> step) {
  return !step || *step >= 0 ? absl::OkStatus() : base::BadField("start_step", absl::StrCat(*step, " is below 0"));
}

std::string MetricsText(const study::Measurement& m) {
  return absl::StrJoin(m.metrics, " ", [](std::string* out, const auto& metric) {
    absl::StrAppend(out, metric.first, "=", study::FormatDouble(metric.second));
  });
}

}  // namespace luthier::coordinator
