#include "server/service/worker_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "tests/server/service/fixture.h"

namespace luthier::service {
namespace {

using storage::EventType;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Outcome = WorkerLog::Outcome;

class WorkerLogTest : public ::testing::Test {
 protected:
  void Happens(EventType type, int64_t trial, const std::string& actor = "") {
    storage::Event event;
    event.type = type;
    event.study = 1;
    event.trial = trial;
    event.actor = actor;
    event.time = clock_.Wall();
    log_.OnEvent(event);
  }
  int64_t Count(const std::string& name, Outcome outcome) {
    for (const WorkerLog::Worker& worker : log_.List("default", "", 10'000)) {
      if (worker.name == name) return worker.ended[static_cast<size_t>(outcome)];
    }
    return -1;
  }

  base::ManualClock clock_;
  WorkerLog log_{&clock_, nullptr};
};

TEST_F(WorkerLogTest, EachAttemptEndsOnce) {
  const std::vector<std::pair<EventType, Outcome>> ends = {
      {EventType::kTrialCompleted, Outcome::kCompleted}, {EventType::kTrialPruned, Outcome::kPruned},
      {EventType::kTrialPaused, Outcome::kPaused},       {EventType::kTrialFailed, Outcome::kFailed},
      {EventType::kTrialRetried, Outcome::kFailed},      {EventType::kTrialReleased, Outcome::kReleased}};
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string name = absl::StrCat("w", i);
    const auto trial = static_cast<int64_t>(i) + 1;
    Happens(EventType::kTrialGranted, trial, name);
    Happens(ends[i].first, trial, name);
    Happens(EventType::kTrialPruned, trial);  // What becomes of the trial later is nobody's attempt.
    EXPECT_EQ(Count(name, ends[i].second), 1) << i;
    EXPECT_EQ(Count(name, Outcome::kPruned), ends[i].second == Outcome::kPruned ? 1 : 0) << i;
  }
}

TEST_F(WorkerLogTest, SaysWhyNobodyTakesAStudysTrials) {
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/gpus"),
            "waiting: no worker of pool gpus of project default has asked since the coordinator started");
  EXPECT_EQ(log_.WhyNobodyTakes("p/s", "p/default"),
            "waiting: no worker of the default pool of project p has asked since the coordinator started");
  log_.Seen("w");
  log_.Asked("w", "default/default", "");
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"), "");
  EXPECT_NE(log_.WhyNobodyTakes("s", "default/gpus"), "") << "it is of another pool";
  EXPECT_NE(log_.WhyNobodyTakes("p/s", "p/default"), "") << "and project";
  log_.Asked("w", "p/default", "");
  EXPECT_EQ(log_.WhyNobodyTakes("p/s", "p/default"), "") << "it asks for both in turn";
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"), "");
  log_.Seen("w", "a new process");
  log_.Asked("w", "default/default", "other");
  EXPECT_NE(log_.WhyNobodyTakes("s", "default/default"), "") << "it works for one study";
  EXPECT_EQ(log_.WhyNobodyTakes("other", "default/default"), "");
  clock_.Advance(absl::Seconds(90));
  EXPECT_EQ(log_.WhyNobodyTakes("other", "default/default"),
            "waiting: no worker of the default pool of project default has been heard of for 1m30s");
  log_.Seen("w");
  EXPECT_EQ(log_.WhyNobodyTakes("other", "default/default"), "");
}

TEST_F(WorkerLogTest, BusyWorkersTakeNoTrialsOfOtherStudies) {
  for (const char* name : {"v", "w"}) {
    log_.Seen(name);
    log_.Asked(name, "default/default", "");
  }
  Happens(EventType::kTrialGranted, 1, "v");
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"), "") << "w has nothing to do";
  Happens(EventType::kTrialGranted, 2, "w");
  Happens(EventType::kTrialGranted, 3, "w");
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"),
            "waiting: each worker of the default pool of project default is busy with other studies, as w is");
  Happens(EventType::kTrialCompleted, 2);
  EXPECT_NE(log_.WhyNobodyTakes("s", "default/default"), "") << "w has another trial";
  Happens(EventType::kTrialReleased, 3);
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"), "");
  Happens(EventType::kTrialGranted, 4, "w");
  Happens(EventType::kStudyDeleted, 0);
  EXPECT_EQ(log_.WhyNobodyTakes("s", "default/default"), "");
}

TEST_F(WorkerLogTest, AnAttemptOfASilentWorkerHasExpired) {
  Happens(EventType::kTrialGranted, 1, "silent");
  Happens(EventType::kTrialGranted, 1, "other");
  EXPECT_EQ(Count("silent", Outcome::kExpired), 1);
  Happens(EventType::kTrialFailed, 1);  // All attempts are used up.
  EXPECT_EQ(Count("other", Outcome::kExpired), 1);
  EXPECT_EQ(Count("other", Outcome::kFailed), 0);
}

