// What a batch costs the coordinator's core beside many full studies and many waiting asks.
//
//   core_scale [--sizes 1000,10000,100000] [--batches N]
//
// Each row has as many studies as waiting asks. Every study is full: its budget is used up, or, in the last column, its
// max_parallel is. Asks wait for any study, for studies of their own, or all for the study whose trials complete. Times
// are CPU of the writer's thread for one batch, without the commit. The second table has an ask beside many names of
// workers that asked before.
#include <time.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/clock.h"
#include "lib/command_line/command_line.h"
#include "server/coordinator/messages/operations.h"
#include "server/coordinator/proposals/proposer.h"
#include "server/coordinator/studies/leases.h"
#include "server/coordinator/writer/core.h"
#include "server/storage/memory_storage.h"

namespace luthier::coordinator {
namespace {

constexpr char kTarget[] = "target";  // The study whose trials complete.

double CpuMicros() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

study::StudySpec MakeSpec(int64_t max_trials, int64_t max_parallel = 0) {
  study::StudySpec spec;
  study::ParameterSpec x;
  x.name = "x";
  x.domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  spec.space = study::SearchSpace::Create({x}).value();
  spec.metric = {"loss", study::Goal::kMinimize};
  spec.algorithm = study::RandomOptions{};
  study::CommandObjective command;
  command.argv = {"train"};
  spec.objective = command;
  spec.budget.max_trials = max_trials;
  spec.budget.max_parallel = max_parallel;
  spec.lease.ttl = absl::Hours(1);
  return spec;
}

// Drives a core batch by batch, as the writer does.
class Driver {
 public:
  Driver() : core_(&storage_, &clock_, &leases_, Unlimited()), proposer_(&storage_) {
    LUTHIER_CHECK(core_.Load().ok());
  }

  // Returns the CPU time of the core.
  double Batch(std::vector<Operation> operations = {}) {
    clock_.Advance(absl::Microseconds(10));
    const double begin = CpuMicros();
    core_.BeginBatch();
    for (Operation& operation : operations) core_.Apply(std::move(operation));
    while (true) {
      core_.ServeWaiting();
      const auto requests = core_.TakeProposalRequests([](storage::StudyKey) { return true; });
      if (requests.empty()) break;
      for (const ProposalRequest& r : requests) core_.Apply(proposer_.Propose(r, core_.SpecOf(r.study)));
    }
    const storage::WriteBatch& batch = core_.Seal();
    const double middle = CpuMicros();
    LUTHIER_CHECK(storage_.Commit(batch).ok());
    const double resumed = CpuMicros();
    LUTHIER_CHECK(core_.EndBatch(absl::OkStatus()).ok());
    (void)core_.TakeInvalidated();
    (void)core_.TakeHistoryUpdates();
    (void)core_.TakeEvents();
    return (middle - begin) + (CpuMicros() - resumed);
  }

  void Create(const std::string& id, const study::StudySpec& spec) {
    pending_.push_back(CreateStudyOp{id, spec, "bench", {}});
    if (pending_.size() >= 1000) Flush();
  }
  // `granted` may be null.
  void Ask(const std::string& id, const std::string& worker, bool wait, std::vector<Grant>* granted = nullptr) {
    SuggestOp op;
    op.id = id;
    op.worker = worker;
    op.deadline = wait ? absl::InfiniteDuration() : absl::ZeroDuration();
    op.done = [granted](absl::StatusOr<SuggestReply> reply) {
      if (granted == nullptr || !reply.ok()) return;
      granted->insert(granted->end(), reply->grants.begin(), reply->grants.end());
    };
    pending_.push_back(std::move(op));
    if (pending_.size() >= 1000) Flush();
  }
  void Flush() { Batch(std::exchange(pending_, {})); }
  int waiting() const { return core_.waiting(); }

 private:
  static Core::Options Unlimited() {
    Core::Options options;
    options.stall = absl::InfiniteDuration();
    options.limits.studies = INT64_MAX;
    return options;
  }

