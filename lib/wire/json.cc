#include "lib/wire/json.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/timestamp.pb.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace luthier::wire {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Json = nlohmann::ordered_json;

Json Number(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  // 1e-3 and 5, not 0.001 and 5.0: what a person would write. Whole numbers that a double holds exactly.
  if (value == std::floor(value) && std::abs(value) < 0x1p53 && !(value == 0.0 && std::signbit(value))) {
    return static_cast<int64_t>(value);
  }
  return value;
}

Json FromValue(const google::protobuf::Value& value);

Json FromStruct(const google::protobuf::Struct& structure) {
  std::vector<std::string> names;
  for (const auto& [name, value] : structure.fields()) names.push_back(name);
  std::sort(names.begin(), names.end());
  Json result = Json::object();
  for (const std::string& name : names) result[name] = FromValue(structure.fields().at(name));
  return result;
}

Json FromValue(const google::protobuf::Value& value) {
  using google::protobuf::Value;
  switch (value.kind_case()) {
    case Value::kNumberValue:
      return Number(value.number_value());
    case Value::kBoolValue:
      return value.bool_value();
    case Value::kStringValue:
      return value.string_value();
    case Value::kStructValue:
      return FromStruct(value.struct_value());
    case Value::kListValue: {
      Json list = Json::array();
      for (const Value& element : value.list_value().values()) list.push_back(FromValue(element));
      return list;
    }
    default:
      return nullptr;
  }
}

std::string EnumName(const FieldDescriptor* field, int number) {
  const google::protobuf::EnumValueDescriptor* value = field->enum_type()->FindValueByNumber(number);
  return value ? value->name() : absl::StrCat(number);
}

// Says whether fields without presence that are empty text, lists or maps are left out.
enum class Empties { kKeep, kOmit };

Json Build(const Message& message, Empties empties);

