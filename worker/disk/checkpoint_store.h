#ifndef LUTHIER_WORKER_DISK_CHECKPOINT_STORE_H_
#define LUTHIER_WORKER_DISK_CHECKPOINT_STORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::worker {

// Snapshots of builtin objectives, one file an attempt, from which the next attempt of a trial goes on. The service
// only carries the reference, "file:<study>.<trial>.a<attempt>"; the next attempt finds the file if it runs on the same
// machine or the directory is shared, and starts afresh if not.
//
// Each attempt writes its own file: a holder that lost its lease cannot overwrite its successor's. Files begin with a
// magic word, length and checksum and are read as hostile input. Thread-safe for different attempts.
class CheckpointStore {
 public:
  // Makes the directory.
  static absl::StatusOr<CheckpointStore> Open(std::string directory);

  // Replaces the attempt's snapshot; returns its reference. UNAVAILABLE if the disk fails.
  absl::StatusOr<std::string> Save(const std::string& study, int64_t trial, int32_t attempt,
                                   absl::string_view snapshot) const;
  // NOT_FOUND: the reference has another form, or there is no such file here. DATA_LOSS: damaged.
  absl::StatusOr<std::string> Load(const std::string& reference) const;
  // No effect when there is none.
  void Remove(const std::string& reference) const;
  // Removes the snapshots of all trials of a study.
  void RemoveStudy(const std::string& study) const;

  static std::string Reference(const std::string& study, int64_t trial, int32_t attempt);
  // Number in place of an attempt: the model of a complete trial, from which other trials of the study can start. It is
  // removed with the study.
  static constexpr int32_t kModel = 0;

 private:
  explicit CheckpointStore(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_DISK_CHECKPOINT_STORE_H_
