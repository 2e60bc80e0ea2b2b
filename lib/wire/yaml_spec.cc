#include "lib/wire/yaml_spec.h"

#include <google/protobuf/duration.pb.h>
#include <google/protobuf/struct.pb.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

using base::Quote;
using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = YamlNode::Kind;
using Positions = std::map<std::string, YamlPosition>;

struct Problem {
  YamlPosition at;
  std::string field;
  std::string what;
};

// The problems as one status, in order of lines; "source:line:column: field: what" each.
absl::Status ToStatus(absl::string_view source, std::vector<Problem> problems) {
  if (problems.empty()) return absl::OkStatus();
  std::sort(problems.begin(), problems.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.at, a.field, a.what) < std::tie(b.at, b.field, b.what);
  });
  std::string message;
  base::ErrorDetail detail;
  detail.reason = base::reason::kBadField;
  for (const Problem& p : problems) {
    if (detail.violations.size() == base::kMaxViolations) break;
    const std::string where =
        p.at.line == 0 ? std::string(source) : absl::StrCat(source, ":", p.at.line, ":", p.at.column);
    absl::StrAppend(&message, message.empty() ? "" : "\n", where, ": ", p.field, p.field.empty() ? "" : ": ", p.what);
    detail.violations.push_back({p.field, p.what});
  }
  if (problems.size() > base::kMaxViolations) {
    absl::StrAppend(&message, "\n… and ", problems.size() - base::kMaxViolations, " more");
  }
  return base::MakeError(absl::StatusCode::kInvalidArgument, message, std::move(detail));
}

// --- Scalars ---

// Parses a number in the form of YAML's core schema (decimal); std::nullopt for anything else. A number beyond the
// largest double becomes inf.
std::optional<double> ParseNumber(absl::string_view text) {
  absl::string_view digits = text;
  if (!digits.empty() && (digits[0] == '+' || digits[0] == '-')) digits.remove_prefix(1);
  if (absl::EqualsIgnoreCase(digits, ".inf")) return text[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return std::nan("");
  const bool point_first = digits.size() > 1 && digits[0] == '.' && absl::ascii_isdigit(digits[1]);
  if (digits.empty() || !(absl::ascii_isdigit(digits[0]) || point_first)) return std::nullopt;  // No "inf", "nan".
  double value = 0.0;
  const std::from_chars_result result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (result.ptr != digits.data() + digits.size()) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // Too large and too small look alike; a negative exponent tells.
    value = absl::StrContains(absl::AsciiStrToLower(digits), "e-") ? 0.0 : HUGE_VAL;
  } else if (result.ec != std::errc()) {
    return std::nullopt;
  }
  return text[0] == '-' ? -value : value;
}

