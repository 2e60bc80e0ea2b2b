#include "lib/model/table_rows.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/status_macros.h"

namespace luthier::model {

absl::StatusOr<data::RawRows> ReadTable(const DataFile& data, const data::WantedColumns& wanted,
                                        std::vector<std::string>* notes) {
  constexpr size_t kNamed = 5;  // Names that a note lists.
  LUTHIER_ASSIGN_OR_RETURN(data::RawRows rows, data::ReadRowsFor(data.open, data.path, data.read, wanted));
  if (rows.beyond > 0) {
    notes->push_back(absl::StrCat(rows.beyond, " entries belong to features above ", wanted.cols,
                                  ", which the model has not seen; they are left out"));
  }
  if (!rows.ignored.empty()) {
    std::vector<std::string> named(
        rows.ignored.begin(), rows.ignored.begin() + static_cast<ptrdiff_t>(std::min(kNamed, rows.ignored.size())));
    notes->push_back(
        absl::StrCat("columns that the model has not: ", absl::StrJoin(named, ", "),
                     rows.ignored.size() > kNamed ? absl::StrCat(" and ", rows.ignored.size() - kNamed, " more") : "",
                     "; they are left out"));
  }
  return rows;
}

}  // namespace luthier::model
