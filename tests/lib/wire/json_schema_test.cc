#include "lib/wire/json_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/wire/json.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::wire {
namespace {

using Json = nlohmann::ordered_json;

bool HasType(const Json& value, const std::string& type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "null") return value.is_null();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return value.is_number();
}

// What is wrong with `value` by the parts of JSON Schema that ours uses; "": nothing.
std::string Wrong(const Json& value, const Json& schema, const Json& root, const std::string& at) {
  if (schema.is_boolean()) return "";
  if (schema.contains("$ref")) {
    const std::string reference = schema["$ref"];
    const std::string wrong = Wrong(value, root["$defs"][reference.substr(8)], root, at);
    if (!wrong.empty()) return wrong;
  }
  if (schema.contains("type")) {
    bool fits = false;
    const Json types = schema["type"].is_array() ? schema["type"] : Json::array({schema["type"]});
    for (const Json& type : types) fits = fits || HasType(value, type);
    if (!fits) return absl::StrCat(at, " is no ", types.dump());
  }
  if (schema.contains("enum") && std::find(schema["enum"].begin(), schema["enum"].end(), value) == schema["enum"].end())
    return absl::StrCat(at, " is not one of ", schema["enum"].dump());
  if (schema.contains("maxProperties") && value.size() > schema["maxProperties"]) return at + " has too much";
  if (schema.contains("required")) {
    for (const Json& name : schema["required"]) {
      if (!value.contains(name.get<std::string>())) return absl::StrCat(at, " lacks ", name.dump());
    }
  }
  if (schema.contains("anyOf")) {
    const Json& options = schema["anyOf"];
    const bool fits = std::any_of(options.begin(), options.end(),
                                  [&](const Json& option) { return Wrong(value, option, root, at).empty(); });
    if (!fits) return absl::StrCat(at, " fits none of ", options.dump());
  }
  if (value.is_object()) {
    for (const auto& [key, entry] : value.items()) {
      const Json none = Json::object();
      const Json& known = schema.contains("properties") ? schema["properties"] : none;
      const Json more = schema.value("additionalProperties", Json(true));
      if (!known.contains(key) && more == false) return absl::StrCat(at, " has no ", key);
      const std::string wrong = Wrong(entry, known.contains(key) ? known[key] : more, root, absl::StrCat(at, ".", key));
      if (!wrong.empty()) return wrong;
    }
  }
  if (value.is_array() && schema.contains("items")) {
    for (const Json& entry : value) {
      const std::string wrong = Wrong(entry, schema["items"], root, at + "[]");
      if (!wrong.empty()) return wrong;
    }
  }
  return "";
}

// Without words for "not said", which no file has.
Json Said(const Json& value) {
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& entry : value) out.push_back(Said(entry));
    return out;
  }
  if (!value.is_object()) return value;
  Json out = Json::object();
  for (const auto& [key, entry] : value.items()) {
    const bool unsaid = entry.is_string() && absl::EndsWith(entry.get<std::string>(), "_UNSPECIFIED");
    if (!unsaid) out[key] = Said(entry);
  }
  return out;
}

TEST(JsonSchema, TakesEveryExample) {
  const char* root = std::getenv("LUTHIER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run through ctest, or set LUTHIER_SOURCE_DIR to the root of the sources";
  const Json schema = StudyFileSchema();
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(root) + "/examples")) {
    if (entry.path().extension() != ".yaml") continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    const absl::StatusOr<StudyFile> study = StudyFile::Parse(text.str(), entry.path().string());
    ASSERT_TRUE(study.ok()) << study.status();
    EXPECT_EQ(Wrong(Said(ToJson(study->spec())), schema, schema, entry.path().filename().string()), "");
    ++files;
  }
  EXPECT_GT(files, 5);
}

TEST(JsonSchema, RefusesWhatAFileMayNotHave) {
  const Json schema = StudyFileSchema();
  const auto wrong = [&](const char* text) { return Wrong(Json::parse(text), schema, schema, "file"); };
  EXPECT_EQ(wrong(R"({"space": [{"name": "x", "float": {"min": 0, "max": 1.5}}], "metric": {"name": "loss"}})"), "");
  EXPECT_EQ(wrong(R"({"space": [], "metrics": [{"name": "ms", "at_most": 20}]})"), "");
  EXPECT_EQ(wrong(R"({"space": []})"), R"(file fits none of [{"required":["metric"]},{"required":["metrics"]}])");
  EXPECT_EQ(wrong(R"({"space": [], "metric": {}, "bugdet": {}})"), "file has no bugdet");
  EXPECT_EQ(wrong(R"({"space": [], "metric": {"goal": "LOW"}})"),
            R"(file.metric.goal is not one of ["MINIMIZE","minimize","MAXIMIZE","maximize"])");
  EXPECT_EQ(wrong(R"({"space": [], "metric": {"goal": "minimize"}})"), "");
  EXPECT_EQ(wrong(R"({"space": [], "metric": {}, "algorithm": {"bo": {}, "tpe": {}}})"), "file.algorithm has too much");
  EXPECT_EQ(wrong(R"({"space": [], "metric": {}, "budget": {"max_trials": "ten"}})"),
            "file.budget.max_trials is no [\"integer\"]");
}

}  // namespace
}  // namespace luthier::wire
