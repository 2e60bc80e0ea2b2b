// Studies that go on: changed, with trials imported, retried, deleted and noted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

study::SpecChange MaxTrials(int64_t trials) {
  study::SpecChange change;
  change.max_trials = trials;
  return change;
}

ImportedTrial Result(double x, double loss) {
  ImportedTrial trial;
  trial.parameters = {{"x", x}, {"n", 3.0}};
  trial.measurement = Loss(loss);
  return trial;
}

ImportedTrial FailedElsewhere(double x) {
  ImportedTrial trial;
  trial.parameters = {{"x", x}, {"n", 3.0}};
  trial.state = TrialState::kFailed;
  trial.failure = MakeFailure(FailureKind::kConfig, "IMPORTED", "");
  return trial;
}

class CoreChanges : public ::testing::Test {
 protected:
  // Runs trials until the study has nothing more to give.
  void Work(const std::string& id, bool fail = false) {
    while (true) {
      const Answered<SuggestReply> ask = h_.Ask(id, "w");
      if (!ask.ready()) h_.Pass(absl::Seconds(61));
      ASSERT_TRUE(ask.ready() && ask.get().ok());
      if (ask.get()->grants.empty()) return;
      const Grant& grant = ask.get()->grants[0];
      if (fail) {
        // Of a cause each: three of one would pause the study.
        const std::string cause(static_cast<size_t>(grant.trial.number), 'a');
        ASSERT_TRUE(h_.Fail(grant, MakeFailure(FailureKind::kConfig, "EXIT_CODE", cause)).ok());
      } else {
        ASSERT_TRUE(h_.Complete(grant, Loss(std::get<double>(grant.trial.parameters.at("x")))).ok());
      }
    }
  }
  // What is stored is what memory holds, also after a restart, and every suggestion can be computed again.
  void ExpectSound(const std::string& id) {
    EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
    const ReplayReport report = VerifyReplay(&h_.memory, h_.Study(id)).value();
    EXPECT_THAT(report.mismatches, IsEmpty());
    h_.Restart();
    EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
  }
  Harness h_;
};

TEST_F(CoreChanges, MoreTrialsReopenACompletedStudy) {
  ASSERT_TRUE(h_.Create("s", BoSpec(6)).ok());
  Work("s");
  ASSERT_EQ(h_.Study("s").state, StudyState::kCompleted);
  const absl::StatusOr<StudyReply> reply = h_.Update("s", MaxTrials(12), "id");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->record.state, StudyState::kActive);
  EXPECT_EQ(reply->record.spec.budget.max_trials, 12);
  EXPECT_EQ(h_.Update("s", MaxTrials(12), "id")->seq, reply->seq);  // Sent again.
  Work("s");
  EXPECT_EQ(h_.Study("s").state, StudyState::kCompleted);
  EXPECT_THAT(h_.Rows("s"), SizeIs(12));
  ASSERT_THAT(h_.Events("s", EventType::kStudyUpdated), SizeIs(1));
  EXPECT_EQ(h_.Events("s", EventType::kStudyUpdated)[0].detail, "max_trials 6 -> 12");
  ExpectSound("s");
  // As many as there are: at once complete again. Fewer: refused.
  ASSERT_TRUE(h_.Update("s", MaxTrials(20)).ok());
  EXPECT_EQ(h_.Update("s", MaxTrials(12))->record.state, StudyState::kCompleted);
  ExpectRefused(h_.Update("s", MaxTrials(11)), absl::StatusCode::kInvalidArgument, "BAD_FIELD",
                "11 is less than the 12 trials that the study has");
  EXPECT_EQ(h_.Study("s").spec.budget.max_trials, 12);
}