// Element `index` of a repeated field, or the value of a singular one (index -1).
Json FieldValue(const Message& message, const FieldDescriptor* field, int index, Empties empties) {
  const Reflection* r = message.GetReflection();
  const bool repeated = index >= 0;
  switch (field->cpp_type()) {
#define LUTHIER_JSON_CASE(TYPE, METHOD, WRAP) \
  case FieldDescriptor::TYPE:                 \
    return WRAP(repeated ? r->GetRepeated##METHOD(message, field, index) : r->Get##METHOD(message, field))
    LUTHIER_JSON_CASE(CPPTYPE_INT32, Int32, Json);
    LUTHIER_JSON_CASE(CPPTYPE_INT64, Int64, Json);
    LUTHIER_JSON_CASE(CPPTYPE_UINT32, UInt32, Json);
    LUTHIER_JSON_CASE(CPPTYPE_UINT64, UInt64, Json);
    LUTHIER_JSON_CASE(CPPTYPE_DOUBLE, Double, Number);
    LUTHIER_JSON_CASE(CPPTYPE_FLOAT, Float, Number);
    LUTHIER_JSON_CASE(CPPTYPE_BOOL, Bool, Json);
#undef LUTHIER_JSON_CASE
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumName(field,
                      repeated ? r->GetRepeatedEnumValue(message, field, index) : r->GetEnumValue(message, field));
    case FieldDescriptor::CPPTYPE_STRING: {
      const std::string text = repeated ? r->GetRepeatedString(message, field, index) : r->GetString(message, field);
      return field->type() == FieldDescriptor::TYPE_BYTES ? absl::BytesToHexString(text) : text;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return Build(repeated ? r->GetRepeatedMessage(message, field, index) : r->GetMessage(message, field), empties);
  }
  return nullptr;
}

Json FromMap(const Message& message, const FieldDescriptor* field, Empties empties) {
  const Reflection* r = message.GetReflection();
  const FieldDescriptor* key = field->message_type()->map_key();
  const FieldDescriptor* value = field->message_type()->map_value();
  std::vector<std::pair<std::string, Json>> entries;
  for (int i = 0; i < r->FieldSize(message, field); ++i) {
    const Message& entry = r->GetRepeatedMessage(message, field, i);
    const Json name = FieldValue(entry, key, -1, empties);
    entries.emplace_back(name.is_string() ? name.get<std::string>() : name.dump(),
                         FieldValue(entry, value, -1, empties));
  }
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  Json result = Json::object();
  for (auto& [name, element] : entries) result[name] = std::move(element);
  return result;
}

Json Build(const Message& message, Empties empties) {
  if (const auto* value = dynamic_cast<const google::protobuf::Value*>(&message)) return FromValue(*value);
  if (const auto* structure = dynamic_cast<const google::protobuf::Struct*>(&message)) return FromStruct(*structure);
  if (const auto* duration = dynamic_cast<const google::protobuf::Duration*>(&message)) {
    return google::protobuf::util::TimeUtil::ToString(*duration);
  }
  if (const auto* time = dynamic_cast<const google::protobuf::Timestamp*>(&message)) {
    return google::protobuf::util::TimeUtil::ToString(*time);
  }
  const Reflection* r = message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) fields.push_back(message.GetDescriptor()->field(i));
  std::sort(fields.begin(), fields.end(),
            [](const FieldDescriptor* a, const FieldDescriptor* b) { return a->number() < b->number(); });
  Json result = Json::object();
  for (const FieldDescriptor* field : fields) {
    Json value;
    if (field->is_map()) {
      value = FromMap(message, field, empties);
    } else if (field->is_repeated()) {
      value = Json::array();
      for (int k = 0; k < r->FieldSize(message, field); ++k) value.push_back(FieldValue(message, field, k, empties));
    } else if (field->has_presence() && !r->HasField(message, field)) {
      continue;
    } else {
      value = FieldValue(message, field, -1, empties);
    }
    const bool empty =
        value.is_string() ? value.get_ref<const std::string&>().empty() : value.is_structured() && value.empty();
    if (empty && !field->has_presence() && empties == Empties::kOmit) continue;
    result[field->name()] = std::move(value);
  }
  return result;
}

// --- YAML ---

std::string Dump(const Json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

// Text that YAML reads back as the same text without quotes.
bool IsPlain(const std::string& text) {
  static constexpr absl::string_view kNotText[] = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"};
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto other = [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '/'; };
  if (text.empty() || !letter(text[0])) return false;
  if (!std::all_of(text.begin(), text.end(), [&](char c) { return letter(c) || other(c); })) return false;
  return std::none_of(std::begin(kNotText), std::end(kNotText),
                      [&](absl::string_view word) { return absl::EqualsIgnoreCase(word, text); });
}

std::string Scalar(const Json& value) {
  if (value.is_string() && IsPlain(value.get<std::string>())) return value.get<std::string>();
  return Dump(value);
}

bool IsLeaf(const Json& value) {
  return !value.is_structured();
}

std::string Flow(const Json& value) {
  if (IsLeaf(value)) return Scalar(value);
  std::string out;
  for (const auto& [key, element] : value.items()) {
    absl::StrAppend(&out, out.empty() ? "" : ", ", value.is_object() ? absl::StrCat(Scalar(key), ": ") : "",
                    Flow(element));
  }
  return value.is_object() ? absl::StrCat("{", out, "}") : absl::StrCat("[", out, "]");
}

void Block(const Json& value, size_t indent, std::string* out) {
  constexpr size_t kMaxLine = 110;
  const std::string margin(indent, ' ');
  for (const auto& [key, element] : value.items()) {
    const std::string lead = value.is_object() ? absl::StrCat(margin, Scalar(key), ":") : absl::StrCat(margin, "-");
    const std::string flow = Flow(element);
    // Lists of objects get a line for each, everything else stays on one as long as it fits.
    const bool list_of_objects = element.is_array() && !element.empty() && element[0].is_object();
    if (IsLeaf(element) || (!list_of_objects && lead.size() + flow.size() < kMaxLine)) {
      absl::StrAppend(out, lead, " ", flow, "\n");
    } else if (value.is_array()) {
      std::string nested;
      Block(element, indent + 2, &nested);
      absl::StrAppend(out, lead, nested.substr(indent + 1));  // "- " takes the place of the first line's margin.
    } else {
      absl::StrAppend(out, lead, "\n");
      Block(element, indent + 2, out);
    }
  }
}

// Returns the path of a null that stands for a value of a map or a list; "" if there is none. Messages of protobuf's
// own, such as Value, have a null of their own.
std::string NullIn(const nlohmann::json& json, const google::protobuf::Descriptor& type, const std::string& path) {
  if (!json.is_object() || absl::StartsWith(type.full_name(), "google.protobuf.")) return "";
  for (const auto& [key, value] : json.items()) {
    const FieldDescriptor* field = type.FindFieldByName(key);
    if (field == nullptr) field = type.FindFieldByCamelcaseName(key);
    if (field == nullptr) continue;
    const std::string at = absl::StrCat(path, path.empty() ? "" : ".", key);
    const FieldDescriptor& of = field->is_map() ? *field->message_type()->map_value() : *field;
    const auto* message = of.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ? of.message_type() : nullptr;
    const bool own_null = message != nullptr && message->full_name() == "google.protobuf.Value";
    const auto look = [&](const nlohmann::json& one, const std::string& place, bool element) -> std::string {
      if (one.is_null()) return element && !own_null ? place : "";
      return message == nullptr ? "" : NullIn(one, *message, place);
    };
    std::string found;
    if (field->is_map() && value.is_object()) {
      for (const auto& [name, one] : value.items()) {
        if (found.empty()) found = look(one, absl::StrCat(at, ".", name), true);
      }
    } else if (field->is_repeated() && value.is_array()) {
      for (size_t i = 0; i < value.size() && found.empty(); ++i)
        found = look(value[i], absl::StrCat(at, "[", i, "]"), true);
    } else {
      found = look(value, at, false);
    }
    if (!found.empty()) return found;
  }
  return "";
}

}  // namespace

Json ToJson(const Message& message) {
  return Build(message, Empties::kKeep);
}

std::string ToYaml(const Message& message) {
  std::string out;
  Block(Build(message, Empties::kOmit), 0, &out);
  return out;
}

absl::Status FromJson(const std::string& text, bool unknown_fields, Message* message) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = unknown_fields;
  const auto parsed = google::protobuf::util::JsonStringToMessage(text, message, options);
  if (!parsed.ok()) return absl::InvalidArgumentError(std::string(parsed.message()));
  if (!absl::StrContains(text, "null")) return absl::OkStatus();
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const std::string found = NullIn(json, *message->GetDescriptor(), "");
  if (found.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(found, " is null, which is no value; leave it out, or write \"NaN\" for a number that is none"));
}

}  // namespace luthier::wire
