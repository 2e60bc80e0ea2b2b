// Rows that older programs wrote, and rows that are damaged: the caller who needs them is told DATA_LOSS, the process
// goes on and serves everybody else.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/proposals/replay.h"
#include "server/coordinator/writer/coordinator.h"
#include "server/storage/connection.h"
#include "server/storage/data_directory.h"
#include "server/storage/row_sums.h"
#include "server/storage/sqlite_storage.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/future.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/coordinator/rung_designer.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::coordinator::testing {
namespace {

std::unique_ptr<search::Designer> MakeDesigner(const study::StudySpec& spec) {
  if (spec.resource) return std::make_unique<RungDesigner>(spec);
  return search::CreateDesigner(spec);
}

// A coordinator on a database that can be changed by hand while it is down.
class DamagedRows : public ::testing::Test {
 protected:
  void Start() {
    storage::SqliteOptions options;
    options.directory = directory_.path();
    storage_ = storage::SqliteStorage::Open(options).value();
    Coordinator::Options coordinator;
    coordinator.core.token_seed = 1;
    coordinator.tick = absl::Milliseconds(1);
    coordinator.designers = MakeDesigner;
    coordinator_ = Coordinator::Start(storage_.get(), &clock_, coordinator).value();
  }
  // Returns how many rows it changed. They fit their checksums afterwards, unless `sum` is false.
  int ChangeByHand(const std::string& sql, bool sum = true) {
    coordinator_.reset();
    storage_.reset();
    int changed = 0;
    {
      const auto db =
          storage::OpenConnection({.path = storage::DatabasePath(directory_.path()), .vfs = "", .writer = true})
              .value();
      changed = db->exec(sql);
      if (sum) db->exec("UPDATE event SET sum = " LUTHIER_EVENT_SUM "; UPDATE request SET sum = " LUTHIER_REQUEST_SUM);
    }
    Start();
    return changed;
  }
  absl::StatusOr<StudyReply> Create(const std::string& id, const study::StudySpec& spec) {
    return Send<StudyReply>(*coordinator_, CreateStudyOp{id, spec, "user", {}}).Wait();
  }
  absl::StatusOr<SuggestReply> Suggest(const std::string& id, const std::string& request_id) {
    SuggestOp op = MakeSuggest(id, "a", 1, request_id);
    op.deadline = absl::InfiniteDuration();
    return Send<SuggestReply>(*coordinator_, std::move(op)).Wait();
  }
  absl::StatusOr<EnqueueReply> Enqueue(const std::string& request_id) {
    return Send<EnqueueReply>(*coordinator_, EnqueueOp{"s", {NewTrial(), NewTrial()}, request_id, "user", {}}).Wait();
  }
  absl::StatusOr<StudyReply> Pause(const std::string& request_id) {
    return Send<StudyReply>(*coordinator_, ControlOp{"s", Control::kPause, request_id, "user", {}}).Wait();
  }
  // Study s with trials 1 and 2 from request "enqueue", the first of them granted to request "ask", paused by request
  // "pause".
  void MakeRequests() {
    Start();
    ASSERT_TRUE(Create("s", MakeSpec()).ok());
    ASSERT_TRUE(Enqueue("enqueue").ok());
    const absl::StatusOr<SuggestReply> asked = Suggest("s", "ask");
    ASSERT_TRUE(asked.ok() && asked->grants.size() == 1) << asked.status();
    token_ = asked->grants[0].token;
    const absl::StatusOr<StudyReply> paused = Pause("pause");
    ASSERT_TRUE(paused.ok());
    pause_seq_ = paused->seq;
  }
  // Study s. Trial 1 reports at step 1, pauses, is continued and completes at step 3; trial 2 pauses at step 1.
  void MakeParts() {
    Start();
    ASSERT_TRUE(Create("s", PartsSpec(2)).ok());
    std::map<int64_t, Grant> running;
    for (int i = 0; i < 3; ++i) {
      const absl::StatusOr<SuggestReply> reply = Suggest("s", "");
      ASSERT_TRUE(reply.ok() && reply->grants.size() == 1) << reply.status();
      const Grant& grant = reply->grants[0];
      ReportOp report;
      report.id = "s";
      report.number = grant.trial.number;
      report.token = grant.token;
      report.measurements = {Loss(0.5, grant.target_step)};
      ASSERT_TRUE(Send<ReportReply>(*coordinator_, report).Wait().ok());
      CompleteContent content{Loss(0.5, grant.target_step), false, ""};
      content.paused = grant.target_step < kLastTarget;
      ASSERT_TRUE(Send<FinishReply>(*coordinator_, MakeFinish(grant, content)).Wait().ok());
    }
  }
  absl::StatusOr<ReplayReport> Replay() {
    return VerifyReplay(storage_.get(), storage_->GetStudy("s").value(), MakeDesigner);
  }
  void ExpectDamaged(const absl::Status& status, const std::string& what) {
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("restore a backup"));
  }

