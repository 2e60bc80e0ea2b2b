#include "lib/objectives/regression_objective.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/registry.h"
#include "lib/catalogue/regression_info.h"
#include "lib/objectives/fold_errors.h"
#include "lib/objectives/kept_layouts.h"
#include "lib/objectives/linear_objective.h"
#include "lib/objectives/row_source.h"

namespace luthier::objectives {
namespace {

using Eigen::Index;

// Note for people.
constexpr char kKink[] = "the derivatives jump close by: a column is about to get or lose its weight";

// Returns the sum of squared differences of targets from their means.
double Variation(const RowSource& source, const std::vector<int32_t>& rows) {
  double sum = 0.0;
  const auto add = [&](const std::vector<double>& target) {
    const double mean = MeanTarget(target, rows);
    for (const int32_t row : rows) sum += std::pow(target[static_cast<size_t>(row)] - mean, 2);
  };
  add(source.dataset.target);
  for (const std::vector<double>& target : source.more_targets) add(target);
  return sum;
}

class RegressionObjective final : public Objective {
 public:
  RegressionObjective(catalogue::ObjectiveInfo info, study::Parameters options, study::SearchSpace space,
                      study::MetricSpec metric, RowSource source, std::vector<catalogue::PenaltyGroup> groups,
                      bilevel::ColumnPenalties columns)
      : info_(std::move(info)),
        options_(std::move(options)),
        space_(std::move(space)),
        metric_(std::move(metric)),
        source_(std::move(source)),
        groups_(std::move(groups)),
        columns_(std::move(columns)) {
    std::vector<int32_t> held_out;
    for (const data::Partition& fold : source_.folds) {
      const std::vector<int32_t>& judged = fold.validation.empty() ? fold.train : fold.validation;
      held_out.insert(held_out.end(), judged.begin(), judged.end());
    }
    variation_ = Variation(source_, held_out);
    third_variation_ = Variation(source_, source_.folds.front().third);
  }

  const catalogue::ObjectiveInfo& info() const override { return info_; }
  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override;

 private:
  using Layout = std::vector<std::shared_ptr<const RegressionFold>>;
  // The settings that a layout depends on: standardize, intercept, and whether gamma is a list.
  struct Key {
    bool standardize, intercept, list;
    friend bool operator==(const Key&, const Key&) = default;
  };

  // Returns CANCELLED when stopped.
  absl::StatusOr<std::shared_ptr<const Layout>> LayoutFor(const RegressionSettings& settings,
                                                          const base::StopToken& stop) const;
  study::Measurement Measure(const std::vector<RegressionFit>& fits) const;
  // Returns the mean gradient of the folds, which `fits` give away, or none, with the reason in *note.
  std::optional<study::Gradient> MakeGradient(const RegressionSettings& settings, std::optional<double> tolerance,
                                              std::vector<RegressionFit>* fits, std::string* note) const;
  std::vector<Derivative> Derivatives(const RegressionSettings& settings) const;

