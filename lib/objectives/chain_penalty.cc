#include "lib/objectives/chain_penalty.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/chain_groups.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/crf/features/letters_reader.h"
#include "lib/notation/templates.h"

namespace luthier::objectives {
namespace {

absl::Status Error(const std::string& what) {
  return base::BadField(catalogue::kGroupsOption, what);
}

}  // namespace

absl::StatusOr<std::vector<int32_t>> GroupRows(const catalogue::ChainGroups& groups, const crf::FeatureMap& map) {
  const std::vector<std::string> names = catalogue::TemplateNames(map.options().templates);
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

std::vector<int32_t> GroupRows(const catalogue::ChainGroups& groups, const crf::AttributeMap& map) {
  std::vector<int32_t> rows;
  for (int32_t a = 0; a < map.attributes(); ++a) rows.push_back(groups.Of(map.name(a)));
  return rows;
}

std::vector<int32_t> GroupLetterRows(const catalogue::ChainGroups& groups) {
  std::vector<int32_t> rows(data::kLetterPixels, groups.Of("pixels"));
  rows.insert(rows.end(), {groups.bias, groups.ends, groups.ends});
  return rows;
}

ChainPenalty::ChainPenalty(const std::vector<int32_t>& row_group, int32_t transitions, const std::vector<double>& l2,
                           const std::vector<double>& l1)
    : l2_(l2[static_cast<size_t>(transitions)]), l1_(l1[static_cast<size_t>(transitions)]) {
  const auto equal = [](const std::vector<double>& penalties) {
    return std::all_of(penalties.begin(), penalties.end(), [&](double one) { return one == penalties[0]; });
  };
  const size_t rows = row_group.size();
  if (!equal(l2)) {
    scale_.resize(static_cast<Eigen::Index>(rows));
    for (size_t a = 0; a < rows; ++a) {
      scale_[static_cast<Eigen::Index>(a)] = std::sqrt(l2_ / l2[static_cast<size_t>(row_group[a])]);
    }
  }
  if (equal(l1) && (uniform() || l1[0] == 0.0)) return;
  std::vector<double> penalties;
  for (size_t a = 0; a < rows; ++a) {
    const double scale = uniform() ? 1.0 : scale_[static_cast<Eigen::Index>(a)];
    penalties.push_back(scale * l1[static_cast<size_t>(row_group[a])]);
  }
  l1_ = crf::L1Penalty(std::move(penalties), l1_.transitions());
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
