#include "lib/study/trial.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lib/base/error.h"
#include "lib/study/measurement.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial_state.h"

namespace luthier::study {
namespace {

using ::testing::HasSubstr;

constexpr TrialState kStates[] = {TrialState::kPending, TrialState::kRunning, TrialState::kComplete,
                                  TrialState::kPruned,  TrialState::kFailed,  TrialState::kCancelled,
                                  TrialState::kPaused};
constexpr TrialEvent kEvents[] = {TrialEvent::kGrant, TrialEvent::kRetry,   TrialEvent::kComplete, TrialEvent::kPause,
                                  TrialEvent::kPrune, TrialEvent::kPromote, TrialEvent::kFail,     TrialEvent::kCancel};

// The life cycle in words, written out independently: every pair that is not here must be refused.
TEST(TrialStateTest, OnlyTheseTransitionsAreAllowed) {
  const std::map<std::pair<TrialState, TrialEvent>, TrialState> allowed = {
      {{TrialState::kPending, TrialEvent::kGrant}, TrialState::kRunning},
      {{TrialState::kPending, TrialEvent::kCancel}, TrialState::kCancelled},
      {{TrialState::kRunning, TrialEvent::kGrant}, TrialState::kRunning},
      {{TrialState::kRunning, TrialEvent::kRetry}, TrialState::kPending},
      {{TrialState::kRunning, TrialEvent::kComplete}, TrialState::kComplete},
      {{TrialState::kRunning, TrialEvent::kPrune}, TrialState::kPruned},
      {{TrialState::kRunning, TrialEvent::kFail}, TrialState::kFailed},
      {{TrialState::kRunning, TrialEvent::kCancel}, TrialState::kCancelled},
      {{TrialState::kRunning, TrialEvent::kPause}, TrialState::kPaused},
      {{TrialState::kPaused, TrialEvent::kPromote}, TrialState::kPending},
      {{TrialState::kPaused, TrialEvent::kPrune}, TrialState::kPruned},
      {{TrialState::kPaused, TrialEvent::kCancel}, TrialState::kCancelled},
  };
  for (const TrialState from : kStates) {
    for (const TrialEvent event : kEvents) {
      const auto expected = allowed.find({from, event});
      EXPECT_EQ(Next(from, event),
                expected == allowed.end() ? std::nullopt : std::optional<TrialState>(expected->second))
          << TrialStateName(from) << " event " << static_cast<int>(event);
    }
  }
}

TEST(TrialStateTest, FinalStatesStayForEver) {
  for (const TrialState state : kStates) {
    bool leaves = false;
    for (const TrialEvent event : kEvents) leaves = leaves || Next(state, event).has_value();
    EXPECT_EQ(leaves, !IsFinal(state)) << TrialStateName(state);
  }
}

TEST(TrialStateTest, NamesReadBack) {
  std::set<std::string> names;
  for (const TrialState state : kStates) {
    EXPECT_EQ(ParseTrialState(TrialStateName(state)), state);
    names.insert(std::string(TrialStateName(state)));
  }
  EXPECT_EQ(names.size(), kTrialStateCount);
  EXPECT_EQ(ParseTrialState("pending"), std::nullopt);
  EXPECT_EQ(ParseTrialState(""), std::nullopt);
  for (const StudyState state : {StudyState::kActive, StudyState::kPaused, StudyState::kStopped, StudyState::kCancelled,
                                 StudyState::kCompleted}) {
    EXPECT_EQ(ParseStudyState(StudyStateName(state)), state);
    EXPECT_EQ(IsFinished(state), state != StudyState::kActive && state != StudyState::kPaused);
  }
  EXPECT_EQ(ParseStudyState("DONE"), std::nullopt);
  EXPECT_EQ(FailureKindName(FailureKind::kConfig), "CONFIG");
  EXPECT_EQ(FailureKindName(FailureKind::kInfra), "INFRA");
  names.clear();
  for (const AttemptOutcome outcome :
       {AttemptOutcome::kRunning, AttemptOutcome::kComplete, AttemptOutcome::kPruned, AttemptOutcome::kFailed,
        AttemptOutcome::kReleased, AttemptOutcome::kExpired, AttemptOutcome::kCancelled, AttemptOutcome::kPaused}) {
    names.insert(std::string(AttemptOutcomeName(outcome)));
  }
  EXPECT_EQ(names.size(), 8u);
  EXPECT_EQ(names.count(""), 0u);
}

std::string GradientError(const Gradient& gradient, int dimension) {
  const absl::Status status = ValidateGradient(gradient, dimension);
  EXPECT_EQ(base::GetReason(status), status.ok() ? "" : base::reason::kBadField);
  return std::string(status.message());
}

TEST(GradientTest, GoodOnesPass) {
  EXPECT_EQ(GradientError({{1.0, -2.0}, {}, 0.0, {}}, 2), "");
  EXPECT_EQ(GradientError({{1.0, -2.0}, {}, 0.0, 0.5}, 2), "");
  EXPECT_EQ(GradientError({{}, {0.0, 3.0}, -1.5, 0.0}, 2), "");
  EXPECT_EQ(GradientError({{}, {}, 0.0, {}}, 0), "");
}

TEST(GradientTest, BadOnesAreRefusedNamingTheField) {
  const double inf = std::numeric_limits<double>::infinity();
  const double nan = std::nan("");
  EXPECT_THAT(GradientError({{1.0}, {}, 0.0, {}}, 2), HasSubstr("full: has 1 entries but the study has 2"));
  EXPECT_THAT(GradientError({{}, {}, 0.0, {}}, 2), HasSubstr("full: has 0 entries"));
  EXPECT_THAT(GradientError({{1.0, nan}, {}, 0.0, {}}, 2), HasSubstr("full[1]: is not finite"));
  EXPECT_THAT(GradientError({{-inf, 1.0}, {}, 0.0, {}}, 2), HasSubstr("full[0]: is not finite"));
  EXPECT_THAT(GradientError({{}, {1.0}, 1.0, {}}, 2), HasSubstr("directional.direction: has 1 entries"));
  EXPECT_THAT(GradientError({{}, {1.0, inf}, 1.0, {}}, 2), HasSubstr("directional.direction[1]: is not finite"));
  EXPECT_THAT(GradientError({{}, {0.0, 0.0}, 1.0, {}}, 2), HasSubstr("directional.direction: is the zero vector"));
  EXPECT_THAT(GradientError({{}, {1.0, 0.0}, nan, {}}, 2), HasSubstr("directional.slope: is not finite"));
  EXPECT_THAT(GradientError({{1.0, 1.0}, {1.0, 0.0}, 1.0, {}}, 2), HasSubstr("not both"));
  EXPECT_THAT(GradientError({{1.0, 1.0}, {}, 0.0, -1.0}, 2), HasSubstr("error_bound: must be finite"));
  EXPECT_THAT(GradientError({{1.0, 1.0}, {}, 0.0, nan}, 2), HasSubstr("error_bound: must be finite"));
  EXPECT_THAT(GradientError({{1.0, 1.0}, {}, 0.0, inf}, 2), HasSubstr("error_bound: must be finite"));
}

TEST(GradientTest, TheSlopeAlongADirectionIsTheProduct) {
  const Gradient full{{1.0, -2.0}, {}, 0.0, 0.5};
  const std::optional<Gradient> along = Along(full, {3.0, 4.0});
  ASSERT_TRUE(along.has_value());
  EXPECT_EQ(along->slope, -5.0);
  EXPECT_EQ(along->direction, std::vector<double>({3.0, 4.0}));
  EXPECT_EQ(along->error_bound, 2.5);
  EXPECT_TRUE(along->values.empty());
  EXPECT_FALSE(Along(full, {1.0}).has_value());
  EXPECT_FALSE(Along(full, {0.0, 0.0}).has_value());
  EXPECT_FALSE(Along({{1e300, 0.0}, {}, 0.0, {}}, {1e300, 0.0}).has_value());
}

TEST(TrialTest, TheReporterIsWhoseResultMadeItFinal) {
  Trial trial;
  EXPECT_EQ(ReporterOf(trial), "");
  for (const auto& [worker, outcome] :
       {std::pair("a", AttemptOutcome::kExpired), std::pair("b", AttemptOutcome::kFailed)}) {
    Attempt attempt;
    attempt.worker = worker;
    attempt.outcome = outcome;
    trial.attempts.push_back(attempt);
  }
  EXPECT_EQ(ReporterOf(trial), "");  // Failed, and waits to be tried again.
  trial.state = TrialState::kFailed;
  EXPECT_EQ(ReporterOf(trial), "b");
  trial.attempts.pop_back();
  EXPECT_EQ(ReporterOf(trial), "");  // Given up.
  trial.attempts.back().outcome = AttemptOutcome::kComplete;
  trial.state = TrialState::kComplete;
  EXPECT_EQ(ReporterOf(trial), "a");
}

TEST(TrainingInParts, EachPartHasItsOwnAttemptsAndAllCostsAreSummed) {
  Trial trial;
  EXPECT_EQ(AttemptsUsed(trial), 0);
  EXPECT_EQ(ResourceSpent(trial), 0);
  const auto attempt = [&](AttemptOutcome outcome, int64_t start, int64_t last) {
    Attempt a;
    a.outcome = outcome;
    a.start_step = start;
    a.last_step = last;
    trial.attempts.push_back(a);
  };
  attempt(AttemptOutcome::kExpired, 0, 2);
  attempt(AttemptOutcome::kReleased, 1, 0);  // Ended before it reported.
  trial.releases = 1;
  EXPECT_EQ(AttemptsUsed(trial), 1);
  attempt(AttemptOutcome::kPaused, 0, 3);
  trial.releases = 0;
  EXPECT_EQ(AttemptsUsed(trial), 0);
  attempt(AttemptOutcome::kFailed, 3, 5);
  attempt(AttemptOutcome::kRunning, 3, 9);
  EXPECT_EQ(AttemptsUsed(trial), 2);
  EXPECT_EQ(ResourceSpent(trial), 2 + 3 + 2 + 6);
  // Steps that somebody made up still have a sum.
  attempt(AttemptOutcome::kRunning, 0, std::numeric_limits<int64_t>::max());
  attempt(AttemptOutcome::kRunning, -5, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(ResourceSpent(trial), 9 * kMaxResource);
}

}  // namespace
}  // namespace luthier::study
