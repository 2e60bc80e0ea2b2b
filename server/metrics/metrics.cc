#include "server/metrics/metrics.h"

#include <prometheus/text_serializer.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "lib/base/error.h"
#include "lib/base/version.h"
#include "lib/study/project.h"

namespace luthier::metrics {
namespace {

using coordinator::OperationClass;
using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using Buckets = prometheus::Histogram::BucketBoundaries;
using storage::EventType;

constexpr char kOther[] = "other";
constexpr size_t kMostPools = 50;  // Beyond, pools share the series "other".

// The pool of a study::PoolKey, without its project.
absl::string_view NameOfPool(absl::string_view key) {
  return key.substr(key.find('/') + 1);
}

// There are few buckets, because each costs a series for each method or algorithm.
const Buckets& CallBuckets() {
  static const auto* const buckets = new Buckets{.005, .05, .5, 5};
  return *buckets;
}
const Buckets& SuggestBuckets() {
  static const auto* const buckets = new Buckets{.01, .1, 1};
  return *buckets;
}
const Buckets& CommitBuckets() {
  static const auto* const buckets = new Buckets{.0001, .0003, .001, .003, .01, .03, .1, .3, 1};
  return *buckets;
}
const Buckets& BatchBuckets() {
  static const auto* const buckets = new Buckets{1, 4, 16, 64, 256, 1024};
  return *buckets;
}

// Codes that the service itself returns have labels of their own. gRPC's own codes are rare, and share one.
std::string CodeLabel(absl::string_view code) {
  for (const absl::string_view known : {"OK", "DEADLINE_EXCEEDED", "FAILED_PRECONDITION", "INVALID_ARGUMENT",
                                        "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}) {
    if (code == known) return std::string(code);
  }
  return kOther;
}

std::string ClassLabel(OperationClass operation_class) {
  return operation_class == OperationClass::kResults ? "results" : "requests";
}

// Returns the label of what happened to a trial; empty: the event is about something else.
absl::string_view TrialEventLabel(EventType type) {
  switch (type) {
    case EventType::kTrialSuggested:
      return "suggested";
    case EventType::kTrialEnqueued:
      return "enqueued";
    case EventType::kTrialGranted:
      return "granted";
    case EventType::kTrialResumed:
      return "resumed";
    case EventType::kTrialReleased:
      return "released";
    case EventType::kTrialRetried:
      return "retried";
    case EventType::kTrialCompleted:
      return "completed";
    case EventType::kTrialPruned:
      return "pruned";
    case EventType::kTrialFailed:
      return "failed";
    case EventType::kTrialCancelled:
      return "cancelled";
    case EventType::kReportRefused:
      return "report_refused";
    case EventType::kTrialPaused:
      return "paused";
    case EventType::kTrialPromoted:
      return "promoted";
    case EventType::kTrialRestarted:
      return "restarted";
    case EventType::kTrialDeleted:
      return "deleted";
    case EventType::kTrialReplaced:
      return "replaced";
    case EventType::kTrialImported:
      return "imported";
    case EventType::kStudyCreated:
    case EventType::kStudyPaused:
    case EventType::kStudyResumed:
    case EventType::kStudyStopped:
    case EventType::kStudyCancelled:
    case EventType::kStudyCompleted:
    case EventType::kStudyDeleted:
    case EventType::kStudyUndeleted:
    case EventType::kStudyUpdated:
    case EventType::kTrialNoted:
    case EventType::kParametersDeclared:
    case EventType::kTrialStopRequested:
    case EventType::kNoiseFound:
    case EventType::kGradientDropped:
    case EventType::kGradientSetAside:
    case EventType::kMeasurement:
      return "";
  }
  return "";
}

constexpr std::array kAuthReasons = {base::reason::kNoToken, base::reason::kBadToken, base::reason::kExpired,
                                     base::reason::kRevoked};

// The reasons for which operations are turned away, as labels.
constexpr std::array kShedReasons = {"memory", "limit_exceeded", "queue_full", "draining", "storage_low", "deadline"};

std::string AuthLabel(absl::string_view reason) {
  const bool known = std::find(kAuthReasons.begin(), kAuthReasons.end(), reason) != kAuthReasons.end();
  return known ? absl::AsciiStrToLower(reason) : kOther;
}

double FileBytes(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  return error ? 0 : static_cast<double>(size);
}

int64_t OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator begin("/proc/self/fd", error);
  return error ? 0 : static_cast<int64_t>(std::distance(begin, std::filesystem::directory_iterator()));
}

double ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  double pages = 0;
  double resident = 0;
  return statm >> pages >> resident ? resident * static_cast<double>(sysconf(_SC_PAGESIZE)) : 0;
}

prometheus::Family<prometheus::Gauge>& Gauges(prometheus::Registry& registry, const char* name, const char* help) {
  return BuildGauge().Name(name).Help(help).Register(registry);
}

prometheus::Gauge& OneGauge(prometheus::Registry& registry, const char* name, const char* help) {
  return Gauges(registry, name, help).Add({});
}

}  // namespace

