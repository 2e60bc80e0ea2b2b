// How long a coordinator takes to serve after a start on a large database.
//
//   start_scale [--studies N] [--open N] [--final N] [--finished SHARE] [--data-dir DIR] [--cold]
//
// Fills a database, or takes the one that is in DIR, and starts on it: opens it, reads what must be known before the
// first request, then the rest. `--cold` first drops the file from the page cache.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/command_line/command_line.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/writer/core.h"
#include "server/storage/data_directory.h"
#include "server/storage/sqlite_storage.h"

namespace luthier::coordinator {
namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

storage::StudyRecord MakeStudy(int64_t key, bool finished) {
  storage::StudyRecord record;
  record.key = key;
  record.id = absl::StrCat("study-", key);
  for (const char* name : {"a", "b", "c", "d"}) {
    study::ParameterSpec x;
    x.name = name;
    x.domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
    std::vector<study::ParameterSpec> all = record.spec.space.parameters();
    all.push_back(x);
    record.spec.space = study::SearchSpace::Create(all).value();
  }
  record.spec.metric = {"loss", study::Goal::kMinimize};
  record.spec.algorithm = study::RandomOptions{};
  study::CommandObjective command;
  command.argv = {"train"};
  record.spec.objective = command;
  record.spec.budget.max_trials = 1'000'000;
  if (finished) record.state = study::StudyState::kStopped;
  record.create_seq = record.update_seq = static_cast<uint64_t>(key);
  return record;
}

storage::TrialRecord MakeTrial(int64_t number, bool open, uint64_t fence) {
  storage::TrialRecord record;
  study::Trial& trial = record.trial;
  trial.number = number;
  trial.state = open ? study::TrialState::kRunning : study::TrialState::kComplete;
  for (const char* name : {"a", "b", "c", "d"}) trial.parameters[name] = 0.5;
  trial.provenance.designer = "random";
  trial.provenance.ask_index = static_cast<uint64_t>(number - 1);
  trial.provenance.origin = "random";
  study::Attempt& attempt = trial.attempts.emplace_back();
  attempt.number = 1;
  attempt.worker = "worker-17";
  storage::GrantRecord& grant = record.grants.emplace_back();
  grant.token = MakeToken(fence, fence);
  record.create_seq = static_cast<uint64_t>(number);
  if (open) return record;
  attempt.outcome = study::AttemptOutcome::kComplete;
  attempt.output_tail = std::string(200, 'x');
  grant.digest = std::string(16, 'd');
  trial.final_measurement.emplace().metrics["loss"] = 1.0 / static_cast<double>(number);
  record.finish_seq = static_cast<uint64_t>(number);
  return record;
}

// Trials of all studies by turns, as a service writes them.
void Fill(storage::Storage& storage, int64_t studies, int64_t open, int64_t final, double finished_share) {
  storage::WriteBatch batch;
  const auto add = [&](storage::Mutation mutation) {
    batch.push_back(std::move(mutation));
    if (batch.size() >= 20'000) LUTHIER_CHECK(storage.Commit(std::exchange(batch, {})).ok());
  };
  const auto finished = static_cast<int64_t>(finished_share * static_cast<double>(studies));
  for (int64_t key = 1; key <= studies; ++key) add(storage::PutStudy{MakeStudy(key, key <= finished)});
  uint64_t fence = 0;
  const int64_t unfinished = std::max<int64_t>(studies - finished, 1);
  for (int64_t i = 0; i < final; ++i) {
    add(storage::PutTrial{i % studies + 1, MakeTrial(i / studies + 1, /*open=*/false, ++fence)});
  }
  const auto finals_of = [&](int64_t key) { return final / studies + (key <= final % studies ? 1 : 0); };
  for (int64_t i = 0; i < open; ++i) {
    const int64_t key = finished + i % unfinished + 1;
    add(storage::PutTrial{key, MakeTrial(finals_of(key) + i / unfinished + 1, /*open=*/true, ++fence)});
  }
  add(storage::SetFence{fence});
  LUTHIER_CHECK(storage.Commit(batch).ok());
}

void DropFromPageCache(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY);
  LUTHIER_CHECK(fd >= 0 && fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
  close(fd);
}

std::unique_ptr<storage::SqliteStorage> Open(const std::string& directory) {
  storage::SqliteOptions options;
  options.directory = directory;
  options.check_behind = true;
  return storage::SqliteStorage::Open(options).value();
}

int Main(int argc, char** argv) {
  int64_t studies = 100'000, open_trials = 100'000, final_trials = 1'000'000;
  double finished = 0;
  bool cold = false;
  std::string dir = std::filesystem::temp_directory_path() / ("luthier-start-" + std::to_string(getpid()));
  CLI::App app("The start of a coordinator on a large database", "start_scale");
  app.add_option("--studies", studies, "Studies")->check(CLI::Range(1, 1'000'000))->capture_default_str();
  app.add_option("--open", open_trials, "Running trials")->check(CLI::Range(0, 1'000'000))->capture_default_str();
  app.add_option("--final", final_trials, "Final trials")->check(CLI::Range(0, 10'000'000))->capture_default_str();
  app.add_option("--finished", finished, "Share of studies that are finished")->check(CLI::Range(0.0, 1.0));
  const CLI::Option* kept = app.add_option("--data-dir", dir, "Where the database is kept; default: a temporary one");
  app.add_flag("--cold", cold, "Drop the file from the page cache first");
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  base::SetLogLevel(base::LogLevel::kWarning);
  const bool keep = kept->count() > 0;
  if (!std::filesystem::exists(storage::DatabasePath(dir)))
    Fill(*Open(dir), studies, open_trials, final_trials, finished);
  if (cold) DropFromPageCache(storage::DatabasePath(dir));
  std::printf("database: %.0f MB, page cache: %s\n",
              static_cast<double>(std::filesystem::file_size(storage::DatabasePath(dir))) * 1e-6,
              cold ? "cold" : "warm");
  auto begin = Clock::now();
  const std::unique_ptr<storage::SqliteStorage> storage = Open(dir);
  std::printf("open, without the check of all pages: %.2f s\n", Seconds(begin));
  const base::SystemClock clock;
  LeaseTable leases;
  Core core(storage.get(), &clock, &leases, {});
  begin = Clock::now();
  LUTHIER_CHECK(core.Load(Extent::kUnfinished).ok());
  std::printf("read what is needed to serve: %.2f s; %zu studies, %zu leases\n", Seconds(begin), core.Studies().size(),
              leases.size());
  begin = Clock::now();
  while (core.LoadMore(16).value()) continue;
  std::printf("read the rest: %.2f s\n", Seconds(begin));
  begin = Clock::now();
  core.BeginBatch();
  core.ServeWaiting();
  LUTHIER_CHECK(core.EndBatch(storage->Commit(core.Seal())).ok());
  std::printf("the first batch: %.3f s\n", Seconds(begin));
  if (!keep) std::filesystem::remove_all(dir);
  return 0;
}

}  // namespace
}  // namespace luthier::coordinator

int main(int argc, char** argv) {
  return luthier::coordinator::Main(argc, argv);
}
