#ifndef LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_END_H_
#define LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_END_H_

#include <string>

#include "server/coordinator/batch/context.h"

// Rules by which a study ends or pauses by itself, and what happens to its trials.
namespace luthier::coordinator {

// The reason of a study that a user paused.
inline constexpr char kPausedByUser[] = "paused by a user";

// Ends the study in `state` (STOPPED, CANCELLED or COMPLETED). Trials that wait are cancelled, PAUSED ones pruned;
// running ones go on unless `cancel_running`. `actor` is empty if nobody asked for it.
void FinishStudy(Context& c, StudyState& s, study::StudyState state, const std::string& reason,
                 const std::string& actor, bool cancel_running);

// Completes the study once no trial is open and there will be no other: the budget is used up, or the designer has
// nothing more.
void CompleteWhenDone(Context& c, StudyState& s);

// Returns why the budget ends the study as it is now, besides max_trials; "": it does not.
std::string ReasonToEnd(const Context& c, const StudyState& s);

// Returns the reason of a trial that ended with the study.
std::string StudyEnded(const StudyState& s);

// True if the study had used up its time (Budget::max_wall) when the batch began. That time passes only while a
// coordinator runs, and does not depend on the wall clock.
bool TimeIsUp(const Context& c, const StudyState& s);
// Makes a study with max_wall be looked at when its time may be used up.
void WatchTime(Context& c, StudyState& s);

// Ends a study that is not finished, if ReasonToEnd says so or CompleteWhenDone does.
void EndWhenDue(Context& c, StudyState& s);

// Draws the consequences of the end of the trial `finished` for its study: a rule of the budget may end it, many
// failures in a row pause it.
void ApplyStoppingRules(Context& c, StudyState& s, const study::Trial& finished);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_TRIALS_STUDY_END_H_
