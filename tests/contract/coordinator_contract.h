#ifndef LUTHIER_TESTS_CONTRACT_COORDINATOR_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_COORDINATOR_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/retry_advice.h"
#include "worker/run/coordinator_api.h"

// Checks what the runtime relies on in every worker::CoordinatorApi, the service behind it included. The fake of the
// runtime's tests is held to it as well, so that these tests are about the coordinator that ships.
//
//   INSTANTIATE_TEST_SUITE_P(Fake, CoordinatorContract, ::testing::Values(MakeFakeUnderTest), [](auto&) { return "All";
//   });
namespace luthier::worker {

class CoordinatorUnderTest {
 public:
  virtual ~CoordinatorUnderTest() = default;
  virtual CoordinatorApi& api() = 0;
  // Every trial of the study has ended. Implementations that do not see that for themselves hear of it here.
  virtual void NoteAllEnded() {}
  // The coordinator goes away. The api stays.
  virtual void GoAway() = 0;
};

// The coordinator under test holds one study, named kContractStudy, with room for `trials` trials.
inline constexpr char kContractStudy[] = "demo";
struct ContractStudy {
  study::StudySpec spec;
  int64_t trials = 0;
};
using MakeCoordinatorUnderTest = std::unique_ptr<CoordinatorUnderTest> (*)(const ContractStudy&);

class CoordinatorContract : public ::testing::TestWithParam<MakeCoordinatorUnderTest> {
 protected:
  static constexpr int64_t kTrials = 4;

  CoordinatorContract() {
    study_.trials = kTrials;
    study_.spec.space = study::SearchSpace::Create({{"lr", study::FloatRange{}, {}, {}}}).value();
    study_.spec.metric.name = "loss";
    study_.spec.objective = study::CommandObjective{{"true"}, {}, absl::Minutes(1), 0, {}};
    study_.spec.algorithm = study::RandomOptions{};
    study_.spec.budget.max_trials = kTrials;
    under_test_ = GetParam()(study_);
  }
  CoordinatorApi& api() { return under_test_->api(); }

  absl::StatusOr<SuggestAnswer> Ask(int count, const std::string& request_id) {
    return api().Suggest({kContractStudy, "w1", count, request_id});
  }
  // One lease, by a request of its own.
  Lease Take() {
    absl::StatusOr<SuggestAnswer> reply = Ask(1, absl::StrCat("00000000-0000-4000-8000-", 100000000000 + asks_++));
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (!reply.ok() || reply->leases.size() != 1) {
      ADD_FAILURE() << "no lease was granted";
      return {};
    }
    return reply->leases[0];
  }
  static study::Measurement Loss(double loss, int64_t step = 0) {
    study::Measurement m;
    m.step = step;
    m.metrics["loss"] = loss;
    return m;
  }
  static FinalResult Result(const Lease& lease, double loss) {
    FinalResult result;
    result.study = lease.run.study;
    result.trial = lease.run.trial;
    result.token = lease.token;
    result.measurement = Loss(loss);
    return result;
  }
  static FinalResult Failure(const Lease& lease, study::FailureKind kind) {
    FinalResult result = Result(lease, 0.0);
    result.measurement = {};
    result.failed = true;
    result.failure = {kind, "BROKEN", "it broke"};
    return result;
  }
  static ReportRequest Points(const Lease& lease, const std::vector<study::Measurement>& points) {
    return {lease.run.study, lease.run.trial, lease.token, points, "", {}};
  }
  std::vector<study::Directive> Beat(const std::vector<std::string>& tokens) {
    return api().Heartbeat("w1", tokens).value_or(std::vector<study::Directive>());
  }
  // The lease with a token that was never granted.
  static Lease Forged(Lease lease) {
    lease.token = std::string(16, 'x');
    return lease;
  }

  ContractStudy study_;
  std::unique_ptr<CoordinatorUnderTest> under_test_;

 private:
  int64_t asks_ = 0;
};

inline void ExpectReason(const absl::Status& status, const char* reason) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_EQ(base::GetReason(status), reason) << status;
}

// --- Looking and asking ---

