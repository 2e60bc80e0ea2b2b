#ifndef LUTHIER_SERVER_DIRECTORY_WATCH_H_
#define LUTHIER_SERVER_DIRECTORY_WATCH_H_

#include <functional>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// Looks every `period` whether what the server holds open is still in its place, so that an idle one notices too; one
// that writes looks before each answer (storage::HeldFiles). The thread is its own: it looks on while the disk keeps
// the writer waiting.
class DirectoryWatch {
 public:
  static constexpr absl::Duration kPeriod = absl::Milliseconds(500);

  // `look` runs on the watch's thread. At its first error `on_gone` is called, and nothing after it. Default:
  // storage::EndForStorage.
  explicit DirectoryWatch(std::function<absl::Status()> look, absl::Duration period = kPeriod,
                          std::function<void(const absl::Status&)> on_gone = nullptr);
  // Returns once no look is under way.
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
