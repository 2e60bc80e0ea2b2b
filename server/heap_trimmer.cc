#include "server/heap_trimmer.h"

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "lib/base/executor.h"

namespace luthier::server {

HeapTrimmer::HeapTrimmer(Options options) : options_(std::move(options)), spare_(Spare()) {}

HeapTrimmer::~HeapTrimmer() {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

void HeapTrimmer::Start() {
  thread_ = std::thread([this] { Loop(); });
}

void HeapTrimmer::Tick() {
  const int64_t spare = Spare();
  spare_ = std::min(spare_, spare);
  if (spare < spare_ + kWorthwhile) return;
  options_.give_back();
  spare_ = Spare();
}

void HeapTrimmer::Loop() {
  base::LowerThreadPriority();
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, absl::Seconds(5))) {
      }
      if (stopping_) return;
    }
    Tick();
  }
}

}  // namespace luthier::server
