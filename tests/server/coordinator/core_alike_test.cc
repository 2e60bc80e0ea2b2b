// Studies that fail for a cause which no setting changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "server/coordinator/studies/alike_failures.h"
#include "tests/server/coordinator/expect.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

study::Failure Typo(int line) {
  return MakeFailure(
      FailureKind::kConfig, "EXIT_CODE",
      absl::StrCat("exit code 1\n  File \"train.py\", line ", line, "\nNameError: name 'los' is not defined\n"));
}

class CoreAlike : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(h_.Create("s", MakeSpec(30)).ok()); }
  // A trial that ends with `failure` after `time`.
  void Fail(const study::Failure& failure, absl::Duration time = absl::Seconds(1)) {
    const Grant grant = h_.Get("s", "w");
    h_.clock.Advance(time);
    ASSERT_TRUE(h_.Fail(grant, failure).ok());
  }
  StudyState State() { return h_.Study("s").state; }

  Harness h_;
};

TEST_F(CoreAlike, ThreeFailuresOfOneCausePause) {
  Fail(Typo(12));
  Fail(Typo(7));
  EXPECT_EQ(State(), StudyState::kActive);
  Fail(Typo(345));
  EXPECT_EQ(State(), StudyState::kPaused);
  EXPECT_THAT(
      h_.Study("s").state_reason,
      HasSubstr("3 trials failed alike and none succeeded: EXIT_CODE: NameError: name 'los' is not defined; mend"));
  EXPECT_TRUE(h_.core->CheckInvariants().ok());
}

TEST_F(CoreAlike, ARestartForgetsNoFailure) {
  Fail(Typo(1));
  Fail(Typo(2));
  h_.Restart();
  Fail(Typo(3));
  EXPECT_EQ(State(), StudyState::kPaused);
}

TEST_F(CoreAlike, ResumeAndRetryCountAnew) {
  for (int i = 0; i < 3; ++i) Fail(Typo(i));
  ASSERT_TRUE(h_.Control("s", Control::kResume).ok());
  for (int i = 0; i < 2; ++i) Fail(Typo(i));
  EXPECT_EQ(State(), StudyState::kActive);
  Fail(Typo(9));
  ASSERT_EQ(State(), StudyState::kPaused);
  ASSERT_TRUE(h_.Retry("s", {}).ok());
  EXPECT_EQ(State(), StudyState::kActive);
  for (int i = 0; i < 3; ++i) Fail(Typo(i));
  EXPECT_EQ(State(), StudyState::kPaused) << "what was mended is no better";
}

TEST_F(CoreAlike, OtherFailuresDoNotPause) {
  // Another cause, and work that was done before it.
  for (int i = 0; i < 2; ++i) Fail(Typo(i));
  Fail(MakeFailure(FailureKind::kConfig, "EXIT_CODE", "exit code 1\nValueError: lr is too large"));
  EXPECT_EQ(State(), StudyState::kActive);
  // The fourth and fifth do not make the first three alike.
  for (int i = 0; i < 2; ++i) Fail(Typo(i));
  EXPECT_EQ(State(), StudyState::kActive);

  ASSERT_TRUE(h_.Create("slow", MakeSpec(30)).ok());
  for (int i = 0; i < 3; ++i) {
    const Grant grant = h_.Get("slow", "w");
    h_.clock.Advance(absl::Seconds(i == 1 ? 6 : 1));
    ASSERT_TRUE(h_.Fail(grant, Typo(i)).ok());
  }
  EXPECT_EQ(h_.Study("slow").state, StudyState::kActive);

  ASSERT_TRUE(h_.Create("reported", MakeSpec(30)).ok());
  for (int i = 0; i < 3; ++i) {
    const Grant grant = h_.Get("reported", "w");
    if (i == 0) {
      ASSERT_TRUE(h_.Report(grant, {Loss(1, 1)}).ok());
    }
    ASSERT_TRUE(h_.Fail(grant, Typo(i)).ok());
  }
  EXPECT_EQ(h_.Study("reported").state, StudyState::kActive);

  ASSERT_TRUE(h_.Create("succeeded", MakeSpec(30)).ok());
  ASSERT_TRUE(h_.Complete(h_.Get("succeeded", "w"), Loss(1)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h_.Fail(h_.Get("succeeded", "w"), Typo(i)).ok());
  EXPECT_EQ(h_.Study("succeeded").state, StudyState::kActive);

  // One setting three times says nothing of others.
  ASSERT_TRUE(h_.Create("same", MakeSpec(30)).ok());
  NewTrial trial;
  trial.parameters = {{"x", 0.5}, {"n", 3.0}};
  ASSERT_TRUE(h_.Enqueue("same", {trial, trial, trial}).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h_.Fail(h_.Get("same", "w"), Typo(i)).ok());
  EXPECT_EQ(h_.Study("same").state, StudyState::kActive);

  // Whoever asks and tells sees each failure, and goes on on purpose.
  study::StudySpec external = MakeSpec(30);
  external.objective = study::ExternalObjective{};
  ASSERT_TRUE(h_.Create("external", external).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h_.Fail(h_.Get("external", "w"), Typo(i)).ok());
  EXPECT_EQ(h_.Study("external").state, StudyState::kActive);
}

TEST(AlikeFailures, DependOnReasonAndLastLineWithoutDigits) {
  const auto config = [](const std::string& reason, const std::string& message) {
    return MakeFailure(FailureKind::kConfig, reason, message);
  };
  EXPECT_EQ(LastLine("a\n  b \n\n \n"), "b");
  EXPECT_EQ(LastLine(""), "");
  EXPECT_TRUE(AreAlike(config("EXIT_CODE", "x\nat 0x7f12: no file 1"), config("EXIT_CODE", "at 0x7f9: no file 22\n")));
  EXPECT_FALSE(AreAlike(config("EXIT_CODE", "no file"), config("SIGNAL", "no file")));
  EXPECT_FALSE(AreAlike(config("EXIT_CODE", "no file a"), config("EXIT_CODE", "no file b")));
  EXPECT_FALSE(AreAlike(config("TIMEOUT", "60 s"), config("TIMEOUT", "60 s")));
  EXPECT_FALSE(AreAlike(config("NON_FINITE", ""), config("NON_FINITE", "")));
  EXPECT_FALSE(AreAlike(MakeFailure(FailureKind::kInfra, "WORKER_ERROR", ""),
                        MakeFailure(FailureKind::kInfra, "WORKER_ERROR", "")));
}

}  // namespace
}  // namespace luthier::coordinator::testing
