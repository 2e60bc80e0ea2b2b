#include "server/access/audit.h"

#include <SQLiteCpp/SQLiteCpp.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/storage/connection.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::access::testing {
namespace {

AuditRecord Entry(const std::string& token, const std::string& method, const std::string& outcome) {
  AuditRecord entry;
  entry.token = token;
  entry.peer = "ipv4:10.0.0.7";
  entry.method = method;
  entry.outcome = outcome;
  entry.refused = outcome != "OK";
  return entry;
}

class AuditTest : public ::testing::Test {
 protected:
  void Open(int64_t max_audit = AccessStore::kMaxAudit) {
    audit_.reset();
    store_ = AccessStore::Open(dir_.path(), max_audit).value();
    audit_ = std::make_unique<Audit>(store_.get(), &clock_);
  }

  // "token method outcome times", newest first.
  std::vector<std::string> Lines(AuditKind kind = AuditKind::kAll) {
    audit_->Flush();
    std::vector<std::string> lines;
    for (int64_t before = 0;;) {
      const std::vector<AuditRecord> page = store_->Audit(before, 3, kind).value();
      for (const AuditRecord& e : page) {
        lines.push_back(absl::StrCat(e.token, " ", e.method, " ", e.outcome, " ", e.times));
        before = e.number;
      }
      if (page.empty()) return lines;
    }
  }

  luthier::testing::TemporaryDirectory dir_;
  base::ManualClock clock_;
  std::unique_ptr<AccessStore> store_;
  std::unique_ptr<Audit> audit_;
};

TEST_F(AuditTest, RefusalsOfACallerAreOneEntryAMinute) {
  Open();
  const absl::Time begin = clock_.Wall();
  for (int i = 0; i < 3000; ++i) audit_->Add(Entry("id1", "GetStudy", "NOT_FOUND"));
  audit_->Add(Entry("id2", "GetStudy", "NOT_FOUND"));
  audit_->Add(Entry("id1", "DeleteStudy", "OK"));
  clock_.Advance(absl::Seconds(59));
  audit_->Add(Entry("id1", "GetStudy", "NOT_FOUND"));
  const absl::Time last = clock_.Wall();
  EXPECT_EQ(Lines(AuditKind::kRefusals),
            (std::vector<std::string>{"id2 GetStudy NOT_FOUND 1", "id1 GetStudy NOT_FOUND 3001"}));
  EXPECT_EQ(Lines(AuditKind::kChanges), std::vector<std::string>{"id1 DeleteStudy OK 1"});
  EXPECT_EQ(Lines().size(), 3u);
  const AuditRecord folded = store_->Audit(0, 10, AuditKind::kRefusals).value()[1];
  EXPECT_EQ(folded.time, begin);
  EXPECT_EQ(folded.last_time, last);
  clock_.Advance(absl::Seconds(1));
  audit_->Add(Entry("id1", "GetStudy", "NOT_FOUND"));
  EXPECT_EQ(Lines(AuditKind::kRefusals)[0], "id1 GetStudy NOT_FOUND 1");
  // Numbers go on where they were, whoever writes.
  Open();
  audit_->Add(Entry("id1", "StopStudy", "OK"));
  EXPECT_EQ(Lines()[0], "id1 StopStudy OK 1");
  EXPECT_EQ(Lines().size(), 5u);
}

TEST_F(AuditTest, ManyKindsOfRefusalsAddFewEntries) {
  Open();
  for (int i = 0; i < 1000; ++i) audit_->Add(Entry("id1", absl::StrCat("Method", i % 100), "ROLE"));
  const std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), Audit::kMaxAlike + 1);
  EXPECT_EQ(lines[0], absl::StrCat("id1  OTHERS ", 1000 - 10 * Audit::kMaxAlike));
  EXPECT_EQ(lines[1], "id1 Method7 ROLE 10");
}

