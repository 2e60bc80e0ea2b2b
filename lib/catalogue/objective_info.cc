#include "lib/catalogue/objective_info.h"

#include "lib/base/check.h"

namespace luthier::catalogue {

absl::string_view ParameterKindName(ParameterKind kind) {
  switch (kind) {
    case ParameterKind::kFloat:
      return "float";
    case ParameterKind::kInt:
      return "int";
    case ParameterKind::kBool:
      return "bool";
    case ParameterKind::kCategorical:
      return "categorical";
    case ParameterKind::kText:
      return "text";
  }
  LUTHIER_CHECK(false);
}

const ParameterInfo* ObjectiveInfo::FindParameter(absl::string_view name) const {
  for (const ParameterInfo& p : parameters) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

const MetricInfo* ObjectiveInfo::FindMetric(absl::string_view name) const {
  for (const MetricInfo& m : metrics) {
    if (m.name == name) return &m;
  }
  return nullptr;
}

}  // namespace luthier::catalogue