  base::ManualClock clock_;
  storage::MemoryStorage storage_;
  LeaseTable leases_;
  Core core_;
  Proposer proposer_;
  std::vector<Operation> pending_;
};

FinishOp CompleteOf(const Grant& grant) {
  FinishOp op;
  op.id = grant.study_id;
  op.number = grant.trial.number;
  op.token = grant.token;
  CompleteContent content;
  content.measurement.metrics["loss"] = 1.0;
  op.content = std::move(content);
  return op;
}

struct Cost {
  double empty = 0;
  double complete = 0;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

enum class Asks { kAny, kOwn, kOne };

// `refill`: each Complete makes room for a waiting ask.
Cost Measure(int size, Asks asks, bool refill, int batches) {
  Driver driver;
  driver.Create(kTarget, refill ? MakeSpec(1'000'000, batches) : MakeSpec(batches));
  for (int i = 1; i < size; ++i) driver.Create(absl::StrCat("s", i), MakeSpec(1));
  driver.Flush();
  std::vector<Grant> running;
  for (int i = 0; i < batches; ++i) driver.Ask(kTarget, absl::StrCat("holder-", i), /*wait=*/false, &running);
  for (int i = 1; i < size; ++i) driver.Ask(absl::StrCat("s", i), absl::StrCat("w", i), /*wait=*/false);
  driver.Flush();
  LUTHIER_CHECK(static_cast<int>(running.size()) == batches);
  for (int i = 0; i < size; ++i) {
    const std::string own = i == 0 ? kTarget : absl::StrCat("s", i);
    driver.Ask(asks == Asks::kAny ? "" : asks == Asks::kOwn ? own : kTarget, absl::StrCat("idle-", i), /*wait=*/true);
  }
  driver.Flush();
  LUTHIER_CHECK(driver.waiting() == size);
  std::vector<double> empty, complete;
  for (int i = 0; i < batches; ++i) empty.push_back(driver.Batch());
  for (const Grant& grant : running) {
    std::vector<Operation> operations;
    operations.push_back(CompleteOf(grant));
    complete.push_back(driver.Batch(std::move(operations)));
  }
  return {Median(std::move(empty)), Median(std::move(complete))};
}

// CPU of an ask after `names` workers have asked, in batches of one.
double AskBeside(int names, int batches) {
  Driver driver;
  driver.Create(kTarget, MakeSpec(1'000'000));
  driver.Create("full", MakeSpec(1));
  driver.Flush();
  for (int i = 0; i < names; ++i) driver.Ask("full", absl::StrCat("name-", i), /*wait=*/false);
  driver.Flush();
  std::vector<double> times;
  for (int i = 0; i < batches; ++i) {
    SuggestOp op;
    op.id = kTarget;
    op.worker = absl::StrCat("fresh-", i);
    op.deadline = absl::ZeroDuration();
    std::vector<Operation> operations;
    operations.push_back(std::move(op));
    times.push_back(driver.Batch(std::move(operations)));
  }
  return Median(std::move(times));
}

int Main(int argc, char** argv) {
  std::vector<int> sizes = {1000, 10'000, 100'000};
  std::vector<int> names = {1000, 50'000};
  int batches = 1000;
  CLI::App app("CPU of a batch beside many full studies and many waiting asks", "core_scale");
  app.add_option("--sizes", sizes, "Numbers of studies, and as many waiting asks")->delimiter(',');
  app.add_option("--names", names, "Numbers of worker names that asked before")->delimiter(',');
  app.add_option("--batches", batches, "Batches of each kind")->check(CLI::Range(1, 5000))->capture_default_str();
  if (const std::optional<int> code = command_line::Parse(app, argc, argv)) return *code;
  std::printf("CPU of a batch, median of %d, us\n", batches);
  std::printf("%10s %10s %10s %10s %14s\n", "studies", "asks of", "empty", "complete", "and a grant");
  for (const int size : sizes) {
    for (const auto& [asks, name] : {std::pair(Asks::kAny, "any"), {Asks::kOwn, "own"}, {Asks::kOne, "one"}}) {
      const Cost full = Measure(size, asks, /*refill=*/false, batches);
      std::printf("%10d %10s %10.1f %10.1f", size, name, full.empty, full.complete);
      std::fflush(stdout);
      if (asks == Asks::kOwn) {
        std::printf(" %14s\n", "-");
      } else {
        std::printf(" %14.1f\n", Measure(size, asks, /*refill=*/true, std::min(batches, size)).complete);
      }
      std::fflush(stdout);
    }
  }
  std::printf("\nCPU of a batch with one ask, us\n%10s %10s\n", "names", "ask");
  for (const int n : names) {
    std::printf("%10d %10.1f\n", n, AskBeside(n, batches));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace luthier::coordinator

int main(int argc, char** argv) {
  return luthier::coordinator::Main(argc, argv);
}
