// Messages as callers send them: what FromProto takes is written and read back equal (convert.h), texts in them are
// refused with words or understood. The first byte says which message; its high bit, that the rest is the text form of
// it.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/search/registry.h"
#include "lib/study/spec_change.h"
#include "lib/study/study_spec.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "lib/wire/resource_name.h"
#include "lib/wire/yaml_spec.h"
#include "luthier/v1/admin_service.pb.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"
#include "server/service/trial_filter.h"
#include "tests/fuzz/fuzz.h"

namespace luthier {
namespace {

using google::protobuf::Message;

// A space with one parameter of each kind, and one with a condition.
const study::SearchSpace& Space() {
  static const auto* const space = [] {
    const auto file = wire::StudyFile::Parse(R"(
space:
  - {name: lr, float: {min: 1e-5, max: 1, scale: LOG}}
  - {name: momentum, float: {min: 0, max: 1, step: 0.1}}
  - {name: layers, int: {min: 1, max: 4}}
  - {name: odd.name, bool: {}}
  - {name: optimizer, categorical: {values: [sgd, adam]}}
  - {name: beta, float: {min: 0, max: 1}, condition: {parent: optimizer, values: [adam]}}
metric: {name: loss, goal: minimize}
algorithm: {random: {}}
budget: {max_trials: 10}
)",
                                             "space.yaml");
    fuzz::Must(file.ok(), "the target's own space is one", file.status().ToString());
    const auto spec = wire::FromProto(file->spec());
    fuzz::Must(spec.ok(), "the target's own space is one", spec.status().ToString());
    return new study::StudySpec(*spec);
  }();
  return space->space;
}

const study::StudySpec& SpecToChange() {
  static const auto* const spec = [] {
    auto* const made = new study::StudySpec();
    made->space = Space();
    made->metric.name = "loss";
    made->budget.max_trials = 10;
    made->objective = study::CommandObjective{};
    return made;
  }();
  return *spec;
}

std::string Bytes(const Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  return bytes;
}

void MustBeRefused(const absl::Status& error) {
  fuzz::Must(absl::IsInvalidArgument(error), "a bad message is an invalid argument", error.ToString());
  fuzz::MustExplain(error);
}

// Reads the message in one of its two forms. False: it is none.
bool Read(absl::string_view input, bool text, Message* message) {
  if (!text) return message->ParseFromArray(input.data(), static_cast<int>(input.size()));
  const absl::Status read = wire::ParseMessage(input, "message.yaml", message);
  if (!read.ok()) MustBeRefused(read);
  return read.ok();
}

// Prints what may come from others' programs: total, whatever it holds.
void Print(const Message& message) {
  wire::ToJson(message).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  wire::ToYaml(message);
}

template <typename Proto>
void CheckConversion(absl::string_view input, bool text) {
  Proto message;
  if (!Read(input, text, &message)) return;
  Print(message);
  const auto value = wire::FromProto(message);
  if (!value.ok()) return MustBeRefused(value.status());
  const auto first = wire::ToProto(*value);
  const auto again = wire::FromProto(first);
  fuzz::Must(again.ok(), "what FromProto took, it takes again", again.status().ToString());
  fuzz::Must(Bytes(wire::ToProto(*again)) == Bytes(first), "a message is written and read back equal",
             first.DebugString());
}

void CheckSpec(absl::string_view input, bool text) {
  v1::StudySpec message;
  if (!Read(input, text, &message)) return;
  Print(message);
  const auto spec = wire::FromProto(message);
  if (!spec.ok()) return MustBeRefused(spec.status());
  const auto again = wire::FromProto(wire::ToProto(*spec));
  fuzz::Must(again.ok() && *again == *spec, "a spec is written and read back equal", message.DebugString());
  if (const absl::Status fits = search::Validate(*spec); !fits.ok()) fuzz::MustExplain(fits);
  if (!study::ValidateNewSpec(*spec).ok()) return;
  const std::string yaml = wire::ToYaml(wire::ToProto(*spec));
  const auto file = wire::StudyFile::Parse(yaml, "again.yaml");
  // A file has bounds that a message has not.
  if (yaml.size() > wire::kMaxYamlBytes) return;
  fuzz::Must(file.ok(), "a spec is a study file", absl::StrCat(file.status().ToString(), "\n", yaml));
}

void CheckMeasurement(absl::string_view input, bool text) {
  v1::Measurement message;
  if (!Read(input, text, &message)) return;
  wire::LeftOut left_out;
  const auto measurement = wire::FromProto(message, &left_out);
  if (!measurement.ok()) return MustBeRefused(measurement.status());
  if (!left_out.gradient.ok()) MustBeRefused(left_out.gradient);
  if (!left_out.training.ok()) MustBeRefused(left_out.training);
  if (measurement->gradient) {
    const absl::Status valid = study::ValidateGradient(*measurement->gradient, 6);
    if (!valid.ok()) fuzz::MustExplain(valid);
  }
  CheckConversion<v1::Measurement>(input, text);
}

void CheckParameters(absl::string_view input, bool text) {
  google::protobuf::Struct message;
  if (!Read(input, text, &message)) return;
  const auto parameters = wire::FromProto(message);
  if (!parameters.ok()) return MustBeRefused(parameters.status());
  for (const auto& made : {Space().Canonical(*parameters), Space().Complete(*parameters)}) {
    if (!made.ok()) {
      MustBeRefused(made.status());
      continue;
    }
    const auto again = Space().Canonical(*made);
    fuzz::Must(again.ok() && *again == *made, "a canonical setting stays as it is", message.DebugString());
    fuzz::Must(Space().Validate(*made).ok(), "a canonical setting is valid", message.DebugString());
  }
}

void CheckChange(absl::string_view input, bool text) {
  v1::UpdateStudyRequest message;
  if (!Read(input, text, &message)) return;
  Print(message);
  const auto change = wire::FromProto(message.spec(), message.update_mask());
  if (!change.ok()) return MustBeRefused(change.status());
  const auto changed = study::ChangeSpec(SpecToChange(), *change);
  if (!changed.ok()) return MustBeRefused(changed.status());
  if (const absl::Status valid = study::ValidateSpec(*changed); !valid.ok()) MustBeRefused(valid);
  study::DescribeChange(SpecToChange(), *changed);
  study::SameForDesigners(SpecToChange(), *changed);
}

void CheckFilter(absl::string_view input) {
  if (const auto order = service::ParseOrder(input, Space()); !order.ok()) MustBeRefused(order.status());
  const auto filter = service::Filter::Parse(input);
  if (!filter.ok()) return MustBeRefused(filter.status());
  fuzz::Must(filter->terms().size() <= service::Filter::kMaxTerms, "a filter has at most kMaxTerms terms");
  for (const bool answer : {false, true}) {
    size_t asked = 0;
    filter->Matches([&](size_t term) {
      fuzz::Must(term < filter->terms().size(), "a filter asks for terms that it has");
      ++asked;
      return answer;
    });
    fuzz::Must(asked <= filter->terms().size(), "a filter asks for each term at most once");
  }
  if (const absl::Status fits = filter->Check(Space()); !fits.ok()) MustBeRefused(fits);
}

void CheckName(absl::string_view input) {
  if (const auto study = wire::ParseStudyName("name", input); study.ok()) {
    fuzz::Must(wire::StudyName(*study) == input, "a study's name is built as it was read", input);
  } else {
    MustBeRefused(study.status());
  }
  if (const auto trial = wire::ParseTrialName("name", input); trial.ok()) {
    fuzz::Must(wire::TrialName(trial->study, trial->number) == input, "a trial's name is built as it was read", input);
  } else {
    MustBeRefused(trial.status());
  }
  if (const auto project = wire::ParseProjectName("name", input); project.ok()) {
    fuzz::Must(wire::ProjectName(*project) == input, "a project's name is built as it was read", input);
  } else {
    MustBeRefused(project.status());
  }
}

// Any request there is: the first byte says which.
void CheckRequest(fuzz::Input parts, bool text) {
  static const auto* const requests = [] {
    auto* const found = new std::vector<const Message*>();
    for (const auto* const file : {v1::GetStudyRequest::descriptor()->file(), v1::SuggestRequest::descriptor()->file(),
                                   v1::CreateTokenRequest::descriptor()->file()}) {
      for (int s = 0; s < file->service_count(); ++s) {
        for (int m = 0; m < file->service(s)->method_count(); ++m) {
          found->push_back(google::protobuf::MessageFactory::generated_factory()->GetPrototype(
              file->service(s)->method(m)->input_type()));
        }
      }
    }
    return found;
  }();
  const std::unique_ptr<Message> message((*requests)[parts.Byte() % requests->size()]->New());
  if (Read(parts.rest(), text, message.get())) Print(*message);
}

}  // namespace

LUTHIER_FUZZ_TARGET(request) {
  fuzz::Input parts(input);
  const int first = parts.Byte();
  const bool text = first >= 128;
  const absl::string_view rest = parts.rest();
  switch (first % 128 % 15) {
    case 0:
      return CheckSpec(rest, text);
    case 1:
      return CheckMeasurement(rest, text);
    case 2:
      return CheckConversion<v1::Failure>(rest, text);
    case 3:
      return CheckConversion<v1::Attempt>(rest, text);
    case 4:
      return CheckConversion<v1::Gradient>(rest, text);
    case 5:
      return CheckParameters(rest, text);
    case 6:
      return CheckChange(rest, text);
    case 7:
      return CheckFilter(rest);
    case 8:
      return CheckName(rest);
    case 9:
      return CheckConversion<v1::ParameterSpec>(rest, text);
    case 10:
      return CheckConversion<v1::Algorithm>(rest, text);
    case 11:
      return CheckConversion<v1::Training>(rest, text);
    case 12:
      return CheckConversion<google::protobuf::Duration>(rest, text);
    case 13:
      return CheckConversion<google::protobuf::Timestamp>(rest, text);
    default:
      return CheckRequest(parts, text);
  }
}

}  // namespace luthier
