#include "server/coordinator/writer/watchers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace luthier::coordinator {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Wake = Watchers::Wake;

class WatchersTest : public ::testing::Test {
 protected:
  void Add(const std::string& name, storage::StudyKey study, absl::Duration now) {
    watchers_.Add(study, now, [this, name](Wake why) {
      log_.push_back(name + (why == Wake::kTick ? " t" : " c"));
      return gone_.count(name) == 0;
    });
  }
  size_t Notify(const std::set<storage::StudyKey>& changed, absl::Duration now) {
    log_.clear();
    return watchers_.Notify(changed, now);
  }

  Watchers watchers_{absl::Seconds(10)};
  std::vector<std::string> log_;
  std::set<std::string> gone_;  // These return false.
};

TEST_F(WatchersTest, ACommitCostsAsMuchAsTheWatchersItWakes) {
  for (int study = 1; study <= 1000; ++study) Add(std::to_string(study), study, absl::ZeroDuration());
  Add("also 7", 7, absl::ZeroDuration());
  EXPECT_EQ(Notify({7, 2000}, absl::Seconds(1)), 2u);
  EXPECT_THAT(log_, ElementsAre("7 c", "also 7 c"));
  EXPECT_EQ(Notify({}, absl::Seconds(2)), 0u);
  EXPECT_THAT(log_, IsEmpty());
}

TEST_F(WatchersTest, EachWatcherHasATickOfItsOwn) {
  Add("a", 1, absl::Seconds(0));
  Add("b", 1, absl::Seconds(4));
  EXPECT_EQ(Notify({}, absl::Seconds(9)), 0u);
  EXPECT_EQ(Notify({}, absl::Seconds(10)), 1u);
  EXPECT_THAT(log_, ElementsAre("a t"));
  EXPECT_EQ(Notify({}, absl::Seconds(15)), 1u);
  EXPECT_THAT(log_, ElementsAre("b t"));
  EXPECT_EQ(Notify({}, absl::Seconds(24)), 1u);  // 10 s after it was woken at 10 s; b follows at 25 s.
  EXPECT_THAT(log_, ElementsAre("a t"));
}

TEST_F(WatchersTest, ACommitPostponesTheNextTick) {
  Add("a", 1, absl::Seconds(0));
  Notify({1}, absl::Seconds(10));
  EXPECT_THAT(log_, ElementsAre("a c"));
  EXPECT_EQ(Notify({}, absl::Seconds(19)), 0u);
}

TEST_F(WatchersTest, AWatcherThatReturnsFalseIsNotWokenAgain) {
  Add("a", 1, absl::Seconds(0));
  Add("b", 2, absl::Seconds(0));
  Add("c", 2, absl::Seconds(5));
  gone_ = {"a", "b"};
  EXPECT_EQ(Notify({1}, absl::Seconds(1)), 1u);
  EXPECT_THAT(log_, ElementsAre("a c"));
  EXPECT_EQ(Notify({1}, absl::Seconds(10)), 1u);
  EXPECT_THAT(log_, ElementsAre("b t"));
  EXPECT_EQ(Notify({1, 2}, absl::Seconds(11)), 1u);
  EXPECT_THAT(log_, ElementsAre("c c"));
  gone_.insert("c");
  watchers_.TickAll();
  log_.clear();
  watchers_.TickAll();
  EXPECT_THAT(log_, IsEmpty());
}

}  // namespace
}  // namespace luthier::coordinator
