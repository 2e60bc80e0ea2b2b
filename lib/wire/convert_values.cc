#include <algorithm>
#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

constexpr int64_t kMaxDurationSeconds = 315'576'000'000;   // 10,000 years, the limit of google.protobuf.Duration.
constexpr int64_t kMinTimestampSeconds = -62'135'596'800;  // 0001-01-01T00:00:00Z
constexpr int64_t kMaxTimestampSeconds = 253'402'300'799;  // 9999-12-31T23:59:59Z
constexpr int32_t kNanosPerSecond = 1'000'000'000;

std::string FieldName(absl::string_view name) {
  return study::IsName(name) ? std::string(name) : base::Quote(name);
}

}  // namespace

google::protobuf::Duration ToProto(absl::Duration duration) {
  google::protobuf::Duration proto;
  if (duration >= absl::Seconds(kMaxDurationSeconds)) {
    proto.set_seconds(kMaxDurationSeconds);
  } else if (duration <= -absl::Seconds(kMaxDurationSeconds)) {
    proto.set_seconds(-kMaxDurationSeconds);
  } else {
    absl::Duration rest;
    proto.set_seconds(absl::IDivDuration(duration, absl::Seconds(1), &rest));
    proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(rest)));
  }
  return proto;
}

absl::StatusOr<absl::Duration> FromProto(const google::protobuf::Duration& duration) {
  const int64_t seconds = duration.seconds();
  const int32_t nanos = duration.nanos();
  if (std::abs(static_cast<double>(seconds)) > static_cast<double>(kMaxDurationSeconds)) {
    return base::BadField("", absl::StrCat(seconds, " s is longer than 10,000 years"));
  }
  if (nanos <= -kNanosPerSecond || nanos >= kNanosPerSecond || (seconds > 0 && nanos < 0) ||
      (seconds < 0 && nanos > 0)) {
    return base::BadField("", absl::StrCat("nanos ", nanos, " is not below 10^9 with the sign of seconds ", seconds));
  }
  return absl::Seconds(seconds) + absl::Nanoseconds(nanos);
}

google::protobuf::Timestamp ToProto(absl::Time time) {
  google::protobuf::Timestamp proto;
  const absl::Time low = absl::FromUnixSeconds(kMinTimestampSeconds);
  const absl::Time high = absl::FromUnixSeconds(kMaxTimestampSeconds) + absl::Nanoseconds(kNanosPerSecond - 1);
  const absl::Time clamped = std::clamp(time, low, high);
  const int64_t seconds = absl::ToUnixSeconds(clamped);
  proto.set_seconds(seconds);
  proto.set_nanos(static_cast<int32_t>(absl::ToInt64Nanoseconds(clamped - absl::FromUnixSeconds(seconds))));
  return proto;
}

absl::StatusOr<absl::Time> FromProto(const google::protobuf::Timestamp& timestamp) {
  if (timestamp.seconds() < kMinTimestampSeconds || timestamp.seconds() > kMaxTimestampSeconds ||
      timestamp.nanos() < 0 || timestamp.nanos() >= kNanosPerSecond) {
    return base::BadField("", absl::StrCat(timestamp.seconds(), " s + ", timestamp.nanos(),
                                           " ns is not a time within the years 1 to 9999"));
  }
  return absl::FromUnixSeconds(timestamp.seconds()) + absl::Nanoseconds(timestamp.nanos());
}

google::protobuf::Value ToProto(const study::ParameterValue& value) {
  google::protobuf::Value proto;
  if (const double* number = std::get_if<double>(&value)) {
    proto.set_number_value(*number);
  } else if (const bool* flag = std::get_if<bool>(&value)) {
    proto.set_bool_value(*flag);
  } else if (const auto* vector = std::get_if<std::vector<double>>(&value)) {
    google::protobuf::ListValue& list = *proto.mutable_list_value();
    list.mutable_values()->Reserve(static_cast<int>(vector->size()));
    for (const double element : *vector) list.add_values()->set_number_value(element);
  } else {
    proto.set_string_value(ValidUtf8(std::get<std::string>(value)));
  }
  return proto;
}

namespace {

absl::StatusOr<study::ParameterValue> VectorFrom(const google::protobuf::ListValue& list) {
  std::vector<double> vector;
  if (list.values_size() > study::kMaxScalars) {
    return base::BadField(
        "", absl::StrCat("is a list of ", list.values_size(), " values; at most ", study::kMaxScalars, " are allowed"));
  }
  vector.reserve(static_cast<size_t>(list.values_size()));
  for (int k = 0; k < list.values_size(); ++k) {
    const google::protobuf::Value& element = list.values(k);
    if (element.kind_case() != google::protobuf::Value::kNumberValue || !std::isfinite(element.number_value())) {
      return base::BadField(absl::StrCat("[", k, "]"), "is not a finite number; a list is a vector of numbers");
    }
    vector.push_back(element.number_value());
  }
  return study::ParameterValue(std::move(vector));
}

}  // namespace

absl::StatusOr<study::ParameterValue> FromProto(const google::protobuf::Value& value) {
  using google::protobuf::Value;
  switch (value.kind_case()) {
    case Value::kNumberValue:
      if (std::isfinite(value.number_value())) return study::ParameterValue(value.number_value());
      return base::BadField("", absl::StrCat(study::FormatDouble(value.number_value()), " is not a finite number"));
    case Value::kBoolValue:
      return study::ParameterValue(value.bool_value());
    case Value::kStringValue:
      return study::ParameterValue(value.string_value());
    case Value::kListValue:
      return VectorFrom(value.list_value());
    case Value::kStructValue:
      return base::BadField("", "is an object; give a number, true, false, text or a list of numbers");
    case Value::kNullValue:
    case Value::KIND_NOT_SET:
      break;
  }
  return base::BadField("", "is null; give a number, true, false or text");
}

google::protobuf::Struct ToProto(const study::Parameters& parameters) {
  google::protobuf::Struct proto;
  for (const auto& [name, value] : parameters) (*proto.mutable_fields())[ValidUtf8(name)] = ToProto(value);
  return proto;
}

absl::StatusOr<study::Parameters> FromProto(const google::protobuf::Struct& parameters) {
  // Protobuf's maps have no order; violations shall come in the same one each time.
  std::vector<const std::string*> names;
  for (const auto& [name, value] : parameters.fields()) names.push_back(&name);
  std::sort(names.begin(), names.end(), [](const std::string* a, const std::string* b) { return *a < *b; });
  base::Violations violations;
  study::Parameters result;
  for (const std::string* name : names) {
    absl::StatusOr<study::ParameterValue> value = FromProto(parameters.fields().at(*name));
    if (!value.ok())
      violations.AddAll(FieldName(*name), value.status());
    else
      result[*name] = *std::move(value);
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return result;
}

}  // namespace luthier::wire
