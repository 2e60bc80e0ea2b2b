#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/checkpoint.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

bool IsReason(absl::string_view reason) {
  if (reason.empty() || reason.size() > 64 || reason[0] < 'A' || reason[0] > 'Z') return false;
  return std::all_of(reason.begin(), reason.end(),
                     [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

v1::Attempt::Outcome OutcomeTo(study::AttemptOutcome outcome) {
  switch (outcome) {
    case study::AttemptOutcome::kRunning:
      return v1::Attempt::RUNNING;
    case study::AttemptOutcome::kComplete:
      return v1::Attempt::COMPLETE;
    case study::AttemptOutcome::kPruned:
      return v1::Attempt::PRUNED;
    case study::AttemptOutcome::kFailed:
      return v1::Attempt::FAILED;
    case study::AttemptOutcome::kReleased:
      return v1::Attempt::RELEASED;
    case study::AttemptOutcome::kExpired:
      return v1::Attempt::EXPIRED;
    case study::AttemptOutcome::kCancelled:
      return v1::Attempt::CANCELLED;
    case study::AttemptOutcome::kPaused:
      return v1::Attempt::PAUSED;
  }
  return v1::Attempt::OUTCOME_UNSPECIFIED;
}

absl::StatusOr<study::AttemptOutcome> OutcomeFrom(v1::Attempt::Outcome outcome) {
  switch (outcome) {
    case v1::Attempt::RUNNING:
      return study::AttemptOutcome::kRunning;
    case v1::Attempt::COMPLETE:
      return study::AttemptOutcome::kComplete;
    case v1::Attempt::PRUNED:
      return study::AttemptOutcome::kPruned;
    case v1::Attempt::FAILED:
      return study::AttemptOutcome::kFailed;
    case v1::Attempt::RELEASED:
      return study::AttemptOutcome::kReleased;
    case v1::Attempt::EXPIRED:
      return study::AttemptOutcome::kExpired;
    case v1::Attempt::CANCELLED:
      return study::AttemptOutcome::kCancelled;
    case v1::Attempt::PAUSED:
      return study::AttemptOutcome::kPaused;
    default:
      return base::BadField("", absl::StrCat(static_cast<int>(outcome), " is not an outcome of an attempt"));
  }
}

// Puts the converted value into *to, or the violations under `field`.
template <typename From, typename To>
void Take(absl::StatusOr<From> from, const char* field, To* to, base::Violations* violations) {
  if (!from.ok())
    violations->AddAll(field, from.status());
  else
    *to = *std::move(from);
}

}  // namespace

v1::Trial::State ToProto(study::TrialState state) {
  switch (state) {
    case study::TrialState::kPending:
      return v1::Trial::PENDING;
    case study::TrialState::kRunning:
      return v1::Trial::RUNNING;
    case study::TrialState::kComplete:
      return v1::Trial::COMPLETE;
    case study::TrialState::kPruned:
      return v1::Trial::PRUNED;
    case study::TrialState::kFailed:
      return v1::Trial::FAILED;
    case study::TrialState::kCancelled:
      return v1::Trial::CANCELLED;
    case study::TrialState::kPaused:
      return v1::Trial::PAUSED;
  }
  return v1::Trial::STATE_UNSPECIFIED;
}

absl::StatusOr<study::TrialState> FromProto(v1::Trial::State state) {
  switch (state) {
    case v1::Trial::PENDING:
      return study::TrialState::kPending;
    case v1::Trial::RUNNING:
      return study::TrialState::kRunning;
    case v1::Trial::COMPLETE:
      return study::TrialState::kComplete;
    case v1::Trial::PRUNED:
      return study::TrialState::kPruned;
    case v1::Trial::FAILED:
      return study::TrialState::kFailed;
    case v1::Trial::CANCELLED:
      return study::TrialState::kCancelled;
    case v1::Trial::PAUSED:
      return study::TrialState::kPaused;
    default:
      return base::BadField("state", absl::StrCat(static_cast<int>(state), " is not a state of a trial"));
  }
}

v1::Gradient ToProto(const study::Gradient& gradient) {
  v1::Gradient proto;
  if (gradient.full()) {
    proto.mutable_full()->mutable_values()->Add(gradient.values.begin(), gradient.values.end());
  } else {
    v1::Gradient::Directional* out = proto.mutable_directional();
    out->mutable_direction()->Add(gradient.direction.begin(), gradient.direction.end());
    out->set_slope(gradient.slope);
  }
  if (gradient.error_bound) proto.set_error_bound(*gradient.error_bound);
  if (gradient.solve) {
    const study::ImplicitSolve& solve = *gradient.solve;
    v1::Gradient::ImplicitSolve* out = proto.mutable_solve();
    out->set_tolerance(solve.tolerance);
    out->set_inner_gradient_norm(solve.inner_gradient_norm);
    out->set_residual(solve.residual);
    out->set_outer_gradient_norm(solve.outer_gradient_norm);
    out->set_strong_convexity(solve.strong_convexity);
    if (solve.log_error_bound) out->set_log_error_bound(*solve.log_error_bound);
    out->set_certified(solve.certified);
  }
  return proto;
}

absl::StatusOr<study::Gradient> FromProto(const v1::Gradient& gradient) {
  study::Gradient result;
  switch (gradient.kind_case()) {
    case v1::Gradient::kFull:
      result.values.assign(gradient.full().values().begin(), gradient.full().values().end());
      break;
    case v1::Gradient::kDirectional:
      // The domain type tells the two kinds apart by whether there is a direction.
      if (gradient.directional().direction().empty()) {
        return base::BadField("directional.direction", "is empty; send one entry for each differentiable parameter");
      }
      result.direction.assign(gradient.directional().direction().begin(), gradient.directional().direction().end());
      result.slope = gradient.directional().slope();
      break;
    case v1::Gradient::kByName:
      result.by_name.insert(gradient.by_name().values().begin(), gradient.by_name().values().end());
      if (result.by_name.empty()) return base::BadField("by_name.values", "is empty; leave the gradient out");
      break;
    case v1::Gradient::KIND_NOT_SET:
      return base::BadField("", "has no kind; give full, directional or by_name, or leave it out");
  }
  if (gradient.has_error_bound()) result.error_bound = gradient.error_bound();
  if (gradient.has_solve()) {
    const v1::Gradient::ImplicitSolve& from = gradient.solve();
    study::ImplicitSolve& solve = result.solve.emplace();
    solve.tolerance = from.tolerance();
    solve.inner_gradient_norm = from.inner_gradient_norm();
    solve.residual = from.residual();
    solve.outer_gradient_norm = from.outer_gradient_norm();
    solve.strong_convexity = from.strong_convexity();
    if (from.has_log_error_bound()) solve.log_error_bound = from.log_error_bound();
    solve.certified = from.certified();
  }
  return result;
}

v1::Measurement ToProto(const study::Measurement& measurement) {
  v1::Measurement proto;
  proto.set_step(measurement.step);
  for (const auto& [name, value] : measurement.metrics) (*proto.mutable_metrics())[ValidUtf8(name)] = value;
  if (measurement.elapsed_seconds) proto.set_elapsed_seconds(*measurement.elapsed_seconds);
  if (measurement.gradient) *proto.mutable_gradient() = ToProto(*measurement.gradient);
  if (measurement.training) *proto.mutable_training() = ToProto(*measurement.training);
  if (measurement.gradient_seconds) proto.set_gradient_seconds(*measurement.gradient_seconds);
  for (const auto& [name, error] : measurement.standard_errors) {
    (*proto.mutable_standard_errors())[ValidUtf8(name)] = error;
  }
  for (const auto& [name, gradient] : measurement.gradients) {
    (*proto.mutable_gradients())[ValidUtf8(name)] = ToProto(gradient);
  }
  return proto;
}

v1::Training::Outcome ToProto(study::TrainingOutcome outcome) {
  switch (outcome) {
    case study::TrainingOutcome::kConverged:
      return v1::Training::CONVERGED;
    case study::TrainingOutcome::kPrecision:
      return v1::Training::PRECISION;
    case study::TrainingOutcome::kTarget:
      return v1::Training::TARGET;
    case study::TrainingOutcome::kLimit:
      return v1::Training::LIMIT;
    case study::TrainingOutcome::kDiverged:
      return v1::Training::DIVERGED;
  }
  return v1::Training::OUTCOME_UNSPECIFIED;
}

absl::StatusOr<study::TrainingOutcome> FromProto(v1::Training::Outcome outcome) {
  switch (outcome) {
    case v1::Training::CONVERGED:
      return study::TrainingOutcome::kConverged;
    case v1::Training::PRECISION:
      return study::TrainingOutcome::kPrecision;
    case v1::Training::TARGET:
      return study::TrainingOutcome::kTarget;
    case v1::Training::LIMIT:
      return study::TrainingOutcome::kLimit;
    case v1::Training::DIVERGED:
      return study::TrainingOutcome::kDiverged;
    case v1::Training::OUTCOME_UNSPECIFIED:
      return base::BadField("", "is required: CONVERGED, PRECISION, TARGET, LIMIT or DIVERGED");
    default:
      return base::BadField("", absl::StrCat(static_cast<int>(outcome), " is not an outcome of a training"));
  }
}

v1::Training ToProto(const study::TrainingReport& training) {
  v1::Training proto;
  proto.set_outcome(ToProto(training.outcome));
  if (training.gradient_norm) proto.set_gradient_norm(*training.gradient_norm);
  if (training.duality_gap) proto.set_duality_gap(*training.duality_gap);
  return proto;
}

absl::StatusOr<study::TrainingReport> FromProto(const v1::Training& training) {
  base::Violations violations;
  study::TrainingReport result;
  Take(FromProto(training.outcome()), "outcome", &result.outcome, &violations);
  if (training.has_gradient_norm()) result.gradient_norm = training.gradient_norm();
  if (training.has_duality_gap()) result.duality_gap = training.duality_gap();
  violations.AddAll("", study::ValidateTraining(result));
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

absl::StatusOr<study::Measurement> FromProto(const v1::Measurement& measurement, LeftOut* left_out) {
  base::Violations violations;
  study::Measurement result;
  result.step = measurement.step();
  if (result.step < 0) violations.Add("step", absl::StrCat(result.step, " is below 0"));
  if (measurement.metrics().size() > kMaxMetrics) {
    violations.Add("metrics", absl::StrCat("has ", measurement.metrics().size(), " entries; at most ", kMaxMetrics,
                                           " are allowed"));
  } else {
    result.metrics.insert(measurement.metrics().begin(), measurement.metrics().end());
  }
  for (const auto& [name, value] : result.metrics) {
    if (study::IsName(name)) continue;
    violations.Add(absl::StrCat("metrics[", base::Quote(name), "]"),
                   "is not a name: letters, digits, '_' and '.', not starting with a digit, at most 64");
  }
  if (measurement.has_elapsed_seconds()) {
    result.elapsed_seconds = measurement.elapsed_seconds();
    violations.AddAll("", study::ValidateSeconds(*result.elapsed_seconds, "elapsed_seconds"));
  }
  for (const auto& [name, error] : measurement.standard_errors()) {
    const std::string at = absl::StrCat("standard_errors[", base::Quote(name), "]");
    if (result.metrics.count(name) == 0) {
      violations.Add(at, "is of no metric of this measurement");
    } else {
      violations.AddAll("", study::ValidateSeconds(error, at));
    }
    result.standard_errors.emplace(name, error);
  }
  base::Violations of_gradient, of_gradients, of_training;
  if (measurement.has_gradient()) {
    Take(FromProto(measurement.gradient()), "gradient", &result.gradient, &of_gradient);
  }
  if (measurement.gradients().size() > kMaxMetrics) {
    of_gradients.Add("gradients", absl::StrCat("has ", measurement.gradients().size(), " entries; at most ",
                                               kMaxMetrics, " are allowed"));
  } else {
    // In order of name, so that the same message gives the same words.
    const std::map<std::string, v1::Gradient> by_metric(measurement.gradients().begin(), measurement.gradients().end());
    for (const auto& [name, gradient] : by_metric) {
      const std::string at = absl::StrCat("gradients[", base::Quote(name), "]");
      absl::StatusOr<study::Gradient> taken = FromProto(gradient);
      of_gradients.AddAll(at, taken.status());
      if (taken.ok()) result.gradients.emplace(name, *std::move(taken));
    }
  }
  if (measurement.has_training()) {
    Take(FromProto(measurement.training()), "training", &result.training, &of_training);
  }
  if (measurement.has_gradient_seconds()) {
    const absl::Status valid = study::ValidateSeconds(measurement.gradient_seconds(), "gradient_seconds");
    if (valid.ok()) result.gradient_seconds = measurement.gradient_seconds();
    of_training.AddAll("", valid);
  }
  if (left_out != nullptr) {
    *left_out = {of_gradient.ToStatus(), of_gradients.ToStatus(), of_training.ToStatus()};
  } else {
    violations.AddAll("", of_gradient.ToStatus());
    violations.AddAll("", of_gradients.ToStatus());
    violations.AddAll("", of_training.ToStatus());
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

v1::Failure ToProto(const study::Failure& failure) {
  v1::Failure proto;
  proto.set_kind(failure.kind == study::FailureKind::kInfra ? v1::Failure::INFRA : v1::Failure::CONFIG);
  proto.set_reason(ValidUtf8(failure.reason));
  proto.set_message(CutTail(ValidUtf8(failure.message), kMaxFailureMessageBytes));
  return proto;
}

absl::StatusOr<study::Failure> FromProto(const v1::Failure& failure) {
  base::Violations violations;
  study::Failure result;
  switch (failure.kind()) {
    case v1::Failure::CONFIG:
      result.kind = study::FailureKind::kConfig;
      break;
    case v1::Failure::INFRA:
      result.kind = study::FailureKind::kInfra;
      break;
    case v1::Failure::KIND_UNSPECIFIED:
      violations.Add("kind", "is required: CONFIG (this setting is bad) or INFRA (try it again)");
      break;
    default:
      violations.Add("kind",
                     absl::StrCat("has the unknown value ", static_cast<int>(failure.kind()), "; use CONFIG or INFRA"));
  }
  result.reason = failure.reason();
  if (result.reason.empty()) {
    violations.Add("reason", "is required, e.g. DIVERGED");
  } else if (!IsReason(result.reason)) {
    violations.Add("reason", absl::StrCat(base::Quote(result.reason),
                                          " is not a reason: capital letters, digits and '_', starting with a letter, "
                                          "at most 64"));
  }
  result.message = CutTail(failure.message(), kMaxFailureMessageBytes);
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

v1::Attempt ToProto(const study::Attempt& attempt) {
  v1::Attempt proto;
  proto.set_number(attempt.number);
  proto.set_worker(ValidUtf8(attempt.worker));
  *proto.mutable_start_time() = ToProto(attempt.start);
  if (attempt.end != absl::InfiniteFuture()) *proto.mutable_end_time() = ToProto(attempt.end);
  proto.set_outcome(OutcomeTo(attempt.outcome));
  if (attempt.failure) *proto.mutable_failure() = ToProto(*attempt.failure);
  proto.set_output_tail(ValidUtf8(attempt.output_tail));
  proto.set_start_step(attempt.start_step);
  proto.set_last_step(attempt.last_step);
  return proto;
}

absl::StatusOr<study::Attempt> FromProto(const v1::Attempt& attempt) {
  base::Violations violations;
  study::Attempt result;
  result.number = attempt.number();
  result.worker = attempt.worker();
  Take(FromProto(attempt.start_time()), "start_time", &result.start, &violations);
  if (attempt.has_end_time()) Take(FromProto(attempt.end_time()), "end_time", &result.end, &violations);
  Take(OutcomeFrom(attempt.outcome()), "outcome", &result.outcome, &violations);
  if (attempt.has_failure()) Take(FromProto(attempt.failure()), "failure", &result.failure, &violations);
  result.output_tail = attempt.output_tail();
  result.start_step = attempt.start_step();
  result.last_step = attempt.last_step();
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

namespace {

bool IsCheckpoint(absl::string_view state) {
  return !absl::IsDataLoss(base::CheckpointReader::Open(state, "").status());
}

// A designer state is bytes, for which the API has base64, or a text of former versions.
std::string CarryOf(absl::string_view state) {
  return IsCheckpoint(state) ? absl::Base64Escape(state) : ValidUtf8(state);
}

std::string StateOf(absl::string_view carry) {
  std::string state;
  return absl::Base64Unescape(carry, &state) && IsCheckpoint(state) ? state : std::string(carry);
}

}  // namespace

v1::Provenance ToProto(const study::Provenance& provenance) {
  v1::Provenance proto;
  proto.set_designer(ValidUtf8(provenance.designer));
  proto.set_algorithm_version(provenance.algorithm_version);
  if (provenance.ask_index) proto.set_ask_index(*provenance.ask_index);
  proto.set_prefix_seq(provenance.prefix_seq);
  proto.set_origin(ValidUtf8(provenance.origin));
  for (const auto& [name, value] : provenance.details) (*proto.mutable_details())[ValidUtf8(name)] = value;
  proto.set_carry(CarryOf(provenance.designer_state));
  proto.mutable_direction()->Add(provenance.direction.begin(), provenance.direction.end());
  proto.mutable_set_aside()->Add(provenance.set_aside.begin(), provenance.set_aside.end());
  proto.set_resource(provenance.resource);
  proto.set_warm_start(provenance.warm_start);
  if (provenance.tolerance) proto.set_tolerance(*provenance.tolerance);
  return proto;
}

study::Provenance FromProto(const v1::Provenance& provenance) {
  study::Provenance result;
  result.designer = provenance.designer();
  result.algorithm_version = provenance.algorithm_version();
  if (provenance.has_ask_index()) result.ask_index = provenance.ask_index();
  result.prefix_seq = provenance.prefix_seq();
  result.origin = provenance.origin();
  result.details.insert(provenance.details().begin(), provenance.details().end());
  result.designer_state = StateOf(provenance.carry());
  result.direction.assign(provenance.direction().begin(), provenance.direction().end());
  result.set_aside.assign(provenance.set_aside().begin(), provenance.set_aside().end());
  result.resource = provenance.resource();
  result.warm_start = provenance.warm_start();
  if (provenance.has_tolerance()) result.tolerance = provenance.tolerance();
  return result;
}

v1::Trial ToProto(const study::Trial& trial, absl::string_view study_id) {
  v1::Trial proto;
  proto.set_name(TrialName(study_id, trial.number));
  proto.set_number(trial.number);
  proto.set_state(ToProto(trial.state));
  *proto.mutable_parameters() = ToProto(trial.parameters);
  *proto.mutable_provenance() = ToProto(trial.provenance);
  for (const study::Provenance& promotion : trial.promotions) *proto.add_promotions() = ToProto(promotion);
  if (trial.final_measurement) *proto.mutable_final_measurement() = ToProto(*trial.final_measurement);
  if (trial.failure) *proto.mutable_failure() = ToProto(*trial.failure);
  for (const study::Attempt& attempt : trial.attempts) *proto.add_attempts() = ToProto(attempt);
  proto.set_checkpoint(ValidUtf8(trial.checkpoint));
  proto.set_checkpoint_step(trial.checkpoint_step);
  proto.set_resource_spent(study::ResourceSpent(trial));
  for (const auto& [key, value] : trial.attributes) (*proto.mutable_attributes())[ValidUtf8(key)] = ValidUtf8(value);
  *proto.mutable_create_time() = ToProto(trial.create_time);
  if (trial.end_time != absl::InfiniteFuture()) *proto.mutable_end_time() = ToProto(trial.end_time);
  proto.set_update_seq(trial.update_seq);
  proto.set_retry_of(trial.retry_of);
  proto.set_retried_by(trial.retried_by);
  proto.set_stop_requested(trial.stop_requested);
  return proto;
}

absl::StatusOr<study::Trial> FromProto(const v1::Trial& trial) {
  base::Violations violations;
  study::Trial result;
  const absl::StatusOr<TrialId> id = ParseTrialName("name", trial.name());
  if (!id.ok())
    violations.AddAll("", id.status());
  else if (id->number != trial.number())
    violations.Add("number", absl::StrCat(trial.number(), " is not that of the name"));
  result.number = trial.number();
  Take(FromProto(trial.state()), "", &result.state, &violations);
  Take(FromProto(trial.parameters()), "parameters", &result.parameters, &violations);
  result.provenance = FromProto(trial.provenance());
  for (const v1::Provenance& promotion : trial.promotions()) result.promotions.push_back(FromProto(promotion));
  if (trial.has_final_measurement()) {
    Take(FromProto(trial.final_measurement()), "final_measurement", &result.final_measurement, &violations);
  }
  if (trial.has_failure()) Take(FromProto(trial.failure()), "failure", &result.failure, &violations);
  for (int i = 0; i < trial.attempts_size(); ++i) {
    absl::StatusOr<study::Attempt> attempt = FromProto(trial.attempts(i));
    if (!attempt.ok()) {
      violations.AddAll(absl::StrCat("attempts[", i, "]"), attempt.status());
      continue;
    }
    result.releases += attempt->outcome == study::AttemptOutcome::kReleased ? 1 : 0;
    if (attempt->outcome == study::AttemptOutcome::kPaused) result.releases = 0;
    result.attempts.push_back(*std::move(attempt));
  }
  result.checkpoint = trial.checkpoint();
  result.checkpoint_step = trial.checkpoint_step();
  result.attributes.insert(trial.attributes().begin(), trial.attributes().end());
  Take(FromProto(trial.create_time()), "create_time", &result.create_time, &violations);
  if (trial.has_end_time()) Take(FromProto(trial.end_time()), "end_time", &result.end_time, &violations);
  result.update_seq = trial.update_seq();
  result.retry_of = trial.retry_of();
  result.retried_by = trial.retried_by();
  result.stop_requested = trial.stop_requested();
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

}  // namespace luthier::wire
