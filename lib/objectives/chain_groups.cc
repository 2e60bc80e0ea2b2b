#include "lib/objectives/chain_groups.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/crf/letters_reader.h"
#include "lib/notation/templates.h"
#include "lib/objectives/crf_settings.h"

namespace luthier::objectives {
namespace {

absl::Status Error(const std::string& what) {
  return base::BadField(kGroupsOption, what);
}

}  // namespace

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

absl::Status CheckChainGroups(const study::BuiltinObjective& objective) {
  const auto text = [&](const char* name) {
    const auto found = objective.options.find(name);
    const auto* value = found == objective.options.end() ? nullptr : std::get_if<std::string>(&found->second);
    return value == nullptr ? std::string() : *value;
  };
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<PenaltyGroup> groups, GroupsOf(objective.options));
  if (groups.empty()) return absl::OkStatus();
  if (text("format") == "attributes") return absl::OkStatus();  // Their names are in the file.
  std::vector<std::string> names = {"pixels"};
  if (text("format") != "letters") {
    const absl::StatusOr<std::vector<notation::Template>> templates =
        ChainTemplates(text("templates"), text("columns"));
    if (!templates.ok()) return absl::OkStatus();  // Said elsewhere.
    names = TemplateNames(*templates);
  }
  return FindChainGroups(groups, names, false, "the model").status();
}

absl::StatusOr<std::vector<int32_t>> GroupRows(const ChainGroups& groups, const crf::FeatureMap& map) {
  const std::vector<std::string> names = TemplateNames(map.options().templates);
  if (map.options().hash_bits > 0) {
    for (const std::string& name : names) {
      if (groups.Of(name) == groups.Of(names[0])) continue;
      return Error(absl::StrCat("hash_bits makes templates share weights, but ", base::Quote(names[0]), " and ",
                                base::Quote(name), " are in different groups; leave out hash_bits"));
    }
  }
  std::vector<int32_t> rows;
  for (const int32_t source : map.RowSources()) {
    rows.push_back(source == crf::FeatureMap::kBias   ? groups.bias
                   : source == crf::FeatureMap::kEnds ? groups.ends
                   : names.empty()                    ? 0
                                                      : groups.Of(names[static_cast<size_t>(source)]));
  }
  return rows;
}

std::vector<int32_t> GroupRows(const ChainGroups& groups, const crf::AttributeMap& map) {
  std::vector<int32_t> rows;
  for (int32_t a = 0; a < map.attributes(); ++a) rows.push_back(groups.Of(map.name(a)));
  return rows;
}

std::vector<int32_t> GroupLetterRows(const ChainGroups& groups) {
  std::vector<int32_t> rows(crf::kLetterPixels, groups.Of("pixels"));
  rows.insert(rows.end(), {groups.bias, groups.ends, groups.ends});
  return rows;
}

ChainPenalty::ChainPenalty(const std::vector<int32_t>& row_group, int32_t transitions, const std::vector<double>& l2,
                           const std::vector<double>& l1)
    : l2_(l2[static_cast<size_t>(transitions)]), l1_(l1[static_cast<size_t>(transitions)]) {
  const auto equal = [](const std::vector<double>& strengths) {
    return std::all_of(strengths.begin(), strengths.end(), [&](double one) { return one == strengths[0]; });
  };
  const size_t rows = row_group.size();
  if (!equal(l2)) {
    scale_.resize(static_cast<Eigen::Index>(rows));
    for (size_t a = 0; a < rows; ++a) {
      scale_[static_cast<Eigen::Index>(a)] = std::sqrt(l2_ / l2[static_cast<size_t>(row_group[a])]);
    }
  }
  if (equal(l1) && (uniform() || l1[0] == 0.0)) return;
  std::vector<double> strengths;
  for (size_t a = 0; a < rows; ++a) {
    const double scale = uniform() ? 1.0 : scale_[static_cast<Eigen::Index>(a)];
    strengths.push_back(scale * l1[static_cast<size_t>(row_group[a])]);
  }
  l1_ = crf::L1Penalty(std::move(strengths), l1_.transitions());
}

crf::ChainData ChainPenalty::Scaled(const crf::ChainData& data) const {
  crf::ChainData scaled = data;
  scaled.value.resize(data.attribute.size());
  for (size_t e = 0; e < data.attribute.size(); ++e) scaled.value[e] = data.Value(e) * scale_[data.attribute[e]];
  return scaled;
}

void ChainPenalty::Unscale(int stride, Eigen::VectorXd* u) const {
  for (Eigen::Index a = 0; a < scale_.size(); ++a) u->segment(a * stride, stride) *= scale_[a];
}

crf::Rescaling ChainPenalty::From(const ChainPenalty& other) const {
  if (scale_.size() == other.scale_.size() && scale_ == other.scale_) return crf::Rescaling();
  if (other.uniform()) return crf::Rescaling(scale_);
  if (uniform()) return crf::Rescaling(other.scale_.cwiseInverse());
  return crf::Rescaling(scale_.cwiseQuotient(other.scale_));
}

}  // namespace luthier::objectives
