// Studies that were deleted: hidden, brought back, gone for ever; and who may do that.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kDay = absl::Hours(24);

class CoreHidden : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }

  // Runs one operation of somebody.
  template <typename Op>
  auto Run(Op op, Authority by) {
    op.by = std::move(by);
    Answered<StudyReply> answer;
    op.done = answer.done();
    std::vector<Operation> operations;
    operations.push_back(std::move(op));
    h_.Batch(std::move(operations)).IgnoreError();  // A failed commit is the answer.
    return answer.get();
  }
  absl::StatusOr<StudyReply> Do(const std::string& id, Control control, Authority by = {},
                                const std::string& new_id = "") {
    ControlOp op{id, control, "", "user", {}};
    op.new_id = new_id;
    return Run(std::move(op), std::move(by));
  }
  absl::StatusOr<StudyReply> Undelete(const std::string& id, const std::string& new_id = "") {
    return Do(id, Control::kUndelete, {}, new_id);
  }
  std::vector<std::string> Hidden() {
    std::vector<std::string> ids;
    const std::vector<storage::StudyRecord> hidden = h_.memory.ListDeleted(0, 100).value();
    for (const storage::StudyRecord& record : hidden) ids.push_back(record.id);
    return ids;
  }

  Harness h_;
};

TEST_F(CoreHidden, ComesBackAsItWasAndGoesOn) {
  const Grant first = h_.Get("s", "a");
  ASSERT_TRUE(h_.Report(first, {Loss(3, 1)}).ok());
  ASSERT_TRUE(h_.Complete(first, Loss(2)).ok());
  const Grant second = h_.Get("s", "a");
  ASSERT_TRUE(h_.Release(second).ok());
  const storage::StudyRecord before = h_.Study("s");
  const std::vector<storage::TrialRecord> rows = h_.Rows("s");
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  EXPECT_THAT(Hidden(), ElementsAre("s"));
  // Nothing goes to it meanwhile.
  ExpectRefused(h_.Complete(second, Loss(1)), absl::StatusCode::kNotFound, reason::kNotFound, "does not exist");
  ExpectRefused(h_.Report(second, {Loss(1, 1)}), absl::StatusCode::kNotFound, reason::kNotFound, "does not exist");
  EXPECT_THAT(h_.Heartbeat("a", {second.token}), ElementsAre(study::Directive::kLost));
  EXPECT_THAT(h_.Suggest("", "a")->grants, IsEmpty());
  EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
  for (const bool restart : {false, true}) {
    if (restart) {
      ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
      h_.Restart();
    }
    const absl::StatusOr<StudyReply> back = Undelete("s");
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->record.key, before.key);
    EXPECT_EQ(h_.Study("s").state, before.state);
    EXPECT_EQ(h_.Rows("s"), rows);
    EXPECT_THAT(h_.Events("s", EventType::kStudyUndeleted), SizeIs(restart ? 2 : 1));
    EXPECT_THAT(Hidden(), IsEmpty());
    EXPECT_TRUE(h_.core->CheckInvariants().ok()) << h_.core->CheckInvariants();
  }
  const Grant third = h_.Get("s", "b");
  EXPECT_EQ(third.trial.number, second.trial.number);
  EXPECT_TRUE(h_.Complete(third, Loss(1)).ok());
  EXPECT_EQ(h_.Get("s", "b").trial.number, 3);
}

TEST_F(CoreHidden, AnAskThatWaitsIsServedByAStudyThatComesBack) {
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  const Answered<SuggestReply> ask = h_.Ask("", "a");
  EXPECT_FALSE(ask.ready());
  ASSERT_TRUE(Undelete("s").ok());
  ASSERT_TRUE(ask.ready());
  EXPECT_THAT(ask.get()->grants, SizeIs(1));
}

TEST_F(CoreHidden, KeepsWhatItsLastBatchChanged) {
  const Grant grant = h_.Get("s", "a");
  Answered<FinishReply> finished;
  Answered<StudyReply> deleted;
  FinishOp finish = MakeFinish(grant, CompleteContent{Loss(7), false, ""});
  finish.done = finished.done();
  ControlOp control{"s", Control::kDelete, "", "user", deleted.done()};
  std::vector<Operation> operations;
  operations.push_back(std::move(finish));
  operations.push_back(std::move(control));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  ASSERT_TRUE(finished.get().ok() && deleted.get().ok());
  ASSERT_TRUE(Undelete("s").ok());
  EXPECT_EQ(h_.Trial("s", 1).trial.state, study::TrialState::kComplete);
  EXPECT_EQ(h_.Trial("s", 1).trial.final_measurement->metrics.at("loss"), 7);
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CoreHidden, IsGoneAfterSevenDaysInWhichTheCoordinatorRan) {
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  h_.Pass(6 * kDay + absl::Hours(23));
  EXPECT_THAT(Hidden(), ElementsAre("s"));
  h_.Restart();
  h_.Pass(absl::Minutes(59));
  EXPECT_THAT(Hidden(), ElementsAre("s"));
  h_.Pass(absl::Minutes(1));
  EXPECT_THAT(Hidden(), IsEmpty());
  ExpectRefused(Undelete("s"), absl::StatusCode::kNotFound, reason::kNotFound,
                "no study \"s\" was deleted in the last 7 days; `luthier study list --deleted`");
}

