#include "lib/objectives/column_groups.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace luthier::objectives {

using Eigen::Index;

absl::StatusOr<ColumnGroups> GroupsFor(const catalogue::Settings& settings, const catalogue::Columns& all) {
  ColumnGroups out;
  const Index cols = all.count;
  const std::string& text = settings.Text("groups");
  if (text.empty()) {
    const auto size = static_cast<Index>(settings.Int("group_size"));
    for (Index begin = 0; begin < cols; begin += size) {
      std::vector<Index>& group = out.columns.emplace_back();
      for (Index j = begin; j < std::min(cols, begin + size); ++j) group.push_back(j);
      out.names.push_back(absl::StrCat(begin + 1, "-", std::min(cols, begin + size)));
    }
    return out;
  }
  const auto renamed = [](const absl::Status& status) {
    absl::string_view message = status.message();
    absl::ConsumePrefix(&message, absl::StrCat(catalogue::kGroupsOption, ": "));
    return absl::Status(status.code(), absl::StrCat("groups: ", message));
  };
  const absl::StatusOr<std::vector<catalogue::PenaltyGroup>> groups = catalogue::ParsePenaltyGroups(text);
  if (!groups.ok()) return renamed(groups.status());
  const absl::StatusOr<std::vector<int32_t>> columns = catalogue::GroupColumns(*groups, all, /*rest=*/true);
  if (!columns.ok()) return renamed(columns.status());
  out.columns.resize(groups->size());
  for (const catalogue::PenaltyGroup& group : *groups) out.names.push_back(group.name);
  std::vector<Index> rest;
  for (Index j = 0; j < cols; ++j) {
    const int32_t group = (*columns)[static_cast<size_t>(j)];
    (group == 0 ? rest : out.columns[static_cast<size_t>(group) - 1]).push_back(j);
  }
  if (!rest.empty()) {
    out.columns.push_back(std::move(rest));
    out.names.push_back("rest");
  }
  return out;
}

}  // namespace luthier::objectives
