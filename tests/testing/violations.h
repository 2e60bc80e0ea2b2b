#ifndef LUTHIER_TESTS_TESTING_VIOLATIONS_H_
#define LUTHIER_TESTS_TESTING_VIOLATIONS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/base/error.h"

namespace luthier::testing {

// Returns the fields that an error finds fault with, in its order.
inline std::vector<std::string> Fields(const absl::Status& status) {
  std::vector<std::string> fields;
  if (const auto detail = base::GetErrorDetail(status)) {
    for (const base::FieldViolation& v : detail->violations) fields.push_back(v.field);
  }
  return fields;
}

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_VIOLATIONS_H_
