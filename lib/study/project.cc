#include "lib/study/project.h"

#include "absl/strings/str_cat.h"

namespace luthier::study {

std::string IdWithin(absl::string_view project, absl::string_view study) {
  return project == kDefaultProject ? std::string(study) : absl::StrCat(project, "/", study);
}

absl::string_view ProjectOf(absl::string_view id) {
  const size_t slash = id.find('/');
  return slash == absl::string_view::npos ? absl::string_view(kDefaultProject) : id.substr(0, slash);
}

absl::string_view ShortId(absl::string_view id) {
  const size_t slash = id.find('/');
  return slash == absl::string_view::npos ? id : id.substr(slash + 1);
}

std::string PoolKey(absl::string_view project, absl::string_view pool) {
  return absl::StrCat(project, "/", pool);
}

absl::string_view ProjectOfPool(absl::string_view key) {
  return key.substr(0, key.find('/'));
}

}  // namespace luthier::study
