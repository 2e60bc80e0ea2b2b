#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_WORLD_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_WORLD_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tests/server/coordinator/explorer.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {

// What the explorer searches: a real core, two workers, a network and a clock, in the state that some actions led to.
// Not for threads.
class ExplorerWorld {
 public:
  // What becomes of a request that reaches the coordinator.
  enum class Fate : uint8_t { kAnswered, kReplyLost, kCommitFails };
  enum class Verb : uint8_t { kAsk, kSend, kDeliver, kHeartbeat, kWorkerCrash, kStop, kChange, kTime, kRestart };
  enum class Content : uint8_t { kComplete, kRelease, kInfra, kPause };

  struct Action {
    Verb verb = Verb::kAsk;
    uint8_t who = 0;  // Worker; kDeliver: index of the message; kStop: of the trial; kChange: a Change.
    Fate fate = Fate::kAnswered;
    Content content = Content::kComplete;
  };
  // For people.
  static std::string Name(const Action& action);

  explicit ExplorerWorld(const ExplorerOptions& options);

  // The first thing that went wrong; empty: nothing.
  const std::string& violation() const { return violation_; }

  std::vector<Action> Enabled() const;
  void Do(const Action& action);

  // Everything that matters for what can happen next.
  std::string State() const { return std::min(State(0), State(1)); }

  // Invariants, and what must hold for each message again. Does not change the state.
  void Check();
  // I10. Ends this world.
  void FinishAll();

 private:
  // A message that ends a grant. Sent once, delivered any number of times.
  struct Message {
    Grant grant;
    Content content = Content::kComplete;
    int worker = 0;
    std::optional<absl::StatusOr<FinishReply>> first;  // Answer to its first delivery that was not undone.
  };

  struct Worker {
    enum Status { kIdle, kAsking, kHolding, kFinishing } status = kIdle;
    int asks = 0;      // Request ids used.
    Grant grant;       // kHolding, kFinishing.
    int message = -1;  // kFinishing.
  };

  static constexpr char kStudy[] = "s";
  static constexpr std::array<const char*, 2> kWorkers = {"a", "b"};
  static constexpr absl::Duration kTtl = absl::Seconds(10);

  void Violated(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  static double Value(const Grant& grant) { return 100.0 * static_cast<double>(grant.trial.number) + grant.attempt; }
  bool Awaited(size_t m) const;
  absl::Duration NextDeadline() const;

  // --- Actions ---

  void FailNextCommit();
  // The armed failure must not hit a later action.
  void FailCommitOfSomethingElse();
  // A designer that looks at history answers the next ask.
  absl::StatusOr<SuggestReply> AskOnce(const std::string& name, const std::string& request);
  void Ask(Worker& worker, const std::string& name, Fate fate);
  void Send(int w, Content content);
  absl::StatusOr<FinishReply> Finish(const Message& m);
  void Deliver(size_t m, Fate fate);
  void Beat(Worker& worker, const std::string& name);
  void Stop(size_t trial, Fate fate);
  // True if there is something to change, and nobody did yet.
  bool MayChange(Change change) const;
  void Make(Change change, Fate fate);
  // Returns the seq of the answer.
  absl::StatusOr<uint64_t> MakeOnce(Change change, int64_t max_trials, int64_t trial);
  void Restart();

  // --- What is so afterwards ---

  // Reads the committed rows and compares them with those before: what may never happen between two states.
  void NoteRows();
  // first_worker: which of the two comes first in the text.
  std::string State(int first_worker) const;
  std::string TrialState(const storage::TrialRecord& row, int first_worker) const;
  std::string WorkerState(size_t w) const;
  // Whole seconds, of which there is nothing to tell beyond a lease's.
  int64_t Age(absl::Duration since) const;

  const ExplorerOptions options_;
  Harness harness_;
  storage::StudyKey key_ = 0;
  std::array<Worker, 2> workers_;
  std::vector<Message> messages_;
  int crashes_ = 0;
  int releases_ = 0;
  int infra_ = 0;
  int stops_ = 0;
  std::set<Change> changed_;
  int more_rows_ = 0;  // Room that changes made.
  int64_t max_trials_ = 0;
  std::map<std::string, std::string> granted_;  // Request id -> token.
  std::vector<storage::TrialRecord> rows_;
  uint64_t last_fence_ = 0;
  std::set<std::string> expired_;
  std::map<int64_t, absl::Duration> eligible_since_;
  std::array<absl::Duration, 2> last_asked_{-absl::InfiniteDuration(), -absl::InfiniteDuration()};
  std::string violation_;
};

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_WORLD_H_
