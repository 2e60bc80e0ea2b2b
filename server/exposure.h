#ifndef LUTHIER_SERVER_EXPOSURE_H_
#define LUTHIER_SERVER_EXPOSURE_H_

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// A risk of a listener: others can read what is sent, or all who reach it are admins.
struct Exposure {
  std::string event;  // Name of the line in the log.
  std::string listen;
  std::string warning;
};

// Logs exposures at once and every hour, so that each day's log has them. Thread-safe.
class ExposureReminder {
 public:
  static constexpr absl::Duration kPeriod = absl::Hours(1);

  // Does nothing without exposures. The clock must outlive it. `say` writes a line; null: to the log.
  ExposureReminder(std::vector<Exposure> exposures, const base::Clock* clock,
                   std::function<void(const Exposure&)> say = nullptr);
  ~ExposureReminder();
  ExposureReminder(const ExposureReminder&) = delete;
  ExposureReminder& operator=(const ExposureReminder&) = delete;

  // Logs all exposures if that is due. Its own thread does this every minute of real time.
  void Tick();

 private:
  void Loop();

  const std::vector<Exposure> exposures_;
  const base::Clock* const clock_;
  const std::function<void(const Exposure&)> say_;
  base::Mutex mutex_;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Duration due_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::thread thread_;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_EXPOSURE_H_
