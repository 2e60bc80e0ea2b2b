#ifndef LUTHIER_WORKER_DISK_DURABLE_FILE_H_
#define LUTHIER_WORKER_DISK_DURABLE_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::worker {

// Makes the directory and its parents, for this user only.
absl::Status MakeDirectory(const std::string& path);

// Replaces directory/name by `content`: it is written beside it, synced, renamed, and the directory synced. After a
// crash the file is the old one or the new one, whole. UNAVAILABLE if the disk fails; then nothing has changed.
absl::Status WriteDurably(const std::string& directory, const std::string& name, absl::string_view content);

// NOT_FOUND if there is none; RESOURCE_EXHAUSTED beyond `limit` bytes; UNAVAILABLE if it cannot be read.
absl::StatusOr<std::string> ReadWhole(const std::string& path, size_t limit);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_DISK_DURABLE_FILE_H_
