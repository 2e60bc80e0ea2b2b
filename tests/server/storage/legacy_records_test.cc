#include "server/storage/legacy_records.h"

#include <gtest/gtest.h>

#include <string>

namespace luthier::storage {
namespace {

Event Read(EventType type, const std::string& detail) {
  Event event;
  event.type = type;
  event.detail = detail;
  ReadLegacyEvent(&event);
  return event;
}

TEST(LegacyEvent, PointsPausesAndPromotionsBeginWithTheirStep) {
  EXPECT_EQ(Read(EventType::kMeasurement, "step=9 loss=0.5").step, 9);
  EXPECT_EQ(Read(EventType::kMeasurement, "step=0").step, 0);
  EXPECT_EQ(Read(EventType::kTrialPaused, "step=3 with the checkpoint of step 1").step, 3);
  const Event promoted = Read(EventType::kTrialPromoted, "step=9 ask=18446744073709551615");
  EXPECT_EQ(promoted.step, 9);
  EXPECT_EQ(promoted.ask_index, 18446744073709551615u);
}

TEST(LegacyEvent, OtherTextsAndTypesHaveNoStep) {
  for (const char* detail :
       {"", "step", "step=", "step=x", "step= 9", "Step=9", " step=9", "step=99999999999999999999"}) {
    EXPECT_EQ(Read(EventType::kMeasurement, detail).step, std::nullopt) << detail;
  }
  // A metric may be called step.
  EXPECT_EQ(Read(EventType::kTrialCompleted, "step=9").step, std::nullopt);
  EXPECT_EQ(Read(EventType::kTrialPruned, "step=9 above the limit").step, std::nullopt);
  EXPECT_EQ(Read(EventType::kMeasurement, "step=9 ask=4").ask_index, std::nullopt);
  EXPECT_EQ(Read(EventType::kTrialPromoted, "step=9 asks=4").ask_index, std::nullopt);
}

TEST(LegacyReply, EachFormIsRecognized) {
  EXPECT_EQ(ParseLegacyReply("17").value(), StoredReply(ChangedStudy{17}));
  EXPECT_EQ(ParseLegacyReply("3,1,20").value(), StoredReply(StoredTrials{3, {1, 20}}));
  const GrantedLeases granted{3, {{1, std::string("\x00\xff", 2)}, {20, "a"}}};
  EXPECT_EQ(ParseLegacyReply("3,1:00ff,20:61").value(), StoredReply(granted));
}

TEST(LegacyReply, OtherTextsAreDamaged) {
  for (const char* text : {"", "x", "-1", " 1", "1 ", "99999999999999999999", ",", "1,", ",1", "1,x", "1,2,", "1,2:0",
                           "1,2:0g", "1,:00", "1,2:00:00", "1,2:00,3", "reply to r0"}) {
    EXPECT_EQ(ParseLegacyReply(text).status().code(), absl::StatusCode::kDataLoss) << text;
  }
}

}  // namespace
}  // namespace luthier::storage
