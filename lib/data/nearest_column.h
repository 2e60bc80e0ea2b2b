#ifndef LUTHIER_LIB_DATA_NEAREST_COLUMN_H_
#define LUTHIER_LIB_DATA_NEAREST_COLUMN_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "lib/base/error.h"

namespace luthier::data {

// Returns ` (name number 3 is close to it)` or "". It tells the place in `names`, from 1, instead of the name, which
// belongs to the data: messages travel further than data do.
inline std::string NearestColumn(absl::string_view name, const std::vector<std::string>& names) {
  const std::string match = base::ClosestMatch(name, names);
  if (match.empty()) return "";
  const auto place = std::find(names.begin(), names.end(), match) - names.begin();
  return absl::StrCat(" (name number ", place + 1, " is close to it)");
}

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_NEAREST_COLUMN_H_
