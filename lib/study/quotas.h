#ifndef LUTHIER_LIB_STUDY_QUOTAS_H_
#define LUTHIER_LIB_STUDY_QUOTAS_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/string_view.h"
#include "lib/base/mutex.h"

namespace luthier::study {

// One project's limits on what all projects share. 0: no limit of its own.
struct Quotas {
  int64_t studies = 0;         // Not counting deleted ones.
  int64_t running_trials = 0;  // Unexpired leases; asks beyond it wait.
  int64_t waiting_asks = 0;    // More are refused, with a delay after which to ask again.
  double suggest_cpu = 0.0;    // Processors that compute its suggestions, on average over a minute: 0.5 is half of one.
  int64_t bytes = 0;           // About, of results and curves; more brings no new studies and trials.
  friend bool operator==(const Quotas&, const Quotas&) = default;
};

// The quotas of all projects; the only part of them that changes while the coordinator runs. Thread-safe.
class QuotaTable {
 public:
  void Set(const std::string& project, const Quotas& quotas) {
    base::MutexLock lock(&mutex_);
    quotas_[project] = quotas;
    ++version_;
  }
  Quotas Of(absl::string_view project) const {
    base::MutexLock lock(&mutex_);
    const auto found = quotas_.find(std::string(project));
    return found == quotas_.end() ? Quotas() : found->second;
  }
  // Grows with every change.
  uint64_t version() const { return version_.load(); }

 private:
  mutable base::Mutex mutex_;
  std::map<std::string, Quotas> quotas_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> version_{0};
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_QUOTAS_H_