TEST_F(WorkerLogTest, AUserWhoCancelsIsNoWorker) {
  Happens(EventType::kTrialCancelled, 1, "user");
  EXPECT_THAT(log_.List("default", "", 10), IsEmpty());
  Happens(EventType::kTrialGranted, 2, "w");
  Happens(EventType::kTrialCancelled, 2, "user");
  EXPECT_EQ(Count("w", Outcome::kCancelled), 1);
  EXPECT_THAT(log_.List("default", "", 10), SizeIs(1));
}

TEST_F(WorkerLogTest, TheNewestNamesAreKept) {
  log_.Seen("kept");
  const absl::Time begin = clock_.Wall();
  for (size_t i = 0; i < 3 * WorkerLog::kMaxNames; ++i) {
    clock_.Advance(absl::Seconds(1));
    log_.Seen(absl::StrCat("flood-", i));
    if (i % 500 == 0) log_.Seen("kept");
  }
  const std::vector<WorkerLog::Worker> all = log_.List("default", "", 10'000);
  EXPECT_THAT(all, SizeIs(WorkerLog::kMaxNames));
  EXPECT_EQ(all.back().name, "kept");
  EXPECT_EQ(all.back().first_seen, begin);
  EXPECT_GT(all.back().last_seen, begin);
  EXPECT_EQ(Count(absl::StrCat("flood-", 3 * WorkerLog::kMaxNames - 1), Outcome::kFailed), 0);
  EXPECT_EQ(Count("flood-0", Outcome::kFailed), -1);
}

class LoneFailuresTest : public WorkerLogTest {
 protected:
  LoneFailuresTest() { base::SetLogLevel(base::LogLevel::kError); }
  ~LoneFailuresTest() override { base::SetLogLevel(base::LogLevel::kInfo); }
  // An attempt of `worker` that fails, or succeeds where `detail` is empty.
  void Attempt(const std::string& worker, const std::string& detail, absl::Duration takes = absl::Milliseconds(100),
               bool reports = false) {
    const int64_t trial = ++trials_;
    Happens(EventType::kTrialGranted, trial, worker);
    clock_.Advance(takes);
    if (reports) Happens(EventType::kMeasurement, trial);
    storage::Event event;
    event.type = detail.empty() ? EventType::kTrialCompleted : EventType::kTrialFailed;
    event.study = 1;
    event.study_id = "s";
    event.trial = trial;
    event.actor = worker;
    event.detail = detail;
    log_.OnEvent(event);
  }
  absl::Duration Rest(const std::string& worker) {
    const std::vector<coordinator::Rest> rests = log_.RestsOf(worker);
    return rests.empty() ? absl::ZeroDuration() : rests[0].left;
  }
  int64_t trials_ = 0;
};

TEST_F(LoneFailuresTest, ThreeAlikeWhileAnotherSucceeds) {
  Attempt("good", "");  // Before the first failure: it may be the program that changed.
  for (int i = 0; i < 4; ++i) Attempt("bad", absl::StrCat("EXIT_CODE: exit code 1\nno module named torch ", i));
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
  Attempt("good", "");
  Attempt("bad", "EXIT_CODE: exit code 1\nno module named torch 7");
  EXPECT_EQ(Rest("bad"), absl::Minutes(10));
  EXPECT_EQ(Rest("good"), absl::ZeroDuration());
  const std::vector<WorkerLog::Worker> workers = log_.List("default", "", 10);
  ASSERT_THAT(workers[0].rests, SizeIs(1));
  EXPECT_EQ(workers[0].rests[0].study_id, "s");
  EXPECT_EQ(workers[0].rests[0].failure, "EXIT_CODE: exit code 1\nno module named torch 7");
  // What was under way then changes nothing.
  Attempt("good", "");
  Attempt("bad", "EXIT_CODE: exit code 1\nno module named torch 8");
  EXPECT_LT(Rest("bad"), absl::Minutes(10));
  // One more, and it is twice as long; unless all others are gone.
  clock_.Advance(absl::Minutes(10));
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
  Attempt("bad", "EXIT_CODE: exit code 1\nno module named torch 9");
  EXPECT_EQ(Rest("bad"), absl::Minutes(20));
  clock_.Advance(absl::Minutes(20));
  Attempt("bad", "EXIT_CODE: exit code 1\nno module named torch 10");
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
}

TEST_F(LoneFailuresTest, AMachineThatBreaksLaterIsFoundLater) {
  Attempt("bad", "");
  for (int i = 1; i <= LoneFailures::kAlikeAfterSuccess; ++i) {
    EXPECT_EQ(Rest("bad"), absl::ZeroDuration()) << i;
    Attempt("good", "");
    Attempt("bad", "EXIT_CODE: no space left");
  }
  EXPECT_EQ(Rest("bad"), absl::Minutes(10));
  // A trial of then succeeds after all: this ends it.
  Attempt("bad", "");
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
}

TEST_F(LoneFailuresTest, ACauseThatWorkersMeetWhoSucceedIsTheSettings) {
  Attempt("good", "");
  Attempt("good", "EXIT_CODE: 7 heads do not divide 512");
  for (int i = 0; i < 5; ++i) {
    Attempt("unlucky", "EXIT_CODE: 5 heads do not divide 64");
    Attempt("good", "");
  }
  EXPECT_EQ(Rest("unlucky"), absl::ZeroDuration());
  // The same where the success came after the failure.
  Attempt("other", "EXIT_CODE: learning rate is too small");
  Attempt("other", "");
  for (int i = 0; i < 5; ++i) {
    Attempt("unlucky", "EXIT_CODE: learning rate is too small");
    Attempt("good", "");
  }
  EXPECT_EQ(Rest("unlucky"), absl::ZeroDuration());
  // Two machines may lack the same.
  for (int i = 0; i < 3; ++i) {
    Attempt("bad-1", "EXIT_CODE: no module named torch");
    Attempt("bad-2", "EXIT_CODE: no module named torch");
    Attempt("good", "");
  }
  Attempt("bad-1", "EXIT_CODE: no module named torch");
  Attempt("bad-2", "EXIT_CODE: no module named torch");
  EXPECT_GT(Rest("bad-1"), absl::ZeroDuration());
  EXPECT_GT(Rest("bad-2"), absl::ZeroDuration());
}

TEST_F(LoneFailuresTest, FailuresOfTheSettingsDoNotCount) {
  for (const char* detail : {"NON_FINITE: loss is nan", "MEMORY_LIMIT: 2 GiB", "TIMEOUT: 60 s"}) {
    for (int i = 0; i < 5; ++i) {
      Attempt("bad", detail);
      Attempt("good", "");
    }
  }
  for (int i = 0; i < 5; ++i) {
    Attempt("bad", "EXIT_CODE: the same", absl::Seconds(6));
    Attempt("bad", "EXIT_CODE: the same", absl::Seconds(1), /*reports=*/true);
    Attempt("bad", i % 2 == 0 ? "EXIT_CODE: one" : "EXIT_CODE: two");
    Attempt("good", "");
  }
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
}

TEST_F(LoneFailuresTest, ANewProcessAndADeletedStudyBeginAnew) {
  const auto fail = [&] {
    for (int i = 0; i < 3; ++i) {
      Attempt("bad", "EXIT_CODE: exit code 1");
      Attempt("good", "");
    }
    Attempt("bad", "EXIT_CODE: exit code 1");
  };
  log_.Seen("bad", "first");
  fail();
  EXPECT_GT(Rest("bad"), absl::ZeroDuration());
  log_.Seen("bad", "first");
  log_.Seen("bad");
  EXPECT_GT(Rest("bad"), absl::ZeroDuration());
  log_.Seen("bad", "second");
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
  fail();
  EXPECT_GT(Rest("bad"), absl::ZeroDuration());
  Happens(EventType::kStudyDeleted, 0);
  EXPECT_EQ(Rest("bad"), absl::ZeroDuration());
}

TEST_F(LoneFailuresTest, TheNewestAreKept) {
  for (size_t i = 0; i < 3 * LoneFailures::kMaxWorkers; ++i) {
    for (int k = 0; k < 3; ++k) {
      Attempt(absl::StrCat("bad-", i), "EXIT_CODE: exit code 1");
      if (k == 0) Attempt("good", "");
    }
  }
  EXPECT_EQ(Rest("bad-0"), absl::ZeroDuration());
  EXPECT_GT(Rest(absl::StrCat("bad-", 3 * LoneFailures::kMaxWorkers - 1)), absl::ZeroDuration());
}

class ListWorkersTest : public testing::ServiceTest {};

TEST_F(ListWorkersTest, NamesHoldLeasesAndHistories) {
  ASSERT_TRUE(Create("s", testing::FromJson<v1::StudySpec>(testing::kSpec)).ok());
  const v1::Lease first = Lease("s", "1");
  Lease("s", "2");
  ASSERT_TRUE(Complete(first, 0.5).ok());
  v1::SuggestRequest other = Ask("s", "3");
  other.set_worker("a");
  v1::SuggestResponse granted;
  ASSERT_TRUE(work_->Suggest(Context().get(), other, &granted).ok());
  v1::ListWorkersRequest request;
  request.set_page_size(1);
  std::vector<std::string> names;
  v1::ListWorkersResponse page;
  do {
    ASSERT_TRUE(studies_->ListWorkers(Context().get(), request, &page).ok());
    for (const v1::Worker& worker : page.workers()) names.push_back(worker.name());
    request.set_page_token(page.next_page_token());
  } while (!page.next_page_token().empty());
  EXPECT_THAT(names, ElementsAre("a", "w1"));
  const v1::Worker& w1 = page.workers(0);
  EXPECT_EQ(w1.leases(), 1);
  EXPECT_EQ(w1.granted(), 2);
  EXPECT_EQ(w1.completed(), 1);
  EXPECT_GE(w1.last_seen().seconds(), w1.first_seen().seconds());
  request.set_page_token("nonsense");
  EXPECT_EQ(studies_->ListWorkers(Context().get(), request, &page).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

}  // namespace
}  // namespace luthier::service
