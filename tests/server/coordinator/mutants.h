#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_MUTANTS_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_MUTANTS_H_

namespace luthier::coordinator {

// Faults in a copy of the coordinator, to see that a harness notices them: a harness that lets its mutant live is
// broken. mutants.tsv has the text that each takes the place of, and mutate.sh puts them into the copy. The library
// that ships knows nothing of them.
enum class Mutant {
  kNone = 0,
  kReplyBeforeCommit = 1,      // Answers do not wait for the commit, nor for its outcome.
  kFenceNotCompared = 3,       // Any token a trial ever had may end it.
  kFenceResetAtStart = 4,      // A restart counts fences from 0 again.
  kBudgetNotCounted = 5,       // The budget sees committed rows only, not those of its own transaction.
  kCompleteNotReplayable = 6,  // The answer to Complete is not kept.
  kLeasesOnWallClock = 7,      // Leases follow the wall clock.
  kNoFreshTtl = 8,             // After a restart leases have no time left.
  kQueueUnbounded = 9,         // More operations are accepted however many wait for the writer.
  kLiveHistory = 12,           // The designer sees results beyond its recorded prefix.
};

extern Mutant active_mutant;  // Defined by the program that links the copy.
inline bool Mutated(Mutant mutant) {
  return active_mutant == mutant;
}

}  // namespace luthier::coordinator

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_MUTANTS_H_
