#ifndef LUTHIER_CLIENT_CLI_OPTIONS_H_
#define LUTHIER_CLIENT_CLI_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "lib/wire/channel.h"

namespace luthier::cli {

enum class OutputFormat { kTable, kWide, kJson, kYaml, kCsv, kName };

// The options of all verbs, as given. Each verb's help says which ones it has.
struct Options {
  std::string verb;  // The last word of it: "get".
  std::string path;  // All of its words: "study get".
  // All verbs.
  std::string server;         // Never empty.
  absl::Status server_trust;  // An error if nobody named `server`, and it must not be used (wire::FindDefaultServer).
  wire::ChannelSecurity security;
  std::string token_file;
  std::string project;  // The project of studies that are named without one.
  std::string db;
  OutputFormat format = OutputFormat::kTable;
  std::string log_level = "warning";
  bool verbose = false;

  std::string study;
  int64_t trial = 0;
  std::string file;
  std::string name;
  absl::Duration timeout = absl::InfiniteDuration();
  bool yes = false;

  // run
  int workers = 0;  // 0: as many as cores.
  int slots = 1;
  std::string gpus;        // GPUs of the one worker of `run`; empty: no option.
  std::string if_changed;  // continue, fresh or raise; empty: a warning.
  std::string data_root = ".";

  // study preview (with workers)
  double seconds_per_unit = 0.0;  // 0: unknown.

  // study get
  double epsilon = 0.0;
  std::optional<double> lipschitz;

  // study importance
  std::string metric;  // Empty: the study's.
  double quantile = 1.0;
  bool pairs = false;

  // plot (with metric, pairs and out)
  std::vector<std::string> parameters;
  int64_t last = 0;  // 0: all trials.
  std::vector<std::string> compared;

  // study predict
  uint64_t at_seq = 0;

  // trial list
  std::string filter, order_by;

  // trial best
  std::string pick;                            // Empty or "knee".
  std::vector<std::string> at_most, at_least;  // NAME=NUMBER

  // study update, study import, trial import
  std::optional<int64_t> max_trials, max_parallel, patience;
  std::string target_value;  // A number, or "none".
  std::string max_wall;      // A duration, or "none".
  std::optional<bool> until_answered;
  std::optional<double> weight;
  std::optional<std::string> display_name, description;
  std::vector<std::string> labels;
  bool maximize = false;
  std::vector<std::string> ignored;
  std::string source;

  // study export, study clone
  std::string export_format;
  bool with_trials = false;
  bool without_measurements = false;
  bool deleted = false;  // The list of deleted studies.
  std::string new_id;
  std::string new_name;

  // trial retry, trial delete
  std::vector<int64_t> numbers;
  bool all_failed = false;

  // run
  bool update = false;
  bool ui = false;

  // worker up, status, logs, down
  std::string engine;
  std::string pool;
  int fleet_workers = 1;
  int gpus_each = 0;  // GPUs of each worker; 0: no option.
  std::string image;
  absl::Duration exit_when_idle = absl::InfiniteDuration();
  absl::Duration drain_timeout = absl::Seconds(5);
  absl::Duration stop_grace = absl::Seconds(20);
  bool dry_run = false;
  int lines = 20;
  std::vector<std::string> worker_flags;

  bool watch = false;  // study list, study get, trial list, trial get, trial best

  // study watch, study list, trial list, trial get, trial add
  uint64_t after = 0;
  std::vector<std::string> states;
  bool wide = false;
  bool with_measurements = false;
  std::vector<std::string> settings;
  std::vector<std::string> notes;

  // ask, tell, report
  int count = 1;
  std::string worker;
  std::string token;
  std::vector<std::string> metrics;
  std::string gradient;
  std::vector<std::string> gradients_of;
  std::optional<double> slope;
  std::optional<int64_t> step;
  std::optional<double> elapsed_seconds;
  std::string training;
  bool pruned = false;
  bool paused = false;
  std::string failed;
  std::string message;
  bool infra = false;
  std::string checkpoint;

  // model train, predict, evaluate
  std::string out;
  std::string data;
  std::string data_format = "auto";
  std::string header = "auto";
  std::string label;
  std::string labels_file;

  absl::Duration health_timeout = absl::Seconds(5);  // health

  // admin
  int64_t entries = 100;
  std::string audit_kind;  // "": both.
  std::optional<int64_t> quota_studies, quota_running, quota_waiting, quota_bytes;
  std::optional<double> quota_cpu;
  std::vector<std::string> hosts;
  std::vector<std::string> roles;
  bool commands = false;
  std::string certificate;
  absl::Duration lifetime = absl::ZeroDuration();  // 0: the default.
  absl::Duration overlap = absl::ZeroDuration();

  std::string shell;  // completion

  // bilevel
  double validation = 0.25;
  int folds = 0;  // 0: one split.
  double third = 0.0;
  std::string group_column;
  std::string time_column;

  // simulate, objectives
  std::vector<std::string> algorithms;
  std::vector<std::string> functions;
  int64_t evaluations = 50;
  int64_t seeds = 1;
  uint64_t first_seed = 0;
  int64_t parallel = 1;
  double noise = 0.0;
  int64_t resource = 0;  // 0: every trial is trained to its end at once.
  int64_t resource_min = 1;
  std::string stopping;  // Empty: no rule.
  std::string objective;
};

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_OPTIONS_H_
