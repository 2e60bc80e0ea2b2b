#ifndef LUTHIER_WORKER_DISK_SPOOL_H_
#define LUTHIER_WORKER_DISK_SPOOL_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/run/coordinator_api.h"

namespace luthier::worker {

// Returns the name of the file that keeps the result of the lease with this token, within a spool's directory.
std::string SpoolFileName(const std::string& token);

// Final results on their way to the coordinator, one file each, so that a worker that dies after hours of training
// loses nothing. Written before the first attempt to send and removed after the acknowledgement; a restarted worker
// sends the leftovers first, with the very same content (the service recognizes a repetition by it).
//
// Workers may share a directory: sending a result twice is harmless. Files of coordinators with different data must not
// be mixed. Thread-safe: each call works on files of its own.
class Spool {
 public:
  // Makes the directory. UNAVAILABLE if it cannot be used.
  static absl::StatusOr<Spool> Open(std::string directory);

  // OK if a result could be written now. A directory that was removed or moved while the worker ran is made again, and
  // the log says so. UNAVAILABLE if that can't be done, or it can't be written to.
  absl::Status Ready() const;
  // Durable when it returns OK. Replaces an earlier result with the same token. Errors as Ready.
  absl::Status Write(const FinalResult& result) const;
  // Writes the result unless it is there: another process may have moved the directory away since.
  absl::Status Keep(const FinalResult& result) const;
  void Remove(const FinalResult& result) const;
  // Keeps a result that the service will never accept for people, under another name.
  void SetAside(const FinalResult& result) const;
  // Returns all results, in order of file name. Files that are not results are set aside with a log line.
  std::vector<FinalResult> Leftovers() const;
  const std::string& directory() const { return directory_; }

 private:
  explicit Spool(std::string directory) : directory_(std::move(directory)) {}
  std::string directory_;
};

// Returns the file's text. Exact: every double, non-finite ones included, reads back with the same bits.
std::string SerializeResult(const FinalResult& result);
absl::StatusOr<FinalResult> ParseResult(const std::string& text);

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_DISK_SPOOL_H_
