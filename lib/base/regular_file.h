#ifndef LUTHIER_LIB_BASE_REGULAR_FILE_H_
#define LUTHIER_LIB_BASE_REGULAR_FILE_H_

#include <sys/types.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

namespace luthier::base {

struct FileText {
  std::string text;
  mode_t mode = 0;
};

// Reads a whole file of at most `most` bytes, for programs that must not be kept waiting by the file at `path`: a pipe,
// a device, a folder and a file without end are refused. Messages begin with the path.
// Errors: NOT_FOUND, FAILED_PRECONDITION (it can't be read), INVALID_ARGUMENT (it is not such a file).
absl::StatusOr<FileText> ReadRegularFile(const std::string& path, size_t most);

}  // namespace luthier::base

#endif  // LUTHIER_LIB_BASE_REGULAR_FILE_H_
