// What an answer to a write says when the study can't be read back: never OK with counts that are not so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "lib/base/error.h"
#include "lib/base/executor.h"
#include "tests/server/coordinator/future.h"
#include "tests/server/coordinator/harness.h"
#include "tests/server/service/fixture.h"
#include "tests/server/service/over_storage.h"
#include "tests/testing/forwarding_storage.h"

namespace luthier::service::testing {
namespace {

using coordinator::SuggestReply;
using coordinator::testing::MakeSuggest;

// Reads of counts fail while it is told so.
class UnreadableStorage final : public luthier::testing::ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  absl::StatusOr<Summary> Summarize(const storage::StudyRecord& study) override {
    if (unreadable) return absl::DataLossError("page 7 is damaged");
    return other_->Summarize(study);
  }
  std::atomic<bool> unreadable{false};
};

class TrueReplies : public OverStorage<UnreadableStorage> {
 protected:
  static constexpr size_t kPlaces = 4;

  void SetUp() override { Start(kPlaces); }

  absl::StatusOr<v1::Study> Create() {
    v1::CreateStudyRequest request;
    request.set_study_id("s");
    *request.mutable_spec() = FromJson<v1::StudySpec>(kSpec);
    grpc::ClientContext context;
    v1::Study study;
    const absl::Status status = wire::FromGrpc(stub_->CreateStudy(&context, request, &study));
    if (!status.ok()) return status;
    return study;
  }
  absl::StatusOr<v1::Study> Pause() {
    v1::ControlStudyRequest request;
    request.set_name("projects/default/studies/s");
    request.set_request_id("pause-1");
    grpc::ClientContext context;
    v1::Study study;
    const absl::Status status = wire::FromGrpc(stub_->PauseStudy(&context, request, &study));
    if (!status.ok()) return status;
    return study;
  }
  void RunATrial() {
    ASSERT_TRUE(coordinator::testing::Send<SuggestReply>(*coordinator_, MakeSuggest("s", "w")).Wait().ok());
  }
  static void ExpectReplyLost(const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    ASSERT_EQ(base::GetReason(status), base::reason::kReplyLost);
    EXPECT_GT(base::GetErrorDetail(status)->retry_delay, absl::ZeroDuration());
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("page 7 is damaged"));
  }
};

TEST_F(TrueReplies, ARepeatedCreateHasTheCountsOrIsAnError) {
  ASSERT_TRUE(Create().ok());
  RunATrial();
  storage_.unreadable = true;
  const uint64_t before = coordinator_->committed_seq();
  ExpectReplyLost(Create().status());
  EXPECT_EQ(coordinator_->committed_seq(), before);
  storage_.unreadable = false;
  const absl::StatusOr<v1::Study> again = Create();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->trials().running(), 1);
}

TEST_F(TrueReplies, ARepeatedPauseHasTheCountsOrIsAnError) {
  ASSERT_TRUE(Create().ok());
  RunATrial();
  storage_.unreadable = true;
  ExpectReplyLost(Pause().status());
  storage_.unreadable = false;
  const absl::StatusOr<v1::Study> again = Pause();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->state(), v1::Study::PAUSED);
  EXPECT_EQ(again->trials().running(), 1);
}

TEST_F(TrueReplies, BusyReadersRefuseAWriteBeforeItChangesAnything) {
  ASSERT_TRUE(Create().ok());
  std::vector<base::Executor::Place> taken;
  while (taken.size() < kPlaces) {
    // The answer to the last call may hold its place a moment longer.
    if (base::Executor::Place place = readers_->Reserve()) taken.push_back(std::move(place));
  }
  const uint64_t before = coordinator_->committed_seq();
  for (const absl::Status& status : {Pause().status(), Create().status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(base::GetReason(status), base::reason::kQueueFull);
  }
  EXPECT_EQ(coordinator_->committed_seq(), before);
  taken.clear();
  EXPECT_TRUE(Pause().ok());
}

}  // namespace
}  // namespace luthier::service::testing
