// How much the core keeps: at each limit and one beyond it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/coordinator/messages/size.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

const absl::Duration kLimitsTtl = absl::Seconds(60);

class CoreLimits : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec()).ok()); }
  Harness h_;
};

void ExpectLimit(const absl::StatusOr<SuggestReply>& reply, const std::string& value, const std::string& message) {
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kResourceExhausted) << reply.status();
  EXPECT_EQ(base::GetReason(reply.status()), reason::kLimitExceeded);
  EXPECT_EQ(base::GetErrorDetail(reply.status())->metadata.at("limit"), "leases_per_worker");
  EXPECT_EQ(base::GetErrorDetail(reply.status())->metadata.at("value"), value);
  EXPECT_EQ(std::string(reply.status().message()), message);
}

TEST_F(CoreLimits, AWorkerHoldsSixtyFourLeasesAndNoMore) {
  ASSERT_TRUE(h_.Create("t", MakeSpec()).ok());
  EXPECT_THAT(h_.Suggest("s", "a", 60)->grants, SizeIs(60));
  const absl::StatusOr<SuggestReply> rest = h_.Suggest("t", "a", 60);  // Over all studies.
  ASSERT_THAT(rest->grants, SizeIs(4));
  const uint64_t seq = h_.core->last_seq();
  ExpectLimit(h_.Suggest("t", "a", 1, "r1"), "64",
              "worker \"a\" holds 64 leases, and 64 is the most one worker may hold; finish or release some, or ask "
              "under another worker's name");
  EXPECT_EQ(h_.core->last_seq(), seq);
  EXPECT_FALSE(h_.memory.FindRequest("r1")->has_value());  // No trace: the same request may be sent again.
  EXPECT_THAT(h_.Suggest("t", "b", 1)->grants, SizeIs(1));
  ASSERT_TRUE(h_.Complete(rest->grants[0], Loss(1)).ok());
  EXPECT_THAT(h_.Suggest("t", "a", 5, "r1")->grants, SizeIs(1));
  h_.Restart();  // Counted from the rows.
  EXPECT_EQ(base::GetReason(h_.Suggest("t", "a").status()), reason::kLimitExceeded);
}

TEST(CoreOwnLimits, TrialsAddedAtOnceFitTheReplyOrAreRefusedUnstored) {
  Core::Options options = Harness::DefaultOptions();
  const study::Parameters setting = {{"x", 0.5}, {"n", 4.0}};
  const std::map<std::string, std::string> attributes = {{"note", "first"}};
  options.limits.enqueued_bytes = static_cast<int64_t>(2 * BytesOf(setting, attributes));
  Harness h(options);
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const uint64_t seq = h.core->last_seq();
  // Sent without settings: the defaults are counted, too.
  const absl::StatusOr<EnqueueReply> refused =
      h.Enqueue("s", {{{}, attributes}, {{}, attributes}, {{}, attributes}}, "r1");
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted) << refused.status();
  EXPECT_EQ(base::GetReason(refused.status()), reason::kLimitExceeded);
  EXPECT_EQ(base::GetErrorDetail(refused.status())->metadata.at("limit"), "enqueued_bytes");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("only the first 2 of the 3 trials fit a reply"));
  EXPECT_EQ(h.core->last_seq(), seq);
  EXPECT_FALSE(h.memory.FindRequest("r1")->has_value());
  const absl::StatusOr<EnqueueReply> taken = h.Enqueue("s", {{{}, attributes}, {{}, attributes}}, "r1");
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_THAT(taken->trials, SizeIs(2));
  EXPECT_EQ(taken->trials[0].parameters, setting) << "the sizes above are of another setting";
}

TEST(CoreOwnLimits, LeasesThatExpiredAreNotCountedUnlessTheyAreTakenBack) {
  Core::Options options = Harness::DefaultOptions();
  options.limits.leases_per_worker = 2;
  Harness h(options);
  ASSERT_TRUE(h.Create("s", MakeSpec()).ok());
  const std::vector<Grant> held = h.Suggest("s", "a", 2)->grants;
  EXPECT_FALSE(h.Suggest("s", "a").ok());
  h.Pass(kLimitsTtl);
  // A worker that lost its memory gets its own trials again.
  const absl::StatusOr<SuggestReply> again = h.Suggest("s", "a", 2);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_THAT(Numbers(*again), ElementsAre(1, 2));
  EXPECT_FALSE(h.Suggest("s", "a").ok());
  h.Pass(kLimitsTtl);
  EXPECT_THAT(h.Heartbeat("a", {again->grants[0].token}), ElementsAre(study::Directive::kContinue));
  EXPECT_THAT(h.Suggest("s", "a", 2)->grants, SizeIs(1));
  EXPECT_TRUE(h.core->CheckInvariants().ok());
}

