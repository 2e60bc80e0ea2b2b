#include "server/directory_watch.h"

#include <utility>

#include "server/storage/held_files.h"

namespace luthier::server {

DirectoryWatch::DirectoryWatch(std::function<absl::Status()> look, absl::Duration period,
                               std::function<void(const absl::Status&)> on_gone)
    : look_(std::move(look)),
      period_(period),
      on_gone_(on_gone ? std::move(on_gone) : storage::EndForStorage),
      thread_([this] { Loop(); }) {}

DirectoryWatch::~DirectoryWatch() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

void DirectoryWatch::Loop() {
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, period_)) {
      }
      if (stopping_) return;
    }
    const absl::Status status = look_();
    if (status.ok()) continue;
    on_gone_(status);
    return;
  }
}

}  // namespace luthier::server