TEST_F(CoreChanges, AnAnsweredStudyEndsAndGoesOnWhenToldTo) {
  study::StudySpec spec = BoSpec(60);
  study::ParameterSpec x;
  x.name = "x";
  x.domain = study::FloatRange{0.0, 1.0, study::Scale::kLinear, std::nullopt};
  spec.space = study::SearchSpace::Create({x}).value();
  spec.budget.until_answered = true;
  ASSERT_TRUE(h_.Create("s", spec).ok());
  const auto work = [&] {
    while (true) {
      const Answered<SuggestReply> ask = h_.Ask("s", "w");
      if (!ask.ready()) h_.Pass(absl::Seconds(61));
      ASSERT_TRUE(ask.ready() && ask.get().ok());
      if (ask.get()->grants.empty()) return;
      const double at = std::get<double>(ask.get()->grants[0].trial.parameters.at("x")) - 0.3;
      study::Measurement loss = Loss(1.0 + at * at);
      loss.standard_errors[kMetric] = 0.05;
      ASSERT_TRUE(h_.Complete(ask.get()->grants[0], loss).ok());
    }
  };
  work();
  ASSERT_EQ(h_.Study("s").state, StudyState::kCompleted);
  EXPECT_THAT(h_.Study("s").state_reason, ::testing::StartsWith("answered: no setting is expected to gain more than"));
  const size_t trials = h_.Rows("s").size();
  EXPECT_LT(trials, 30u);
  ExpectSound("s");
  study::SpecChange change;
  change.until_answered.emplace(false);
  const absl::StatusOr<StudyReply> reply = h_.Update("s", change);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->record.state, StudyState::kActive);
  EXPECT_EQ(h_.Events("s", EventType::kStudyUpdated)[0].detail, "until_answered true -> false");
  work();
  EXPECT_THAT(h_.Rows("s"), SizeIs(60));
  EXPECT_EQ(h_.Study("s").state_reason, "max_trials reached");
  ExpectSound("s");
}

TEST_F(CoreChanges, ASuggestionUnderWayIsOfTheStudyAsItIsNow) {
  study::StudySpec spec = BoSpec(8);
  ASSERT_TRUE(h_.Create("s", spec).ok());
  h_.late_suggestions = true;
  const Answered<SuggestReply> ask = h_.Ask("s", "w");
  std::optional<ProposalsOp> stale = h_.ComputeOne();
  ASSERT_TRUE(stale);
  study::SpecChange wider;
  study::ParameterSpec x = spec.space.parameters()[0];
  std::get<study::FloatRange>(x.domain).max = 100.0;
  wider.parameters = {{x}};
  ASSERT_TRUE(h_.Update("s", wider).ok());
  ASSERT_TRUE(h_.Batch({*std::move(stale)}).ok());
  EXPECT_FALSE(ask.ready());
  while (!ask.ready()) {
    std::optional<ProposalsOp> fresh = h_.ComputeOne();
    ASSERT_TRUE(fresh);
    ASSERT_TRUE(h_.Batch({*std::move(fresh)}).ok());
  }
  h_.late_suggestions = false;
  EXPECT_GT(ask.get()->grants.at(0).trial.provenance.prefix_seq, h_.Events("s", EventType::kStudyUpdated)[0].seq - 1);
  ASSERT_TRUE(h_.Complete(ask.get()->grants.at(0), Loss(1.0)).ok());
  Work("s");
  ExpectSound("s");
  double largest = 0.0;
  for (const storage::TrialRecord& row : h_.Rows("s")) {
    largest = std::max(largest, std::get<double>(row.trial.parameters.at("x")));
  }
  EXPECT_GT(largest, 1.0);
}

TEST_F(CoreChanges, SuggestionsBeforeAndAfterWideningCanBeReplayed) {
  study::StudySpec spec = BoSpec(7);
  ASSERT_TRUE(h_.Create("s", spec).ok());
  Work("s");
  for (const double max : {2.0, 5.0}) {
    study::SpecChange change = MaxTrials(h_.Study("s").spec.budget.max_trials + 4);
    study::ParameterSpec x = spec.space.parameters()[0];
    std::get<study::FloatRange>(x.domain).max = max;
    change.parameters = {{x}};
    ASSERT_TRUE(h_.Update("s", change).ok());
    Work("s");
  }
  EXPECT_THAT(h_.Rows("s"), SizeIs(15));
  ExpectSound("s");
}

