#include "lib/objectives/function_objective.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/checkpoint.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/settings.h"
#include "lib/catalogue/test_functions.h"

namespace luthier::objectives {
namespace {

using base::RandomStream;
using Eigen::Index;
using Eigen::VectorXd;

constexpr char kFunctionCheckpointKind[] = "objective.function/1";
constexpr double kDecay = 5.0;  // Rate of decay of a curve whose rate is not drawn.

class FunctionObjective final : public Objective {
 public:
  FunctionObjective(const catalogue::ObjectiveInfo& info, const catalogue::TestFunction& function,
                    study::Parameters options, study::SearchSpace space)
      : info_(info), function_(function), options_(std::move(options)), space_(std::move(space)) {}

  const catalogue::ObjectiveInfo& info() const override { return info_; }

  absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const override {
    LUTHIER_ASSIGN_OR_RETURN(const catalogue::Settings settings,
                             catalogue::Settings::Resolve(info_, options_, context.parameters));
    const uint64_t seed = static_cast<uint64_t>(settings.Int("seed"));
    const uint32_t attempt = static_cast<uint32_t>(context.attempt);
    VectorXd x(function_.dim());
    for (Index j = 0; j < x.size(); ++j) x[j] = settings.Number(absl::StrCat("x", j + 1));
    VectorXd gradient;
    double value = function_(x, &gradient);
    const double noise = settings.Number("noise");
    // The noise is another draw for each trial, the same for its later attempts: a retry must not change a trial's
    // value.
    if (noise > 0.0) value += noise * RandomStream(seed, "function.noise", context.seed).Normal();

    // The delay is cut into equal parts, with a point of the curve at the end of each.
    const int64_t steps = settings.Int("steps");
    const absl::Duration delay = absl::Seconds(settings.Number("delay"));
    const double spread = settings.Number("curve_spread");
    const double decay =
        spread > 0.0 ? kDecay * std::exp(spread * RandomStream(seed, "function.curve", context.seed).Normal()) : kDecay;
    EvaluationResult result;
    const std::string identity = Identity(settings);
    const std::optional<int64_t> resumed = Load(context.checkpoint, identity, steps);
    result.resumed = resumed.has_value();
    if (context.started) context.started(result.resumed, resumed.value_or(0));
    const int64_t first = resumed ? *resumed + 1 : 0;
    const auto save = [&](int64_t done) {
      if (context.save_checkpoint && done >= 0) context.save_checkpoint(Save(identity, done));
    };
    for (int64_t s = first; s <= steps; ++s) {
      if (context.stop.WaitFor(delay / (steps + 1))) {
        save(s - 1);
        result.outcome = EvaluationOutcome::kCancelled;
        return result;
      }
      if (s == steps) break;
      study::Measurement point;
      point.step = s;
      const double done = static_cast<double>(s) / static_cast<double>(steps);
      point.metrics["value"] = value + function_.deviation * std::exp(-decay * done);
      const bool pause = context.target > 0 && s >= context.target;
      const bool go_on = !context.report || context.report(point);
      if (go_on && !pause) continue;
      if (go_on) save(s);
      result.outcome = go_on ? EvaluationOutcome::kPaused : EvaluationOutcome::kStopped;
      result.measurement = std::move(point);
      return result;
    }
    // The failure is drawn again at each attempt, so that a retry can succeed.
    if (RandomStream(seed, "function.failure", context.seed, attempt).Uniform() < settings.Number("failure_rate")) {
      const bool infra = settings.Text("failure_kind") == "INFRA";
      result.outcome = EvaluationOutcome::kFailed;
      result.failure = study::Failure{infra ? study::FailureKind::kInfra : study::FailureKind::kConfig,
                                      study::failure::kInjected, "failed on purpose (option failure_rate)"};
      return result;
    }
    if (!std::isfinite(value)) {
      result.outcome = EvaluationOutcome::kFailed;
      result.failure =
          study::Failure{study::FailureKind::kConfig, study::failure::kNonFinite, "the value is not finite"};
      return result;
    }
    study::Measurement last;
    last.step = steps;
    last.metrics["value"] = value;
    last.gradient = InSpaceOrder(gradient);
    if (last.gradient && !context.direction.empty()) last.gradient = study::Along(*last.gradient, context.direction);
    result.measurement = std::move(last);
    return result;
  }

 private:
  // Identifies the run that a checkpoint belongs to. The state itself is the number of steps that are done.
  std::string Identity(const catalogue::Settings& settings) const {
    return absl::StrCat(info_.model, " ", study::FormatParameters(settings.values()));
  }
  static std::string Save(const std::string& identity, int64_t done) {
    base::CheckpointWriter writer(kFunctionCheckpointKind);
    writer.Text(identity);
    writer.U64(static_cast<uint64_t>(done));
    return std::move(writer).Finish();
  }
  // Returns the number of steps that were done, or std::nullopt if the bytes do not fit.
  static std::optional<int64_t> Load(const std::string& bytes, const std::string& identity, int64_t steps) {
    absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kFunctionCheckpointKind);
    if (!reader.ok() || reader->Text() != identity) return std::nullopt;
    const uint64_t done = reader->U64();
    if (!reader->Done() || done >= static_cast<uint64_t>(steps)) return std::nullopt;
    return static_cast<int64_t>(done);
  }

  std::optional<study::Gradient> InSpaceOrder(const VectorXd& gradient) const {
    if (space_.differentiable().empty()) return std::nullopt;
    study::Gradient out;
    for (const study::Scalar& scalar : space_.differentiable()) {
      const std::string& name = space_.parameters()[scalar.parameter].name;
      for (Index j = 0; j < gradient.size(); ++j) {
        if (name == absl::StrCat("x", j + 1)) out.values.push_back(gradient[j]);
      }
    }
    out.error_bound = 0.0;
    return out;
  }

  const catalogue::ObjectiveInfo& info_;
  const catalogue::TestFunction& function_;
  const study::Parameters options_;
  const study::SearchSpace space_;
};

}  // namespace

std::unique_ptr<Objective> CreateFunctionObjective(const catalogue::ObjectiveInfo& info,
                                                   const catalogue::TestFunction& function, study::Parameters options,
                                                   study::SearchSpace space) {
  return std::make_unique<FunctionObjective>(info, function, std::move(options), std::move(space));
}

}  // namespace luthier::objectives
