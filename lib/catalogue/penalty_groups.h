#ifndef LUTHIER_LIB_CATALOGUE_PENALTY_GROUPS_H_
#define LUTHIER_LIB_CATALOGUE_PENALTY_GROUPS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/settings.h"
#include "lib/study/search_space.h"

// Groups of weights with penalties of their own. Option `l2_groups` of `logistic`, `hsvm` and `crf` names the groups,
// and each group makes a setting `l2.NAME`, tuned or fixed as `l2` is. Weights that are in no group have the penalty
// `l2`. With an objective that has `l1` as well, each group makes `l1.NAME`, too, 0 by default as `l1` is.
//
//   l2_groups: "shape: mean_* worst_*; flags: 11-20, 25; age"
//
// Groups are separated by semicolons or line ends, the members of one by blanks or commas:
//
//   mean_radius         what has this name          3, 3-7, 8-   columns by their number, from 1, both ends included
//   mean_*, *|*, *      what is like it             "a b", "3"   in double quotes: no number, no star, no separator;
//                                                                "" is a quote; "a b"* is what begins with `a b`
//
// `age` without a colon is `age: age`.
namespace luthier::catalogue {

inline constexpr char kGroupsOption[] = "l2_groups";

struct GroupMember {
  std::string text;  // As written.
  std::vector<std::string>
      pieces;         // Parts of the name between its stars; one if it has no star. Empty: columns by number.
  int64_t first = 0;  // By number, from 1.
  int64_t last = 0;   // INT64_MAX: to the end.

  bool pattern() const { return pieces.size() > 1; }
  // Returns true if the member names by text and `name` matches it.
  bool Fits(absl::string_view name) const;
};

struct PenaltyGroup {
  std::string name;  // Letters, digits, '_'.
  std::vector<GroupMember> members;
};

// Returns no groups for an empty text. INVALID_ARGUMENT "l2_groups: ..." for names that are invalid or used twice,
// groups without members, quotes that do not end, column 0, ranges that run backwards, more than 100 groups.
absl::StatusOr<std::vector<PenaltyGroup>> ParsePenaltyGroups(absl::string_view text);
// Parses option `l2_groups` of an objective; a value that is not text counts as empty. The other options need not be
// valid.
absl::StatusOr<std::vector<PenaltyGroup>> GroupsOf(const study::Parameters& options);

// Returns the number of entries of the list `name`, tuned or fixed; std::nullopt if it is one number.
std::optional<int64_t> LengthOf(const std::string& name, const study::Parameters& options,
                                const study::SearchSpace& space);
// Returns option l2_per: "column" (the default), "class" or "weight".
std::string L2Per(const study::Parameters& options);

// Returns "l2.NAME", or "l1.NAME" for `penalty` "l1".
std::string PenaltyName(const PenaltyGroup& group, absl::string_view penalty = "l2");
// Returns `info` with a parameter like `l2` for each group, behind `l2`, and the same for `l1`.
ObjectiveInfo WithPenaltyGroups(const ObjectiveInfo& info, const std::vector<PenaltyGroup>& groups);
// Returns the penalty of weights in no group, then that of each group.
std::vector<double> PenaltiesOf(const std::vector<PenaltyGroup>& groups, const Settings& settings,
                                const std::string& penalty = "l2");

// The columns of a data set.
struct Columns {
  std::string where;  // The data set's name, for messages.
  int64_t count = 0;
  const std::vector<std::string>& names;  // `count`, or empty: they have no names.
};

// Returns the group of each column, 0 for none and k + 1 for groups[k]; empty without groups. Returns INVALID_ARGUMENT
// for a name if the columns have no names, or none has this one; for a number beyond the last column; for a column of
// two groups; and if every column is in a group, unless `rest`: l2 would have no effect.
absl::StatusOr<std::vector<int32_t>> GroupColumns(const std::vector<PenaltyGroup>& groups, const Columns& columns,
                                                  bool rest);
// Does the same for named things, each called a `what` of `where` in messages; numbers name none of them.
absl::StatusOr<std::vector<int32_t>> GroupNames(const std::vector<PenaltyGroup>& groups,
                                                const std::vector<std::string>& names, const std::string& where,
                                                const std::string& what);

}  // namespace luthier::catalogue

#endif  // LUTHIER_LIB_CATALOGUE_PENALTY_GROUPS_H_
