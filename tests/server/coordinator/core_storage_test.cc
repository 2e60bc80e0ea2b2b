// What is left when a commit fails: nothing of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

absl::Status Full() {
  return base::MakeError(absl::StatusCode::kUnavailable, base::reason::kStorageFull, "disk full");
}

// One of everything. Steps that fail are taken again, as clients do; returns how many were refused.
int Workload(Harness& h) {
  int refused = 0;
  const auto until_ok = [&](auto call) {
    while (true) {
      auto reply = call();
      if (reply.ok()) return *std::move(reply);
      EXPECT_EQ(base::GetReason(reply.status()), base::reason::kStorageFull) << reply.status();
      EXPECT_TRUE(h.core->CheckInvariants().ok()) << h.core->CheckInvariants();
      ++refused;
    }
  };
  int request = 0;
  const auto get = [&](const std::string& id, const std::string& worker) {
    const std::string name = absl::StrCat("r", ++request);
    const SuggestReply reply = until_ok([&] { return h.Suggest(id, worker, 1, name); });
    EXPECT_EQ(reply.grants.size(), 1u);
    return reply.grants.at(0);
  };
  until_ok([&] { return h.Create("s", MakeSpec(6)); });
  NewTrial setting;
  setting.parameters["x"] = 0.5;
  until_ok([&] { return h.Enqueue("s", {setting, setting}, "enqueue"); });
  const Grant one = get("s", "a");
  until_ok([&] { return h.Report(one, {Loss(3, 1)}, "saved"); });
  until_ok([&] { return h.Report(one, {Loss(2, 2)}); });
  until_ok([&] { return h.Complete(one, Loss(1)); });
  const Grant two = get("s", "a");
  until_ok([&] { return h.Fail(two, MakeFailure(FailureKind::kInfra)); });
  const Grant two_again = get("s", "b");
  EXPECT_EQ(two_again.trial.number, 2);
  until_ok([&] { return h.Release(two_again); });
  const Grant two_last = get("s", "c");
  until_ok([&] { return h.Complete(two_last, Loss(std::nan(""))); });
  const Grant three = get("s", "a");
  until_ok([&] { return h.Control("s", Control::kPause, "pause"); });
  until_ok([&] { return h.Control("s", Control::kResume, "resume"); });
  until_ok([&] { return h.CancelTrial("s", three.trial.number); });
  until_ok([&] { return h.Create("t", MakeSpec(1)); });
  until_ok([&] { return h.Control("t", Control::kStop, "stop"); });
  until_ok([&] { return h.Control("t", Control::kDelete, "delete"); });
  for (int i = 0; i < 3; ++i) {
    const Grant grant = get("s", "a");
    until_ok([&] { return h.Complete(grant, Loss(i)); });
  }
  return refused;
}

std::string Rows(Harness& h) {
  std::string text;
  const std::vector<storage::StudyRecord> studies = h.memory.ListStudies("", 100).value();
  for (const storage::StudyRecord& study : studies) {
    absl::StrAppend(&text, study.id, " ", std::string(study::StudyStateName(study.state)), " ", study.state_reason,
                    "\n");
    for (const storage::TrialRecord& row : h.Rows(study.id)) {
      absl::StrAppend(&text, row.trial.number, " ", std::string(study::TrialStateName(row.trial.state)), " ",
                      study::FormatParameters(row.trial.parameters), " grants ", row.grants.size(), " releases ",
                      row.trial.releases, " checkpoint ", row.trial.checkpoint, " seqs ", row.create_seq, " ",
                      row.finish_seq, "\n");
    }
  }
  return text;
}

TEST(CoreStorage, WhicheverCommitFailsTheWorkloadEndsInTheSameState) {
  Harness undisturbed;
  ASSERT_EQ(Workload(undisturbed), 0);
  const std::string expected = Rows(undisturbed);
  const int64_t commits = undisturbed.storage.commits();
  ASSERT_GT(commits, 20);
  for (int64_t n = 1; n <= commits; ++n) {
    SCOPED_TRACE(absl::StrCat("commit ", n, " fails"));
    Harness h;
    h.storage.FailCommit(n, Full());
    EXPECT_EQ(Workload(h), 1);
    EXPECT_EQ(Rows(h), expected);
    ASSERT_TRUE(h.core->CheckInvariants().ok());
  }
}

