#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/log.h"
#include "server/storage/memory_storage.h"
#include "server/storage/sqlite_storage.h"

// What a commit costs by the number of operations in it (durable: every commit waits for the disk), and what reads cost
// with 10^5 trials. The directory is $LUTHIER_BENCH_DIR, else the current one: /tmp may be memory.
namespace luthier::storage {
namespace {

constexpr int kParameters = 8;
constexpr int64_t kManyTrials = 100'000;

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* root = std::getenv("LUTHIER_BENCH_DIR");
    path_ = std::string(root != nullptr ? root : ".") + "/storage-bench-XXXXXX";
    LUTHIER_CHECK(mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

StudyRecord Study() {
  StudyRecord record;
  record.key = 1;
  record.id = "bench";
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < kParameters; ++i) {
    parameters.push_back({absl::StrCat("x", i), study::FloatRange(), std::nullopt, std::nullopt});
  }
  record.spec.space = study::SearchSpace::Create(std::move(parameters)).value();
  record.spec.metric.name = "loss";
  return record;
}

TrialRecord Trial(int64_t number, study::TrialState state) {
  TrialRecord record;
  study::Trial& trial = record.trial;
  trial.number = number;
  trial.state = state;
  for (int i = 0; i < kParameters; ++i) trial.parameters[absl::StrCat("x", i)] = 0.1 * static_cast<double>(i + number);
  trial.provenance.designer = "bo";
  trial.provenance.ask_index = static_cast<uint64_t>(number);
  trial.provenance.details = {{"predicted_mean", 0.5}, {"predicted_sd", 0.1}};
  trial.attempts.push_back({1, "worker-1", absl::UnixEpoch(), absl::UnixEpoch(), {}, std::nullopt, ""});
  record.grants.push_back({std::string(16, 't'), "", {}, {}, 0});
  if (state == study::TrialState::kComplete) {
    trial.final_measurement.emplace().metrics["loss"] = 1.0 / static_cast<double>(1 + number % 1000);
    record.grants.back().digest = std::string(64, 'd');
  }
  return record;
}

// One operation as the coordinator makes it: a grant or a completion, its event, the study's new seq, the request's
// answer.
void AppendOperation(int64_t i, WriteBatch* batch) {
  Event event;
  event.seq = static_cast<uint64_t>(i);
  event.study = 1;
  event.study_id = "bench";
  event.trial = i / 2 + 1;
  event.type = i % 2 == 0 ? EventType::kTrialGranted : EventType::kTrialCompleted;
  event.actor = "worker-1";
  if (i % 2 == 1) event.value = 0.5;
  batch->push_back(
      PutTrial{1, Trial(i / 2 + 1, i % 2 == 0 ? study::TrialState::kRunning : study::TrialState::kComplete)});
  batch->push_back(AppendEvent{event});
  batch->push_back(PutRequest{
      {absl::StrCat("request-", i), std::string(64, 'd'), GrantedLeases{1, {{i, std::string(16, 't')}}}, {}}});
  batch->push_back(SetFence{static_cast<uint64_t>(i)});
}

void Commits(benchmark::State& state, Storage& storage) {
  LUTHIER_CHECK(storage.Commit({PutStudy{Study()}}).ok());
  int64_t operation = 1;
  for (auto _ : state) {
    state.PauseTiming();
    WriteBatch batch = {PutStudy{Study()}};
    for (int64_t i = 0; i < state.range(0); ++i) AppendOperation(operation++, &batch);
    state.ResumeTiming();
    LUTHIER_CHECK(storage.Commit(batch).ok());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

std::unique_ptr<SqliteStorage> Open(const TemporaryDirectory& directory, bool normal_sync = false) {
  SqliteOptions options;
  options.directory = directory.path();
  options.unsafe_normal_sync = normal_sync;
  return SqliteStorage::Open(options).value();
}

void BM_MemoryCommit(benchmark::State& state) {
  MemoryStorage storage;
  Commits(state, storage);
}
BENCHMARK(BM_MemoryCommit)->Arg(1)->Arg(8)->Arg(64);

void BM_SqliteCommit(benchmark::State& state) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = Open(directory);
  Commits(state, *storage);
}
BENCHMARK(BM_SqliteCommit)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();

// Not what the server does: shows how much of a commit is waiting for the disk.
void BM_SqliteCommitWithoutSync(benchmark::State& state) {
  const TemporaryDirectory directory;
  const std::unique_ptr<SqliteStorage> storage = Open(directory, /*normal_sync=*/true);
  Commits(state, *storage);
}
BENCHMARK(BM_SqliteCommitWithoutSync)->Arg(1)->Arg(8)->Arg(64)->UseRealTime();

// A database with kManyTrials finished trials, shared by the reading benchmarks.
class Large {
 public:
  Large() {
    storage_ = Open(directory_);
    WriteBatch batch = {PutStudy{Study()}};
    int64_t operation = 1;
    while (operation < 2 * kManyTrials) {
      for (int i = 0; i < 2000; ++i) AppendOperation(operation++, &batch);
      LUTHIER_CHECK(storage_->Commit(batch).ok());
      batch.clear();
    }
  }
  static Large& Get() {
    static Large& large = *new Large();
    return large;
  }
  SqliteStorage& storage() { return *storage_; }
  void Reopen() {
    storage_.reset();
    storage_ = Open(directory_);
  }
  void Remove() { storage_.reset(), std::filesystem::remove_all(directory_.path()); }

 private:
  const TemporaryDirectory directory_;
  std::unique_ptr<SqliteStorage> storage_;
};

void BM_Summarize(benchmark::State& state) {
  const StudyRecord study = Study();
  Large::Get();  // Made before the clock runs.
  for (auto _ : state) benchmark::DoNotOptimize(Large::Get().storage().Summarize(study).value());
}
BENCHMARK(BM_Summarize)->Unit(benchmark::kMicrosecond);

void BM_ListThousandTrials(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Large::Get().storage().ListTrials(1, {}, 50'000, 1000).value());
}
BENCHMARK(BM_ListThousandTrials)->Unit(benchmark::kMicrosecond);

void BM_ListRunningTrials(benchmark::State& state) {
  const TrialFilter open = {{study::TrialState::kRunning, study::TrialState::kPending}};
  for (auto _ : state) benchmark::DoNotOptimize(Large::Get().storage().ListTrials(1, open, 0, 1000).value());
}
BENCHMARK(BM_ListRunningTrials)->Unit(benchmark::kMicrosecond);

void BM_GetTrial(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Large::Get().storage().GetTrial(1, 77'777).value());
}
BENCHMARK(BM_GetTrial);

void BM_ListHundredEvents(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(Large::Get().storage().ListEvents(1, 100'000, 100).value());
}
BENCHMARK(BM_ListHundredEvents)->Unit(benchmark::kMicrosecond);

// A server's start: closing before it is timed too, and short.
void BM_OpenWithQuickCheck(benchmark::State& state) {
  for (auto _ : state) Large::Get().Reopen();
}
BENCHMARK(BM_OpenWithQuickCheck)->Unit(benchmark::kMillisecond)->Iterations(3)->UseRealTime();

}  // namespace
}  // namespace luthier::storage

int main(int argc, char** argv) {
  luthier::base::SetLogLevel(luthier::base::LogLevel::kWarning);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  luthier::storage::Large::Get().Remove();
  return 0;
}