TEST_F(CoreChanges, NarrowerRangesAndLaidOutSpacesAreRefused) {
  study::StudySpec spec = MakeSpec(5);
  ASSERT_TRUE(h_.Create("s", spec).ok());
  const auto changed = [&](auto change) {
    study::SpecChange out;
    study::ParameterSpec x = spec.space.parameters()[0], n = spec.space.parameters()[1];
    change(&x, &n);
    out.parameters = {{x, n}};
    return out;
  };
  const auto why = [&](const char* id, const study::SpecChange& change) {
    return std::string(h_.Update(id, change).status().message());
  };
  EXPECT_THAT(why("s", changed([](auto* x, auto*) { std::get<study::FloatRange>(x->domain).max = 0.5; })),
              HasSubstr("narrower range"));
  EXPECT_THAT(why("s", changed([](auto* x, auto*) { std::get<study::FloatRange>(x->domain).step = 0.5; })),
              HasSubstr("another step"));
  EXPECT_THAT(why("s", changed([](auto* x, auto*) { x->domain = study::IntRange{0, 100}; })),
              HasSubstr("another kind"));
  EXPECT_THAT(why("s", changed([](auto* x, auto*) { x->name = "y"; })), HasSubstr("is no parameter of the study"));
  spec.algorithm = study::SobolOptions();
  ASSERT_TRUE(h_.Create("sobol", spec).ok());
  EXPECT_THAT(why("sobol", changed([](auto*, auto* n) { std::get<study::IntRange>(n->domain).max = 20; })),
              HasSubstr("lays its settings out"));
  EXPECT_THAT(h_.Events("s"), SizeIs(1));
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  ExpectRefused(h_.Update("s", MaxTrials(50)), absl::StatusCode::kFailedPrecondition, reason::kStudyFinished,
                "STOPPED");
}

TEST_F(CoreChanges, ATargetThatIsMetNowEndsTheStudyAndOneThatIsNotLetsItGoOn) {
  ASSERT_TRUE(h_.Create("s", MakeSpec(100)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("s", "w"), Loss(0.5)).ok());
  study::SpecChange change;
  change.target_value = std::optional<double>(0.6);
  ASSERT_TRUE(h_.Update("s", change).ok());
  EXPECT_EQ(h_.Study("s").state, StudyState::kCompleted);
  EXPECT_EQ(h_.Study("s").state_reason, "target_value reached by trial 1");
  EXPECT_EQ(h_.Update("s", MaxTrials(200))->record.state, StudyState::kCompleted);  // It is still met.
  change.target_value = std::optional<double>();
  EXPECT_EQ(h_.Update("s", change)->record.state, StudyState::kActive);
  ExpectSound("s");
}

TEST_F(CoreChanges, FailedTrialsAreTriedAgainInPlace) {
  ASSERT_TRUE(h_.Create("s", BoSpec(6)).ok());
  Work("s", /*fail=*/true);
  ASSERT_EQ(h_.Study("s").state, StudyState::kCompleted);
  const absl::StatusOr<EnqueueReply> reply = h_.Retry("s", {}, "id");
  ASSERT_TRUE(reply.ok()) << reply.status();
  ASSERT_THAT(reply->trials, SizeIs(6));
  EXPECT_EQ(h_.Retry("s", {}, "id")->trials.size(), 6u);  // Sent again.
  for (int k = 0; k < 6; ++k) {
    const study::Trial& again = reply->trials[static_cast<size_t>(k)];
    EXPECT_EQ(again.retry_of, k + 1);
    EXPECT_EQ(again.parameters, h_.Trial("s", k + 1).trial.parameters);
    EXPECT_EQ(h_.Trial("s", k + 1).trial.retried_by, again.number);
  }
  EXPECT_EQ(h_.Study("s").state, StudyState::kActive);
  EXPECT_EQ(h_.Study("s").spec.budget.max_trials, 12);
  // The file that made it still names this study.
  EXPECT_TRUE(h_.Create("s", BoSpec(6)).ok());
  Work("s");
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->by_state[static_cast<size_t>(TrialState::kComplete)], 6);
  ASSERT_TRUE(h_.Update("s", MaxTrials(16)).ok());
  Work("s");
  ExpectSound("s");
  ExpectRefused(h_.Retry("s", {1}), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal, "was retried already");
  ExpectRefused(h_.Retry("s", {7}), absl::StatusCode::kFailedPrecondition, reason::kTrialFinal, "is COMPLETE");
  ExpectRefused(h_.Retry("s", {99}), absl::StatusCode::kNotFound, reason::kNotFound, "trial 99");
  EXPECT_THAT(h_.Retry("s", {})->trials, IsEmpty());
}

