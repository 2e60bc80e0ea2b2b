#ifndef LUTHIER_LIB_OBJECTIVES_COLUMN_GROUPS_H_
#define LUTHIER_LIB_OBJECTIVES_COLUMN_GROUPS_H_

#include <Eigen/Core>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"

namespace luthier::objectives {

// Disjoint groups of columns, in which each column is.
struct ColumnGroups {
  std::vector<std::vector<Eigen::Index>> columns;
  std::vector<std::string> names;
};

// Returns the groups that options `groups` and `group_size` say. INVALID_ARGUMENT "groups: ..." for groups that do not
// fit the columns.
absl::StatusOr<ColumnGroups> GroupsFor(const catalogue::Settings& settings, const catalogue::Columns& columns);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_COLUMN_GROUPS_H_