TEST(CoreOwnLimits, AWaitingAskIsRefusedOnceItsWorkerHoldsAllItMay) {
  Core::Options options = Harness::DefaultOptions();
  options.limits.leases_per_worker = 1;
  Harness h(options);
  ASSERT_TRUE(h.Create("s", MakeSpec(1)).ok());
  ASSERT_TRUE(h.Create("t", MakeSpec()).ok());
  const Grant only = h.Get("s", "b");
  Answered<SuggestReply> waiting = h.Ask("s", "a");
  EXPECT_FALSE(waiting.ready());
  h.Get("t", "a");
  ASSERT_TRUE(h.Release(only).ok());
  ASSERT_TRUE(waiting.ready());
  ExpectLimit(waiting.get(), "1",
              "worker \"a\" holds 1 leases, and 1 is the most one worker may hold; finish or release some, or ask "
              "under another worker's name");
  EXPECT_EQ(h.Get("s", "c").trial.number, 1);
}

TEST(CoreOwnLimits, AStudyHasTenThousandLiveLeasesAndNoMore) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(20'000)).ok());
  std::vector<Operation> asks;
  for (int w = 0; w < 157; ++w) asks.push_back(MakeSuggest("s", absl::StrCat("w", w), 64));
  ASSERT_TRUE(h.Batch(std::move(asks)).ok());
  const storage::StudyRecord record = h.Study("s");
  EXPECT_EQ(h.memory.Summarize(record)->by_state[static_cast<size_t>(TrialState::kRunning)], 10'000);
  Answered<SuggestReply> waiting = h.Ask("s", "late");
  EXPECT_FALSE(waiting.ready());  // No error: it waits for its turn.
  ASSERT_TRUE(h.CancelTrial("s", 1).ok());
  EXPECT_EQ(waiting.get()->grants.at(0).trial.number, 10'001);
}

TEST(CoreOwnLimits, AReplyOfLargeTrialsStaysBelowTheSizeOfAMessage) {
  Harness h;
  study::StudySpec spec = MakeSpec();
  std::vector<study::ParameterSpec> parameters;
  for (int i = 0; i < 200; ++i) {
    study::ParameterSpec p;
    p.name = absl::StrCat("p", i);
    study::CategoricalLabels labels;
    for (char c = 'a'; c < 'i'; ++c) labels.labels.push_back(std::string(250, c));
    p.domain = labels;
    parameters.push_back(p);
  }
  parameters.push_back(spec.space.parameters()[0]);  // A float: no setting is looked for that was not tried.
  spec.space = study::SearchSpace::Create(parameters).value();
  ASSERT_TRUE(h.Create("s", spec).ok());
  const absl::StatusOr<SuggestReply> reply = h.Suggest("s", "a", 64);  // A lease takes about half a megabyte.
  ASSERT_TRUE(reply.ok());
  size_t bytes = 0;
  for (const Grant& grant : reply->grants) bytes += BytesOf(grant);
  EXPECT_GT(reply->grants.size(), 1u);
  EXPECT_LT(bytes, size_t{4} << 20);
  EXPECT_EQ(h.Rows("s").size(), reply->grants.size());  // The others were not taken either.
}

TEST_F(CoreLimits, AnAttemptTakesTenThousandPointsAndNoMore) {
  const Grant grant = h_.Get("s", "a");
  for (int block = 0; block < 10; ++block) {
    std::vector<study::Measurement> points;
    for (int i = 0; i < 1000; ++i) points.push_back(Loss(1, 1000 * block + i));
    ASSERT_TRUE(h_.Report(grant, points).ok());
  }
  ExpectRefused(h_.Report(grant, {Loss(1, 10'000)}), absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                "would have more than 10000 intermediate points; report less often");
  EXPECT_TRUE(h_.Report(grant, {Loss(1, 9'999)}).ok());  // Known.
}

// A directional derivative in so many coordinates.
study::Measurement Slope(size_t coordinates, int64_t step) {
  study::Measurement m = Loss(1, step);
  m.gradient.emplace().direction.assign(coordinates, 1.0);
  return m;
}

// A study of 1,000 numbers: 8,000 bytes a gradient.
study::StudySpec WideSpec() {
  study::StudySpec spec = MakeSpec();
  std::vector<study::ParameterSpec> parameters(1000);
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].name = absl::StrCat("x", i);
    parameters[i].domain = study::FloatRange{};
  }
  spec.space = study::SearchSpace::Create(parameters).value();
  return spec;
}

TEST_F(CoreLimits, AnAttemptTakesSixteenMebibytesOfGradientsAndNoMore) {
  ASSERT_TRUE(h_.Create("wide", WideSpec()).ok());
  const Grant grant = h_.Get("wide", "a");
  const int64_t most = (int64_t{16} << 20) / 8000;
  for (int64_t step = 0; step < most; step += 200) {
    std::vector<study::Measurement> points;
    for (int64_t i = step; i < std::min(step + 200, most); ++i) points.push_back(Slope(1000, i));
    ASSERT_TRUE(h_.Report(grant, points).ok());
  }
  for (int round = 0; round < 2; ++round) {
    const uint64_t seq = h_.core->last_seq();
    const absl::StatusOr<ReportReply> refused = h_.Report(grant, {Loss(1, most), Slope(1000, most + 1)}, "checkpoint");
    ExpectRefused(refused, absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                  "trial 1 would have 16784000 bytes of gradients along its learning curve, and 16777216 is the most; "
                  "report gradients less often, or only with the final result");
    EXPECT_EQ(base::GetErrorDetail(refused.status())->metadata.at("limit"), "gradient_bytes");
    EXPECT_EQ(h_.core->last_seq(), seq);  // Nothing of the report was kept.
    EXPECT_EQ(h_.Trial("wide", 1).trial.checkpoint, "");
    EXPECT_TRUE(h_.Report(grant, {Slope(1000, 0)}).ok());  // Known.
    h_.Restart();                                          // Counted from what is stored.
  }
  EXPECT_TRUE(h_.Report(grant, {Loss(1, most)}).ok());  // The curve goes on without.
  // The next attempt has its own; and the final gradient is always welcome.
  ASSERT_TRUE(h_.Fail(grant, MakeFailure(FailureKind::kInfra)).ok());
  const Grant again = h_.Get("wide", "a");
  ASSERT_EQ(again.trial.number, 1);
  EXPECT_TRUE(h_.Report(again, {Slope(1000, 0)}).ok());
  const absl::StatusOr<FinishReply> done = h_.Complete(again, Slope(1000, 1));
  EXPECT_THAT(done->warnings, IsEmpty());
}

TEST(CoreOwnLimits, ThereAreAsManyStudiesAsTheLimitSaysAndNoMore) {
  EXPECT_EQ(Limits().studies, 100'000);  // Which would take a gigabyte here.
  Core::Options options = Harness::DefaultOptions();
  options.limits.studies = 1000;
  Harness h(options);
  std::vector<Operation> operations;
  for (int i = 0; i < 1000; ++i) operations.push_back(CreateStudyOp{absl::StrCat("s", i), MakeSpec(), "user", {}});
  ASSERT_TRUE(h.Batch(std::move(operations)).ok());
  ASSERT_EQ(h.core->Studies().size(), 1000u);
  const uint64_t seq = h.core->last_seq();
  const absl::StatusOr<StudyReply> refused = h.Create("one-more", MakeSpec());
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(base::GetReason(refused.status()), base::reason::kLimitExceeded);
  EXPECT_EQ(base::GetErrorDetail(refused.status())->metadata.at("limit"), "studies");
  EXPECT_EQ(std::string(refused.status().message()),
            "there are 1000 studies, the most there may be; delete some that are no longer needed (`luthier study "
            "delete`)");
  EXPECT_EQ(h.core->last_seq(), seq);
  EXPECT_FALSE(h.memory.GetStudy("one-more").ok());
  EXPECT_EQ(h.memory.LastStudyKey().value(), 1000);
  EXPECT_TRUE(h.Create("s7", MakeSpec()).ok());  // It is there already.
  ASSERT_TRUE(h.Control("s7", Control::kDelete).ok());
  EXPECT_TRUE(h.Create("one-more", MakeSpec()).ok());
}

}  // namespace
}  // namespace luthier::coordinator::testing
