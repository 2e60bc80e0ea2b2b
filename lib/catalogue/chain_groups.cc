#include "lib/catalogue/chain_groups.h"

#include "absl/strings/str_split.h"
#include "lib/base/status_macros.h"

namespace luthier::catalogue {

int32_t ChainGroups::Of(const std::string& name) const {
  const auto found = named.find(name);
  return found == named.end() ? 0 : found->second;
}

absl::StatusOr<ChainGroups> FindChainGroups(const std::vector<PenaltyGroup>& groups,
                                            const std::vector<std::string>& names, bool attributes,
                                            const std::string& where) {
  ChainGroups found;
  std::vector<std::string> parts = {"transitions"};
  if (!attributes) parts.insert(parts.end(), {"bias", "ends"});
  parts.insert(parts.end(), names.begin(), names.end());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int32_t> of,
                           GroupNames(groups, parts, where, attributes ? "attribute" : "part"));
  for (size_t k = 0; k < of.size(); ++k) {
    if (of[k] == 0) continue;
    if (k == 0) {
      found.transitions = of[k];
    } else if (!attributes && k < 3) {
      (k == 1 ? found.bias : found.ends) = of[k];
    } else {
      found.named[parts[k]] = of[k];
    }
  }
  return found;
}

std::vector<std::string> TemplateNames(const std::vector<notation::Template>& templates) {
  std::vector<std::string> names;
  for (const notation::Template& one : templates) {
    const bool colon = !one.space.empty() && one.space.back() == ':';
    names.push_back(one.space.substr(0, one.space.size() - (colon ? 1 : 0)));
  }
  return names;
}

absl::StatusOr<std::vector<notation::Template>> ChainTemplates(const std::string& templates,
                                                               const std::string& columns) {
  const std::vector<std::string> names = absl::StrSplit(columns, ',', absl::SkipWhitespace());
  return notation::ParseTemplates(templates.empty() ? "chunking" : templates, names);
}

absl::Status CheckChainGroups(const study::BuiltinObjective& objective) {
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    const auto* value = found == objective.options.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value == nullptr ? std::string() : *value;
  };
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<PenaltyGroup> groups, GroupsOf(objective.options));
  if (groups.empty()) return absl::OkStatus();
  if (text("format") == "attributes") return absl::OkStatus();  // The attributes' names are in the file.
  std::vector<std::string> names = {"pixels"};
  if (text("format") != "letters") {
    const absl::StatusOr<std::vector<notation::Template>> templates =
        ChainTemplates(text("templates"), text("columns"));
    if (!templates.ok()) return absl::OkStatus();  // The error is reported elsewhere.
    names = TemplateNames(*templates);
  }
  return FindChainGroups(groups, names, false, "the model").status();
}

}  // namespace luthier::catalogue