Metrics::Metrics(MetricsOptions options)
    : options_(std::move(options)),
      rpc_seconds_(BuildHistogram()
                       .Name("luthier_rpc_seconds")
                       .Help("Time from the arrival of a call to its answer; long polls wait on purpose")
                       .Register(registry_)),
      rpc_total_(BuildCounter().Name("luthier_rpc_total").Help("Calls answered").Register(registry_)),
      queue_depth_(Gauges(registry_, "luthier_queue_depth", "Operations waiting for the writer")),
      queue_bytes_(Gauges(registry_, "luthier_queue_bytes", "Content of the operations waiting for the writer")),
      shed_total_(BuildCounter().Name("luthier_shed_total").Help("Operations turned away").Register(registry_)),
      waiting_asks_(OneGauge(registry_, "luthier_waiting_asks", "Asks of workers that wait for a trial")),
      commit_seconds_(BuildHistogram()
                          .Name("luthier_commit_seconds")
                          .Help("Time to write and sync a batch")
                          .Register(registry_)
                          .Add({}, CommitBuckets())),
      commit_batch_(BuildHistogram()
                        .Name("luthier_commit_batch")
                        .Help("Operations that share one sync")
                        .Register(registry_)
                        .Add({}, BatchBuckets())),
      sync_errors_total_(BuildCounter()
                             .Name("luthier_sync_errors_total")
                             .Help("Batches that could not be written")
                             .Register(registry_)
                             .Add({})),
      trials_(BuildGauge().Name("luthier_trials").Help("Trials of all studies").Register(registry_)),
      trial_events_total_(
          BuildCounter().Name("luthier_trial_events_total").Help("What happened to trials").Register(registry_)),
      suggest_compute_seconds_(BuildHistogram()
                                   .Name("luthier_search_compute_seconds")
                                   .Help("Time to compute the suggestions of one request")
                                   .Register(registry_)),
      gradients_rejected_total_(BuildCounter()
                                    .Name("luthier_gradients_rejected_total")
                                    .Help("Gradients that are not used; their losses are")
                                    .Register(registry_)),
      leases_(OneGauge(registry_, "luthier_leases", "Leases that workers hold")),
      db_bytes_(OneGauge(registry_, "luthier_db_bytes", "Size of the database")),
      wal_bytes_(OneGauge(registry_, "luthier_wal_bytes", "Size of its write-ahead log")),
      disk_free_bytes_(OneGauge(registry_, "luthier_disk_free_bytes", "Free space where the database lives")),
      open_fds_(OneGauge(registry_, "luthier_open_fds", "Open file descriptors")),
      rss_bytes_(OneGauge(registry_, "luthier_rss_bytes", "Resident memory of the process")),
      ready_(OneGauge(registry_, "luthier_ready", "1: takes writes")),
      auth_failures_total_(BuildCounter()
                               .Name("luthier_auth_failures_total")
                               .Help("Calls refused for want of a valid token")
                               .Register(registry_)),
      tokens_(
          BuildGauge().Name("luthier_tokens").Help("Tokens in force; one counts for each role").Register(registry_)),
      tokens_ending_(OneGauge(registry_, "luthier_tokens_ending",
                              "Tokens in force that end within 14 days, but for those that were made for less")),
      certificate_days_(
          Gauges(registry_, "luthier_certificate_days_left", "Days until the certificate ends; below 0: it has ended")),
      wanted_slots_(
          Gauges(registry_, "luthier_wanted_slots", "Further trials that workers of the pool could begin at once")),
      running_slots_(Gauges(registry_, "luthier_running_slots", "Trials that workers of the pool run")) {
  OneGauge(registry_, "luthier_insecure", "1: strangers can read what is sent, or need no token")
      .Set(options_.insecure ? 1 : 0);
  BuildGauge()
      .Name("luthier_build_info")
      .Help("1; the version is in the label")
      .Register(registry_)
      .Add({{"version", base::kVersion}})
      .Set(1);
  for (const std::string& method : options_.methods)
    rpc_seconds_of_[method] = &rpc_seconds_.Add({{"method", method}}, CallBuckets());
  rpc_seconds_of_[kOther] = &rpc_seconds_.Add({{"method", kOther}}, CallBuckets());
  BeginSeries();
}

