#ifndef LUTHIER_SERVER_DIRECTORY_WATCH_H_
#define LUTHIER_SERVER_DIRECTORY_WATCH_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// Checks every `period` that the files that the server holds open are still in their place, so that an idle server
// notices, too; a server that writes checks before each answer (storage::HeldFiles). It has its own thread, and so goes
// on while the disk keeps the writer waiting.
class DirectoryWatch {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(500);

  // `look` runs on the watch's thread. At its first error `on_gone` is called, and nothing after that. Default:
  // storage::EndForStorage.
  explicit DirectoryWatch(std::function<absl::Status()> look, absl::Duration period = kPeriod,
                          std::function<void(const absl::Status&)> on_gone = nullptr);
  // Returns when no look is under way.
  ~DirectoryWatch();

 private:
  void Loop();

  const std::function<absl::Status()> look_;
  const absl::Duration period_;
  const std::function<void(const absl::Status&)> on_gone_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_DIRECTORY_WATCH_H_