  luthier::testing::TemporaryDirectory directory_;
  base::ManualClock clock_;
  std::unique_ptr<storage::SqliteStorage> storage_;
  std::unique_ptr<Coordinator> coordinator_;
  std::string token_;
  uint64_t pause_seq_ = 0;
};

// "typed = 0, reply = …": a row of an older program.
std::string Legacy(const std::string& id, const std::string& text) {
  return absl::StrCat("UPDATE request SET typed = 0, reply = CAST('", text, "' AS BLOB) WHERE id = CAST('", id,
                      "' AS BLOB);");
}

TEST_F(DamagedRows, RepliesOfOlderProgramsAreGivenAgain) {
  MakeRequests();
  EXPECT_EQ(ChangeByHand(Legacy("enqueue", "1,1,2")), 1);
  EXPECT_EQ(ChangeByHand(Legacy("ask", absl::StrCat("1,1:", absl::BytesToHexString(token_)))), 1);
  EXPECT_EQ(ChangeByHand(Legacy("pause", absl::StrCat(pause_seq_))), 1);
  const absl::StatusOr<EnqueueReply> enqueued = Enqueue("enqueue");
  ASSERT_TRUE(enqueued.ok()) << enqueued.status();
  ASSERT_EQ(enqueued->trials.size(), 2u);
  EXPECT_EQ(enqueued->trials[1].number, 2);
  const absl::StatusOr<SuggestReply> asked = Suggest("s", "ask");
  ASSERT_TRUE(asked.ok()) << asked.status();
  ASSERT_EQ(asked->grants.size(), 1u);
  EXPECT_EQ(asked->grants[0].trial.number, 1);
  EXPECT_EQ(asked->grants[0].token, token_);
  EXPECT_EQ(asked->grants[0].attempt, 1);
  const absl::StatusOr<StudyReply> paused = Pause("pause");
  ASSERT_TRUE(paused.ok()) << paused.status();
  EXPECT_EQ(paused->seq, pause_seq_);
}

TEST_F(DamagedRows, ADamagedReplyIsDataLossToWhoSendsTheRequestAgain) {
  MakeRequests();
  const std::vector<std::string> damages = {
      "UPDATE request SET reply = x'ff';",                           // No message.
      "UPDATE request SET reply = x'';",                             // Of no type.
      "UPDATE request SET typed = 0, reply = x'';",                  // No text.
      "UPDATE request SET typed = 0, reply = CAST('1,x' AS BLOB);",  // A text that nothing wrote.
      "UPDATE request SET typed = 0, reply = CAST('17' AS BLOB);",   // Of a control call, …
      Legacy("pause", "1,1"),                                        // … and of any other.
      Legacy("enqueue", "1,1,99"),                                   // A trial that there is not.
      Legacy("ask", "1,99:00"),                                      // Likewise.
      Legacy("ask", "1,1:00112233445566778899aabbccddeeff"),         // A token that nobody got.
  };
  std::set<std::string> damaged;
  for (const std::string& sql : damages) {
    SCOPED_TRACE(sql);
    EXPECT_GE(ChangeByHand(sql), 1);
    for (const std::string id : {"enqueue", "ask", "pause"}) {
      absl::Status status;
      if (id == "enqueue") status = Enqueue(id).status();
      if (id == "ask") status = Suggest("s", id).status();
      if (id == "pause") status = Pause(id).status();
      if (status.ok()) continue;
      ExpectDamaged(status, absl::StrCat("request \"", id, "\""));
      damaged.insert(id);
    }
    // Nobody else notices.
    EXPECT_TRUE(Pause("").ok());
    EXPECT_TRUE(coordinator_->serving());
  }
  EXPECT_EQ(damaged.size(), 3u);
  EXPECT_EQ(storage_->ListTrials(1, {}, 0, 10)->size(), 2u);  // No request took effect again.
}

TEST_F(DamagedRows, LogsOfOlderProgramsReplay) {
  MakeParts();
  ASSERT_EQ(Replay()->checked, 3);
  EXPECT_THAT(Replay()->mismatches, IsEmpty());
  EXPECT_GE(ChangeByHand("UPDATE event SET facts = NULL;"), 10);
  const absl::StatusOr<ReplayReport> report = Replay();
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->checked, 3);
  EXPECT_THAT(report->mismatches, IsEmpty());
}

