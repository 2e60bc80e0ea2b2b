#ifndef LUTHIER_WORKER_PROCESS_PRIVATE_DIRECTORY_H_
#define LUTHIER_WORKER_PROCESS_PRIVATE_DIRECTORY_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "worker/process/account.h"

namespace luthier::worker {

// A directory that only this user can read, removed with its contents at the end.
class PrivateDirectory {
 public:
  // Makes it in `root`; empty: in $TMPDIR, else /tmp. UNAVAILABLE if that can't be done.
  static absl::StatusOr<PrivateDirectory> Create(const std::string& root);
  PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory();

  const std::string& path() const { return path_; }
  // Gives the directory and the files in it to the account, the directory last: until then nobody else can put anything
  // there. UNAVAILABLE if that can't be done.
  absl::Status HandTo(const Account& account) const;

 private:
  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_PROCESS_PRIVATE_DIRECTORY_H_