void Metrics::BeginSeries() {
  gradients_rejected_total_.Add({{"reason", "invalid"}});
  gradients_rejected_total_.Add({{"reason", "contradicts_losses"}});
  for (const char* reason : kAuthReasons) auth_failures_total_.Add({{"reason", AuthLabel(reason)}});
  for (const OperationClass operation_class : {OperationClass::kResults, OperationClass::kRequests}) {
    for (const char* reason : kShedReasons) {
      shed_total_.Add({{"class", ClassLabel(operation_class)}, {"reason", reason}});
    }
  }
  for (int type = 1; type <= static_cast<int>(EventType::kStudyUndeleted); ++type) {
    const absl::string_view label = TrialEventLabel(static_cast<EventType>(type));
    if (!label.empty()) trial_events_total_.Add({{"event", std::string(label)}});
  }
}

void Metrics::OnCall(absl::string_view method, absl::string_view code, absl::Duration took) {
  auto found = rpc_seconds_of_.find(method);
  if (found == rpc_seconds_of_.end()) found = rpc_seconds_of_.find(kOther);
  found->second->Observe(absl::ToDoubleSeconds(took));
  rpc_total_.Add({{"method", found->first}, {"code", CodeLabel(code)}}).Increment();
}

void Metrics::OnAuthFailure(absl::string_view reason) {
  auth_failures_total_.Add({{"reason", AuthLabel(reason)}}).Increment();
}

void Metrics::OnRefused(OperationClass operation_class, const absl::Status& status) {
  // The reasons are those of lib/base/error.h: a full disk, full queues, the end of the server. Deadlines have none.
  const std::string reason = base::GetReason(status);
  shed_total_
      .Add({{"class", ClassLabel(operation_class)},
            {"reason", reason.empty() ? "deadline" : absl::AsciiStrToLower(reason)}})
      .Increment();
}

void Metrics::OnCommit(absl::Duration took, size_t operations, const absl::Status& status) {
  if (!status.ok()) {
    sync_errors_total_.Increment();
    return;
  }
  commit_seconds_.Observe(absl::ToDoubleSeconds(took));
  commit_batch_.Observe(static_cast<double>(operations));
}

void Metrics::OnEvent(const storage::Event& event) {
  if (event.type == EventType::kGradientDropped)
    gradients_rejected_total_.Add({{"reason", "invalid"}}).Increment();
  else if (event.type == EventType::kGradientSetAside)
    gradients_rejected_total_.Add({{"reason", "contradicts_losses"}}).Increment();
  const absl::string_view label = TrialEventLabel(event.type);
  if (!label.empty()) trial_events_total_.Add({{"event", std::string(label)}}).Increment();
}

