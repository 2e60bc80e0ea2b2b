#ifndef LUTHIER_LIB_WIRE_YAML_SPEC_H_
#define LUTHIER_LIB_WIRE_YAML_SPEC_H_

#include <google/protobuf/message.h>

#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"
#include "lib/wire/yaml_tree.h"
#include "luthier/v1/study.pb.h"

// Study files: the YAML or JSON form of luthier.v1.StudySpec, nothing else (docs/reference/study_file.md). The
// message's descriptors are the grammar, so a field that is added to the .proto is a field of the study file.
//
// Reading rules: field names as in the .proto; enums by name in any case; numbers unquoted; `1e6` is a whole number;
// durations "90s", "1h30m" or a number of seconds; google.protobuf.Value: numbers, true and false when unquoted,
// text otherwise; an empty value stands for an empty message or list. Errors are INVALID_ARGUMENT BAD_FIELD with every
// violation, each with file, line and column, in order of lines: "study.yaml:3:14: space[0].float.max: 1 is below …".
namespace luthier::wire {

class StudyFile {
 public:
  // `source` is what messages call the file. Checks everything that needs no server, so spec() is accepted by
  // FromProto(const v1::StudySpec&) and study::ValidateNewSpec.
  static absl::StatusOr<StudyFile> Parse(absl::string_view text, absl::string_view source);

  const v1::StudySpec& spec() const { return spec_; }
  // A server's refusal of spec() with file, line and column put before each violation, whose field may begin with
  // "spec." as in CreateStudyRequest; other errors unchanged.
  absl::Status Locate(const absl::Status& status) const;

 private:
  std::string source_;
  v1::StudySpec spec_;
  std::map<std::string, YamlPosition> positions_;
};

// Any message of the API by the same rules, without checks beyond its structure: a Gradient, a Measurement.
absl::Status ParseMessage(absl::string_view text, absl::string_view source, google::protobuf::Message* message);

// An algorithm: its name alone, or "{bo: {noisy: true}}".
absl::StatusOr<study::AlgorithmSpec> ParseAlgorithm(absl::string_view text);
// A stopping rule, by the same rules: "median", "{curve: {confidence: 0.99}}".
absl::StatusOr<study::StoppingRule> ParseStopping(absl::string_view text);

// `name: value` pairs as a study's Values are read. For settings that users give.
absl::StatusOr<study::Parameters> ParseParameters(absl::string_view text, absl::string_view source);

// One unquoted scalar by the same rule: "0.1" and "1e-3" are numbers, "true" a bool, all else is text.
study::ParameterValue ParseValue(absl::string_view text);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_YAML_SPEC_H_
