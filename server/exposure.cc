#include "server/exposure.h"

#include <utility>

#include "lib/base/log.h"

namespace luthier::server {
namespace {

void LogExposure(const Exposure& exposure) {
  base::LogWarning(exposure.event, {{"listen", exposure.listen}, {"warning", exposure.warning}});
}

}  // namespace

ExposureReminder::ExposureReminder(std::vector<Exposure> exposures, const base::Clock* clock,
                                   std::function<void(const Exposure&)> say)
    : exposures_(std::move(exposures)), clock_(clock), say_(say ? std::move(say) : LogExposure) {
  if (exposures_.empty()) return;
  Tick();
  thread_ = std::thread([this] { Loop(); });
}

ExposureReminder::~ExposureReminder() {
  if (!thread_.joinable()) return;
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

void ExposureReminder::Tick() {
  {
    base::MutexLock lock(&mutex_);
    const absl::Duration now = clock_->Monotonic();
    if (now < due_) return;
    due_ = now + kPeriod;
  }
  for (const Exposure& exposure : exposures_) say_(exposure);
}

void ExposureReminder::Loop() {
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, absl::Minutes(1))) {
      }
      if (stopping_) return;
    }
    Tick();
  }
}

}  // namespace luthier::server