std::optional<bool> ParseBool(absl::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// Returns the digits of a whole number that may be written 1e6 or 100.0; "" for anything else, and for more than 40
// digits.
std::string WholeDigits(absl::string_view text) {
  const std::optional<double> number = ParseNumber(text);
  if (!number || !std::isfinite(*number) || std::abs(*number) > 1e40) return "";
  if (*number == 0.0) return "0";
  const size_t e = text.find_first_of("eE");
  int exponent = 0;
  if (e != absl::string_view::npos && !absl::SimpleAtoi(text.substr(e + 1), &exponent)) return "";
  if (exponent < -400 || exponent > 400) return "";
  std::string digits;
  std::string sign;
  bool fraction = false;
  for (const char c : text.substr(0, e)) {
    if (c == '-') sign = "-";
    if (c == '.') fraction = true;
    if (!absl::ascii_isdigit(c)) continue;
    digits += c;
    if (fraction) --exponent;
  }
  for (; exponent > 0; --exponent) digits += '0';
  for (; exponent < 0; ++exponent) {
    if (!digits.empty() && digits.back() != '0') return "";
    if (!digits.empty()) digits.pop_back();
  }
  return digits.empty() ? "0" : sign + digits;
}

template <typename Int>
std::optional<Int> ParseInteger(absl::string_view text) {
  const std::string digits = WholeDigits(text);
  Int value = 0;
  const std::from_chars_result result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (digits.empty() || result.ec != std::errc() || result.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Returns our word for a word of other tools, if the field is one of `names`; else "".
std::string OwnWord(absl::string_view word, const std::vector<std::string>& names) {
  struct Pair {
    const char* theirs;
    const char* field;
    const char* ours;
  };
  static constexpr Pair kWords[] = {{"low", "min", "min"},
                                    {"high", "max", "max"},
                                    {"lower", "min", "min"},
                                    {"upper", "max", "max"},
                                    {"log", "scale", "scale: LOG"},
                                    {"q", "step", "step"},
                                    {"choices", "values", "values"},
                                    {"categories", "values", "values"},
                                    {"direction", "goal", "goal: MINIMIZE or MAXIMIZE"},
                                    {"directions", "goal", "goal: MINIMIZE or MAXIMIZE, in each entry of metrics"},
                                    {"minimize", "goal", "goal: MINIMIZE"},
                                    {"maximize", "goal", "goal: MAXIMIZE"},
                                    {"n_trials", "max_trials", "max_trials"},
                                    {"n_jobs", "max_parallel", "max_parallel"},
                                    {"n_trials", "budget", "budget: {max_trials: N}"},
                                    {"n_jobs", "budget", "budget: {max_parallel: N}"},
                                    {"parameters", "space", "space"},
                                    {"params", "space", "space"},
                                    {"search_space", "space", "space"},
                                    {"sampler", "algorithm", "algorithm"},
                                    {"pruner", "stopping", "stopping, or resource with an algorithm"},
                                    {"direction", "metric", "metric: {name: ..., goal: MINIMIZE or MAXIMIZE}"},
                                    {"directions", "metrics", "metrics: [{name: ..., goal: MINIMIZE or MAXIMIZE}]"},
                                    {"objectives", "metrics", "metrics: [{name: ..., goal: MINIMIZE or MAXIMIZE}]"},
                                    {"goals", "metrics", "metrics: [{name: ..., goal: MINIMIZE or MAXIMIZE}]"},
                                    {"command", "objective", "objective: {command: {argv: [...]}}"}};
  for (const Pair& pair : kWords) {
    if (word == pair.theirs && std::find(names.begin(), names.end(), pair.field) != names.end()) return pair.ours;
  }
  return "";
}

// Returns true for a whole number that a double rounds: 2^53 + 1.
bool LosesDigits(absl::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  if (text.empty() || !std::all_of(text.begin(), text.end(), absl::ascii_isdigit)) return false;
  uint64_t value = 0;
  const std::from_chars_result result = std::from_chars(text.data(), text.data() + text.size(), value);
  return result.ec != std::errc() || value > (uint64_t{1} << 53);
}

const char* Describe(const YamlNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "nothing";
    case Kind::kScalar:
      return node.quoted ? "quoted text" : "a scalar";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
  }
  return "";
}

// --- The walk ---

class Reader {
 public:
  const std::vector<Problem>& problems() const { return problems_; }
  const Positions& positions() const { return positions_; }

  void ReadMessage(const YamlNode& node, const std::string& path, Message* message) {
    positions_.emplace(path, node.at);
    const std::string& type = message->GetDescriptor()->full_name();
    if (type == "google.protobuf.Value") return ReadValue(node, path, static_cast<google::protobuf::Value*>(message));
    if (type == "google.protobuf.Duration") {
      return ReadDuration(node, path, static_cast<google::protobuf::Duration*>(message));
    }
    if (type == "google.protobuf.Struct")
      return ReadStruct(node, path, static_cast<google::protobuf::Struct*>(message));
    if (node.kind == Kind::kNull) return;
    if (node.kind != Kind::kMap) return WrongShape(node, path, *message->GetDescriptor());
    std::map<const google::protobuf::OneofDescriptor*, const YamlNode*> chosen;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const YamlNode& value = node.items[i];
      const FieldDescriptor* field = message->GetDescriptor()->FindFieldByName(key.text);
      if (field == nullptr) {
        Unknown(key, value, path, *message->GetDescriptor());
        continue;
      }
      const std::string field_path = path.empty() ? key.text : absl::StrCat(path, ".", key.text);
      if (const auto* oneof = field->real_containing_oneof()) {
        const auto [first, fresh] = chosen.emplace(oneof, &key);
        if (!fresh) {
          Add(key.at, field_path,
              absl::StrCat("excludes ", Quote(first->second->text), " in line ", first->second->at.line,
                           "; keep one of the two"));
          continue;
        }
      }
      ReadField(value, field_path, field, message);
    }
  }

 private:
  void Add(YamlPosition at, const std::string& field, std::string what) {
    problems_.push_back({at, field, std::move(what)});
  }

  // Returns the names of the fields, but for options that few need and what the service alone sets.
  static std::vector<std::string> Names(const Descriptor& descriptor) {
    std::vector<std::string> names;
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const std::string& name = descriptor.field(i)->name();
      if (name != "expert" && name != "removed_options") names.push_back(name);
    }
    return names;
  }

  // Returns a scalar as it was written, or "...".
  static std::string Short(const YamlNode& value) {
    return value.kind == Kind::kScalar && !value.quoted ? value.text : "...";
  }

  void Unknown(const YamlNode& key, const YamlNode& value, const std::string& path, const Descriptor& descriptor) {
    const std::vector<std::string> names = Names(descriptor);
    std::vector<std::string> inside;
    for (int i = 0; i < descriptor.field_count(); ++i) {
      const FieldDescriptor* field = descriptor.field(i);
      if (field->type() == FieldDescriptor::TYPE_MESSAGE && !field->is_repeated() &&
          field->message_type()->FindFieldByName(key.text) != nullptr) {
        inside.push_back(Quote(field->name()));
      }
    }
    if (inside == std::vector<std::string>{Quote("expert")}) {
      const FieldDescriptor* moved = descriptor.FindFieldByName("expert")->message_type()->FindFieldByName(key.text);
      const std::string written = Short(value);
      const bool gone =
          moved->enum_type() != nullptr && moved->enum_type()->IsReservedName(absl::AsciiStrToUpper(written));
      if (gone) {
        return Add(key.at, path,
                   absl::StrCat(key.text, " moved into expert, and ", written, " is no option any more; leave it out"));
      }
      return Add(key.at, path, absl::StrCat(key.text, " moved; write expert: {", key.text, ": ", written, "}"));
    }
    if (descriptor.IsReservedName(key.text)) {
      return Add(key.at, path, absl::StrCat(key.text, " is no option any more; leave it out"));
    }
    std::string hint = base::DidYouMean(key.text, names);
    if (const std::string ours = OwnWord(key.text, names); !ours.empty()) {
      hint = absl::StrCat(" (here it is ", ours, ")");
    }
    if (!inside.empty()) hint = absl::StrCat("; it belongs inside ", absl::StrJoin(inside, " or "));
    if (&descriptor == v1::ParameterConstraint::descriptor() && key.text == "name") {
      hint = absl::StrCat("; a bound on a metric is written metrics: [{name: ", Short(value), ", at_most: ...}]");
    }
    if (hint.empty() && names.empty()) hint = "; nothing belongs here, write {}";
    if (hint.empty()) hint = absl::StrCat("; possible here: ", absl::StrJoin(names, ", "));
    Add(key.at, path, absl::StrCat("has no field ", Quote(key.text), hint));
  }

  void WrongShape(const YamlNode& node, const std::string& path, const Descriptor& descriptor) {
    const std::vector<std::string> names = Names(descriptor);
    std::string hint;
    if (node.kind == Kind::kScalar && descriptor.FindFieldByName(node.text) != nullptr) {
      hint = absl::StrCat("; write {", node.text, ": {}}");
    } else if (!names.empty()) {
      hint = absl::StrCat("; give ", absl::StrJoin(names, ", "));
    }
    Add(node.at, path, absl::StrCat("must be a map, not ", Describe(node), hint));
  }

  // Returns what to write where a list belongs. Maps from names to entries are what other tools and our Python have.
  static std::string ListHint(const YamlNode& node, const FieldDescriptor& field) {
    if (node.kind == Kind::kScalar) return absl::StrCat("; write [", node.text, "]");
    const std::string key = node.keys.empty() ? "" : node.keys.front().text;
    if (field.type() != FieldDescriptor::TYPE_MESSAGE || key.empty()) return "; write []";
    if (field.message_type() == v1::ParameterConstraint::descriptor()) {
      return absl::StrCat(
          "; these are constraints on parameters, [{sum: {...}, at_most: ...}] or [{forbid: {...}}]; a "
          "bound on a metric is written metrics: [{name: ",
          key, ", at_most: ...}]");
    }
    if (field.message_type()->FindFieldByName("name") == nullptr) return "; write a list of maps";
    return absl::StrCat("; write [{name: ", key, ", ...}]");
  }

  void ReadField(const YamlNode& node, const std::string& path, const FieldDescriptor* field, Message* message) {
    positions_.emplace(path, node.at);
    const Reflection* reflection = message->GetReflection();
    if (field->is_map()) return ReadMap(node, path, field, message);
    if (!field->is_repeated()) {
      if (field->type() != FieldDescriptor::TYPE_MESSAGE) return ReadScalar(node, path, field, message);
      return ReadMessage(node, path, reflection->MutableMessage(message, field));
    }
    if (node.kind == Kind::kNull) return;
    if (node.kind != Kind::kList) {
      return Add(node.at, path, absl::StrCat("must be a list, not ", Describe(node), ListHint(node, *field)));
    }
    for (size_t i = 0; i < node.items.size(); ++i) {
      const std::string item_path = absl::StrCat(path, "[", i, "]");
      if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        ReadMessage(node.items[i], item_path, reflection->AddMessage(message, field));
      } else {
        positions_.emplace(item_path, node.items[i].at);
        ReadScalar(node.items[i], item_path, field, message);
      }
    }
  }

  // Returns true for a map. Nothing is an empty one, of which nothing is read; all else is an error.
  bool IsMap(const YamlNode& node, const std::string& path) {
    if (node.kind != Kind::kMap && node.kind != Kind::kNull) {
      Add(node.at, path, absl::StrCat("must be a map, not ", Describe(node), "; write {name: value}"));
    }
    return node.kind == Kind::kMap;
  }

  void ReadMap(const YamlNode& node, const std::string& path, const FieldDescriptor* field, Message* message) {
    if (!IsMap(node, path)) return;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const YamlNode& value = node.items[i];
      Message* entry = message->GetReflection()->AddMessage(message, field);
      entry->GetReflection()->SetString(entry, field->message_type()->map_key(), key.text);
      const std::string value_path = absl::StrCat(path, ".", key.text);
      // Validation names a key that is no identifier in brackets.
      positions_.emplace(absl::StrCat(path, "[", Quote(key.text), "]"), key.at);
      ReadField(value, value_path, field->message_type()->map_value(), entry);
    }
  }

  void ReadScalar(const YamlNode& node, const std::string& path, const FieldDescriptor* field, Message* message) {
    const Reflection* r = message->GetReflection();
    if (node.kind == Kind::kNull) return Add(node.at, path, "has no value; give one or leave the field out");
    if (node.kind != Kind::kScalar) {
      return Add(node.at, path, absl::StrCat("must be ", Wanted(field), ", not ", Describe(node)));
    }
    if (field->type() == FieldDescriptor::TYPE_STRING) {
      return field->is_repeated() ? r->AddString(message, field, node.text) : r->SetString(message, field, node.text);
    }
    if (field->type() == FieldDescriptor::TYPE_ENUM) return ReadEnum(node, path, field, message);
    if (node.quoted) {
      return Add(node.at, path, absl::StrCat("must be ", Wanted(field), ", not text; leave the quotes out"));
    }
    const auto refuse = [&] { Add(node.at, path, absl::StrCat(Quote(node.text), " is not ", Wanted(field))); };
    switch (field->cpp_type()) {
#define LUTHIER_YAML_CASE(TYPE, METHOD, PARSED) \
  case FieldDescriptor::TYPE: {                 \
    const auto value = PARSED;                  \
    if (!value) return refuse();                \
    if (field->is_repeated())                   \
      r->Add##METHOD(message, field, *value);   \
    else                                        \
      r->Set##METHOD(message, field, *value);   \
    return;                                     \
  }
      LUTHIER_YAML_CASE(CPPTYPE_INT32, Int32, ParseInteger<int32_t>(node.text))
      LUTHIER_YAML_CASE(CPPTYPE_INT64, Int64, ParseInteger<int64_t>(node.text))
      LUTHIER_YAML_CASE(CPPTYPE_UINT32, UInt32, ParseInteger<uint32_t>(node.text))
      LUTHIER_YAML_CASE(CPPTYPE_UINT64, UInt64, ParseInteger<uint64_t>(node.text))
      LUTHIER_YAML_CASE(CPPTYPE_DOUBLE, Double, ParseNumber(node.text))
      LUTHIER_YAML_CASE(CPPTYPE_BOOL, Bool, ParseBool(node.text))
#undef LUTHIER_YAML_CASE
      default:
        Add(node.at, path, "cannot be given in a file");
    }
  }

  static const char* Wanted(const FieldDescriptor* field) {
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return "a whole number within ±2^31";
      case FieldDescriptor::CPPTYPE_INT64:
        return "a whole number within ±2^63";
      case FieldDescriptor::CPPTYPE_UINT32:
        return "a whole number from 0 to 2^32-1";
      case FieldDescriptor::CPPTYPE_UINT64:
        return "a whole number from 0 to 2^64-1";
      case FieldDescriptor::CPPTYPE_BOOL:
        return "true or false";
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return "a number";
      case FieldDescriptor::CPPTYPE_ENUM:
        return "a name";
      default:
        return "text";
    }
  }

  void ReadEnum(const YamlNode& node, const std::string& path, const FieldDescriptor* field, Message* message) {
    std::vector<std::string> names;
    const EnumDescriptor* type = field->enum_type();
    for (int i = 0; i < type->value_count(); ++i) {
      if (type->value(i)->number() != 0) names.push_back(type->value(i)->name());
    }
    const std::string upper = absl::AsciiStrToUpper(node.text);
    if (std::find(names.begin(), names.end(), upper) == names.end()) {
      if (type->IsReservedName(upper)) {
        return Add(node.at, path,
                   absl::StrCat(upper, " is no option any more; use one of ", absl::StrJoin(names, ", ")));
      }
      const std::string hint = base::DidYouMean(upper, names);
      return Add(node.at, path, absl::StrCat(Quote(node.text), " is not one of ", absl::StrJoin(names, ", "), hint));
    }
    message->GetReflection()->SetEnum(message, field, type->FindValueByName(upper));
  }

  void ReadValue(const YamlNode& node, const std::string& path, google::protobuf::Value* value) {
    // A range of numbers that a constraint forbids.
    if (node.kind == Kind::kMap && absl::StartsWith(path, "constraints[")) {
      return ReadStruct(node, path, value->mutable_struct_value());
    }
    if (node.kind == Kind::kList) {  // A list of numbers, for vector parameters.
      google::protobuf::ListValue* list = value->mutable_list_value();
      for (size_t i = 0; i < node.items.size(); ++i) {
        ReadScalarValue(node.items[i], absl::StrCat(path, "[", i, "]"), list->add_values());
      }
      return;
    }
    ReadScalarValue(node, path, value);
  }

  void ReadScalarValue(const YamlNode& node, const std::string& path, google::protobuf::Value* value) {
    if (node.kind != Kind::kScalar) {
      return Add(node.at, path, absl::StrCat("must be a number, true, false or text, not ", Describe(node)));
    }
    if (node.quoted) return value->set_string_value(node.text);
    if (LosesDigits(node.text)) {
      return Add(node.at, path, absl::StrCat(Quote(node.text), " is beyond ±2^53; quote it if it is text"));
    }
    const study::ParameterValue parsed = ParseValue(node.text);
    if (const double* number = std::get_if<double>(&parsed); number && !std::isfinite(*number)) {
      return Add(node.at, path, absl::StrCat(Quote(node.text), " is not a finite number; quote it if it is text"));
    }
    *value = ToProto(parsed);
  }

  void ReadStruct(const YamlNode& node, const std::string& path, google::protobuf::Struct* structure) {
    if (!IsMap(node, path)) return;
    for (size_t i = 0; i < node.keys.size(); ++i) {
      const YamlNode& key = node.keys[i];
      const YamlNode& value = node.items[i];
      ReadMessage(value, path.empty() ? key.text : absl::StrCat(path, ".", key.text),
                  &(*structure->mutable_fields())[key.text]);
    }
  }

  void ReadDuration(const YamlNode& node, const std::string& path, google::protobuf::Duration* duration) {
    if (node.kind != Kind::kScalar) {
      return Add(node.at, path, absl::StrCat("must be a duration such as 90s, not ", Describe(node)));
    }
    absl::Duration parsed;
    if (const std::optional<double> seconds = ParseNumber(node.text)) {
      parsed = std::isfinite(*seconds) ? absl::Seconds(*seconds) : absl::InfiniteDuration();
    } else if (!absl::ParseDuration(node.text, &parsed)) {
      return Add(node.at, path, absl::StrCat(Quote(node.text), " is not a duration; write 90s, 2m, 1h30m or seconds"));
    }
    constexpr int64_t kMaxHours = 87'660'000;  // 10,000 years.
    if (parsed > absl::Hours(kMaxHours) || parsed < -absl::Hours(kMaxHours)) {
      return Add(node.at, path, absl::StrCat(Quote(node.text), " is longer than 10,000 years; leave it out for none"));
    }
    *duration = ToProto(parsed);
  }

  std::vector<Problem> problems_;
  Positions positions_;
};

