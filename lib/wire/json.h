#ifndef LUTHIER_LIB_WIRE_JSON_H_
#define LUTHIER_LIB_WIRE_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "absl/status/status.h"

namespace luthier::wire {

// A message as people and scripts want to read it. Unlike protobuf's own printer: names as in the .proto, 64-bit
// integers as numbers, fields in order of their numbers, map keys sorted, every field without presence written out
// (false, 0, "", [], {}), so that a script finds it. Enums by name; bytes in lower-case hexadecimal; Value, Struct,
// Duration ("90s") and Timestamp ("2024-05-01T12:00:00.500Z") in their natural forms; NaN and infinities as the strings
// "NaN", "Infinity", "-Infinity". For a StudySpec the result is a legal study file.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

// The same as YAML in block style, short leaves in flow style, empty fields left out. For a StudySpec: a study file
// that reads back to an equal spec.
std::string ToYaml(const google::protobuf::Message& message);

// Reads a message from JSON as protobuf maps it, names as in the .proto or in camel case. INVALID_ARGUMENT says where
// the text is no such message, also for null in the place of a map's or a list's value, which protobuf takes for 0:
// many programs write null for NaN. `unknown_fields`: fields that the message does not have are left out.
absl::Status FromJson(const std::string& text, bool unknown_fields, google::protobuf::Message* message);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_JSON_H_