TEST_F(CoreChanges, RetryResumesAStudyThatPausedAfterFailures) {
  Core::Options options = Harness::DefaultOptions();
  options.failures_to_pause = 3;
  Harness h(options);
  ASSERT_TRUE(h.Create("s", MakeSpec(10)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h.Fail(h.Get("s", "w"), MakeFailure(FailureKind::kConfig)).ok());
  ASSERT_EQ(h.Study("s").state, StudyState::kPaused);
  ASSERT_TRUE(h.Retry("s", {2}).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  const Grant again = h.Get("s", "w");
  EXPECT_EQ(again.trial.retry_of, 2);
  ASSERT_TRUE(h.Complete(again, Loss(1)).ok());
  ASSERT_TRUE(h.Control("s", Control::kPause).ok());
  ASSERT_TRUE(h.Retry("s", {1}).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kPaused) << "a user paused it";
  EXPECT_TRUE(h.core->CheckInvariants().ok());
}

TEST_F(CoreChanges, DeletedTrialsAreNoLongerTheBest) {
  ASSERT_TRUE(h_.Create("s", BoSpec(9)).ok());
  const double losses[] = {3.0, 1.0, 2.0};
  for (const double loss : losses) ASSERT_TRUE(h_.Complete(h_.Get("s", "w"), Loss(loss)).ok());
  ASSERT_EQ(h_.memory.Summarize(h_.Study("s"))->best_trial, 2);
  ASSERT_TRUE(h_.DeleteTrial("s", 2).ok());
  EXPECT_TRUE(h_.DeleteTrial("s", 2).ok());
  EXPECT_THAT(h_.Events("s", EventType::kTrialDeleted), SizeIs(1));
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->best_trial, 3);
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->deleted, 1);
  // The rules of the budget look at what is left.
  study::SpecChange change;
  change.target_value = std::optional<double>(1.5);
  EXPECT_EQ(h_.Update("s", change)->record.state, StudyState::kActive);
  const Grant open = h_.Get("s", "w");
  ExpectRefused(h_.DeleteTrial("s", open.trial.number), absl::StatusCode::kFailedPrecondition, reason::kTrialOpen,
                "cancel it first");
  ASSERT_TRUE(h_.Complete(open, Loss(5)).ok());
  Work("s");
  ExpectSound("s");
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->best_trial == 2, false);
}