TEST_P(CoordinatorContract, TheSpecIsTheStudys) {
  const absl::StatusOr<study::StudySpec> spec = api().GetSpec(kContractStudy);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->metric.name, "loss");
  EXPECT_EQ(spec->objective, study_.spec.objective);
  EXPECT_TRUE(absl::IsNotFound(api().GetSpec("another").status()));
  EXPECT_TRUE(absl::IsNotFound(api().Suggest({"another", "w1", 1, "00000000-0000-4000-8000-000000000000"}).status()));
}

TEST_P(CoordinatorContract, GrantsAtMostWhatIsAskedForAndEachTrialOnce) {
  std::set<int64_t> trials;
  std::set<std::string> tokens;
  for (int ask = 0; trials.size() < kTrials; ++ask) {
    ASSERT_LT(ask, kTrials);
    const absl::StatusOr<SuggestAnswer> reply = Ask(3, absl::StrCat("00000000-0000-4000-8000-00000000000", ask));
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_THAT(reply->leases, ::testing::SizeIs(::testing::AllOf(::testing::Ge(1u), ::testing::Le(3u))));
    EXPECT_FALSE(reply->study_done);
    for (const Lease& lease : reply->leases) {
      EXPECT_EQ(lease.run.study, kContractStudy);
      EXPECT_EQ(lease.run.attempt, 1);
      EXPECT_EQ(lease.run.resume_checkpoint, "");
      EXPECT_EQ(lease.ttl, lease.run.spec.lease.ttl);
      EXPECT_EQ(lease.run.spec.objective, study_.spec.objective);
      EXPECT_TRUE(lease.run.spec.space.Validate(lease.run.parameters).ok());
      EXPECT_TRUE(trials.insert(lease.run.trial).second) << lease.run.trial;
      EXPECT_NE(lease.token, "");
      EXPECT_TRUE(tokens.insert(lease.token).second);
    }
  }
  EXPECT_EQ(trials, (std::set<int64_t>{1, 2, 3, 4}));
}

TEST_P(CoordinatorContract, ARepeatedRequestGetsTheSameLeases) {
  constexpr char kId[] = "00000000-0000-4000-8000-000000000000";
  const absl::StatusOr<SuggestAnswer> first = Ask(2, kId);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::StatusOr<SuggestAnswer> again = Ask(2, kId);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(again->leases.size(), first->leases.size());
  for (size_t i = 0; i < first->leases.size(); ++i) {
    EXPECT_EQ(again->leases[i].token, first->leases[i].token);
    EXPECT_EQ(again->leases[i].run.parameters, first->leases[i].run.parameters);
  }
  EXPECT_NE(Take().run.trial, first->leases[0].run.trial);
}

TEST_P(CoordinatorContract, AStudyWhoseTrialsHaveEndedIsDone) {
  for (int64_t k = 0; k < kTrials; ++k) EXPECT_TRUE(api().Finish(Result(Take(), 0.5)).ok());
  under_test_->NoteAllEnded();
  const absl::StatusOr<SuggestAnswer> reply = Ask(1, "00000000-0000-4000-8000-000000000000");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->study_done);
  EXPECT_THAT(reply->leases, ::testing::IsEmpty());
}

TEST_P(CoordinatorContract, CancelEndsTheLongPollAndAllLaterOnesAndNothingElse) {
  std::vector<std::string> tokens;
  for (int64_t k = 0; k < kTrials; ++k) tokens.push_back(Take().token);
  // Nothing is left to grant while these run. Whether this ask is under way already does not matter.
  absl::Status status;
  std::thread asker([&] { status = Ask(1, "00000000-0000-4000-8000-000000000000").status(); });
  api().CancelSuggest();
  asker.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_TRUE(absl::IsCancelled(Ask(1, "00000000-0000-4000-8000-000000000001").status()));
  EXPECT_EQ(Beat(tokens), std::vector<study::Directive>(kTrials, study::Directive::kContinue));
}

// --- Holding ---

TEST_P(CoordinatorContract, AHeartbeatSaysForEachTokenInOrderWhetherItIsHeld) {
  using study::Directive;
  const Lease first = Take(), second = Take();
  EXPECT_THAT(Beat({first.token, Forged(first).token, second.token}),
              ::testing::ElementsAre(Directive::kContinue, Directive::kLost, Directive::kContinue));
  ASSERT_TRUE(api().Finish(Result(first, 0.5)).ok());
  ASSERT_TRUE(api().Release(second.run.study, second.run.trial, second.token, "", 0).ok());
  EXPECT_THAT(Beat({first.token, second.token}), ::testing::ElementsAre(Directive::kLost, Directive::kLost));
}

