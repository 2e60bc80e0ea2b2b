#include "lib/wire/status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/wire/text.h"

namespace luthier::wire {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Status, EveryCodeComesBack) {
  EXPECT_TRUE(FromGrpc(ToGrpc(absl::OkStatus())).ok());
  for (int code = 1; code <= 16; ++code) {
    const absl::Status status(static_cast<absl::StatusCode>(code), "what");
    EXPECT_EQ(static_cast<int>(ToGrpc(status).error_code()), code);
    EXPECT_EQ(FromGrpc(ToGrpc(status)), status);
  }
}

TEST(Status, DetailComesBack) {
  base::ErrorDetail detail;
  detail.reason = base::reason::kQueueFull;
  detail.violations = {{"space[3].float.max", "1 is below 2"}, {"", "é"}};
  detail.retry_delay = absl::Milliseconds(1500);
  detail.metadata = {{"limit", "4096"}, {"b", ""}};
  const absl::Status status = base::MakeError(absl::StatusCode::kResourceExhausted, "wait", detail);
  const absl::Status back = FromGrpc(ToGrpc(status));
  EXPECT_EQ(back, status);
  EXPECT_EQ(*base::GetErrorDetail(back), detail);
}

TEST(Status, ManyLongViolationsFitTheMetadataLimitAndTheMessageIsRebuilt) {
  base::Violations violations;
  for (int i = 0; i < 30; ++i) violations.Add(absl::StrCat("space[", i, "].float.max"), std::string(150, 'x'));
  const absl::Status status = violations.ToStatus();
  const grpc::Status sent = ToGrpc(status);
  EXPECT_LE(sent.error_message().size(), kMaxStatusMessageBytes);
  EXPECT_LE(sent.error_details().size(), kMaxStatusDetailBytes);
  const absl::Status back = FromGrpc(sent);
  EXPECT_EQ(base::GetErrorDetail(back)->violations.size(), 20u);
  EXPECT_THAT(std::string(back.message()), HasSubstr("space[19].float.max: xxx"));
}

TEST(Status, HugeTextIsCutAtCharacters) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += "日";
  base::ErrorDetail detail;
  detail.reason = base::reason::kBadField;
  detail.violations.assign(20, {text, text});
  detail.metadata = {{"key", text}};
  const grpc::Status sent = ToGrpc(base::MakeError(absl::StatusCode::kInvalidArgument, text, detail));
  EXPECT_LE(sent.error_message().size() * 3, kMaxStatusMessageBytes);
  EXPECT_GE(sent.error_message().size() * 3, kMaxStatusMessageBytes - 20);
  EXPECT_THAT(sent.error_message(), StartsWith("日日"));
  EXPECT_THAT(sent.error_message(), EndsWith("…"));
  EXPECT_EQ(InvalidUtf8At(sent.error_message()), sent.error_message().size());
  EXPECT_LE(sent.error_details().size(), kMaxStatusDetailBytes);
  EXPECT_EQ(base::GetReason(FromGrpc(sent)), base::reason::kBadField);
}

TEST(Status, ForeignStatusesAreTakenAsTheyAre) {
  EXPECT_EQ(FromGrpc(grpc::Status(grpc::StatusCode::UNAVAILABLE, "failed to connect")),
            absl::UnavailableError("failed to connect"));
  const absl::Status garbage = FromGrpc(grpc::Status(grpc::StatusCode::INTERNAL, "m", "\xFF\xFF not a message"));
  EXPECT_EQ(garbage, absl::InternalError("m"));
}

TEST(Status, MessagesThatAreNotUtf8BecomeSendable) {
  const grpc::Status sent = ToGrpc(base::BadField("f\xFF", "\xFE"));
  EXPECT_EQ(sent.error_message(), "f\uFFFD: \uFFFD");
  EXPECT_EQ(base::GetErrorDetail(FromGrpc(sent))->violations[0].field, "f\uFFFD");
}

}  // namespace
}  // namespace luthier::wire
