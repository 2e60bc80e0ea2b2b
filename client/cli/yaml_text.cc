#include "client/cli/yaml_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "lib/base/printable.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// True for words that some reader of YAML takes for a boolean or for null.
bool IsWord(const std::string& lower) {
  static constexpr const char* kWords[] = {"true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf"};
  return std::any_of(std::begin(kWords), std::end(kWords), [&](const char* word) { return lower == word; });
}

// Writes identifiers as they are, and everything else in double quotes, whose escapes are those of JSON.
std::string Scalar(const Json& value) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const bool plain = !text.empty() && absl::ascii_isalpha(text[0]) &&
                       std::all_of(text.begin(), text.end(),
                                   [](char c) { return absl::ascii_isalnum(c) || c == '_' || c == '-' || c == '.'; }) &&
                       !IsWord(absl::AsciiStrToLower(text));
    if (plain) return text;
  }
  return base::PrintableJson(value.dump(-1, ' ', false, Json::error_handler_t::replace), base::Escapes::kYaml);
}

void Append(const Json& value, const std::string& indent, std::string* out) {
  bool first = true;
  const auto item = [&](const std::string& head, const Json& child, bool list) {
    // The first line of an entry follows the dash that the caller has written.
    if (!first) absl::StrAppend(out, indent);
    first = false;
    absl::StrAppend(out, head);
    if (child.is_structured() && !child.empty()) {
      const std::string deeper = indent + "  ";
      absl::StrAppend(out, list ? " " : absl::StrCat("\n", deeper));
      Append(child, deeper, out);
    } else {
      absl::StrAppend(out, " ", Scalar(child), "\n");
    }
  };
  if (value.is_object() && !value.empty()) {
    for (const auto& [key, child] : value.items()) item(Scalar(Json(key)) + ":", child, false);
  } else if (value.is_array() && !value.empty()) {
    for (const Json& child : value) item("-", child, true);
  } else {
    absl::StrAppend(out, Scalar(value), "\n");
  }
}

}  // namespace

std::string YamlText(const Json& value) {
  std::string out;
  Append(value, "", &out);
  return out;
}

}  // namespace luthier::cli
