#include "lib/study/warm_start.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <variant>
#include <vector>

#include "absl/strings/match.h"

namespace luthier::study {
namespace {

bool IsStrength(const std::string& name) {
  return name == "l2" || name == "l1" || absl::StartsWith(name, "l2.") || absl::StartsWith(name, "l1.");
}

bool AllAbove0(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double x) { return x > 0.0; });
}

// Returns infinity if something else differs.
double Distance(const Parameters& a, const Parameters& b) {
  if (a.size() != b.size()) return INFINITY;
  double sum = 0.0;
  for (auto i = a.begin(), k = b.begin(); i != a.end(); ++i, ++k) {
    if (i->first != k->first) return INFINITY;
    if (i->second == k->second) continue;
    const auto* v = std::get_if<std::vector<double>>(&i->second);
    const auto* w = std::get_if<std::vector<double>>(&k->second);
    if (v != nullptr && w != nullptr && v->size() == w->size() && IsStrength(i->first) && AllAbove0(*v) &&
        AllAbove0(*w)) {
      for (size_t e = 0; e < v->size(); ++e) sum += std::abs(std::log((*v)[e] / (*w)[e]));
      continue;
    }
    const double* x = std::get_if<double>(&i->second);
    const double* y = std::get_if<double>(&k->second);
    if (!IsStrength(i->first) || x == nullptr || y == nullptr || !(*x > 0.0) || !(*y > 0.0)) return INFINITY;
    sum += std::abs(std::log(*x / *y));
  }
  return sum;
}

}  // namespace

bool WarmStarts(const StudySpec& spec) {
  const auto* builtin = std::get_if<BuiltinObjective>(&spec.objective);
  if (builtin == nullptr) return false;
  const auto found = builtin->options.find(kWarmStartOption);
  return found != builtin->options.end() && found->second == ParameterValue(true);
}

int64_t NearestSource(const std::vector<WarmSource>& sources, const Parameters& parameters) {
  int64_t nearest = 0;
  double least = INFINITY;
  for (const auto& [number, setting] : sources) {
    const double distance = Distance(setting, parameters);
    if (distance > least || (distance == least && number < nearest) || !std::isfinite(distance)) continue;
    nearest = number;
    least = distance;
  }
  return nearest;
}

}  // namespace luthier::study