// Rows that are whole, but do not belong together: what they would be applied to does not bear it.
TEST_F(DamagedRows, AHistoryWithAHoleIsDataLossToWhoNeedsIt) {
  MakeParts();
  ASSERT_EQ(ChangeByHand(absl::StrCat("DELETE FROM event WHERE trial = 1 AND type = ",
                                      static_cast<int>(EventType::kTrialPaused))),
            1);
  ExpectDamaged(Replay().status(), "does not fit trial");
  ExpectDamaged(Suggest("s", "").status(), "does not fit trial");
  ASSERT_TRUE(Create("t", MakeSpec()).ok());
  EXPECT_TRUE(Suggest("t", "").ok());
  EXPECT_TRUE(coordinator_->serving());
}

class DamagedStudies : public DamagedRows, public ::testing::WithParamInterface<const char*> {};

TEST_P(DamagedStudies, AreSetAsideAndCanBeDeleted) {
  MakeRequests();
  ASSERT_TRUE(Create("t", MakeSpec()).ok());
  ASSERT_EQ(ChangeByHand(GetParam(), /*sum=*/false), 1);
  for (const absl::Status& status :
       {Suggest("s", "").status(), Pause("").status(), Create("s", MakeSpec()).status(), coordinator_->DamageOf("s")}) {
    ExpectDamaged(status, "study \"s\"");
    EXPECT_THAT(std::string(status.message()), HasSubstr("luthier admin doctor"));
  }
  EXPECT_TRUE(Suggest("t", "").ok());
  EXPECT_TRUE(coordinator_->DamageOf("t").ok());
  const absl::StatusOr<StudyReply> deleted =
      Send<StudyReply>(*coordinator_, ControlOp{"s", Control::kDelete, "", "user", {}}).Wait();
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_TRUE(coordinator_->DamageOf("s").ok());
  ASSERT_TRUE(Create("s", MakeSpec()).ok());
  EXPECT_EQ(ChangeByHand("DELETE FROM request WHERE id = x'00'"), 0);  // A restart.
  EXPECT_TRUE(Suggest("s", "").ok());
  EXPECT_TRUE(coordinator_->serving());
}
INSTANTIATE_TEST_SUITE_P(All, DamagedStudies,
                         ::testing::Values("UPDATE trial SET body = x'00' WHERE study = 1 AND number = 2",
                                           "DELETE FROM trial WHERE study = 1 AND number = 2",
                                           "UPDATE study SET state_reason = 'x' WHERE key = 1"));

struct Damage {
  EventType type;
  std::string change;
};

class DamagedEvents : public DamagedRows, public ::testing::WithParamInterface<Damage> {};

TEST_P(DamagedEvents, AreDataLossToWhoNeedsTheHistory) {
  MakeParts();
  const size_t events = storage_->ListEvents(1, 0, 1000)->size();
  ASSERT_GE(ChangeByHand(absl::StrCat("UPDATE event SET ", GetParam().change,
                                      " WHERE type = ", static_cast<int>(GetParam().type), ";")),
            1);
  ExpectDamaged(Replay().status(), "is damaged");
  ExpectDamaged(Suggest("s", "").status(), "is damaged");
  ExpectDamaged(Suggest("s", "again").status(), "is damaged");
  // The log can still be looked at, and other studies are served.
  EXPECT_EQ(storage_->ListEvents(1, 0, 1000)->size(), events);
  ASSERT_TRUE(Create("t", MakeSpec()).ok());
  EXPECT_TRUE(Suggest("t", "").ok());
  EXPECT_TRUE(coordinator_->serving());
}
INSTANTIATE_TEST_SUITE_P(
    All, DamagedEvents,
    ::testing::Values(Damage{EventType::kMeasurement, "facts = x'ff'"}, Damage{EventType::kMeasurement, "facts = x''"},
                      Damage{EventType::kMeasurement, "facts = NULL, detail = 'stp=1'"},
                      Damage{EventType::kTrialPromoted, "facts = x'ff'"},
                      Damage{EventType::kTrialPromoted, "facts = NULL, detail = 'step=3'"},
                      // An ask that was answered otherwise.
                      Damage{EventType::kTrialPromoted, "facts = NULL, detail = 'step=3 ask=99'"}));

}  // namespace
}  // namespace luthier::coordinator::testing
