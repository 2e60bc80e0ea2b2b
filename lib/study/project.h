#ifndef LUTHIER_LIB_STUDY_PROJECT_H_
#define LUTHIER_LIB_STUDY_PROJECT_H_

#include <string>

#include "absl/strings/string_view.h"

// A project is a part of a study's id: the study "s" of the project "default" has the id "s", that of the project "p"
// has "p/s". So databases from before there were projects hold studies of "default".
namespace luthier::study {

inline constexpr char kDefaultProject[] = "default";
inline constexpr char kDefaultPool[] = "default";

// The id of `study` within `project`.
std::string IdWithin(absl::string_view project, absl::string_view study);
// The project of a study's id.
absl::string_view ProjectOf(absl::string_view id);
// The id without its project.
absl::string_view ShortId(absl::string_view id);
// Workers of a pool serve studies of the same project and pool. Neither name has a '/'.
std::string PoolKey(absl::string_view project, absl::string_view pool);
// The project of a PoolKey.
absl::string_view ProjectOfPool(absl::string_view key);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_PROJECT_H_