TEST_F(CoreHidden, ItsNameIsFreeAndItComesBackUnderAnother) {
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  const storage::StudyKey first = h_.memory.ListDeleted(0, 1).value()[0].key;
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  ExpectRefused(Undelete("s"), absl::StatusCode::kAlreadyExists, reason::kStudyExists,
                "another study is called \"s\" now; bring this one back under a name of its own (`luthier study "
                "undelete s --as NAME`)");
  ASSERT_TRUE(Undelete("s", "old").ok());
  EXPECT_EQ(h_.Study("old").key, first);
  EXPECT_EQ(h_.Get("old", "a").trial.number, 1);
  // Of several with one name the one that was deleted last.
  const storage::StudyKey second = h_.Study("s").key;
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  h_.Pass(absl::Seconds(1));
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  const storage::StudyKey third = h_.Study("s").key;
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  EXPECT_EQ(Undelete("s")->record.key, third);
  EXPECT_EQ(Undelete("s", "older")->record.key, second);
}

TEST_F(CoreHidden, OfAProjectTheNewestAreKept) {
  Core::Options options = Harness::DefaultOptions();
  options.limits.deleted_studies = 2;
  Harness h(options);
  for (const char* id : {"a", "p/x", "b", "c"}) {
    ASSERT_TRUE(h.Create(id, MakeSpec()).ok());
    ASSERT_TRUE(h.Control(id, Control::kDelete).ok());
    h.Pass(absl::Seconds(1));
  }
  std::vector<std::string> ids;
  const std::vector<storage::StudyRecord> hidden = h.memory.ListDeleted(0, 100).value();
  for (const storage::StudyRecord& record : hidden) ids.push_back(record.id);
  EXPECT_THAT(ids, ElementsAre("p/x", "b", "c"));
}

TEST_F(CoreHidden, AFailedCommitHidesAndBringsBackNothing) {
  const absl::Status full = absl::UnavailableError("full");
  h_.storage.FailNextCommit(full);
  EXPECT_FALSE(h_.Control("s", Control::kDelete).ok());
  EXPECT_EQ(h_.Get("s", "a").trial.number, 1);
  ASSERT_TRUE(h_.Control("s", Control::kCancel).ok());
  ASSERT_TRUE(h_.Control("s", Control::kDelete).ok());
  h_.storage.FailNextCommit(full);
  EXPECT_FALSE(Undelete("s").ok());
  EXPECT_THAT(Hidden(), ElementsAre("s"));
  ASSERT_TRUE(Undelete("s").ok());
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CoreHidden, OfUsersItsOwnerAloneChangesAStudy) {
  CreateStudyOp create;
  create.id = "p/mine";
  create.spec = MakeSpec();
  create.owner = "p/alice";
  Answered<StudyReply> made;
  create.done = made.done();
  std::vector<Operation> operations;
  operations.push_back(std::move(create));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  EXPECT_EQ(made.get()->record.owner, "p/alice");
  const Authority alice{false, "p/alice", "p/alice/"}, bob{false, "p/bob", "p/bob/"}, maintainer{true, "p/eve", ""};
  const char* const words = "study \"p/mine\" was made by \"p/alice\", not by \"p/bob\"";
  for (const Control control :
       {Control::kPause, Control::kResume, Control::kStop, Control::kCancel, Control::kDelete}) {
    ExpectRefused(Do("p/mine", control, bob), absl::StatusCode::kPermissionDenied, reason::kRole, words);
  }
  EXPECT_TRUE(Do("p/mine", Control::kPause, alice).ok());
  EXPECT_TRUE(Do("p/mine", Control::kResume, maintainer).ok());
  ASSERT_TRUE(Do("p/mine", Control::kDelete, alice).ok());
  ExpectRefused(Do("p/mine", Control::kUndelete, bob), absl::StatusCode::kPermissionDenied, reason::kRole, words);
  EXPECT_EQ(Do("p/mine", Control::kUndelete, alice)->record.owner, "p/alice");
  // Nobody owns "s".
  EXPECT_TRUE(Do("s", Control::kPause, bob).ok());
}

TEST_F(CoreHidden, WhoHoldsATrialOfAnothersStudySetsItsAttributes) {
  CreateStudyOp create;
  create.id = "p/mine";
  create.spec = MakeSpec();
  create.owner = "p/alice";
  std::vector<Operation> operations;
  operations.push_back(std::move(create));
  ASSERT_TRUE(h_.Batch(std::move(operations)).ok());
  h_.Get("p/mine", "p/bob/w1");
  const auto set = [&](const std::string& name) {
    SetAttributesOp op;
    op.id = "p/mine";
    op.number = 1;
    op.attributes = {{"note", name}};
    op.by = {false, "p/" + name, "p/" + name + "/"};
    Answered<TrialReply> answer;
    op.done = answer.done();
    std::vector<Operation> one;
    one.push_back(std::move(op));
    EXPECT_TRUE(h_.Batch(std::move(one)).ok());
    return answer.get().status();
  };
  EXPECT_TRUE(set("bob").ok());
  EXPECT_TRUE(set("alice").ok());
  EXPECT_EQ(set("bo").code(), absl::StatusCode::kPermissionDenied);
}

}  // namespace
}  // namespace luthier::coordinator::testing
