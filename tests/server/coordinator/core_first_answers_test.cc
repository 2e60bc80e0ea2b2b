#include <gtest/gtest.h>

#include <functional>

#include "tests/server/coordinator/harness.h"
#include "tests/testing/storage_records.h"

// A request that is sent again gets its first answer, to the last field, whatever has happened since.
namespace luthier::coordinator::testing {
namespace {

std::string Text(const std::vector<study::Trial>& trials) {
  std::string text;
  for (const study::Trial& trial : trials) text += luthier::testing::Text(trial) + "\n";
  return text;
}

// Three trials of which one failed, one is running and one waits.
class CoreFirstAnswers : public ::testing::Test {
 protected:
  CoreFirstAnswers() {
    study::StudySpec spec = MakeSpec();
    spec.description = "as it was";
    spec.budget.patience = 50;
    EXPECT_TRUE(h_.Create("s", spec).ok());
    EXPECT_TRUE(h_.Create("other", MakeSpec()).ok());
    EXPECT_TRUE(h_.Fail(h_.Get("s", "a"), MakeFailure(study::FailureKind::kConfig)).ok());
    running_ = h_.Get("s", "a");
  }

  // All that may change about trials 1 to 4 and their study.
  void ChangeEverything() {
    for (int64_t number = 1; number <= 4; ++number) {
      h_.SetAttributes("s", number, {{"note", "new"}}).IgnoreError();
    }
    h_.Report(running_, {Loss(3.0, 1)}, "checkpoint").IgnoreError();
    h_.Release(running_, "saved").IgnoreError();
    for (int i = 0; i < 3; ++i) {
      const Grant next = h_.Get("s", "b");
      EXPECT_TRUE(h_.Complete(next, Loss(i)).ok());
    }
    study::SpecChange change;
    change.description = "as it is";
    change.patience = 60;
    change.max_trials = 500;
    change.weight = 3.0;
    change.target_value.emplace(-5.0);
    change.command = study::CommandObjective{{"another"}, {}, absl::Minutes(2), 0, {}};
    EXPECT_TRUE(h_.Update("s", change).ok());
    study::FloatRange range;
    range.min = -1.0;
    range.max = 2.0;
    const study::ParameterSpec wider{"x", range, {}, {}};
    study::SpecChange space;
    space.parameters = std::vector<study::ParameterSpec>{wider};
    EXPECT_TRUE(h_.Update("s", space).ok());
    change.description = "as it is now";
    EXPECT_TRUE(h_.Update("s", change).ok());
    EXPECT_TRUE(h_.DeleteTrial("s", 1).ok());
    h_.Get("other", "c");
    EXPECT_TRUE(h_.Control("s", Control::kPause).ok());
    h_.clock.Advance(absl::Minutes(3));
  }

  // `ask` answers a text. Asks before and after everything changed, after a restart, and once the study is over.
  void ExpectTheSame(const std::function<std::string()>& ask) {
    const std::string first = ask();
    EXPECT_NE(first, "");
    EXPECT_EQ(ask(), first);
    ChangeEverything();
    EXPECT_EQ(ask(), first);
    h_.Restart();
    EXPECT_EQ(ask(), first);
    EXPECT_TRUE(h_.Control("s", Control::kCancel).ok());
    EXPECT_EQ(ask(), first);
    h_.Restart();
    EXPECT_EQ(ask(), first);
    // Another study of this name has nothing to do with it.
    EXPECT_TRUE(h_.Control("s", Control::kDelete).ok());
    EXPECT_EQ(ask(), "NOT_FOUND");
    EXPECT_TRUE(h_.Create("s", MakeSpec()).ok());
    EXPECT_EQ(ask(), "NOT_FOUND");
    EXPECT_EQ(h_.Rows("s").size(), 0u);
  }

  template <typename Reply, typename ToText>
  static std::string TextOr(const absl::StatusOr<Reply>& reply, const ToText& text) {
    if (reply.ok()) return text(*reply);
    return absl::IsNotFound(reply.status()) ? "NOT_FOUND" : std::string(reply.status().message());
  }

