#include "server/service/message_memory.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/worker_service.pb.h"

namespace luthier::service {
namespace {

constexpr int64_t kAny = std::numeric_limits<int64_t>::max();

int64_t Weigh(const google::protobuf::Descriptor* type, const std::string& bytes, int64_t most = kAny) {
  google::protobuf::io::ArrayInputStream stream(bytes.data(), static_cast<int>(bytes.size()));
  google::protobuf::io::CodedInputStream in(&stream);
  return MessageMemory(type).Of(&in, most);
}

// Not below what protobuf itself counts, which leaves out what the allocator adds, and not above three times that.
template <typename Request>
void ExpectFair(const Request& request, const char* what) {
  Request parsed;
  ASSERT_TRUE(parsed.ParseFromString(request.SerializeAsString()));
  const auto counted = static_cast<int64_t>(parsed.SpaceUsedLong());
  const int64_t weighed = Weigh(Request::descriptor(), request.SerializeAsString());
  EXPECT_GE(weighed, counted) << what;
  EXPECT_LE(weighed, 3 * counted) << what;
}

TEST(MessageMemory, IsAtLeastWhatParsedMessagesTakeAndNotFarMore) {
  v1::CreateStudyRequest labels;
  for (int p = 0; p < 20; ++p) {
    v1::ParameterSpec& parameter = *labels.mutable_spec()->add_space();
    parameter.set_name(absl::StrCat("parameter_number_", p));
    for (int i = 0; i < 100; ++i) parameter.mutable_categorical()->add_values(absl::StrCat(i, std::string(p, 'x')));
  }
  ExpectFair(labels, "labels");
  v1::ImportTrialsRequest trials;
  for (int t = 0; t < 100; ++t) {
    v1::Trial& trial = *trials.add_trials();
    for (int p = 0; p < 10; ++p) {
      (*trial.mutable_parameters()->mutable_fields())[absl::StrCat("p", p)].set_number_value(p);
    }
    for (int m = 0; m < 10; ++m) (*trial.add_measurements()->mutable_metrics())["loss"] = m;
  }
  ExpectFair(trials, "trials");
  v1::CompleteRequest gradient;
  auto& full = *gradient.mutable_measurement()->mutable_gradient()->mutable_full();
  for (int i = 0; i < 10'000; ++i) full.add_values(i);
  ExpectFair(gradient, "gradient");
  v1::HeartbeatRequest tokens;
  for (int i = 0; i < 64; ++i) tokens.add_tokens(std::string(16, 't'));
  ExpectFair(tokens, "tokens");
  ExpectFair(v1::GetServerInfoRequest(), "nothing");
}

TEST(MessageMemory, EmptyPartsOfTwoBytesCountWithAllTheirFields) {
  v1::ImportTrialsRequest request;
  for (int i = 0; i < 1000; ++i) request.add_trials();
  const std::string bytes = request.SerializeAsString();
  ASSERT_EQ(bytes.size(), 2000u);
  EXPECT_GE(Weigh(request.descriptor(), bytes), static_cast<int64_t>(1000 * sizeof(v1::Trial)));
}

TEST(MessageMemory, UnknownFieldsAndGroupsCountToo) {
  std::string unknown;
  for (int i = 0; i < 1000; ++i) unknown += std::string("\xa0\x06\x01", 3);  // Field 100: 1.
  v1::GetStudyRequest parsed;
  ASSERT_TRUE(parsed.ParseFromString(unknown));
  EXPECT_GE(Weigh(parsed.descriptor(), unknown), static_cast<int64_t>(parsed.SpaceUsedLong()));
  std::string groups;
  for (int i = 0; i < 1000; ++i) groups += std::string("\xa3\x06\xa4\x06", 4);  // Field 100, an empty group.
  ASSERT_TRUE(parsed.ParseFromString(groups));
  EXPECT_GE(Weigh(parsed.descriptor(), groups), static_cast<int64_t>(parsed.SpaceUsedLong()));
}

TEST(MessageMemory, CountingEndsAtTheMostAndAtWhatIsNoMessage) {
  v1::ImportTrialsRequest request;
  for (int i = 0; i < 100'000; ++i) request.add_trials();
  const int64_t weighed = Weigh(request.descriptor(), request.SerializeAsString(), 1 << 20);
  EXPECT_GT(weighed, 1 << 20);
  EXPECT_LT(weighed, (1 << 20) + 4096);
  EXPECT_LT(Weigh(request.descriptor(), "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), 4096);
  // Messages within messages, 1,000 deep, as in a value that is a list of a list of …
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep.insert(0, std::string("\xa3\x06", 2));
  EXPECT_LT(Weigh(request.descriptor(), deep), 1 << 20);
}

}  // namespace
}  // namespace luthier::service