TEST_P(CoordinatorContract, PointsMayBeSentAgainButNotChanged) {
  const Lease lease = Take();
  const std::vector<study::Measurement> points = {Loss(3.0, 1), Loss(2.0, 2)};
  for (int k = 0; k < 2; ++k) {
    const absl::StatusOr<study::Directive> directive = api().Report(Points(lease, points));
    ASSERT_TRUE(directive.ok()) << directive.status();
    EXPECT_EQ(*directive, study::Directive::kContinue);
  }
  ExpectReason(api().Report(Points(lease, {Loss(9.0, 2)})).status(), base::reason::kConflictingReport);
  EXPECT_TRUE(api().Report(Points(lease, {Loss(1.0, 3)})).ok());
  ExpectReason(api().Report(Points(Forged(lease), {Loss(1.0, 4)})).status(), base::reason::kLeaseLost);
}

// --- Ending ---

TEST_P(CoordinatorContract, AResultEndsTheTrialAndMayBeSentAgainButNotChanged) {
  const Lease lease = Take();
  ExpectReason(api().Finish(Result(Forged(lease), 0.5)).status(), base::reason::kLeaseLost);
  for (int k = 0; k < 2; ++k) {
    const absl::StatusOr<FinishAnswer> reply = api().Finish(Result(lease, 0.5));
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->state, study::TrialState::kComplete);
    EXPECT_THAT(reply->warnings, ::testing::IsEmpty());
  }
  ExpectReason(api().Finish(Result(lease, 0.25)).status(), base::reason::kConflictingReport);
  ExpectReason(api().Finish(Result(Forged(lease), 0.5)).status(), base::reason::kTrialFinal);
  ExpectReason(api().Report(Points(lease, {Loss(1.0, 1)})).status(), base::reason::kTrialFinal);
}

TEST_P(CoordinatorContract, TheReplySaysWhatBecameOfTheTrial) {
  using study::TrialState;
  FinalResult pruned = Result(Take(), 0.5);
  pruned.pruned = true;
  EXPECT_EQ(api().Finish(pruned)->state, TrialState::kPruned);
  EXPECT_EQ(api().Finish(Failure(Take(), study::FailureKind::kConfig))->state, TrialState::kFailed);
  const Lease unlucky = Take();
  EXPECT_EQ(api().Finish(Failure(unlucky, study::FailureKind::kInfra))->state, TrialState::kPending);
  EXPECT_THAT(Beat({unlucky.token}), ::testing::ElementsAre(study::Directive::kLost));
}

TEST_P(CoordinatorContract, AReleaseGivesTheTrialBackAndMayBeSentAgain) {
  const Lease lease = Take();
  const auto release = [&](const Lease& l) { return api().Release(l.run.study, l.run.trial, l.token, "c", 0); };
  ExpectReason(release(Forged(lease)).status(), base::reason::kLeaseLost);
  for (int k = 0; k < 2; ++k) {
    const absl::StatusOr<FinishAnswer> reply = release(lease);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->state, study::TrialState::kPending);
  }
  ExpectReason(api().Finish(Result(lease, 0.5)).status(), base::reason::kConflictingReport);
}

// --- Outages ---

TEST_P(CoordinatorContract, ACoordinatorThatIsAwayAnswersNothing) {
  const Lease lease = Take();
  under_test_->GoAway();
  for (const absl::Status& status :
       {api().GetSpec(kContractStudy).status(), Ask(1, "00000000-0000-4000-8000-000000000000").status(),
        api().Heartbeat("w1", {lease.token}).status(), api().Report(Points(lease, {Loss(1.0, 1)})).status(),
        api().Finish(Result(lease, 0.5)).status(),
        api().Release(lease.run.study, lease.run.trial, lease.token, "", 0).status()}) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_TRUE(base::NobodyAnswered(status)) << status;
    EXPECT_EQ(base::AdviceFor(status), base::RetryAdvice::kRepeat);
  }
}

}  // namespace luthier::worker

#endif  // LUTHIER_TESTS_CONTRACT_COORDINATOR_CONTRACT_H_