TEST(CoreStorage, ARunOfFailedCommitsIsSurvivedAtAnyPoint) {
  Harness undisturbed;
  Workload(undisturbed);
  for (int64_t n = 1; n <= undisturbed.storage.commits(); n += 3) {
    Harness h;
    for (int64_t k = 0; k < 5; ++k) h.storage.FailCommit(n + k, Full());
    EXPECT_EQ(Workload(h), 5);
    EXPECT_EQ(Rows(h), Rows(undisturbed));
  }
}

TEST(CoreStorage, EveryAnswerOfAFailedBatchIsTheErrorAndNothingIsTold) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  const uint64_t seq = h.core->last_seq();
  std::vector<storage::Event> told;
  h.on_events = [&](const std::vector<storage::Event>& events) { told = events; };
  h.storage.FailNextCommit(Full());
  Answered<FinishReply> complete;
  Answered<FinishReply> conflicting;
  Answered<SuggestReply> ask;
  Answered<StudyReply> create;
  std::vector<Operation> operations;
  FinishOp op = MakeFinish(grant, CompleteContent{Loss(1), false, ""});
  op.done = complete.done();
  operations.push_back(op);
  op.content = CompleteContent{Loss(2), false, ""};  // Conflicts with what never happened.
  op.done = conflicting.done();
  operations.push_back(std::move(op));
  SuggestOp suggest = MakeSuggest("s", "b");
  suggest.done = ask.done();
  operations.push_back(std::move(suggest));
  operations.push_back(CreateStudyOp{"t", MakeSpec(), "user", create.done()});
  EXPECT_EQ(h.Batch(std::move(operations)), Full());
  EXPECT_EQ(complete.get().status(), Full());
  EXPECT_EQ(conflicting.get().status(), Full());
  EXPECT_EQ(ask.get().status(), Full());
  EXPECT_EQ(create.get().status(), Full());
  EXPECT_THAT(told, IsEmpty());
  EXPECT_EQ(h.core->last_seq(), seq);
  EXPECT_EQ(h.core->Studies().size(), 1u);
  EXPECT_TRUE(h.core->CheckInvariants().ok());

  EXPECT_EQ(h.Complete(grant, Loss(2))->state, TrialState::kComplete);  // The other result may still win.
  EXPECT_EQ(h.Get("s", "b").trial.number, 2);
  EXPECT_TRUE(h.Create("t", MakeSpec()).ok());
  EXPECT_EQ(h.Study("t").key, 2);
}

TEST(CoreStorage, AHolderHearsNothingOfAnEndThatIsNotCommitted) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  std::vector<study::Directive> told;
  h.before_answers = [&](bool) { told = h.leases->Renew({grant.token}, h.clock.Monotonic(), true).directives; };
  h.storage.FailNextCommit(Full());
  EXPECT_FALSE(h.CancelTrial("s", 1).ok());
  EXPECT_THAT(told, ElementsAre(study::Directive::kContinue));  // What a heartbeat at that moment would have said.
  h.storage.FailNextCommit(Full());
  EXPECT_FALSE(h.Complete(grant, Loss(1)).ok());
  EXPECT_THAT(told, ElementsAre(study::Directive::kContinue));
  h.before_answers = nullptr;
  EXPECT_THAT(h.Heartbeat("a", {grant.token}), ElementsAre(study::Directive::kContinue));
}

TEST(CoreStorage, AFailedCommitCostsNoWorkerItsLease) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  h.clock.Advance(absl::Seconds(59));
  h.storage.FailNextCommit(Full());
  EXPECT_FALSE(h.Suggest("s", "b").ok());
  h.Pass(absl::Seconds(59));
  EXPECT_EQ(h.Get("s", "b").trial.number, 2);
  EXPECT_TRUE(h.Complete(grant, Loss(1)).ok());
}