void Metrics::OnSuggestions(absl::string_view algorithm, absl::Duration took) {
  suggest_compute_seconds_.Add({{"algorithm", std::string(algorithm)}}, SuggestBuckets())
      .Observe(absl::ToDoubleSeconds(took));
}

void Metrics::OnCensus(const coordinator::Census& census) {
  for (size_t i = 0; i < census.trials.size(); ++i) {
    const std::string state = absl::AsciiStrToLower(study::TrialStateName(static_cast<study::TrialState>(i)));
    trials_.Add({{"state", state}}).Set(static_cast<double>(census.trials[i]));
  }
  leases_.Set(static_cast<double>(census.leases));
  waiting_asks_.Set(census.waiting_asks);
  NoteSlots(census.slots);
  for (size_t i = 0; i < census.queues.size(); ++i) {
    const prometheus::Labels labels{{"class", ClassLabel(static_cast<OperationClass>(i))}};
    queue_depth_.Add(labels).Set(static_cast<double>(census.queues[i].ops));
    queue_bytes_.Add(labels).Set(static_cast<double>(census.queues[i].bytes));
  }
}

void Metrics::NoteSlots(const std::map<std::string, coordinator::PoolSlots>& slots) {
  std::map<std::string, coordinator::PoolSlots> pools;  // By name.
  for (const auto& [key, of] : slots) {
    const std::string name(NameOfPool(key));
    const bool room = pools.size() < kMostPools || pools.count(name) > 0;
    coordinator::PoolSlots& all = pools[room ? name : kOther];
    all.running += of.running;
    all.wanted += of.wanted;
  }
  base::MutexLock lock(&mutex_);
  slots_ = slots;
  for (auto it = pools_.begin(); it != pools_.end();) {
    if (pools.count(it->first) > 0) {
      ++it;
      continue;
    }
    wanted_slots_.Remove(it->second.first);
    running_slots_.Remove(it->second.second);
    it = pools_.erase(it);
  }
  for (const auto& [name, of] : pools) {
    auto& [wanted, running] = pools_[name];
    if (wanted == nullptr) {
      wanted = &wanted_slots_.Add({{"pool", name}});
      running = &running_slots_.Add({{"pool", name}});
    }
    wanted->Set(static_cast<double>(of.wanted));
    running->Set(static_cast<double>(of.running));
  }
}

coordinator::PoolSlots Metrics::Slots(absl::string_view pool, absl::string_view project) const {
  coordinator::PoolSlots sum;
  base::MutexLock lock(&mutex_);
  for (const auto& [key, of] : slots_) {
    if (NameOfPool(key) != pool || (!project.empty() && study::ProjectOfPool(key) != project)) continue;
    sum.running += of.running;
    sum.wanted += of.wanted;
  }
  return sum;
}

void Metrics::LookAtProcess() const {
  open_fds_.Set(static_cast<double>(OpenFiles()));
  rss_bytes_.Set(ResidentBytes());
  ready_.Set(options_.ready && options_.ready() ? 1 : 0);
  if (options_.tokens) {
    for (const auto& [role, count] : options_.tokens()) tokens_.Add({{"role", role}}).Set(static_cast<double>(count));
  }
  if (options_.tokens_ending) tokens_ending_.Set(static_cast<double>(options_.tokens_ending()));
  if (options_.certificates) {
    for (const auto& [name, days] : options_.certificates()) certificate_days_.Add({{"certificate", name}}).Set(days);
  }
  if (options_.data_dir.empty()) return;
  db_bytes_.Set(FileBytes(options_.data_dir + "/luthier.db"));
  wal_bytes_.Set(FileBytes(options_.data_dir + "/luthier.db-wal"));
  struct statvfs fs;
  if (statvfs(options_.data_dir.c_str(), &fs) == 0)
    disk_free_bytes_.Set(static_cast<double>(fs.f_bavail) * static_cast<double>(fs.f_frsize));
}

std::vector<prometheus::MetricFamily> Metrics::Collect() const {
  LookAtProcess();
  return registry_.Collect();
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(Collect());
}

}  // namespace luthier::metrics
