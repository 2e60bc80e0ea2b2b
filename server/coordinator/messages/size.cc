#include "server/coordinator/messages/size.h"

#include <map>
#include <string>
#include <type_traits>
#include <variant>

#include "lib/study/gradients.h"

namespace luthier::coordinator {
namespace {

// Upper bound on the bytes of a number, a length or a name's frame.
constexpr size_t kSmall = 16;

size_t Bytes(const study::ParameterValue& value) {
  const std::string* text = std::get_if<std::string>(&value);
  // A vector is a list of google.protobuf.Value: each number has two frames.
  if (const auto* vector = std::get_if<std::vector<double>>(&value)) return kSmall + kSmall * vector->size();
  return kSmall + (text != nullptr ? text->size() : 0);
}

template <typename Value>
size_t Bytes(const std::map<std::string, Value>& entries) {
  size_t bytes = 0;
  for (const auto& [name, value] : entries) {
    bytes += kSmall + name.size();
    if constexpr (std::is_same_v<Value, study::ParameterValue>)
      bytes += Bytes(value);
    else if constexpr (std::is_same_v<Value, std::string>)
      bytes += value.size();
  }
  return bytes;
}

size_t Bytes(const study::Measurement& m) {
  size_t bytes = 4 * kSmall + Bytes(m.metrics);
  bytes += Bytes(m.standard_errors);
  bytes += static_cast<size_t>(study::GradientBytes(m));
  if (m.gradient) bytes += Bytes(m.gradient->by_name);
  for (const auto& [name, gradient] : m.gradients) bytes += kSmall + name.size() + Bytes(gradient.by_name);
  return bytes;
}

size_t Bytes(const study::Failure& failure) {
  return kSmall + failure.reason.size() + failure.message.size();
}

size_t Bytes(const study::ObjectiveSpec& objective) {
  if (const auto* builtin = std::get_if<study::BuiltinObjective>(&objective)) {
    return builtin->model.size() + builtin->data.size() + Bytes(builtin->options);
  }
  size_t bytes = 0;
  if (const auto* command = std::get_if<study::CommandObjective>(&objective)) {
    for (const std::string& argument : command->argv) bytes += kSmall + argument.size();
    bytes += Bytes(command->environment) + Bytes(command->stdout_patterns);
  }
  return bytes;
}

size_t Bytes(const std::vector<study::ParameterSpec>& parameters) {
  size_t bytes = 0;
  for (const study::ParameterSpec& p : parameters) {
    bytes += p.display_name.size();
    bytes += 4 * kSmall + p.name.size() + (p.default_value ? Bytes(*p.default_value) : 0);
    const std::vector<std::string>* labels = nullptr;
    if (const auto* ordinal = std::get_if<study::OrdinalLabels>(&p.domain)) labels = &ordinal->labels;
    if (const auto* categorical = std::get_if<study::CategoricalLabels>(&p.domain)) labels = &categorical->labels;
    if (labels != nullptr) {
      for (const std::string& label : *labels) bytes += kSmall + label.size();
    }
    if (p.condition) {
      bytes += p.condition->parent.size();
      for (const study::ParameterValue& value : p.condition->values) bytes += Bytes(value);
    }
  }
  return bytes;
}

size_t Bytes(const study::StudySpec& spec) {
  return 64 * kSmall + spec.display_name.size() + spec.description.size() + Bytes(spec.labels) + Bytes(spec.objective) +
         Bytes(spec.space.parameters());
}

}  // namespace

size_t BytesOf(const Operation& operation) {
  if (const auto* create = std::get_if<CreateStudyOp>(&operation)) return kSmall + Bytes(create->spec);
  size_t bytes = 4 * kSmall;
  if (const auto* enqueue = std::get_if<EnqueueOp>(&operation)) {
    for (const NewTrial& t : enqueue->trials) bytes += kSmall + Bytes(t.parameters) + Bytes(t.attributes);
  } else if (const auto* import = std::get_if<ImportOp>(&operation)) {
    for (const ImportedTrial& t : import->trials) {
      bytes += 4 * kSmall + Bytes(t.parameters) + Bytes(t.attributes);
      if (t.measurement) bytes += Bytes(*t.measurement);
      if (t.failure) bytes += Bytes(*t.failure);
      for (const study::Measurement& m : t.curve) bytes += Bytes(m);
    }
  } else if (const auto* update = std::get_if<UpdateStudyOp>(&operation)) {
    bytes += 2 * update->content.size();
  } else if (const auto* answer = std::get_if<KeepAnswerOp>(&operation)) {
    bytes += answer->message.size();
  } else if (const auto* attributes = std::get_if<SetAttributesOp>(&operation)) {
    bytes += Bytes(attributes->attributes);
  } else if (const auto* report = std::get_if<ReportOp>(&operation)) {
    bytes += report->checkpoint.size();
    for (const study::Measurement& m : report->measurements) bytes += Bytes(m);
  } else if (const auto* declare = std::get_if<DeclareOp>(&operation)) {
    bytes += Bytes(declare->parameters);
  } else if (const auto* finish = std::get_if<FinishOp>(&operation)) {
    bytes += finish->checkpoint.size() + finish->output_tail.size();
    if (const auto* complete = std::get_if<CompleteContent>(&finish->content)) bytes += Bytes(complete->measurement);
    if (const auto* failure = std::get_if<study::Failure>(&finish->content)) bytes += Bytes(*failure);
  }
  return bytes;
}

size_t BytesOf(const study::Parameters& setting, const std::map<std::string, std::string>& attributes) {
  return 32 * kSmall + Bytes(setting) + Bytes(attributes);
}

size_t BytesOf(const study::StudySpec& spec) {
  return Bytes(spec);
}

size_t BytesOf(const Grant& grant) {
  return Bytes(*grant.spec) + BytesOf(grant.trial);
}

size_t BytesOf(const study::Measurement& point) {
  return Bytes(point);
}

size_t BytesOf(const study::Trial& trial) {
  size_t bytes = 16 * kSmall + Bytes(trial.parameters) + Bytes(trial.attributes) + Bytes(trial.provenance.details) +
                 trial.provenance.designer_state.size() + 2 * trial.checkpoint.size();
  bytes += sizeof(double) * trial.provenance.direction.size() + sizeof(int64_t) * trial.provenance.set_aside.size();
  for (const study::Provenance& promotion : trial.promotions) {
    bytes += 8 * kSmall + Bytes(promotion.details) + promotion.designer_state.size();
  }
  for (const study::Attempt& attempt : trial.attempts) {
    bytes += 4 * kSmall + attempt.worker.size() + attempt.output_tail.size();
    if (attempt.failure) bytes += Bytes(*attempt.failure);
  }
  if (trial.final_measurement) bytes += Bytes(*trial.final_measurement);
  if (trial.failure) bytes += Bytes(*trial.failure);
  return bytes;
}

}  // namespace luthier::coordinator
