#include "lib/wire/json_schema.h"

#include <google/protobuf/descriptor.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "luthier/v1/study.pb.h"

namespace luthier::wire {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using Json = nlohmann::ordered_json;

class Writer {
 public:
  // A reference to the schema of the message, which is among the definitions then.
  Json Reference(const Descriptor& message) {
    if (message.full_name() == "google.protobuf.Value") return Json(true);
    if (message.full_name() == "google.protobuf.Struct") return Json{{"type", "object"}};
    if (message.full_name() == "google.protobuf.Duration") {
      return Json{{"type", {"string", "number"}}, {"description", "A duration such as 90s, 10m or 1h30m"}};
    }
    const std::string name = message.full_name();
    if (!definitions_.contains(name)) {
      definitions_[name] = Json::object();  // Messages may hold themselves.
      definitions_[name] = OfMessage(message);
    }
    return Json{{"$ref", absl::StrCat("#/$defs/", name)}};
  }

  const Json& definitions() const { return definitions_; }

 private:
  Json OfMessage(const Descriptor& message) {
    Json properties = Json::object();
    int most = 0;
    for (int i = 0; i < message.field_count(); ++i) {
      properties[message.field(i)->name()] = OfField(*message.field(i));
      most += message.field(i)->real_containing_oneof() == nullptr ? 1 : 0;
    }
    // Null stands for an empty map.
    Json schema = {{"type", {"object", "null"}}, {"additionalProperties", false}, {"properties", properties}};
    if (message.real_oneof_decl_count() > 0) schema["maxProperties"] = most + message.real_oneof_decl_count();
    return schema;
  }

  Json OfField(const FieldDescriptor& field) {
    if (field.is_map()) {
      return Json{{"type", {"object", "null"}}, {"additionalProperties", OfValue(*field.message_type()->map_value())}};
    }
    if (field.is_repeated()) return Json{{"type", {"array", "null"}}, {"items", OfValue(field)}};
    return OfValue(field);
  }

  Json OfValue(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return Reference(*field.message_type());
      case FieldDescriptor::CPPTYPE_ENUM:
        return OfEnum(*field.enum_type());
      case FieldDescriptor::CPPTYPE_BOOL:
        return Json{{"type", "boolean"}};
      case FieldDescriptor::CPPTYPE_STRING:
        // Scalars are taken as they are written: a label 3 is the text "3".
        return Json{{"type", {"string", "number", "boolean"}}};
      case FieldDescriptor::CPPTYPE_DOUBLE:
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Json{{"type", "number"}};
      default:
        return Json{{"type", "integer"}};
    }
  }

  static Json OfEnum(const EnumDescriptor& type) {
    Json words = Json::array();
    for (int i = 0; i < type.value_count(); ++i) {
      const std::string& name = type.value(i)->name();
      if (absl::EndsWith(name, "_UNSPECIFIED")) continue;
      words.push_back(name);
      words.push_back(absl::AsciiStrToLower(name));
    }
    return Json{{"enum", words}};
  }

  Json definitions_ = Json::object();
};

}  // namespace

Json StudyFileSchema() {
  Writer writer;
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "A study file of luthier"}};
  schema.update(writer.Reference(*v1::StudySpec::descriptor()));
  schema["required"] = {"space"};
  schema["anyOf"] = {Json{{"required", {"metric"}}}, Json{{"required", {"metrics"}}}};
  schema["$defs"] = writer.definitions();
  return schema;
}

}  // namespace luthier::wire
