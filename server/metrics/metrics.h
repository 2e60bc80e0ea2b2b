#ifndef LUTHIER_SERVER_METRICS_METRICS_H_
#define LUTHIER_SERVER_METRICS_METRICS_H_

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/base/mutex.h"
#include "server/coordinator/writer/observer.h"

// The metrics of a coordinator for Prometheus; docs/guide/operations.md has the table. No label holds the name of a
// study, a trial, a worker or a user, and there are never more than 500 series. Thread-safe.
namespace luthier::metrics {

struct MetricsOptions {
  std::vector<std::string> methods;  // "WorkerService/Suggest"; calls of any other are counted as "other".
  std::string data_dir;              // Directory of the database; empty: in memory.
  std::function<bool()> ready;       // Returns true if the server takes writes now. Null: it does not.
  std::function<std::map<std::string, int64_t>()> tokens = {};  // Counts tokens in force by role. Null: there are none.
  bool insecure = false;  // True: strangers can read what is sent, or need no token.
  std::function<std::map<std::string, double>()> certificates = {};  // Returns the days left of each. Null: none.
  std::function<int64_t()> tokens_ending = {};  // Counts tokens in force that end within 14 days. Null: there are none.
};

class Metrics final : public coordinator::Observer, public prometheus::Collectable {
 public:
  explicit Metrics(MetricsOptions options);

  // A call has ended. `method` as in MetricsOptions::methods, `code`: "OK", "NOT_FOUND", …
  void OnCall(absl::string_view method, absl::string_view code, absl::Duration took);

  // A call came without a valid token. `reason`: as base::GetReason.
  void OnAuthFailure(absl::string_view reason);

  void OnRefused(coordinator::OperationClass operation_class, const absl::Status& status) override;
  void OnCommit(absl::Duration took, size_t operations, const absl::Status& status) override;
  void OnEvent(const storage::Event& event) override;
  void OnSuggestions(absl::string_view algorithm, absl::Duration took) override;
  void OnCensus(const coordinator::Census& census) override;

  // Collects the metrics for a scrape, and looks at the process and at the disk for that.
  std::vector<prometheus::MetricFamily> Collect() const override;
  // Returns the metrics as text, in Prometheus' exposition format.
  std::string Text() const;

  // Returns the slots that studies used and wanted a second ago: of the pool, and of one project's studies in it unless
  // `project` is empty. Zeros for a pool that no study names.
  coordinator::PoolSlots Slots(absl::string_view pool, absl::string_view project = "") const;

 private:
  // Makes the series of all events that alerts are about, so that rates are known when the first event comes.
  void BeginSeries();
  void LookAtProcess() const;
  void NoteSlots(const std::map<std::string, coordinator::PoolSlots>& slots);

  const MetricsOptions options_;
  prometheus::Registry registry_;
  prometheus::Family<prometheus::Histogram>& rpc_seconds_;
  prometheus::Family<prometheus::Counter>& rpc_total_;
  prometheus::Family<prometheus::Gauge>& queue_depth_;
  prometheus::Family<prometheus::Gauge>& queue_bytes_;
  prometheus::Family<prometheus::Counter>& shed_total_;
  prometheus::Gauge& waiting_asks_;
  prometheus::Histogram& commit_seconds_;
  prometheus::Histogram& commit_batch_;
  prometheus::Counter& sync_errors_total_;
  prometheus::Family<prometheus::Gauge>& trials_;
  prometheus::Family<prometheus::Counter>& trial_events_total_;
  prometheus::Family<prometheus::Histogram>& suggest_compute_seconds_;
  prometheus::Family<prometheus::Counter>& gradients_rejected_total_;
  prometheus::Gauge& leases_;
  prometheus::Gauge& db_bytes_;
  prometheus::Gauge& wal_bytes_;
  prometheus::Gauge& disk_free_bytes_;
  prometheus::Gauge& open_fds_;
  prometheus::Gauge& rss_bytes_;
  prometheus::Gauge& ready_;
  prometheus::Family<prometheus::Counter>& auth_failures_total_;
  prometheus::Family<prometheus::Gauge>& tokens_;
  prometheus::Gauge& tokens_ending_;
  prometheus::Family<prometheus::Gauge>& certificate_days_;
  prometheus::Family<prometheus::Gauge>& wanted_slots_;
  prometheus::Family<prometheus::Gauge>& running_slots_;
  mutable base::Mutex mutex_;
  std::map<std::string, coordinator::PoolSlots> slots_ ABSL_GUARDED_BY(mutex_);  // By study::PoolKey.
  // By the names of pools, in all projects.
  std::map<std::string, std::pair<prometheus::Gauge*, prometheus::Gauge*>> pools_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, prometheus::Histogram*, std::less<>> rpc_seconds_of_;
};

}  // namespace luthier::metrics

#endif  // LUTHIER_SERVER_METRICS_METRICS_H_