  const catalogue::ObjectiveInfo info_;
  const study::Parameters options_;
  const study::SearchSpace space_;
  const study::MetricSpec metric_;
  const RowSource source_;
  const std::vector<catalogue::PenaltyGroup> groups_;
  const bilevel::ColumnPenalties columns_;
  double variation_ = 0.0, third_variation_ = 0.0;
  mutable KeptLayouts<Key, Layout> layouts_;
};

study::Measurement RegressionObjective::Measure(const std::vector<RegressionFit>& fits) const {
  RegressionFit all;
  FoldErrors errors;
  for (const RegressionFit& fit : fits) {
    all.validation_sse += fit.validation_sse;
    all.validation_rows += fit.validation_rows;
    all.train_sse += fit.train_sse;
    all.train_rows += fit.train_rows;
    all.third_sse += fit.third_sse;
    all.third_rows += fit.third_rows;
    all.products = std::max(all.products, fit.products);
    errors.Add("validation_loss", fit.validation_sse, fit.validation_rows);
  }
  study::Measurement m;
  m.step = std::max(1, all.products);
  m.metrics["validation_loss"] = all.validation_sse / all.validation_rows;
  m.metrics["validation_r2"] = R2(all.validation_sse, variation_);
  errors.WriteTo(&m);
  m.metrics["train_loss"] = all.train_sse / all.train_rows;
  if (all.third_rows > 0.0) {
    m.metrics["third_loss"] = all.third_sse / all.third_rows;
    // Each fold's model predicts the same rows.
    m.metrics["third_r2"] = R2(all.third_sse / static_cast<double>(fits.size()), third_variation_);
  }
  if (info_.model == "elastic_net") {
    double nonzero = 0.0;
    for (const RegressionFit& fit : fits) nonzero += static_cast<double>((fit.weights.array() != 0.0).count());
    m.metrics["nonzero"] = nonzero / static_cast<double>(fits.size());
  }
  study::TrainingReport& training = m.training.emplace();
  for (const RegressionFit& fit : fits) {
    study::TrainingReport one;
    one.gradient_norm = fit.relative_gradient;
    one.outcome = fit.limited                                         ? study::TrainingOutcome::kTarget
                  : fit.outcome == linear::CgOutcome::kConverged      ? study::TrainingOutcome::kConverged
                  : fit.outcome == linear::CgOutcome::kIterationLimit ? study::TrainingOutcome::kLimit
                                                                      : study::TrainingOutcome::kPrecision;
    training = &fit == &fits.front() ? one : study::Worse(training, one);
  }
  return m;
}

std::vector<Derivative> RegressionObjective::Derivatives(const RegressionSettings& settings) const {
  std::vector<Derivative> out;
  for (const study::Scalar& scalar : space_.differentiable()) {
    const study::ParameterSpec& parameter = space_.parameters()[static_cast<size_t>(scalar.parameter)];
    const std::string& name = parameter.name;
    if (name == "gamma") {
      const Index k = parameter.is_vector() ? scalar.element : 0;
      out.push_back({k, settings.gamma[k]});
      continue;
    }
    if (name == "recency" || name == "recency_center") {
      // The second entry's derivative is by the parameter itself, which may be 0.
      const bool slope = name == "recency";
      out.push_back({columns_.count + (slope ? 0 : 1), slope ? settings.recency->slope : 1.0});
      continue;
    }
    if (info_.model == "elastic_net") {
      const bool first = name == "l1";
      out.push_back({first ? 0 : 1, first ? settings.l1 : settings.l2[0]});
      continue;
    }
    size_t k = parameter.is_vector() ? static_cast<size_t>(scalar.element) + 1 : 0;
    for (size_t g = 0; g < groups_.size(); ++g) {
      if (name == catalogue::PenaltyName(groups_[g])) k = g + 1;
    }
    // kernel_ridge: penalties come behind the gammas.
    out.push_back({static_cast<Index>(k) + settings.gamma.size(), settings.l2[k]});
  }
  return out;
}

absl::StatusOr<std::shared_ptr<const RegressionObjective::Layout>> RegressionObjective::LayoutFor(
    const RegressionSettings& settings, const base::StopToken& stop) const {
  const auto make = [&]() -> absl::StatusOr<Layout> {
    Layout folds;
    for (const data::Partition& partition : source_.folds) {
      LUTHIER_ASSIGN_OR_RETURN(
          std::shared_ptr<const RegressionFold> fold,
          MakeRegressionFold(info_, source_.dataset, source_.more_targets, partition, settings, columns_, stop));
      folds.push_back(std::move(fold));
    }
    return folds;
  };
  return layouts_.Get({settings.standardize, settings.intercept, settings.gamma.size() > 1}, stop, make);
}

std::optional<study::Gradient> RegressionObjective::MakeGradient(const RegressionSettings& settings,
                                                                 std::optional<double> tolerance,
                                                                 std::vector<RegressionFit>* fits,
                                                                 std::string* note) const {
  std::vector<bilevel::ImplicitGradient> parts;
  std::vector<double> weights;
  for (RegressionFit& fit : *fits) {
    if (fit.gradient) parts.push_back(*std::move(fit.gradient));
    weights.push_back(fit.validation_rows);
  }
  if (parts.size() < fits->size()) {
    *note = kNotAtMinimum;
    return std::nullopt;
  }
  std::optional<study::Gradient> gradient = MeanGradient(parts, weights, Derivatives(settings), tolerance, note);
  if (gradient && std::any_of(fits->begin(), fits->end(), [](const RegressionFit& f) { return f.near_kink; })) {
    *note = kKink;
  }
  return gradient;
}

absl::StatusOr<EvaluationResult> RegressionObjective::Evaluate(const EvaluationContext& context) const {
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                           catalogue::Settings::Resolve(info_, options_, context.parameters));
  RegressionSettings regression = ParseRegressionSettings(info_, groups_, settings);
  regression.path = std::none_of(space_.parameters().begin(), space_.parameters().end(),
                                 [](const study::ParameterSpec& p) { return p.name == "l2"; });
  const bool wanted = settings.given("gradient") ? settings.Bool("gradient") : context.gradient != GradientUse::kNone;
  const catalogue::MetricInfo* metric = info_.FindMetric(metric_.name);
  const bool gradient = wanted && metric != nullptr && metric->gradient && !space_.differentiable().empty() &&
                        catalogue::AreDifferentiable(info_, space_);
  const std::optional<double> tolerance = gradient ? context.tolerance : std::nullopt;
  EvaluationResult result;
  const base::StopToken& stop = context.stop;
  const auto cancelled = [&] {
    result.outcome = EvaluationOutcome::kCancelled;
    return result;
  };
  const absl::StatusOr<std::shared_ptr<const Layout>> layout = LayoutFor(regression, stop);
  if (absl::IsCancelled(layout.status())) return cancelled();
  LUTHIER_RETURN_IF_ERROR(layout.status());
  if (context.started) context.started(false, 0);
  const absl::Duration begin = context.clock == nullptr ? absl::ZeroDuration() : context.clock->Monotonic();
  std::vector<RegressionFit> fits;
  const auto fail = [&](const char* reason, std::string message) {
    result.outcome = EvaluationOutcome::kFailed;
    result.failure = study::Failure{study::FailureKind::kConfig, reason, std::move(message)};
    return result;
  };
  for (const std::shared_ptr<const RegressionFold>& fold : **layout) {
    absl::StatusOr<RegressionFit> fit = fold->Fit(regression, gradient, tolerance, stop);
    if (absl::IsCancelled(fit.status())) return cancelled();
    LUTHIER_RETURN_IF_ERROR(fit.status());
    if (fits.empty() && context.first_gradient) context.first_gradient();
    if (fit->singular) {
      return fail(study::failure::kSingular,
                  info_.model == "ridge"
                      ? "the Gram matrix plus l2 is singular up to rounding; raise l2"
                      : "the kernel matrix plus l2 is singular up to rounding: rows are alike for this gamma; raise "
                        "l2, or gamma's lower end");
    }
    if (fit->diverged) return fail(study::failure::kDiverged, "the unrolled steps of training are not finite");
    fits.push_back(*std::move(fit));
  }
  study::Measurement last = Measure(fits);
  for (const auto& [name, value] : last.metrics) {
    if (!std::isfinite(value)) {
      return fail(study::failure::kNonFinite, absl::StrCat(name, " is ", study::FormatDouble(value)));
    }
  }
  if (gradient) last.gradient = MakeGradient(regression, tolerance, &fits, &result.note);
  if (last.gradient && !context.direction.empty()) last.gradient = study::Along(*last.gradient, context.direction);
  if (last.gradient && context.clock != nullptr) {
    last.gradient_seconds = absl::ToDoubleSeconds(context.clock->Monotonic() - begin);
  }
  if (tolerance && *tolerance > regression.tolerance && last.training->outcome == study::TrainingOutcome::kConverged &&
      last.training->gradient_norm.value_or(0.0) > regression.tolerance) {
    last.training->outcome = study::TrainingOutcome::kTarget;  // The training went as far as the search asked for.
  }
  result.measurement = std::move(last);
  return result;
}

}  // namespace