// Returns the position of `field` or of the nearest enclosing field that has one.
YamlPosition Find(const Positions& positions, std::string field) {
  while (true) {
    const auto found = positions.find(field);
    if (found != positions.end()) return found->second;
    const size_t cut = field.find_last_of(".[");
    if (cut == std::string::npos) break;
    field.resize(cut);
  }
  const auto root = positions.find("");
  return root == positions.end() ? YamlPosition{1, 1} : root->second;
}

absl::Status LocateAll(const Positions& positions, absl::string_view source, const absl::Status& status) {
  const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(status);
  if (!detail || detail->violations.empty()) return status;
  std::vector<Problem> problems;
  for (const base::FieldViolation& v : detail->violations) {
    // A server names fields as in its request, where the file is the field "spec".
    const std::string field(absl::StripPrefix(v.field, "spec."));
    problems.push_back({Find(positions, field), field, v.description});
  }
  return ToStatus(source, std::move(problems));
}

absl::Status Read(absl::string_view text, absl::string_view source, Message* message, Positions* positions) {
  YamlNode root;
  YamlError error;
  if (!ParseYamlTree(text, &root, &error)) return ToStatus(source, {{error.at, "", error.what}});
  if (root.kind == Kind::kNull) return ToStatus(source, {{{}, "", "is empty"}});
  Reader reader;
  reader.ReadMessage(root, "", message);
  if (positions != nullptr) *positions = reader.positions();
  return ToStatus(source, reader.problems());
}