  Harness h_;
  Grant running_;
};

TEST_F(CoreFirstAnswers, ARepeatedSuggestGetsIt) {
  ExpectTheSame([this] {
    return TextOr(h_.Suggest("s", "b", 2, "request"), [](const SuggestReply& reply) {
      std::string text = absl::StrCat(reply.seq, " ", absl::FormatDuration(reply.retry_after), " ", reply.study_done);
      for (const Grant& g : reply.grants) {
        absl::StrAppend(&text, "\n", g.study_id, " ", FenceOf(g.token), " ", g.attempt, " ", g.resume_checkpoint, " ",
                        g.target_step, " ", g.resume_step, " ", static_cast<int>(g.gradient), " ", Text({g.trial}));
        const study::StudySpec& spec = *g.spec;
        absl::StrAppend(&text, spec.description, spec.budget.max_trials, " ", spec.budget.patience, " ", spec.weight,
                        " ", spec.budget.target_value.value_or(0.0), " ",
                        std::get<study::CommandObjective>(spec.objective).argv[0], " ",
                        std::get<study::FloatRange>(spec.space.parameters()[0].domain).max);
      }
      return text;
    });
  });
}

TEST_F(CoreFirstAnswers, ARepeatedEnqueueGetsIt) {
  NewTrial trial;
  trial.parameters = {{"x", 0.25}, {"n", 3.0}};
  trial.attributes = {{"who", "me"}};
  ExpectTheSame([this, trial] {
    return TextOr(h_.Enqueue("s", {trial, trial}, "request"),
                  [](const EnqueueReply& reply) { return absl::StrCat(reply.seq, " ", Text(reply.trials)); });
  });
}

TEST_F(CoreFirstAnswers, ARepeatedRetryGetsIt) {
  ExpectTheSame([this] {
    return TextOr(h_.Retry("s", {}, "request"),
                  [](const EnqueueReply& reply) { return absl::StrCat(reply.seq, " ", Text(reply.trials)); });
  });
}

TEST_F(CoreFirstAnswers, ARepeatedRetryThatFoundNothingGetsIt) {
  ASSERT_TRUE(h_.Retry("s", {1}).ok());
  ExpectTheSame([this] {
    return TextOr(h_.Retry("s", {}, "request"),
                  [](const EnqueueReply& reply) { return absl::StrCat(reply.seq, " ", reply.trials.size()); });
  });
}

TEST_F(CoreFirstAnswers, ARepeatedImportGetsIt) {
  ImportedTrial trial;
  trial.parameters = {{"x", 0.25}, {"n", 3.0}};
  trial.measurement = Loss(2.0);
  ExpectTheSame([this, trial] {
    return TextOr(h_.Import("s", {trial, trial}, "request"), [](const ImportReply& reply) {
      return absl::StrCat(reply.seq, " ", reply.numbers[0], " ", reply.numbers[1]);
    });
  });
}

TEST_F(CoreFirstAnswers, RepeatedUpdateAndControlGetTheKeptOne) {
  int asked = 0;
  study::SpecChange change;
  change.description = "a change";
  for (const bool update : {true, false}) {
    SCOPED_TRACE(update);
    const std::string id = update ? "update" : "pause";
    ExpectTheSame([&] {
      absl::StatusOr<StudyReply> reply = update ? h_.Update("s", change, id) : h_.Control("s", Control::kResume, id);
      if (!reply.ok()) return TextOr(reply, [](const StudyReply&) { return ""; });
      if (reply->message.empty()) {
        Answered<std::string> kept;
        EXPECT_TRUE(h_.Batch({KeepAnswerOp{id, absl::StrCat("message ", ++asked), kept.done()}}).ok());
        reply->message = kept.get().value();
      }
      // A repetition that was under way beside the first one gets what was kept.
      Answered<std::string> second;
      EXPECT_TRUE(h_.Batch({KeepAnswerOp{id, "another message", second.done()}}).ok());
      EXPECT_EQ(second.get().value(), reply->message);
      return absl::StrCat(reply->seq, " ", reply->message, " ", reply->record.spec.description, " ",
                          reply->record.spec.budget.patience);
    });
    EXPECT_EQ(asked, update ? 1 : 2);
    running_ = h_.Get("s", "a");
  }
}

TEST_F(CoreFirstAnswers, ARepeatedDeleteGetsItEvenIfAnotherStudyHasTheName) {
  ASSERT_TRUE(h_.Complete(running_, Loss(1.0)).ok());
  const absl::StatusOr<StudyReply> first = h_.Control("s", Control::kDelete, "delete");
  ASSERT_TRUE(first.ok());
  ASSERT_TRUE(h_.Create("s", MakeSpec()).ok());
  h_.Restart();
  const absl::StatusOr<StudyReply> again = h_.Control("s", Control::kDelete, "delete");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->seq, first->seq);
  EXPECT_EQ(h_.Study("s").state, study::StudyState::kActive);
}

}  // namespace
}  // namespace luthier::coordinator::testing
