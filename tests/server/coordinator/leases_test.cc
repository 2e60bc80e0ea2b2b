#include "server/coordinator/studies/leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "server/coordinator/messages/digest.h"
#include "server/coordinator/messages/operations.h"

namespace luthier::coordinator {
namespace {

using ::testing::ElementsAre;

const absl::Duration kNow = absl::Seconds(100);

TEST(Leases, ATokenIsItsFenceBigEndianThenItsRandomHalf) {
  const std::string token = MakeToken(0x0102030405060708, 0x1112131415161718);
  EXPECT_EQ(token, "\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18");
  EXPECT_EQ(FenceOf(token), 0x0102030405060708u);
  EXPECT_EQ(FenceOf(MakeToken(~uint64_t{0}, 0)), ~uint64_t{0});
  EXPECT_EQ(FenceOf(""), 0u);
  EXPECT_EQ(FenceOf(std::string(17, 'x')), 0u);
  EXPECT_LT(MakeToken(255, 9), MakeToken(256, 0));  // Tokens sort as their fences.
}

TEST(Leases, ALeaseEndsAtItsDeadline) {
  LeaseTable leases;
  leases.Grant("t", {1, 1, absl::Seconds(10), kNow + absl::Seconds(10)});
  EXPECT_FALSE(leases.Expired("t", kNow + absl::Seconds(10) - absl::Nanoseconds(1)));
  EXPECT_TRUE(leases.Expired("t", kNow + absl::Seconds(10)));
  EXPECT_TRUE(leases.Expired("unknown", kNow));
}

TEST(Leases, ARenewalNeverShortensALease) {
  LeaseTable leases;
  leases.Grant("t", {1, 1, absl::Seconds(10), kNow + absl::Seconds(50)});
  EXPECT_THAT(leases.Renew({"t"}, kNow, false).directives, ElementsAre(study::Directive::kContinue));
  EXPECT_EQ(leases.Deadline("t"), kNow + absl::Seconds(50));
}

TEST(Leases, OneExpiredLeaseLeavesTheRenewalToTheWriter) {
  LeaseTable leases;
  leases.Grant("old", {1, 1, absl::Seconds(10), kNow});
  leases.Grant("new", {1, 2, absl::Seconds(10), kNow + absl::Seconds(1)});
  EXPECT_TRUE(leases.Renew({"new", "old"}, kNow, false).any_expired);
  EXPECT_EQ(leases.Deadline("new"), kNow + absl::Seconds(1));
  EXPECT_THAT(leases.Renew({"new", "old"}, kNow, true).directives,
              ElementsAre(study::Directive::kContinue, study::Directive::kContinue));
  EXPECT_EQ(leases.Deadline("old"), kNow + absl::Seconds(10));
}

TEST(Leases, EndedHoldersAreToldWhy) {
  LeaseTable leases;
  leases.Grant("stopped", {1, 1, absl::Seconds(10), kNow});
  leases.Grant("lost", {1, 2, absl::Seconds(10), kNow});
  leases.End("stopped", study::Directive::kStop);
  leases.End("lost", study::Directive::kLost);
  EXPECT_THAT(leases.Renew({"stopped", "lost"}, kNow, false).directives,
              ElementsAre(study::Directive::kStop, study::Directive::kLost));
  EXPECT_EQ(leases.size(), 0u);
}

TEST(Leases, ShiftAndDropStudy) {
  LeaseTable leases;
  leases.Grant("a", {1, 1, absl::Seconds(10), kNow});
  leases.Grant("b", {2, 1, absl::Seconds(10), kNow});
  leases.ShiftAll(absl::Seconds(5));
  EXPECT_EQ(leases.Deadline("a"), kNow + absl::Seconds(5));
  leases.DropStudy(1);
  EXPECT_EQ(leases.Deadline("a"), std::nullopt);
  EXPECT_EQ(leases.size(), 1u);
}

// --- Digests ---

FinishOp Complete(const study::Measurement& m, bool pruned = false) {
  FinishOp op;
  op.content = CompleteContent{m, pruned, ""};
  return op;
}

TEST(Digests, DifferWithEveryPartOfTheContent) {
  study::Measurement m;
  m.step = 1;
  m.metrics = {{"a", 1.0}, {"b", 2.0}};
  std::vector<FinishOp> ops = {Complete(m), Complete(m, true)};
  m.step = 2;
  ops.push_back(Complete(m));
  m.metrics = {{"a", 1.0}};
  ops.push_back(Complete(m));
  m.metrics = {{"a", -0.0}};
  ops.push_back(Complete(m));
  m.metrics = {{"a", 0.0}};
  ops.push_back(Complete(m));
  m.metrics = {{"a", 1.0000000000000002}};
  ops.push_back(Complete(m));
  m.elapsed_seconds = 0.0;
  ops.push_back(Complete(m));
  m.gradient.emplace();
  ops.push_back(Complete(m));
  m.gradient->values = {1.0};
  ops.push_back(Complete(m));
  m.gradient->values.clear();
  m.gradient->direction = {1.0};
  ops.push_back(Complete(m));
  m.gradient->slope = 1.0;
  ops.push_back(Complete(m));
  m.gradient->error_bound = 1.0;
  ops.push_back(Complete(m));
  FinishOp op;
  op.content = ReleaseContent{};
  ops.push_back(op);
  op.checkpoint = "x";
  ops.push_back(op);
  op.checkpoint = "";
  op.output_tail = "x";
  ops.push_back(op);
  study::Failure failure;
  for (const auto kind : {study::FailureKind::kConfig, study::FailureKind::kInfra}) {
    failure = {kind, "AB", "C"};
    op.content = failure;
    ops.push_back(op);
    failure = {kind, "A", "BC"};
    op.content = failure;
    ops.push_back(op);
  }
  std::set<std::string> digests;
  for (const FinishOp& o : ops) digests.insert(DigestOf(o));
  EXPECT_EQ(digests.size(), ops.size());
}

TEST(Digests, KeepThePartsOfAsksAndSettingsApart) {
  SuggestOp a;
  a.id = "ab";
  a.worker = "c";
  SuggestOp b;
  b.id = "a";
  b.worker = "bc";
  EXPECT_NE(DigestOf(a), DigestOf(b));
  b = a;
  b.count = 2;
  EXPECT_NE(DigestOf(a), DigestOf(b));
  b = a;
  b.request_id = "other";  // The key itself is not content; nor is when the caller gives up.
  b.deadline = absl::Seconds(1);
  EXPECT_EQ(DigestOf(a), DigestOf(b));

  EnqueueOp one;
  one.id = "s";
  one.trials.resize(1);
  one.trials[0].parameters["x"] = 1.0;
  EnqueueOp text = one;
  text.trials[0].parameters["x"] = std::string("1");
  EXPECT_NE(DigestOf(one), DigestOf(text));
  EnqueueOp attribute = one;
  attribute.trials[0].attributes["x"] = "1";
  EXPECT_NE(DigestOf(one), DigestOf(attribute));
  EnqueueOp two = one;
  two.trials.push_back(one.trials[0]);
  EXPECT_NE(DigestOf(one), DigestOf(two));
}

}  // namespace
}  // namespace luthier::coordinator