TEST(CoreStorage, MemoryAfterARollbackIsWhatARestartWouldRead) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant running = h.Get("s", "a");
  const Grant released = h.Get("s", "a");
  ASSERT_TRUE(h.Release(released).ok());
  h.storage.FailNextCommit(Full());
  EXPECT_FALSE(h.Control("s", Control::kCancel).ok());
  EXPECT_EQ(h.Get("s", "b").trial.number, 2);  // The retry is there again.
  EXPECT_EQ(h.Get("s", "b").trial.number, 3);
  EXPECT_EQ(h.Complete(running, Loss(1))->state, TrialState::kComplete);
  EXPECT_TRUE(h.core->CheckInvariants().ok());
}

TEST(CoreStorage, SuggestionsUnderWayWhenACommitFailsAreComputedAgain) {
  Harness h;
  h.late_suggestions = true;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Answered<SuggestReply> ask = h.Ask("s", "a");
  std::optional<ProposalsOp> stale = h.ComputeOne();
  ASSERT_TRUE(stale);
  h.storage.FailNextCommit(Full());
  EXPECT_FALSE(h.Control("s", Control::kPause).ok());
  std::vector<Operation> operations;
  operations.push_back(*std::move(stale));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  EXPECT_FALSE(ask.ready());
  std::optional<ProposalsOp> fresh = h.ComputeOne();
  ASSERT_TRUE(fresh);
  operations.clear();
  operations.push_back(*std::move(fresh));
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  ASSERT_TRUE(ask.ready());
  EXPECT_EQ(ask.get()->grants.at(0).trial.provenance.ask_index, 0u);
}

TEST(CoreStorage, AStorageThatCannotBeReadIsAnErrorNotAnAnswer) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const Grant grant = h.Get("s", "a");
  ASSERT_TRUE(h.Complete(grant, Loss(1)).ok());
  h.storage.FailReads(absl::DataLossError("page 7"));
  EXPECT_EQ(h.Complete(grant, Loss(1)).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(h.Suggest("s", "a", 1, "r1").status().code(), absl::StatusCode::kDataLoss);
  LeaseTable leases;
  Core core(&h.storage, &h.clock, &leases, Harness::DefaultOptions());
  EXPECT_EQ(core.Load().code(), absl::StatusCode::kDataLoss);
  h.storage.FailReads(absl::OkStatus());
  EXPECT_TRUE(h.Complete(grant, Loss(1)).ok());
}

TEST(CoreStorage, AStudyThatMissesARowIsSetAsideAtTheStart) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  storage::TrialRecord row;
  row.trial.number = 2;
  ASSERT_TRUE(h.memory.Commit({storage::PutTrial{h.Study("s").key, row}}).ok());
  LeaseTable leases;
  Core core(&h.storage, &h.clock, &leases, Harness::DefaultOptions());
  ASSERT_TRUE(core.Load().ok());
  ASSERT_EQ(core.damaged().count("s"), 1u);
  const absl::Status& damage = core.damaged().at("s").damage;
  EXPECT_EQ(damage.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(damage.message()), HasSubstr("study \"s\": trial 1, of which there is no row"));
}

TEST(CoreStorage, ARestartReadsManyStudiesAndTrials) {
  Harness h;
  for (int i = 0; i < 230; ++i) ASSERT_TRUE(h.Create(absl::StrCat("s", i), MakeSpec(i % 3 + 1)).ok());
  ASSERT_TRUE(h.Create("large", MakeSpec(3000)).ok());
  for (int i = 0; i < 35; ++i) {
    const SuggestReply reply = h.Suggest("large", absl::StrCat("w", i), 64).value();
    for (const Grant& grant : reply.grants) {
      if (grant.trial.number % 2 == 0) {
        ASSERT_TRUE(h.Complete(grant, Loss(1)).ok());
      }
    }
  }
  h.Restart();
  EXPECT_EQ(h.core->Studies().size(), 231u);
  EXPECT_TRUE(h.core->CheckInvariants().ok());
  EXPECT_EQ(h.leases->size(), 35u * 32u);
  EXPECT_EQ(h.Get("large", "a").trial.provenance.ask_index, 35u * 64u);
}