absl::StatusOr<bilevel::ColumnPenalties> RegressionPenalties(const catalogue::ObjectiveInfo& info,
                                                             const study::Parameters& options,
                                                             const std::vector<catalogue::PenaltyGroup>& groups,
                                                             std::optional<int64_t> length,
                                                             std::optional<int64_t> gammas,
                                                             const data::Dataset& dataset) {
  if (gammas && *gammas != dataset.x.cols) {
    return absl::InvalidArgumentError(absl::StrCat(dataset.name, ": gamma has ", *gammas, " widths, and ",
                                                   dataset.x.cols, " are needed: one for each column"));
  }
  if (info.model != "ridge" && info.model != "mlp") return bilevel::ColumnPenalties{};
  return PenaltiesFor(info, options, groups, length, dataset);
}

absl::StatusOr<std::unique_ptr<Objective>> CreateRegressionObjective(const NewObjective& of,
                                                                     const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(RowSource source, LoadRows(of.spec, data::Task::kRegression, of.root, of.cache, stop));
  if (catalogue::JudgesTrainingRows(of.spec.options)) {
    data::Partition& all = source.folds.front();
    all.train.insert(all.train.end(), all.validation.begin(), all.validation.end());
    std::sort(all.train.begin(), all.train.end());
    all.validation.clear();
  }
  LUTHIER_ASSIGN_OR_RETURN(std::vector<catalogue::PenaltyGroup> groups, catalogue::GroupsOf(of.spec.options));
  LUTHIER_ASSIGN_OR_RETURN(
      const bilevel::ColumnPenalties columns,
      RegressionPenalties(of.info, of.spec.options, groups, catalogue::LengthOf("l2", of.spec.options, of.space),
                          catalogue::LengthOf("gamma", of.spec.options, of.space), source.dataset));
  return std::unique_ptr<Objective>(
      std::make_unique<RegressionObjective>(catalogue::WithPenaltyGroups(of.info, groups), of.spec.options, of.space,
                                            of.metric, std::move(source), std::move(groups), columns));
}

}  // namespace luthier::objectives