// Adds empty options to a name without any.
std::string WithOptions(absl::string_view text) {
  return absl::StartsWith(text, "{") ? std::string(text) : absl::StrCat("{", text, ": {}}");
}

}  // namespace

absl::StatusOr<StudyFile> StudyFile::Parse(absl::string_view text, absl::string_view source) {
  StudyFile file;
  file.source_ = std::string(source);
  LUTHIER_RETURN_IF_ERROR(Read(text, source, &file.spec_, &file.positions_));
  const absl::StatusOr<study::StudySpec> spec = FromProto(file.spec_);
  LUTHIER_RETURN_IF_ERROR(file.Locate(spec.ok() ? study::ValidateNewSpec(*spec) : spec.status()));
  return file;
}

absl::Status StudyFile::Locate(const absl::Status& status) const {
  return LocateAll(positions_, source_, status);
}

absl::Status ParseMessage(absl::string_view text, absl::string_view source, Message* message) {
  return Read(text, source, message, nullptr);
}

absl::StatusOr<study::AlgorithmSpec> ParseAlgorithm(absl::string_view text) {
  v1::Algorithm algorithm;
  LUTHIER_RETURN_IF_ERROR(ParseMessage(WithOptions(text), "algorithm", &algorithm));
  if (algorithm.kind_case() == v1::Algorithm::KIND_NOT_SET) {
    return base::BadField("algorithm", "names none");
  }
  return FromProto(algorithm);
}

absl::StatusOr<study::StoppingRule> ParseStopping(absl::string_view text) {
  v1::Stopping stopping;
  LUTHIER_RETURN_IF_ERROR(ParseMessage(WithOptions(text), "stopping", &stopping));
  return FromProto(stopping);
}

absl::StatusOr<study::Parameters> ParseParameters(absl::string_view text, absl::string_view source) {
  google::protobuf::Struct structure;
  Positions positions;
  LUTHIER_RETURN_IF_ERROR(Read(text, source, &structure, &positions));
  absl::StatusOr<study::Parameters> parameters = FromProto(structure);
  if (!parameters.ok()) return LocateAll(positions, source, parameters.status());
  return parameters;
}

study::ParameterValue ParseValue(absl::string_view text) {
  if (const std::optional<double> number = ParseNumber(text)) return *number;
  if (const std::optional<bool> flag = ParseBool(text)) return *flag;
  return std::string(text);
}

}  // namespace luthier::wire