TEST(CoreStorage, AnAskOfAStudyWhoseCreationFailedGetsNothingOfTheNextStudy) {
  Harness h;
  h.storage.FailNextCommit(Full());
  SuggestOp ask = MakeSuggest("lost", "a");
  ask.deadline = absl::InfiniteDuration();
  Answered<SuggestReply> waiting;
  ask.done = waiting.done();
  std::vector<Operation> operations;
  operations.push_back(CreateStudyOp{"lost", MakeSpec(), "user", {}});
  operations.push_back(ControlOp{"lost", Control::kPause, "", "user", {}});  // So that the ask waits.
  operations.push_back(std::move(ask));
  EXPECT_FALSE(h.Batch(std::move(operations)).ok());
  ASSERT_TRUE(waiting.ready());
  EXPECT_EQ(base::GetReason(waiting.get().status()), base::reason::kStorageFull);
  ASSERT_TRUE(h.Create("other", MakeSpec()).ok());  // It gets the key that the lost one would have had.
  EXPECT_THAT(h.Rows("other"), ::testing::IsEmpty());
}

// --- What is put off at a start ---

class CorePutOff : public ::testing::Test {
 protected:
  // A study with a COMPLETE trial and one that was cancelled while "b" held it; it is over.
  void SetUp() override {
    ASSERT_TRUE(h_.Create("over", MakeSpec()).ok());
    ASSERT_TRUE(h_.Complete(h_.Get("over", "a"), Loss(1)).ok());
    cancelled_ = h_.Get("over", "b").token;
    ASSERT_TRUE(h_.Control("over", Control::kCancel).ok());
  }
  void Start() {
    h_.leases = std::make_unique<LeaseTable>();
    h_.core = std::make_unique<Core>(&h_.storage, &h_.clock, h_.leases.get(), Harness::DefaultOptions());
    ASSERT_TRUE(h_.core->Load(Extent::kUnfinished).ok());
  }
  int64_t Complete() const { return h_.core->CountTrials()[static_cast<size_t>(study::TrialState::kComplete)]; }
  study::Directive Hears() { return h_.leases->Renew({cancelled_}, h_.clock.Monotonic(), false).directives.at(0); }

  Harness h_;
  std::string cancelled_;
};

TEST_F(CorePutOff, AFinishedStudyIsReadWhenSomebodyAsksForIt) {
  Start();
  EXPECT_EQ(Complete(), 0);
  EXPECT_EQ(Hears(), study::Directive::kLost);
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
  const absl::StatusOr<TrialReply> again = h_.CancelTrial("over", 1);
  EXPECT_EQ(base::GetReason(again.status()), base::reason::kTrialFinal);
  EXPECT_EQ(Complete(), 1);
  EXPECT_EQ(Hears(), study::Directive::kStop);
  EXPECT_EQ(h_.core->LoadMore(1).value(), false);
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CorePutOff, TheRestIsReadAFewStudiesAtATime) {
  ASSERT_TRUE(h_.Create("over too", MakeSpec()).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("over too", "a"), Loss(1)).ok());
  ASSERT_TRUE(h_.Control("over too", Control::kStop).ok());
  Start();
  EXPECT_EQ(h_.core->LoadMore(1).value(), true);
  EXPECT_EQ(Complete(), 1);
  EXPECT_EQ(h_.core->LoadMore(1).value(), false);
  EXPECT_EQ(Complete(), 2);
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CorePutOff, AStudyWithAnOpenTrialIsNot) {
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("s", "a"), Loss(1)).ok());
  const Grant running = h_.Get("s", "a");
  ASSERT_TRUE(h_.Control("s", Control::kStop).ok());
  Start();
  EXPECT_EQ(Complete(), 1);
  EXPECT_EQ(h_.leases->size(), 1u);
  EXPECT_TRUE(h_.Complete(running, Loss(2)).ok());
}

TEST_F(CorePutOff, AnUnreadableStudyIsAnErrorToWhoAsksForIt) {
  Start();
  h_.storage.FailReads(absl::DataLossError("page 7"));
  EXPECT_EQ(h_.CancelTrial("over", 1).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(h_.core->LoadMore(1).status().code(), absl::StatusCode::kDataLoss);
  h_.storage.FailReads(absl::OkStatus());
  EXPECT_EQ(base::GetReason(h_.CancelTrial("over", 1).status()), base::reason::kTrialFinal);
}

}  // namespace
}  // namespace luthier::coordinator::testing
