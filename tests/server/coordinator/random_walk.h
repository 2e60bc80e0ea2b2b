#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_RANDOM_WALK_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_RANDOM_WALK_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace luthier::coordinator::testing {

// One step of a random walk: a kind and numbers that choose among what there is when the step is run. So every part of
// a walk is a walk, and a failing one can be cut down.
struct Step {
  enum Kind {
    kSuggest,
    kFinish,
    kReport,
    kHeartbeat,
    kCreate,
    kControl,
    kEnqueue,
    kCancelTrial,
    kStopTrial,
    kUpdate,
    kImport,
    kRetry,
    kDeleteTrial,
    kNote,
    kTime,
    kHangUp,
    kToken,
    kRestart,
    kFailCommit,
  };
  Kind kind = kSuggest;
  bool ends_batch = true;
  std::array<uint32_t, 6> r{};
};

std::vector<Step> RandomSteps(uint64_t seed, int count);

struct WalkOptions {
  uint64_t seed = 0;
  int steps = 10'000;
  // Suggestions come some batches late; then answers to asks are checked by the invariants alone.
  bool delay_proposals = false;
};

struct WalkStats {
  int64_t operations = 0;
  int64_t batches = 0;
  int64_t failed_commits = 0;
  int64_t restarts = 0;
  int64_t grants = 0;
  int64_t regrants = 0;
  int64_t refused = 0;        // Answers that were errors.
  int64_t limited = 0;        // Of those, for a limit.
  int64_t ended = 0;          // Of those, as the caller's token had ended.
  int64_t ended_waiting = 0;  // Of those, asks that waited.
  int64_t finals = 0;
  int64_t set_aside = 0;  // Gradients.
  int64_t paused = 0;
  int64_t promoted = 0;
  int64_t updated = 0;   // Specs that changed.
  int64_t stopped = 0;   // Requests for a trial's end.
  int64_t removed = 0;   // Trials, by retries and deletions.
  int64_t repeated = 0;  // Requests that got their first answer again.
};

struct WalkFailure {
  int step = 0;  // Index of the step whose batch went wrong.
  std::string what;
};

// Runs the steps on a fresh core and a fresh naive model; compares every answer, and checks the invariants I1-I8 of
// docs/design/trial_lifecycle.md. Absent: all is well.
std::optional<WalkFailure> RunWalk(const std::vector<Step>& steps, const WalkOptions& options, WalkStats* stats);

// The steps up to the failing one, with everything taken out that the failure does not need.
std::vector<Step> Shrink(std::vector<Step> steps, const WalkOptions& options);
std::string Describe(const std::vector<Step>& steps);

// RunWalk on RandomSteps. "" or a report with the seed, the failure and the shortest failing walk found.
std::string CheckWalk(const WalkOptions& options, WalkStats* stats);

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_RANDOM_WALK_H_