TEST_F(AuditTest, StrangersOfManyAddressesAddFewEntries) {
  Open();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 5000; ++i) {
      AuditRecord entry = Entry("", "GetStudy", "BAD_TOKEN");
      entry.peer = absl::StrCat("ipv6:[2001:db8::", i, "]");
      audit_->Add(std::move(entry));
    }
    EXPECT_EQ(Lines().size(), (round + 1) * (Audit::kMaxAddresses + 1));
    EXPECT_EQ(store_->Audit(0, 1).value()[0].peer, "");
    EXPECT_EQ(store_->Audit(0, 1).value()[0].times, 5000 - static_cast<int64_t>(Audit::kMaxAddresses));
    clock_.Advance(absl::Minutes(1));
  }
}

TEST_F(AuditTest, RefusalsPushOutNoChange) {
  Open(/*max_audit=*/100);
  for (int i = 0; i < 100; ++i) audit_->Add(Entry("admin", "CreateToken", "OK"));
  for (int minute = 0; minute < 300; ++minute) {
    audit_->Add(Entry("thief", "GetStudy", "NOT_FOUND"));
    clock_.Advance(absl::Minutes(1));
  }
  EXPECT_EQ(Lines(AuditKind::kChanges).size(), 100u);
  EXPECT_EQ(Lines(AuditKind::kRefusals).size(), 100u);
}

TEST_F(AuditTest, TheCallerWithTheMostEntriesLosesTheOldest) {
  Open(/*max_audit=*/100);
  for (int i = 0; i < 5; ++i) audit_->Add(Entry("admin", absl::StrCat("CreateToken", i), "OK"));
  audit_->Flush();
  for (int i = 0; i < 5000; ++i) {
    audit_->Add(Entry("thief", absl::StrCat("SetAttributes", i), "OK"));
    if (i % 37 == 0) audit_->Flush();
  }
  std::vector<std::string> lines = Lines();
  ASSERT_EQ(lines.size(), 100u);
  EXPECT_EQ(lines[0], "thief SetAttributes4999 OK 1");
  EXPECT_EQ(lines[94], "thief SetAttributes4905 OK 1");
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(lines[static_cast<size_t>(95 + i)], absl::StrCat("admin CreateToken", 4 - i, " OK 1"));
  // The same after a restart, which counts anew; equals take turns.
  Open(/*max_audit=*/100);
  for (int i = 0; i < 1000; ++i) audit_->Add(Entry(i % 2 == 0 ? "thief" : "other", "SetAttributes", "OK"));
  lines = Lines();
  EXPECT_EQ(lines.size(), 100u);
  EXPECT_EQ(lines[99], "admin CreateToken0 OK 1");
}

TEST_F(AuditTest, RefusalsOfOlderProgramsAreMoved) {
  Open();
  audit_->Add(Entry("id1", "DeleteStudy", "OK"));
  audit_->Flush();
  audit_.reset();
  store_.reset();
  {
    const auto db =
        storage::OpenConnection({.path = dir_.path() + "/" + AccessStore::kFile, .vfs = "", .writer = true}).value();
    db->exec(R"(
      DROP TABLE refusals; DROP INDEX audit_by_token; DROP TABLE requests;
      ALTER TABLE tokens DROP COLUMN request; ALTER TABLE tokens DROP COLUMN unclaimed;
      INSERT INTO audit (time, token, name, peer, method, object, request_id, outcome, times)
        VALUES (7, 'id1', 'n', 'p', 'DeleteStudy', 'o', 'r', 'NOT_FOUND', 3);
      INSERT INTO audit (time, token, name, peer, method, object, request_id, outcome, times)
        VALUES (8, 'id1', 'n', 'p', 'DeleteStudy', 'o', 'r', 'CANCELLED', 1);
      PRAGMA user_version = 4)");
  }
  Open();
  EXPECT_EQ(Lines(AuditKind::kRefusals), std::vector<std::string>{"id1 DeleteStudy NOT_FOUND 3"});
  EXPECT_EQ(Lines(AuditKind::kChanges),
            (std::vector<std::string>{"id1 DeleteStudy CANCELLED 1", "id1 DeleteStudy OK 1"}));
  audit_->Add(Entry("id1", "StopStudy", "OK"));
  EXPECT_EQ(Lines().front(), "id1 StopStudy OK 1");
}

}  // namespace
}  // namespace luthier::access::testing
