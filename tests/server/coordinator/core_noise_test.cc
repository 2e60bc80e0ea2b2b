// Studies whose designer finds noise: its event, and when target and patience end them.
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "lib/base/error.h"
#include "lib/search/registry.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using storage::EventType;
using study::StudyState;
using ::testing::HasSubstr;
using ::testing::SizeIs;

// Finds noise with the third result; has its answer with the seventh.
class Finder final : public search::Designer {
 public:
  explicit Finder(const study::StudySpec& spec) : random_(search::CreateDesigner(RandomSpec(spec))) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override {
    if (history.finished().size() >= 7) {
      return base::MakeError(absl::StatusCode::kOutOfRange, base::reason::kAnswered, "target_value is expected");
    }
    search::Suggestion suggestion = random_->Suggest(history, ask_index, stop).value();
    if (history.finished().size() >= 3) suggestion.details[search::kNoiseFoundBy] = 3;
    return suggestion;
  }

 private:
  static study::StudySpec RandomSpec(study::StudySpec spec) {
    spec.algorithm = study::RandomOptions{};
    return spec;
  }
  const std::unique_ptr<search::Designer> random_;
};

std::unique_ptr<search::Designer> MakeFinder(const study::StudySpec& spec) {
  return std::make_unique<Finder>(spec);
}

study::StudySpec Spec() {
  study::StudySpec spec = MakeSpec(50);
  spec.algorithm = study::BoOptions{};
  return spec;
}

TEST(CoreNoise, TheFirstSuggestionThatKnowsIsAnEvent) {
  Harness h(Harness::DefaultOptions(), MakeFinder);
  ASSERT_TRUE(h.Create("s", Spec()).ok());
  for (int i = 0; i < 6; ++i) {
    ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(1.0)).ok());
    if (i == 4) h.Restart();  // The event was written; it is not written again.
  }
  ASSERT_THAT(h.Events("s", EventType::kNoiseFound), SizeIs(1));
  EXPECT_EQ(h.Events("s", EventType::kNoiseFound)[0].trial, 4);
  EXPECT_THAT(h.Events("s", EventType::kNoiseFound)[0].detail, HasSubstr("trial 3"));
}

TEST(CoreNoise, ALuckyResultEndsNoStudyOnceNoiseIsKnown) {
  for (const bool restart : {false, true}) {
    Harness h(Harness::DefaultOptions(), MakeFinder);
    study::StudySpec spec = Spec();
    spec.budget.target_value = 0.5;
    ASSERT_TRUE(h.Create("s", spec).ok());
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(1.0)).ok());
    const Grant grant = h.Get("s", "a");
    if (restart) h.Restart();
    ASSERT_TRUE(h.Complete(grant, Loss(0.1)).ok());
    EXPECT_EQ(h.Study("s").state, StudyState::kActive);
    ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(1.0)).ok());
    ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(1.0)).ok());
    h.Ask("s", "a");
    EXPECT_EQ(h.Study("s").state, StudyState::kCompleted);
    EXPECT_EQ(h.Study("s").state_reason, "answered: target_value is expected");
  }
}

TEST(CoreNoise, AValueEndsItBefore) {
  Harness h(Harness::DefaultOptions(), MakeFinder);
  study::StudySpec spec = Spec();
  spec.budget.target_value = 0.5;
  ASSERT_TRUE(h.Create("s", spec).ok());
  ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(0.1)).ok());
  EXPECT_EQ(h.Study("s").state_reason, "target_value reached by trial 1");
}

TEST(CoreNoise, StatedNoiseIsKnownFromTheStart) {
  study::StudySpec spec = Spec();
  spec.algorithm = study::AutoOptions{.noisy = true};
  spec.budget.target_value = 0.5;
  spec.budget.patience = 2;
  Harness h(Harness::DefaultOptions(), MakeFinder);
  ASSERT_TRUE(h.Create("s", spec).ok());
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(0.1)).ok());
  EXPECT_EQ(h.Study("s").state, StudyState::kActive);
  // Rules of before go by values.
  std::get<study::AutoOptions>(spec.algorithm).rules = 2;
  ASSERT_TRUE(h.Create("t", spec).ok());
  ASSERT_TRUE(h.Complete(h.Get("t", "a"), Loss(0.1)).ok());
  EXPECT_EQ(h.Study("t").state_reason, "target_value reached by trial 1");
}

}  // namespace
}  // namespace luthier::coordinator::testing
