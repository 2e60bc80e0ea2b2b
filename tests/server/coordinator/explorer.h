#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_H_

#include <cstdint>
#include <string>
#include <vector>

namespace luthier::coordinator::testing {

// A user may do this to a study that runs.
enum class Change { kMoreTrials, kImport, kRetry, kDelete, kNote };

// What may go wrong, and how often in one run. Everything else is unbounded: which worker does what when, which replies
// are lost, how often the coordinator restarts.
struct ExplorerOptions {
  int max_attempts = 2;
  int trials = 2;
  int releases = 0;                  // Releases by workers.
  int infra_failures = 0;            // Fail(INFRA) by workers.
  int worker_crashes = 0;            // A worker forgets all; what it sent may still arrive.
  int stops = 0;                     // Times that somebody asks for the end of a running trial.
  std::vector<Change> changes = {};  // Each is made once, where there is something to change.
  bool parts = false;                // Trials are trained in two parts, with a pause between them.
  int64_t max_states = 1'000'000;
};

struct ExplorerReport {
  std::string violation;  // "": none. Else what, and the actions that lead there.
  int64_t states = 0;
  int64_t transitions = 0;
  int max_depth = 0;
  bool complete = false;  // Every reachable state was seen.
};

// Breadth-first search over everything that two workers, a network that loses, delays and repeats messages, a clock and
// a coordinator that restarts or fails to commit can do to a study, on the real core. In each state: the invariants of
// docs/design/trial_lifecycle.md; each message ever delivered, delivered again, changes nothing and gets its first
// answer; and one healthy worker can finish the study (I10). States are told apart by a text that leaves out what can't
// matter (numbers of fences and seqs, which of two equal workers is which).
ExplorerReport Explore(const ExplorerOptions& options);

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_EXPLORER_H_
