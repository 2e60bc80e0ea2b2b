// The Connect protocol, compared with what its specification says.
#include "server/gateway/connect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "lib/base/error.h"
#include "luthier/v1/study_service.pb.h"

namespace luthier::gateway {
namespace {

using ::testing::HasSubstr;

TEST(ConnectTest, MethodsAreFoundByTheirPaths) {
  v1::GetStudyRequest linked;  // So that the linker keeps the descriptors.
  ASSERT_NE(FindMethod("/luthier.v1.StudyService/GetStudy"), nullptr);
  EXPECT_EQ(FindMethod("/luthier.v1.StudyService/GetStudy")->input_type()->full_name(), linked.GetTypeName());
  for (const char* path :
       {"", "/", "/luthier.v1.StudyService/", "/luthier.v1.StudyService", "/luthier.v1.StudyService/Get",
        "/luthier.v1.StudyService/GetStudy/x", "/luthier.v1.Study.name"}) {
    EXPECT_EQ(FindMethod(path), nullptr) << path;
  }
}

TEST(ConnectTest, JsonBecomesBinaryAndBack) {
  const auto* const type = v1::GetStudyRequest::descriptor();
  const auto binary = ToBinary(type, R"({"name": "n", "harmonicaStages": true})", true);
  ASSERT_TRUE(binary.ok());
  v1::GetStudyRequest read;
  ASSERT_TRUE(read.ParseFromString(*binary));
  EXPECT_EQ(ToText(read, true).value(), R"({"name":"n","harmonicaStages":true})");
  EXPECT_EQ(ToText(read, false).value(), *binary);
  EXPECT_EQ(ToBinary(type, *binary, false).value(), *binary);
  const auto unknown = ToBinary(type, R"({"nam": "n"})", true);
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(unknown.status().message()), HasSubstr("nam"));
  EXPECT_FALSE(ToBinary(type, "[1", true).ok());
  EXPECT_TRUE(ToBinary(type, "", true).ok()) << "an empty body is an empty message";
}

TEST(ConnectTest, ErrorsHaveTheirCodesAndDetails) {
  const absl::Status status = base::BadField("space", "is empty");
  const auto json = nlohmann::json::parse(ErrorJson(status));
  EXPECT_EQ(json["code"], "invalid_argument");
  EXPECT_EQ(json["details"][0]["type"], "luthier.v1.ErrorDetail");
  EXPECT_EQ(json["details"][0]["debug"]["violations"][0]["field"], "space");
  EXPECT_EQ(json["details"][0]["value"].get<std::string>().find('='), std::string::npos) << "base64 without padding";
  EXPECT_EQ(HttpStatus(status), 400);
  EXPECT_EQ(HttpStatus(absl::UnauthenticatedError("")), 401);
  EXPECT_EQ(HttpStatus(absl::CancelledError("")), 499);
  EXPECT_EQ(nlohmann::json::parse(ErrorJson(absl::CancelledError("x")))["code"], "canceled");
}

TEST(ConnectTest, EnvelopesHaveAFlagAndALength) {
  EXPECT_EQ(Enveloped("abc"), std::string("\0\0\0\0\3abc", 8));
  EXPECT_EQ(EndOfStream(absl::OkStatus()), std::string("\2\0\0\0\2{}", 7));
  EXPECT_EQ(Unwrapped(std::string("\0\0\0\0\3abc", 8)).value(), "abc");
  for (const std::string& bad : {std::string(), std::string("\0\0\0\0\4abc", 8), std::string("\1\0\0\0\3abc", 8),
                                 std::string("\0\0\0\0\2abc", 8), std::string("\0\0\0", 3)}) {
    EXPECT_FALSE(Unwrapped(bad).ok());
  }
  EXPECT_EQ(ParseTimeout("250"), absl::Milliseconds(250));
  EXPECT_EQ(ParseTimeout(""), absl::InfiniteDuration());
  for (const char* bad : {"-1", "1.5", "x", "12345678901", " 1"}) EXPECT_FALSE(ParseTimeout(bad).has_value()) << bad;
}

}  // namespace
}  // namespace luthier::gateway