TEST_F(CoreChanges, ResultsFromElsewhereAreImported) {
  ASSERT_TRUE(h_.Create("s", BoSpec(5)).ok());
  std::vector<ImportedTrial> trials = {Result(0.1, 4.0), Result(0.2, 2.0), FailedElsewhere(0.3),
                                       Result(0.4, std::numeric_limits<double>::quiet_NaN())};
  trials[0].curve = {Loss(9.0, 1), Loss(5.0, 2)};
  const absl::StatusOr<ImportReply> reply = h_.Import("s", trials, "id");
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_THAT(reply->numbers, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(h_.Import("s", trials, "id")->numbers, ElementsAre(1, 2, 3, 4));  // Sent again.
  EXPECT_THAT(h_.Rows("s"), SizeIs(4));
  EXPECT_EQ(h_.Study("s").spec.budget.max_trials, 9);
  EXPECT_EQ(h_.Trial("s", 4).trial.state, TrialState::kFailed);
  EXPECT_EQ(h_.Trial("s", 4).trial.failure->reason, "NON_FINITE");
  EXPECT_EQ(h_.Trial("s", 1).trial.provenance.designer, "import");
  EXPECT_THAT(*h_.memory.ListMeasurements(h_.Study("s").key, 1, 0), SizeIs(2));
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->best_trial, 2);
  Work("s");
  EXPECT_THAT(h_.Rows("s"), SizeIs(9));
  // Finished, it takes more, and goes on no further than its budget.
  ASSERT_TRUE(h_.Import("s", {Result(0.5, 1e-9)}).ok());
  EXPECT_EQ(h_.Study("s").state, StudyState::kCompleted);
  EXPECT_EQ(h_.memory.Summarize(h_.Study("s"))->best_trial, 10);
  ASSERT_TRUE(h_.Update("s", MaxTrials(12)).ok());
  Work("s");
  ExpectSound("s");
}

TEST_F(CoreChanges, BadImportsChangeNothing) {
  ASSERT_TRUE(h_.Create("s", MakeSpec(5)).ok());
  const auto why = [&](std::vector<ImportedTrial> trials) {
    return std::string(h_.Import("s", std::move(trials)).status().message());
  };
  ImportedTrial unknown = Result(0.1, 1), missing = Result(0.1, 1), range = Result(7.0, 1), silent = Result(0.1, 1);
  unknown.parameters["y"] = 1.0;
  missing.parameters.erase("n");
  silent.measurement->metrics = {{"accuracy", 1.0}};
  EXPECT_THAT(why({Result(0.1, 1), unknown}), HasSubstr("trials[1].parameters.y"));
  EXPECT_THAT(why({missing}), HasSubstr("trials[0].parameters.n"));
  EXPECT_THAT(why({range}), HasSubstr("trials[0].parameters.x"));
  EXPECT_THAT(why({silent}), HasSubstr("lacks the study's metric"));
  ImportedTrial curve = Result(0.1, 1);
  curve.curve = {Loss(1, 3), Loss(1, 3)};
  EXPECT_THAT(why({curve}), HasSubstr("is not above the one before"));
  EXPECT_THAT(h_.Events("s"), SizeIs(1));
  study::StudySpec fixed = MakeSpec(5);
  fixed.reproducible = true;
  fixed.budget.max_parallel = 1;
  ASSERT_TRUE(h_.Create("fixed", fixed).ok());
  ExpectRefused(h_.Import("fixed", {Result(0.1, 1)}), absl::StatusCode::kFailedPrecondition, reason::kReproducible,
                "is reproducible");
  ASSERT_TRUE(h_.Create("full", MakeSpec(study::kMaxTrials)).ok());
  ExpectRefused(h_.Import("full", {Result(0.1, 1)}), absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                "at most 1000000 trials");
}

TEST_F(CoreChanges, AttributesMergeAndHaveALimit) {
  ASSERT_TRUE(h_.Create("s", MakeSpec(5)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("s", "w"), Loss(1)).ok());
  ASSERT_TRUE(h_.SetAttributes("s", 1, {{"a", "1"}, {"b", "2"}}).ok());
  ASSERT_TRUE(h_.SetAttributes("s", 1, {{"a", ""}, {"c", "3"}}).ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.attributes, (std::map<std::string, std::string>{{"b", "2"}, {"c", "3"}}));
  EXPECT_THAT(h_.Events("s", EventType::kTrialNoted), SizeIs(2));
  std::map<std::string, std::string> large;
  for (int i = 0; i < 5; ++i) large[absl::StrCat("k", i)] = std::string(60 << 10, 'x');
  ExpectRefused(h_.SetAttributes("s", 1, large), absl::StatusCode::kResourceExhausted, reason::kLimitExceeded, "bytes");
  ExpectSound("s");
}

