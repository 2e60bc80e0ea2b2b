#include "lib/study/measurement.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/study/parameters.h"

namespace luthier::study {
namespace {

void CheckVector(const std::vector<double>& v, int dimension, const char* field, base::Violations* violations) {
  if (v.size() != static_cast<size_t>(dimension)) {
    violations->Add(field,
                    absl::StrCat("has ", v.size(), " entries but the study has ", dimension,
                                 " differentiable parameters; send one entry for each, in the order of the space"));
    return;
  }
  for (size_t i = 0; i < v.size(); ++i) {
    if (!std::isfinite(v[i]))
      violations->Add(absl::StrCat(field, "[", i, "]"), "is not finite; leave the gradient out");
  }
}

bool NotNegative(double value) {
  return std::isfinite(value) && value >= 0.0;
}

std::optional<double> Larger(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a || !b) return std::nullopt;
  return std::max(*a, *b);
}

}  // namespace

absl::string_view GradientUseName(GradientUse use) {
  switch (use) {
    case GradientUse::kNone:
      return "none";
    case GradientUse::kFull:
      return "full";
    case GradientUse::kDirectional:
      return "directional";
  }
  LUTHIER_CHECK(false);
}

absl::string_view TrainingOutcomeName(TrainingOutcome outcome) {
  switch (outcome) {
    case TrainingOutcome::kConverged:
      return "converged";
    case TrainingOutcome::kPrecision:
      return "precision";
    case TrainingOutcome::kTarget:
      return "target";
    case TrainingOutcome::kLimit:
      return "limit";
    case TrainingOutcome::kDiverged:
      return "diverged";
  }
  LUTHIER_CHECK(false);
}

absl::StatusOr<TrainingOutcome> ParseTrainingOutcome(absl::string_view name) {
  std::vector<std::string> known;
  for (int i = 0; i < kTrainingOutcomeCount; ++i) {
    const auto outcome = static_cast<TrainingOutcome>(i);
    if (name == TrainingOutcomeName(outcome)) return outcome;
    known.emplace_back(TrainingOutcomeName(outcome));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(base::Quote(name), " is not one of ", absl::StrJoin(known, ", "), base::DidYouMean(name, known)));
}

TrainingReport Worse(const TrainingReport& a, const TrainingReport& b) {
  return {std::max(a.outcome, b.outcome), Larger(a.gradient_norm, b.gradient_norm),
          Larger(a.duality_gap, b.duality_gap)};
}

absl::Status ValidateGradient(const Gradient& gradient, int dimension) {
  base::Violations violations;
  if (gradient.full()) {
    CheckVector(gradient.values, dimension, "full", &violations);
  } else {
    CheckVector(gradient.direction, dimension, "directional.direction", &violations);
    if (!gradient.values.empty()) violations.Add("full", "a gradient is either full or directional, not both");
    bool nonzero = false;
    for (const double d : gradient.direction) nonzero = nonzero || d != 0.0;
    if (!nonzero) violations.Add("directional.direction", "is the zero vector; its slope says nothing");
    if (!std::isfinite(gradient.slope)) violations.Add("directional.slope", "is not finite; leave the gradient out");
  }
  if (gradient.error_bound && !(*gradient.error_bound >= 0.0 && std::isfinite(*gradient.error_bound))) {
    violations.Add("error_bound", "must be finite and at least 0; leave it out when unknown");
  }
  if (gradient.solve) {
    const ImplicitSolve& solve = *gradient.solve;
    if (!gradient.full()) violations.Add("solve", "is of a full gradient; leave it out");
    const std::pair<const char*, double> numbers[] = {{"tolerance", solve.tolerance},
                                                      {"inner_gradient_norm", solve.inner_gradient_norm},
                                                      {"residual", solve.residual},
                                                      {"outer_gradient_norm", solve.outer_gradient_norm},
                                                      {"strong_convexity", solve.strong_convexity},
                                                      {"log_error_bound", solve.log_error_bound.value_or(0.0)}};
    for (const auto& [name, value] : numbers) {
      if (value >= 0.0 && std::isfinite(value)) continue;
      violations.Add(absl::StrCat("solve.", name),
                     "must be finite and at least 0; leave solve out when it is not known");
    }
  }
  return violations.ToStatus();
}

absl::Status ValidateTraining(const TrainingReport& report) {
  base::Violations violations;
  const auto check = [&](const std::optional<double>& number, const char* field) {
    if (!number || NotNegative(*number)) return;
    violations.Add(field, absl::StrCat(FormatDouble(*number), " is not a finite number of at least 0; leave it out"));
  };
  check(report.gradient_norm, "gradient_norm");
  check(report.duality_gap, "duality_gap");
  return violations.ToStatus();
}

absl::Status ValidateSeconds(double seconds, absl::string_view field) {
  if (NotNegative(seconds)) return absl::OkStatus();
  return base::BadField(field,
                        absl::StrCat(FormatDouble(seconds), " is not a finite number of at least 0; leave it out"));
}

std::optional<Gradient> Along(const Gradient& full, const std::vector<double>& direction) {
  Gradient along;
  along.direction = direction;
  if (full.values.size() != direction.size()) return std::nullopt;
  double length = 0.0;
  for (size_t i = 0; i < direction.size(); ++i) {
    along.slope += full.values[i] * direction[i];
    length = std::hypot(length, direction[i]);
  }
  if (full.error_bound) along.error_bound = *full.error_bound * length;
  if (!ValidateGradient(along, static_cast<int>(direction.size())).ok()) return std::nullopt;
  return along;
}

}  // namespace luthier::study
