#include "lib/catalogue/settings.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::catalogue {

using study::FormatDouble;
using study::FormatValue;
using study::ParameterValue;

absl::Status CheckValue(const ParameterInfo& info, const ParameterValue& value, const std::string& field) {
  const auto wrong = [&](const std::string& what) {
    return base::BadField(field, absl::StrCat(base::Quote(FormatValue(value)), " ", what));
  };
  switch (info.kind) {
    case ParameterKind::kFloat:
    case ParameterKind::kInt: {
      if (const auto* list = std::get_if<std::vector<double>>(&value)) {
        if (!info.vector) return base::BadField(field, "is a list; give one number");
        if (list->empty()) return base::BadField(field, "is an empty list");
        for (size_t k = 0; k < list->size(); ++k) {
          LUTHIER_RETURN_IF_ERROR(CheckValue(info, (*list)[k], absl::StrCat(field, "[", k, "]")));
        }
        return absl::OkStatus();
      }
      const double* number = std::get_if<double>(&value);
      if (number == nullptr) return wrong("is not a number");
      if (!(*number >= info.min) || !(*number <= info.max)) {
        return wrong(absl::StrCat("is not in [", FormatDouble(info.min), ", ", FormatDouble(info.max), "]"));
      }
      if (info.kind == ParameterKind::kInt && *number != std::floor(*number)) return wrong("is not a whole number");
      return absl::OkStatus();
    }
    case ParameterKind::kBool:
      return std::holds_alternative<bool>(value) ? absl::OkStatus() : wrong("is not true or false");
    case ParameterKind::kCategorical: {
      const std::string* label = std::get_if<std::string>(&value);
      if (label == nullptr || std::find(info.labels.begin(), info.labels.end(), *label) == info.labels.end()) {
        return wrong(absl::StrCat("is not one of ", absl::StrJoin(info.labels, ", "),
                                  label == nullptr ? "" : base::DidYouMean(*label, info.labels)));
      }
      return absl::OkStatus();
    }
    case ParameterKind::kText: {
      const std::string* text = std::get_if<std::string>(&value);
      if (text == nullptr) return wrong("is not text; put it in quotes");
      if (text->size() > 1024) return wrong("is longer than 1024 bytes");
      return absl::OkStatus();
    }
  }
  LUTHIER_CHECK(false);
}

absl::StatusOr<Settings> Settings::Resolve(const ObjectiveInfo& info, const study::Parameters& options,
                                           const study::Parameters& parameters) {
  Settings settings;
  for (const ParameterInfo& p : info.parameters) {
    if (p.default_value) settings.values_[p.name] = *p.default_value;
  }
  for (const study::Parameters* source : {&options, &parameters}) {
    for (const auto& [name, value] : *source) {
      const ParameterInfo* p = info.FindParameter(name);
      if (p == nullptr) {
        std::vector<std::string> names;
        for (const ParameterInfo& known : info.parameters) names.push_back(known.name);
        return base::BadField(
            name, absl::StrCat("objective ", info.model, " has no such parameter", base::DidYouMean(name, names),
                               "; it takes ", absl::StrJoin(names, ", ")));
      }
      LUTHIER_RETURN_IF_ERROR(CheckValue(*p, value, name));
      settings.values_[name] = value;
      settings.given_.insert(name);
    }
  }
  for (const ParameterInfo& p : info.parameters) {
    if (p.required() && !settings.values_.contains(p.name)) {
      return base::BadField(p.name, absl::StrCat("is required by objective ", info.model));
    }
  }
  return settings;
}

double Settings::Number(const std::string& name) const {
  return std::get<double>(values_.at(name));
}
int64_t Settings::Int(const std::string& name) const {
  return static_cast<int64_t>(Number(name));
}
bool Settings::Bool(const std::string& name) const {
  return std::get<bool>(values_.at(name));
}
bool Settings::IsVector(const std::string& name) const {
  return std::holds_alternative<std::vector<double>>(values_.at(name));
}
const std::vector<double>& Settings::Vector(const std::string& name) const {
  return std::get<std::vector<double>>(values_.at(name));
}
const std::string& Settings::Text(const std::string& name) const {
  return std::get<std::string>(values_.at(name));
}

}  // namespace luthier::catalogue