TEST_F(CoreChanges, AStudyWithAResourceAndNoAlgorithmStopsBadTrials) {
  study::StudySpec spec = MakeSpec(8);
  spec.algorithm = study::AutoOptions();
  spec.resource = study::Resource{1, 27, "epochs"};
  study::StudySpec before = spec;  // As a program without that rule stored it.
  std::get<study::AutoOptions>(before.algorithm).rules = 0;
  for (const bool parts : {true, false}) {
    const std::string id = parts ? "parts" : "before";
    ASSERT_TRUE(h_.Create(id, parts ? spec : before).ok());
    EXPECT_TRUE(std::holds_alternative<study::AutoOptions>(h_.Study(id).spec.algorithm)) << "as it was stated";
    for (int i = 1; i <= 4; ++i) {
      const Grant good = h_.Get(id, "w");
      for (const int64_t step : {1, 3, 9}) ASSERT_TRUE(h_.Report(good, {Loss(1.0 - 0.1 * i, step)}).ok());
      ASSERT_TRUE(h_.Complete(good, Loss(1.0 - 0.1 * i, 27)).ok());
    }
    const Grant bad = h_.Get(id, "w");
    EXPECT_EQ(h_.Report(bad, {Loss(9.0, 9)})->directive, parts ? study::Directive::kStop : study::Directive::kContinue);
    EXPECT_EQ(h_.Trial(id, bad.trial.number).trial.provenance.designer, parts ? "asha" : "auto");
    ExpectSound(id);
  }
}

// A commit that fails, or a kill before it, leaves nothing of a change; one that succeeds leaves all of it.
TEST_F(CoreChanges, EachChangeIsAllOrNothing) {
  const std::vector<std::function<Operation()>> changes = {
      [] {
        UpdateStudyOp op;
        op.id = "s";
        op.change.max_trials = 30;
        return Operation(std::move(op));
      },
      [] { return Operation(ImportOp{"s", {Result(0.1, 1), Result(0.2, 2)}, "", "u", {}}); },
      [] { return Operation(RetryOp{"s", {1, 2}, 1000, "", "u", {}}); },
      [] { return Operation(DeleteTrialOp{"s", 3, "u", {}}); },
      [] { return Operation(SetAttributesOp{"s", 3, {{"a", "b"}}, "u", {}}); },
  };
  for (size_t k = 0; k < changes.size(); ++k) {
    SCOPED_TRACE(k);
    Harness h;
    ASSERT_TRUE(h.Create("s", BoSpec(5)).ok());
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(h.Fail(h.Get("s", "w"), MakeFailure(FailureKind::kConfig)).ok());
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(h.Complete(h.Get("s", "w"), Loss(i + 1)).ok());
    const storage::StudyRecord before = h.Study("s");
    const std::vector<storage::TrialRecord> rows = h.Rows("s");
    h.storage.FailNextCommit(absl::UnavailableError("full"));
    EXPECT_FALSE(h.Batch({changes[k]()}).ok());
    EXPECT_EQ(h.Study("s"), before);
    EXPECT_EQ(h.Rows("s"), rows);
    EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
    h.Restart();
    ASSERT_TRUE(h.Batch({changes[k](), changes[k == 0 ? 1 : 0]()}).ok());  // With another in one batch.
    EXPECT_GT(h.Study("s").update_seq, before.update_seq);
    EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
    const storage::StudyRecord after = h.Study("s");
    h.Restart();
    EXPECT_EQ(h.Study("s"), after);
    EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
    EXPECT_THAT(VerifyReplay(&h.memory, h.Study("s"))->mismatches, IsEmpty());
  }
}

}  // namespace
}  // namespace luthier::coordinator::testing
