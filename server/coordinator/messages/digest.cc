#include "server/coordinator/messages/digest.h"

#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/hash.h"
#include "lib/study/parameters.h"

namespace luthier::coordinator {
namespace {

// Length-prefixed, so that no two contents give the same text.
void Put(std::string* out, absl::string_view text) {
  absl::StrAppend(out, text.size(), ":", text);
}
void Put(std::string* out, double value) {
  absl::StrAppendFormat(out, "%a;", value);
}
void Put(std::string* out, const std::vector<double>& values) {
  absl::StrAppend(out, values.size(), "[");
  for (const double v : values) Put(out, v);
}

void Put(std::string* out, const study::Parameters& parameters) {
  for (const auto& [name, value] : parameters) {
    Put(out, name);
    absl::StrAppend(out, value.index(), "=");
    Put(out, study::FormatValue(value));
  }
}

void Put(std::string* out, const study::Gradient& gradient) {
  Put(out, gradient.values);
  Put(out, gradient.direction);
  Put(out, gradient.slope);
  if (gradient.error_bound) Put(out, *gradient.error_bound);
  for (const auto& [name, value] : gradient.by_name) {
    Put(&out->append("n"), name);
    Put(out, value);
  }
  if (!gradient.solve) return;
  const study::ImplicitSolve& s = *gradient.solve;
  absl::StrAppend(out, "i", s.certified ? "c" : "e");
  for (const double v : {s.tolerance, s.inner_gradient_norm, s.residual, s.outer_gradient_norm, s.strong_convexity,
                         s.log_error_bound.value_or(-1.0)}) {
    Put(out, v);
  }
}

void Put(std::string* out, const study::Measurement& m) {
  absl::StrAppend(out, "m", m.step, ";");
  for (const auto& [name, value] : m.metrics) {
    Put(out, name);
    Put(out, value);
  }
  if (m.elapsed_seconds) Put(out, *m.elapsed_seconds);
  if (m.gradient) Put(&out->append("g"), *m.gradient);
  // Measurements without these keep the digests that they have in databases of older programs.
  if (m.training) {
    absl::StrAppend(out, "t", study::TrainingOutcomeName(m.training->outcome), ";");
    if (m.training->gradient_norm) Put(out, *m.training->gradient_norm);
    if (m.training->duality_gap) Put(&out->append("d"), *m.training->duality_gap);
  }
  if (m.gradient_seconds) Put(&out->append("u"), *m.gradient_seconds);
  for (const auto& [name, error] : m.standard_errors) {
    Put(&out->append("e"), name);
    Put(out, error);
  }
  for (const auto& [name, gradient] : m.gradients) {
    Put(&out->append("G"), name);
    Put(out, gradient);
  }
}

std::string Finish(absl::string_view content) {
  return absl::StrCat(absl::Hex(base::Hash64(content, 0), absl::kZeroPad16),
                      absl::Hex(base::Hash64(content, 1), absl::kZeroPad16));
}

}  // namespace

std::string DigestOf(const FinishOp& op) {
  std::string text;
  if (const auto* complete = std::get_if<CompleteContent>(&op.content)) {
    text = complete->pruned ? "P" : complete->paused ? "H" : "C";
    Put(&text, complete->measurement);
    Put(&text, complete->gradient_problem);
    if (!complete->training_problem.empty()) Put(&text, complete->training_problem);
    if (!complete->gradients_problem.empty()) Put(&text.append("G"), complete->gradients_problem);
  } else if (const auto* failure = std::get_if<study::Failure>(&op.content)) {
    absl::StrAppend(&text, "F", static_cast<int>(failure->kind));
    Put(&text, failure->reason);
    Put(&text, failure->message);
  } else {
    text = "R";
  }
  Put(&text, op.checkpoint);
  Put(&text, op.output_tail);
  if (op.start_step) absl::StrAppend(&text, "s", *op.start_step);
  for (const std::string& name : op.unused) Put(&text.append("n"), name);
  if (op.checkpoint_step) absl::StrAppend(&text, "c", *op.checkpoint_step);
  return Finish(text);
}

std::string DigestOf(const EnqueueOp& op) {
  std::string text = "E";
  Put(&text, op.id);
  for (const NewTrial& trial : op.trials) {
    absl::StrAppend(&text, "t", trial.parameters.size(), ",", trial.attributes.size(), ";");
    Put(&text, trial.parameters);
    for (const auto& [name, value] : trial.attributes) {
      Put(&text, name);
      Put(&text, value);
    }
  }
  return Finish(text);
}

std::string DigestOf(const ImportOp& op) {
  std::string text = "I";
  Put(&text, op.id);
  for (const ImportedTrial& trial : op.trials) {
    absl::StrAppend(&text, "t", static_cast<int>(trial.state), ",", trial.parameters.size(), ",",
                    trial.attributes.size(), ",", trial.curve.size(), ";");
    Put(&text, trial.parameters);
    for (const auto& [name, value] : trial.attributes) {
      Put(&text, name);
      Put(&text, value);
    }
    if (trial.measurement) Put(&text, *trial.measurement);
    for (const study::Measurement& point : trial.curve) Put(&text, point);
    if (trial.failure) {
      Put(&text, trial.failure->reason);
      Put(&text, trial.failure->message);
    }
  }
  return Finish(text);
}

std::string DigestOf(const RetryOp& op) {
  std::string text = absl::StrCat("T", op.limit, ";");
  Put(&text, op.id);
  for (const int64_t number : op.numbers) absl::StrAppend(&text, number, ",");
  return Finish(text);
}

std::string DigestOf(const UpdateStudyOp& op) {
  std::string text = "U";
  Put(&text, op.id);
  Put(&text, op.content);
  return Finish(text);
}

std::string DigestOf(const SuggestOp& op) {
  std::string text = "S";
  Put(&text, op.id);
  Put(&text, op.worker);
  absl::StrAppend(&text, op.count);
  // Asks of the default pool keep the digests that they had before there were pools.
  if (op.pool != study::PoolKey(study::kDefaultProject, study::kDefaultPool)) Put(&text, op.pool);
  return Finish(text);
}

std::string DigestOf(const ControlOp& op) {
  std::string text = absl::StrCat("K", static_cast<int>(op.control), ";");
  Put(&text, op.id);
  if (!op.new_id.empty()) Put(&text, op.new_id);
  return Finish(text);
}

}  // namespace luthier::coordinator
