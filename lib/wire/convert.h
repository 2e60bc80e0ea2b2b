#ifndef LUTHIER_LIB_WIRE_CONVERT_H_
#define LUTHIER_LIB_WIRE_CONVERT_H_

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/field_mask.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/timestamp.pb.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/study/measurement.h"
#include "lib/study/parameters.h"
#include "lib/study/search_space.h"
#include "lib/study/spec_change.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "luthier/v1/study.pb.h"
#include "luthier/v1/trial.pb.h"

// Messages <-> domain types: the only place that knows both.
//
// FromProto treats its input as hostile: every error is INVALID_ARGUMENT BAD_FIELD with all violations at once (at most
// base::kMaxViolations), their paths relative to the message and written as in a study file: "space[3].float.max".
// ToProto is total: times and durations beyond what the well-known types hold are clamped, bytes that are not UTF-8
// become U+FFFD. FromProto(ToProto(x)) == x for every x that FromProto can return.
namespace luthier::wire {

// --- Well-known types ---

// Normalized and within ±10,000 years, as google.protobuf.Duration demands. InfiniteDuration has no form: it is
// clamped.
google::protobuf::Duration ToProto(absl::Duration duration);
absl::StatusOr<absl::Duration> FromProto(const google::protobuf::Duration& duration);
// Years 1 to 9999, nanoseconds.
google::protobuf::Timestamp ToProto(absl::Time time);
absl::StatusOr<absl::Time> FromProto(const google::protobuf::Timestamp& timestamp);

// A finite number, true or false, or text; null, lists, structs, NaN and infinities are refused.
google::protobuf::Value ToProto(const study::ParameterValue& value);
absl::StatusOr<study::ParameterValue> FromProto(const google::protobuf::Value& value);
// Paths are the parameters' names. Legality in a space: SearchSpace::Canonical.
google::protobuf::Struct ToProto(const study::Parameters& parameters);
absl::StatusOr<study::Parameters> FromProto(const google::protobuf::Struct& parameters);

// --- Study ---

// Every default is written out, so that a reader needs no table of them.
v1::StudySpec ToProto(const study::StudySpec& spec);
v1::ParameterSpec ToProto(const study::ParameterSpec& parameter);
// The whole validation but for what needs the designers (search::Validate) and the objectives (catalogue::Validate):
// presence, enums, SearchSpace::Create, study::ValidateSpec; all violations together.
absl::StatusOr<study::StudySpec> FromProto(const v1::StudySpec& spec);
// Returns the fields of `spec` that `mask` names. The mask is not empty and names fields that may change after
// creation; what the values mean to the study: study::ChangeSpec.
absl::StatusOr<study::SpecChange> FromProto(const v1::StudySpec& spec, const google::protobuf::FieldMask& mask);
// One parameter; the checks of SearchSpace::Create are not part of it.
absl::StatusOr<study::ParameterSpec> FromProto(const v1::ParameterSpec& parameter);

v1::Algorithm ToProto(const study::AlgorithmSpec& algorithm);
// Settings against a space and budget are not checked: search::Validate. Paths begin with "algorithm.".
absl::StatusOr<study::AlgorithmSpec> FromProto(const v1::Algorithm& algorithm);
// Its options are checked by study::ValidateSpec. A message that names no rule is refused.
absl::StatusOr<study::StoppingRule> FromProto(const v1::Stopping& stopping);

v1::Study::State ToProto(study::StudyState state);
absl::StatusOr<study::StudyState> FromProto(v1::Study::State state);

// --- Trial ---

v1::Trial::State ToProto(study::TrialState state);
absl::StatusOr<study::TrialState> FromProto(v1::Trial::State state);

v1::Gradient ToProto(const study::Gradient& gradient);
// Structure alone: one of full and directional. Lengths and finiteness: study::ValidateGradient, whose paths agree.
absl::StatusOr<study::Gradient> FromProto(const v1::Gradient& gradient);

inline constexpr int kMaxMetrics = 32;

v1::Measurement ToProto(const study::Measurement& measurement);
// Parts of a measurement that were left out, as they are worth less than its metrics. Each status says why:
// INVALID_ARGUMENT with paths relative to the measurement, or OK if nothing was left out.
struct LeftOut {
  absl::Status gradient;
  absl::Status gradients;  // Some of `gradients`.
  absl::Status training;   // `training` or `gradient_seconds`.
};
// Checks that step >= 0, that there are 1 to kMaxMetrics metrics of legal names (values may be non-finite), that
// elapsed_seconds is finite and >= 0, that the outcome of training is known, and that its numbers and gradient_seconds
// are finite and >= 0. If `left_out` is given, a malformed gradient (of any metric), training or gradient_seconds is no
// error; it is left out, as *left_out says.
absl::StatusOr<study::Measurement> FromProto(const v1::Measurement& measurement, LeftOut* left_out = nullptr);

v1::Training ToProto(const study::TrainingReport& training);
absl::StatusOr<study::TrainingReport> FromProto(const v1::Training& training);
v1::Training::Outcome ToProto(study::TrainingOutcome outcome);
absl::StatusOr<study::TrainingOutcome> FromProto(v1::Training::Outcome outcome);

inline constexpr size_t kMaxFailureMessageBytes = 4096;

v1::Failure ToProto(const study::Failure& failure);
// kind, and reason of the form [A-Z][A-Z0-9_]{0,63}. The message is cut to its last kMaxFailureMessageBytes.
absl::StatusOr<study::Failure> FromProto(const v1::Failure& failure);

v1::Attempt ToProto(const study::Attempt& attempt);
absl::StatusOr<study::Attempt> FromProto(const v1::Attempt& attempt);

v1::Provenance ToProto(const study::Provenance& provenance);
study::Provenance FromProto(const v1::Provenance& provenance);

// `study_id` makes the resource name. `measurements` stays empty.
v1::Trial ToProto(const study::Trial& trial, absl::string_view study_id);
// For readers of the API. `releases` is the number of RELEASED attempts; the name must end in the number.
absl::StatusOr<study::Trial> FromProto(const v1::Trial& trial);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_CONVERT_H_
