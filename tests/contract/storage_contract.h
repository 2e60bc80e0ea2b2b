#ifndef LUTHIER_TESTS_CONTRACT_STORAGE_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_STORAGE_CONTRACT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/study/metrics.h"
#include "server/storage/storage.h"
#include "tests/testing/storage_model.h"
#include "tests/testing/storage_records.h"

// What every Storage must do. An implementation joins by one line:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StorageContract, ::testing::Values(MakeMemoryUnderTest), [](auto&) { return "All";
//   });
namespace luthier::storage {

using testing::Completed;
using testing::EventAt;
using testing::Point;
using testing::Request;
using testing::Study;
using testing::Text;
using testing::Trial;

class StorageUnderTest {
 public:
  virtual ~StorageUnderTest() = default;
  virtual Storage& storage() = 0;
  // Ends the storage in an orderly way and opens the same data again, where it keeps any.
  virtual void Reopen() = 0;
};
using MakeStorageUnderTest = std::unique_ptr<StorageUnderTest> (*)();

class StorageContract : public ::testing::TestWithParam<MakeStorageUnderTest> {
 protected:
  Storage& storage() { return under_test_->storage(); }
  void Reopen() { under_test_->Reopen(); }
  void MustCommit(const WriteBatch& batch) {
    const absl::Status status = storage().Commit(batch);
    ASSERT_TRUE(status.ok()) << status;
  }
  // Refused as a bug of the caller, without any effect.
  void ExpectRefused(const WriteBatch& batch) {
    const absl::Status status = storage().Commit(batch);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_EQ(base::GetReason(status), base::reason::kBug) << status;
  }
  std::vector<int64_t> Numbers(const TrialFilter& filter, int64_t after, int limit) {
    std::vector<int64_t> numbers;
    const std::vector<TrialRecord> page = storage().ListTrials(1, filter, after, limit).value();
    for (const TrialRecord& record : page) {
      numbers.push_back(record.trial.number);
    }
    return numbers;
  }

 private:
  const std::unique_ptr<StorageUnderTest> under_test_ = GetParam()();
};

TEST_P(StorageContract, NewStorageIsEmpty) {
  EXPECT_EQ(storage().LastSeq().value(), 0u);
  EXPECT_EQ(storage().LastFence().value(), 0u);
  EXPECT_EQ(storage().LastStudyKey().value(), 0);
  EXPECT_TRUE(storage().ListStudies("", 10).value().empty());
  EXPECT_EQ(storage().GetStudy("s").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(storage().GetTrial(1, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(storage().ListTrials(1, {}, 0, 10).value().empty());
  EXPECT_TRUE(storage().ListMeasurements(1, 1, 1).value().empty());
  EXPECT_TRUE(storage().ListEvents(1, 0, 10).value().empty());
  EXPECT_EQ(storage().FindRequest("r").value(), std::nullopt);
  EXPECT_EQ(storage().Summarize(Study(1, "s")).value(), Storage::Summary());
}

TEST_P(StorageContract, EmptyBatchIsFine) {
  EXPECT_TRUE(storage().Commit({}).ok());
}

TEST_P(StorageContract, StudyComesBackAsItWasPut) {
  StudyRecord record = Study(1, "crf.strength-2");
  record.state = study::StudyState::kPaused;
  record.state_reason = "20 failures in a row: \"\xE2\x82\xAC\"";
  record.create_time = absl::FromUnixNanos(1'700'000'000'123'456'789);
  record.update_time = absl::FromUnixNanos(1'700'000'001'000'000'001);
  record.create_seq = 1;
  record.update_seq = 1'000'000'000'000;
  record.resume_seq = 7;
  record.spec.labels = {{"team", "vision"}};
  record.spec.budget.target_value = 0.25;
  record.spec.seed = std::numeric_limits<uint64_t>::max();
  MustCommit({PutStudy{record}});
  EXPECT_EQ(storage().GetStudy(record.id).value(), record);
  Reopen();
}

TEST_P(StorageContract, PutStudyReplacesByKey) {
  StudyRecord record = Study(1, "s");
  MustCommit({PutStudy{record}, PutTrial{1, Trial(1)}});
  record.state = study::StudyState::kCompleted;
  record.spec.budget.max_trials = 5;
  MustCommit({PutStudy{record}});
  EXPECT_EQ(storage().GetStudy("s").value(), record);
  // Replacing a study is not deleting it.
  EXPECT_TRUE(storage().GetTrial(1, 1).ok());
}

TEST_P(StorageContract, StudiesAreListedInPagesById) {
  MustCommit({PutStudy{Study(1, "b")}, PutStudy{Study(2, "a")}, PutStudy{Study(3, "c")}, PutStudy{Study(4, "a.b")}});
  const auto ids = [&](const std::string& after, int limit) {
    const std::vector<StudyRecord> page = storage().ListStudies(after, limit).value();
    std::vector<std::string> listed;
    for (const StudyRecord& record : page) listed.push_back(record.id);
    return listed;
  };
  EXPECT_THAT(ids("", 10), ::testing::ElementsAre("a", "a.b", "b", "c"));
  EXPECT_THAT(ids("", 2), ::testing::ElementsAre("a", "a.b"));
  EXPECT_THAT(ids("a.b", 2), ::testing::ElementsAre("b", "c"));
  EXPECT_THAT(ids("aa", 1), ::testing::ElementsAre("b"));
  EXPECT_THAT(ids("c", 10), ::testing::IsEmpty());
  EXPECT_THAT(ids("", 0), ::testing::IsEmpty());
  EXPECT_THAT(ids("", -1), ::testing::IsEmpty());
}

TEST_P(StorageContract, DeletedStudyTakesItsTrialsAndPointsButNotItsEvents) {
  MustCommit({PutStudy{Study(1, "s")}, PutStudy{Study(2, "other")}, PutTrial{1, Trial(1)}, PutTrial{2, Trial(1)},
              PutMeasurement{Point(1, 1, 1, 0, 0.5)}, PutMeasurement{Point(2, 1, 1, 0, 0.5)},
              AppendEvent{EventAt(1, 1)}});
  MustCommit({DeleteStudy{1}, AppendEvent{EventAt(2, 1)}});
  EXPECT_EQ(storage().GetStudy("s").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(storage().GetTrial(1, 1).status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(storage().ListMeasurements(1, 1, 1).value().empty());
  EXPECT_EQ(storage().ListEvents(1, 0, 10).value().size(), 2u);
  EXPECT_TRUE(storage().GetTrial(2, 1).ok());
  EXPECT_EQ(storage().ListMeasurements(2, 1, 1).value().size(), 1u);
}

TEST_P(StorageContract, KeysOfDeletedStudiesAreNeverUsedAgain) {
  MustCommit({PutStudy{Study(1, "s")}});
  MustCommit({PutStudy{Study(2, "t")}, DeleteStudy{2}});
  EXPECT_EQ(storage().LastStudyKey().value(), 2);
  Reopen();
  EXPECT_TRUE(storage().LastStudyKey().value() == 2 || storage().LastStudyKey().value() == 0);
  if (storage().LastStudyKey().value() == 0) return;  // Keeps nothing.
  ExpectRefused({PutStudy{Study(2, "u")}});
  MustCommit({PutStudy{Study(3, "t")}});  // The id is free again.
}

TEST_P(StorageContract, DeletingAnUnknownStudyUsesUpItsKey) {
  MustCommit({DeleteStudy{3}, AppendEvent{EventAt(1, 3)}});
  EXPECT_EQ(storage().LastStudyKey().value(), 3);
  ExpectRefused({PutStudy{Study(3, "s")}});
}

TEST_P(StorageContract, StudyMayBeDeletedAndItsIdTakenInOneBatch) {
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}});
  MustCommit({DeleteStudy{1}, PutStudy{Study(2, "s", study::Goal::kMaximize)}});
  EXPECT_EQ(storage().GetStudy("s").value().key, 2);
  EXPECT_TRUE(storage().ListTrials(2, {}, 0, 10).value().empty());
}

TEST_P(StorageContract, HiddenStudiesAreInNoListAndComeBackWhole) {
  StudyRecord owned = Study(1, "s");
  owned.owner = "vision/alice";
  MustCommit({PutStudy{owned}, PutTrial{1, Trial(1)}, PutTrial{1, Completed(2, 0.5)},
              PutMeasurement{Point(1, 1, 1, 0, 0.5)}, AppendEvent{EventAt(1, 1)}});
  EXPECT_EQ(storage().GetStudy("s").value(), owned);
  const Deletion deletion{absl::FromUnixSeconds(1'700'000'000), absl::Hours(5)};
  MustCommit({HideStudy{1, deletion}, AppendEvent{EventAt(2, 1)}});
  EXPECT_EQ(storage().GetStudy("s").status().code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE(storage().ListStudies("", 10).value().empty());
  StudyRecord hidden = owned;
  hidden.deletion = deletion;
  EXPECT_THAT(storage().ListDeleted(0, 10).value(), ::testing::ElementsAre(hidden));
  EXPECT_TRUE(storage().ListDeleted(1, 10).value().empty());
  EXPECT_TRUE(storage().ListDeleted(0, 0).value().empty());
  ExpectRefused({PutStudy{owned}});
  ExpectRefused({PutTrial{1, Trial(3)}});
  ExpectRefused({HideStudy{1, deletion}});
  // Its id is free, also in the batch that hides it, and it can come back under another one.
  MustCommit({PutStudy{Study(2, "s")}, AppendEvent{EventAt(3, 2)}});
  ExpectRefused({UnhideStudy{1, "s"}});
  MustCommit({HideStudy{2, deletion}, PutStudy{Study(3, "s")}});
  EXPECT_EQ(storage().ListDeleted(0, 10).value().size(), 2u);
  MustCommit({UnhideStudy{1, "t"}});
  StudyRecord renamed = owned;
  renamed.id = "t";
  EXPECT_EQ(storage().GetStudy("t").value(), renamed);
  EXPECT_EQ(storage().ListTrials(1, {}, 0, 10).value().size(), 2u);
  EXPECT_EQ(storage().ListMeasurements(1, 1, 1).value().size(), 1u);
  EXPECT_EQ(storage().Summarize(renamed).value().best_trial, 2);
  EXPECT_EQ(storage().ListEvents(1, 0, 10).value().size(), 2u);
  MustCommit({PutTrial{1, Trial(3)}, PutStudy{renamed}});
  ExpectRefused({UnhideStudy{1, "u"}});
  ExpectRefused({UnhideStudy{9, "u"}});
  ExpectRefused({HideStudy{9, deletion}});
  // What is deleted for ever is in no list at all.
  MustCommit({DeleteStudy{2}});
  EXPECT_TRUE(storage().ListDeleted(0, 10).value().empty());
  ExpectRefused({UnhideStudy{2, "v"}});
}

TEST_P(StorageContract, ARefusedBatchHidesNothing) {
  MustCommit({PutStudy{Study(1, "s")}, PutStudy{Study(2, "t")}});
  MustCommit({HideStudy{2, {absl::UnixEpoch(), absl::Hours(1)}}});
  ExpectRefused({HideStudy{1, {absl::UnixEpoch(), absl::Hours(2)}}, UnhideStudy{2, "u"}, PutTrial{9, Trial(1)}});
  EXPECT_TRUE(storage().GetStudy("s").ok());
  ASSERT_EQ(storage().ListDeleted(0, 10).value().size(), 1u);
  EXPECT_EQ(storage().ListDeleted(0, 10).value()[0].id, "t");
  MustCommit({UnhideStudy{2, "t"}});
}

TEST_P(StorageContract, TrialsComeBackBitForBit) {
  MustCommit({PutStudy{Study(1, "s")}});
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    base::RandomStream random(seed, "trials come back");
    const TrialRecord record = testing::RandomTrial(random, static_cast<int64_t>(seed) + 1,
                                                    static_cast<study::TrialState>(seed % study::kTrialStateCount));
    MustCommit({PutTrial{1, record}});
    EXPECT_EQ(Text(storage().GetTrial(1, record.trial.number).value()), Text(record));
  }
}

TEST_P(StorageContract, HugeGradientsComeBack) {
  TrialRecord record = Completed(1, 0.5);
  record.trial.final_measurement->gradient.emplace().values.assign(100'000, -1.0 / 3.0);
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, record}});
  EXPECT_EQ(storage().GetTrial(1, 1).value(), record);
}

TEST_P(StorageContract, TrialNumbersAreOfTheirStudy) {
  MustCommit({PutStudy{Study(1, "s")}, PutStudy{Study(2, "t")}, PutTrial{1, Completed(7, 1.0)}, PutTrial{2, Trial(7)}});
  EXPECT_EQ(storage().GetTrial(1, 7).value().trial.state, study::TrialState::kComplete);
  EXPECT_EQ(storage().GetTrial(2, 7).value().trial.state, study::TrialState::kPending);
  EXPECT_EQ(storage().GetTrial(2, 6).status().code(), absl::StatusCode::kNotFound);
}

TEST_P(StorageContract, TrialsAreListedInPagesByNumberAndState) {
  using enum study::TrialState;
  WriteBatch batch = {PutStudy{Study(1, "s")}};
  const std::vector<study::TrialState> states = {kComplete, kPending, kComplete, kRunning,
                                                 kFailed,   kPending, kComplete};
  for (size_t i = states.size(); i > 0; --i)
    batch.push_back(PutTrial{1, Trial(static_cast<int64_t>(i), states[i - 1])});
  MustCommit(batch);
  EXPECT_THAT(Numbers({}, 0, 100), ::testing::ElementsAre(1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(Numbers({}, 2, 3), ::testing::ElementsAre(3, 4, 5));
  EXPECT_THAT(Numbers({{kComplete}}, 0, 2), ::testing::ElementsAre(1, 3));
  EXPECT_THAT(Numbers({{kComplete}}, 3, 2), ::testing::ElementsAre(7));
  EXPECT_THAT(Numbers({{kRunning, kPending}}, 0, 100), ::testing::ElementsAre(2, 4, 6));
  EXPECT_THAT(Numbers({{kRunning, kPending, kPending}}, 2, 1), ::testing::ElementsAre(4));
  EXPECT_THAT(Numbers({{kCancelled}}, 0, 100), ::testing::IsEmpty());
  EXPECT_THAT(Numbers({}, 7, 100), ::testing::IsEmpty());
  EXPECT_THAT(Numbers({{kRunning, kPending}}, 0, 0), ::testing::IsEmpty());
}

TEST_P(StorageContract, PointsAreKeptByAttemptAndStep) {
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}, PutTrial{1, Trial(2)}});
  const double nan = std::numeric_limits<double>::quiet_NaN();
  MustCommit({PutMeasurement{Point(1, 1, 1, 5, nan)}, PutMeasurement{Point(1, 1, 1, 0, -0.0)},
              PutMeasurement{Point(1, 1, 2, 0, 2.0)}, PutMeasurement{Point(1, 2, 1, 0, 3.0)},
              PutMeasurement{Point(1, 1, 1, 5, std::numeric_limits<double>::infinity())}});
  const std::vector<study::Measurement> points = storage().ListMeasurements(1, 1, 1).value();
  ASSERT_EQ(points.size(), 2u);
  EXPECT_TRUE(std::signbit(points[0].metrics.at("loss")));
  EXPECT_EQ(points[1].step, 5);
  EXPECT_EQ(points[1].metrics.at("loss"), std::numeric_limits<double>::infinity());
  EXPECT_EQ(storage().ListMeasurements(1, 1, 2).value().size(), 1u);
  EXPECT_EQ(storage().ListMeasurements(1, 1, 3).value().size(), 0u);
}

TEST_P(StorageContract, PointsComeBackBitForBit) {
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}});
  std::vector<study::Measurement> wanted;
  WriteBatch batch;
  base::RandomStream random(7, "points come back");
  for (int64_t step = 0; step < 100; ++step) {
    wanted.push_back(testing::RandomMeasurement(random, step));
    batch.push_back(PutMeasurement{{1, 1, 1, wanted.back()}});
  }
  MustCommit(batch);
  EXPECT_EQ(Text(storage().ListMeasurements(1, 1, 1).value()), Text(wanted));
}

TEST_P(StorageContract, EventsComeBackBitForBitInOrder) {
  std::vector<Event> wanted;
  WriteBatch batch;
  base::RandomStream random(3, "events come back");
  for (uint64_t seq = 1; seq <= 200; ++seq) {
    const Event event = testing::RandomEvent(random, 3 * seq, seq % 2 == 0 ? 1 : 2);
    if (event.study == 1) wanted.push_back(event);
    batch.push_back(AppendEvent{event});
  }
  MustCommit(batch);
  EXPECT_EQ(Text(storage().ListEvents(1, 0, 1000).value()), Text(wanted));
  EXPECT_EQ(storage().LastSeq().value(), 600u);
  // Seqs 6, 12, …: from the one after 12, two of them.
  const std::vector<Event> page = storage().ListEvents(1, 12, 2).value();
  ASSERT_EQ(page.size(), 2u);
  EXPECT_EQ(page[0].seq, 18u);
  EXPECT_EQ(page[1].seq, 24u);
  EXPECT_TRUE(storage().ListEvents(1, std::numeric_limits<uint64_t>::max(), 10).value().empty());
}

TEST_P(StorageContract, EventValuesKeepEveryBit) {
  const std::vector<double> values = {std::nan("0x7ff"),
                                      -std::nan(""),
                                      std::numeric_limits<double>::infinity(),
                                      -std::numeric_limits<double>::infinity(),
                                      -0.0,
                                      0.0,
                                      std::numeric_limits<double>::denorm_min(),
                                      std::numeric_limits<double>::max(),
                                      3.0};
  WriteBatch batch;
  std::vector<Event> wanted;
  for (const double value : values) {
    Event event = EventAt(wanted.size() + 1, 1);
    event.value = value;
    wanted.push_back(event);
    batch.push_back(AppendEvent{event});
  }
  MustCommit(batch);
  EXPECT_EQ(Text(storage().ListEvents(1, 0, 100).value()), Text(wanted));
}

TEST_P(StorageContract, GradientsSetAsideAreReadFromTheLog) {
  WriteBatch batch;
  const auto note = [&](StudyKey study, int64_t trial, const std::string& worker) {
    Event event = EventAt(batch.size() + 1, study);
    event.type = EventType::kGradientSetAside;
    event.trial = trial;
    event.actor = worker;
    batch.push_back(AppendEvent{event});
  };
  note(1, 7, "b");
  note(1, 3, "a");
  note(2, 5, "c");
  note(1, 7, "never");  // The first counts.
  batch.push_back(AppendEvent{EventAt(batch.size() + 1, 1)});
  note(1, 9, "a");
  MustCommit(batch);
  const std::vector<SetAside> all = {{3, "a"}, {7, "b"}, {9, "a"}};
  EXPECT_EQ(storage().ListSetAside(1, 0, 10).value(), all);
  EXPECT_EQ(storage().ListSetAside(1, 3, 1).value(), std::vector<SetAside>({all[1]}));
  EXPECT_EQ(storage().ListSetAside(1, 9, 10).value(), std::vector<SetAside>());
  EXPECT_EQ(storage().ListSetAside(1, 0, 0).value(), std::vector<SetAside>());
  EXPECT_EQ(storage().ListSetAside(2, 0, 10).value(), std::vector<SetAside>({{5, "c"}}));
  EXPECT_EQ(storage().ListSetAside(3, 0, 10).value(), std::vector<SetAside>());
}

TEST_P(StorageContract, EventSeqsOnlyRise) {
  MustCommit({AppendEvent{EventAt(5, 1)}});
  ExpectRefused({AppendEvent{EventAt(5, 1)}});
  ExpectRefused({AppendEvent{EventAt(4, 2)}});
  ExpectRefused({AppendEvent{EventAt(7, 1)}, AppendEvent{EventAt(6, 1)}});
  EXPECT_EQ(storage().LastSeq().value(), 5u);
  MustCommit({AppendEvent{EventAt(6, 1)}});
}

TEST_P(StorageContract, FenceOnlyRises) {
  MustCommit({SetFence{10}});
  MustCommit({SetFence{10}});
  ExpectRefused({SetFence{9}});
  EXPECT_EQ(storage().LastFence().value(), 10u);
  ExpectRefused({SetFence{uint64_t{1} << 63}});
  MustCommit({SetFence{(uint64_t{1} << 63) - 1}});
  EXPECT_EQ(storage().LastFence().value(), (uint64_t{1} << 63) - 1);
}

TEST_P(StorageContract, RequestsAreFoundUntilForgotten) {
  RequestRecord odd = Request(std::string("\0\xff ", 3), 30);
  odd.reply = GrantedLeases{1, {{7, std::string(100'000, '\0')}}};
  MustCommit({PutRequest{Request("a", 10)}, PutRequest{Request("b", 20)}, PutRequest{odd}});
  EXPECT_EQ(storage().FindRequest("a").value(), Request("a", 10));
  EXPECT_EQ(storage().FindRequest(odd.id).value(), odd);
  EXPECT_EQ(storage().FindRequest("").value(), std::nullopt);
  EXPECT_EQ(storage().FindRequest("A").value(), std::nullopt);
  MustCommit({ForgetRequestsBefore{absl::Seconds(20)}});
  EXPECT_EQ(storage().FindRequest("a").value(), std::nullopt);
  EXPECT_EQ(storage().FindRequest("b").value(), Request("b", 20));
  MustCommit({PutRequest{Request("a", 40)}, ForgetRequestsBefore{absl::InfiniteDuration()}});
  EXPECT_EQ(storage().FindRequest("a").value(), std::nullopt);
}

TEST_P(StorageContract, AStoredRequestMayBeChangedAndIsForgottenByItsNewUptime) {
  MustCommit({PutRequest{Request("a", 10)}, PutRequest{Request("b", 11)}});
  RequestRecord changed = Request("a", 30);
  changed.digest = "another";
  MustCommit({ChangeRequest{changed}, ForgetRequestsBefore{absl::Seconds(20)}});
  EXPECT_EQ(storage().FindRequest("a").value(), changed);
  ExpectRefused({ChangeRequest{Request("b", 40)}});
  ExpectRefused({ChangeRequest{Request("a", 40)}, ChangeRequest{Request("c", 40)}});
  EXPECT_EQ(storage().FindRequest("a").value(), changed);
}

TEST_P(StorageContract, UptimeOnlyRises) {
  EXPECT_EQ(storage().LastUptime().value(), absl::ZeroDuration());
  const absl::Duration long_time = absl::Hours(24 * 365 * 250) + absl::Nanoseconds(7);
  MustCommit({SetUptime{absl::Seconds(3)}});
  MustCommit({SetUptime{absl::Seconds(3)}});
  ExpectRefused({SetUptime{absl::Seconds(3) - absl::Nanoseconds(1)}});
  ExpectRefused({SetUptime{absl::Seconds(5)}, SetFence{uint64_t{1} << 63}});
  EXPECT_EQ(storage().LastUptime().value(), absl::Seconds(3));
  MustCommit({SetUptime{long_time}});
  EXPECT_EQ(storage().LastUptime().value(), long_time);
}

TEST_P(StorageContract, SummaryCountsStatesAndFindsTheBest) {
  using enum study::TrialState;
  for (const study::Goal goal : {study::Goal::kMinimize, study::Goal::kMaximize}) {
    const bool least = goal == study::Goal::kMinimize;
    const StudyKey key = least ? 1 : 2;
    const StudyRecord study = Study(key, least ? "least" : "most", goal);
    MustCommit({PutStudy{study}, PutTrial{key, Trial(1, kPending)}, PutTrial{key, Trial(2, kRunning)},
                PutTrial{key, Completed(3, 2.0)}, PutTrial{key, Completed(4, -1.5)}, PutTrial{key, Completed(6, -1.5)},
                PutTrial{key, Completed(7, 2.0)}, PutTrial{key, Trial(8, kFailed)}});
    // A pruned trial has a value but does not compete.
    TrialRecord pruned = Completed(5, least ? -9.0 : 9.0);
    pruned.trial.state = kPruned;
    MustCommit({PutTrial{key, pruned}});
    const Storage::Summary summary = storage().Summarize(study).value();
    EXPECT_THAT(summary.by_state, ::testing::ElementsAre(1, 1, 4, 1, 1, 0, 0));
    EXPECT_EQ(summary.best_trial, least ? 4 : 3);
    EXPECT_EQ(summary.best_value, least ? -1.5 : 2.0);
  }
}

TEST_P(StorageContract, TrialsBeyondABoundAreCompleteAndDoNotRank) {
  StudyRecord study = Study(1, "s");
  study::SetMetrics({study.spec.metric, {.name = "ms", .objective = false, .at_most = 20}}, &study.spec);
  std::vector<Mutation> batch = {PutStudy{study}};
  for (const auto& [number, ms] : {std::pair(1, 21.0), {2, 20.0}, {3, 19.0}}) {
    TrialRecord trial = Completed(number, number);
    trial.trial.final_measurement->metrics["ms"] = ms;
    batch.push_back(PutTrial{1, trial});
  }
  ASSERT_TRUE(storage().Commit(batch).ok());
  EXPECT_EQ(storage().Summarize(study).value().best_trial, 2);
  EXPECT_EQ(storage().Summarize(study).value().by_state[static_cast<size_t>(study::TrialState::kComplete)], 3);
  const std::vector<TrialSketch> sketches = storage().SketchTrials(study, {}, 0, 10).value();
  EXPECT_EQ(sketches[0].value, std::nullopt);
  EXPECT_EQ(sketches[1].value, 2.0);
  EXPECT_EQ(storage().GetStudy("s").value(), study);
  StudyRecord other = study;
  other.spec.metrics[1].at_most = 30;
  EXPECT_EQ(storage().Commit({PutStudy{other}}).code(), absl::StatusCode::kInternal) << "metrics never change";
}

TEST_P(StorageContract, WithSeveralObjectivesNoTrialIsTheBest) {
  StudyRecord study = Study(1, "s");
  study::SetMetrics({study.spec.metric, {"gain", study::Goal::kMaximize}}, &study.spec);
  TrialRecord trial = Completed(1, 0.5);
  trial.trial.final_measurement->metrics["gain"] = 2;
  ASSERT_TRUE(storage().Commit({PutStudy{study}, PutTrial{1, trial}}).ok());
  EXPECT_EQ(storage().Summarize(study).value().best_trial, 0);
  EXPECT_EQ(storage().Summarize(study).value().best_value, std::nullopt);
  EXPECT_EQ(storage().SketchTrials(study, {}, 0, 10).value()[0].value, 0.5);
}

TEST_P(StorageContract, CompleteTrialsAreCountedByHowTheirTrainingEnded) {
  using enum study::TrialState;
  using enum study::TrainingOutcome;
  const StudyRecord study = Study(1, "s");
  MustCommit({PutStudy{study}});
  const auto trained = [](int64_t number, study::TrialState state, std::optional<study::TrainingOutcome> outcome) {
    TrialRecord record = Completed(number, 0.5);
    record.trial.state = state;
    if (outcome) record.trial.final_measurement->training = {*outcome, 1e-3, std::nullopt};
    return record;
  };
  int64_t next = 0;
  for (const study::TrainingOutcome outcome :
       {kConverged, kLimit, kLimit, kPrecision, kDiverged, kTarget, kConverged, kConverged}) {
    MustCommit({PutTrial{1, trained(++next, kComplete, outcome)}});
  }
  // Neither of these counts.
  MustCommit({PutTrial{1, trained(++next, kPruned, kTarget)}});
  MustCommit({PutTrial{1, trained(++next, kPaused, kTarget)}});
  MustCommit({PutTrial{1, trained(++next, kComplete, std::nullopt)}});
  EXPECT_EQ(storage().GetTrial(1, 2).value(), trained(2, kComplete, kLimit));
  // In order of the enum: converged, precision, target, limit, diverged.
  EXPECT_THAT(storage().Summarize(study).value().trainings, ::testing::ElementsAre(3, 1, 1, 2, 1));
  // A part that paused goes on to its end.
  MustCommit({PutTrial{1, trained(10, kComplete, kConverged)}});
  EXPECT_THAT(storage().Summarize(study).value().trainings, ::testing::ElementsAre(4, 1, 1, 2, 1));
}

TEST_P(StorageContract, APausedTrialIsOpenAndItsResourceIsSummedUp) {
  using enum study::TrialState;
  TrialRecord one = Trial(1, kPaused);
  one.trial.final_measurement.emplace().metrics["loss"] = 0.5;
  one.trial.provenance.resource = 3;
  one.trial.checkpoint_step = 3;
  one.trial.attempts.resize(2);
  one.trial.attempts[0].last_step = 2;  // And lost.
  one.trial.attempts[1].last_step = 3;
  one.trial.attempts[1].outcome = study::AttemptOutcome::kPaused;
  one.grants.resize(2);
  one.grants[1].reply_state = kPaused;
  const StudyRecord study = Study(1, "s");
  MustCommit({PutStudy{study}, PutTrial{1, one}, PutTrial{1, Trial(2)}});
  EXPECT_EQ(storage().GetTrial(1, 1).value(), one);
  EXPECT_THAT(Numbers({{kPaused}}, 0, 10), ::testing::ElementsAre(1));
  Storage::Summary summary = storage().Summarize(study).value();
  EXPECT_THAT(summary.by_state, ::testing::ElementsAre(1, 0, 0, 0, 0, 0, 1));
  EXPECT_EQ(summary.resource_spent, 5);
  EXPECT_EQ(summary.best_trial, 0);
  // Promoted, and trained on from where it was.
  one.trial.state = kRunning;
  one.trial.promotions.emplace_back().resource = 9;
  one.trial.attempts.emplace_back().start_step = 3;
  one.trial.attempts.back().last_step = 9;
  one.grants.emplace_back();
  MustCommit({PutTrial{1, one}});
  EXPECT_EQ(storage().GetTrial(1, 1).value(), one);
  EXPECT_EQ(storage().Summarize(study).value().resource_spent, 11);
  // Final states stay closed to it.
  one.trial.state = kPruned;
  MustCommit({PutTrial{1, one}});
  one.trial.state = kPaused;
  ExpectRefused({PutTrial{1, one}});
}

TEST_P(StorageContract, SummaryFollowsEveryChange) {
  const StudyRecord study = Study(1, "s");
  MustCommit({PutStudy{study}, PutTrial{1, Trial(1)}});
  EXPECT_EQ(storage().Summarize(study).value().best_value, std::nullopt);
  MustCommit({PutTrial{1, Completed(1, 3.0)}});
  EXPECT_EQ(storage().Summarize(study).value().best_value, 3.0);
  EXPECT_THAT(storage().Summarize(study).value().by_state, ::testing::ElementsAre(0, 0, 1, 0, 0, 0, 0));
  MustCommit({DeleteStudy{1}});
  EXPECT_EQ(storage().Summarize(study).value(), Storage::Summary());
}

TEST_P(StorageContract, CompleteTrialWithoutFiniteValueIsCountedButNeverBest) {
  const StudyRecord study = Study(1, "s");
  TrialRecord other_metric = Completed(4, 0.0);
  other_metric.trial.final_measurement->metrics = {{"accuracy", 1.0}};
  MustCommit({PutStudy{study}, PutTrial{1, Completed(1, -std::numeric_limits<double>::infinity())},
              PutTrial{1, Completed(2, std::nan(""))}, PutTrial{1, Trial(3, study::TrialState::kComplete)},
              PutTrial{1, other_metric}});
  const Storage::Summary summary = storage().Summarize(study).value();
  EXPECT_THAT(summary.by_state, ::testing::ElementsAre(0, 0, 4, 0, 0, 0, 0));
  EXPECT_EQ(summary.best_trial, 0);
  EXPECT_EQ(summary.best_value, std::nullopt);
}

TEST_P(StorageContract, RefusedBatchLeavesNothingBehind) {
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, Trial(1)}, PutMeasurement{Point(1, 1, 1, 0, 1.0)},
              AppendEvent{EventAt(1, 1)}, PutRequest{Request("a", 1)}, SetFence{3}});
  StudyRecord changed = Study(1, "s");
  changed.state = study::StudyState::kStopped;
  ExpectRefused({PutStudy{changed}, PutStudy{Study(2, "t")}, PutTrial{1, Completed(1, 1.0)}, PutTrial{1, Trial(2)},
                 PutMeasurement{Point(1, 1, 1, 0, 2.0)}, PutMeasurement{Point(1, 1, 1, 1, 2.0)},
                 AppendEvent{EventAt(2, 1)}, AppendEvent{EventAt(3, 9)}, PutRequest{Request("b", 2)},
                 ForgetRequestsBefore{absl::Seconds(2)}, SetFence{4}, DeleteStudy{1}, AppendEvent{EventAt(1, 1)}});
  EXPECT_EQ(storage().GetStudy("s").value().state, study::StudyState::kActive);
  EXPECT_EQ(storage().ListStudies("", 10).value().size(), 1u);
  EXPECT_THAT(Numbers({{study::TrialState::kPending}}, 0, 10), ::testing::ElementsAre(1));
  EXPECT_THAT(Numbers({}, 0, 10), ::testing::ElementsAre(1));
  const std::vector<study::Measurement> points = storage().ListMeasurements(1, 1, 1).value();
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].metrics.at("loss"), 1.0);
  EXPECT_EQ(storage().LastSeq().value(), 1u);
  EXPECT_EQ(storage().ListEvents(1, 0, 10).value().size(), 1u);
  EXPECT_TRUE(storage().ListEvents(9, 0, 10).value().empty());
  EXPECT_TRUE(storage().FindRequest("a").value().has_value());
  EXPECT_FALSE(storage().FindRequest("b").value().has_value());
  EXPECT_EQ(storage().LastFence().value(), 3u);
  EXPECT_EQ(storage().LastStudyKey().value(), 1);
  // And the next batch finds everything in order.
  MustCommit({PutStudy{Study(2, "t")}, AppendEvent{EventAt(2, 2)}, PutRequest{Request("b", 2)}, SetFence{4}});
}

TEST_P(StorageContract, BrokenRulesAreRefused) {
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, Completed(1, 1.0)}, PutRequest{Request("a", 1)}});
  StudyRecord renamed = Study(1, "t");
  StudyRecord other_metric = Study(1, "s");
  other_metric.spec.metric.name = "accuracy";
  TrialRecord bad_state = Trial(2);
  bad_state.trial.state = static_cast<study::TrialState>(study::kTrialStateCount);
  Event bad_type = EventAt(1, 1);
  bad_type.type = static_cast<EventType>(0);
  StudyRecord bad_seq = Study(1, "s");
  bad_seq.update_seq = uint64_t{1} << 63;
  const std::vector<std::pair<std::string, Mutation>> cases = {
      {"id taken", PutStudy{Study(2, "s")}},
      {"key below 1", PutStudy{Study(0, "t")}},
      {"no id", PutStudy{Study(2, "")}},
      {"renamed", PutStudy{renamed}},
      {"other metric", PutStudy{other_metric}},
      {"seq too large", PutStudy{bad_seq}},
      {"delete key below 1", DeleteStudy{-1}},
      {"trial without study", PutTrial{2, Trial(1)}},
      {"trial number below 1", PutTrial{1, Trial(0)}},
      {"no such state", PutTrial{1, bad_state}},
      {"final trial reopened", PutTrial{1, Trial(1)}},
      {"final trial in another final state", PutTrial{1, Trial(1, study::TrialState::kFailed)}},
      {"point without trial", PutMeasurement{Point(1, 2, 1, 0, 1.0)}},
      {"point without study", PutMeasurement{Point(2, 1, 1, 0, 1.0)}},
      {"event seq 0", AppendEvent{EventAt(0, 1)}},
      {"no such event type", AppendEvent{bad_type}},
      {"request id taken", PutRequest{Request("a", 1)}},
      {"no request id", PutRequest{Request("", 1)}},
      {"reply of an old form", PutRequest{{"new", "digest", LegacyReply{"1,1"}, absl::ZeroDuration()}}},
      {"damaged reply", PutRequest{{"new", "digest", DamagedReply{}, absl::ZeroDuration()}}},
      {"request id too long", PutRequest{Request(std::string(65, 'x'), 1)}},
  };
  for (const auto& [name, mutation] : cases) {
    SCOPED_TRACE(name);
    ExpectRefused({mutation});
    ExpectRefused({SetFence{1}, mutation});
  }
  EXPECT_EQ(storage().LastFence().value(), 0u);
  MustCommit({PutRequest{Request(std::string(64, 'x'), 1)}});
}

TEST_P(StorageContract, FinalTrialMayBePutAgainInItsState) {
  TrialRecord record = Completed(1, 1.0);
  MustCommit({PutStudy{Study(1, "s")}, PutTrial{1, record}});
  record.trial.checkpoint = "later";
  MustCommit({PutTrial{1, record}});
  EXPECT_EQ(storage().GetTrial(1, 1).value(), record);
}

TEST_P(StorageContract, RandomOperationsAgreeWithTheModel) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    const std::unique_ptr<StorageUnderTest> fresh = GetParam()();
    base::RandomStream random(seed, "storage model");
    testing::StorageModel model;
    int refused = 0;
    for (int step = 0; step < 100; ++step) {
      const WriteBatch batch = model.RandomBatch(random);
      const bool wanted = model.Commit(batch);
      const absl::Status got = fresh->storage().Commit(batch);
      ASSERT_EQ(got.ok(), wanted) << "step " << step << ": " << got;
      refused += wanted ? 0 : 1;
      if (step % 10 != 9) continue;
      ASSERT_EQ(model.Difference(fresh->storage()), "") << "step " << step;
    }
    EXPECT_GT(refused, 5);
    EXPECT_LT(refused, 80);
  }
}

// Each batch moves the study, a trial, the log and the fence together: a reader must never see them apart, and what it
// sees never goes back.
TEST_P(StorageContract, ReadersSeeWholeCommitsWhileOneWrites) {
  constexpr int kCommits = 60;
  constexpr int kReaders = 2;
  MustCommit({PutStudy{Study(1, "s")}});
  std::atomic<bool> done = false;
  std::atomic<int> failures = 0;
  std::vector<std::thread> readers;
  for (int r = 0; r < kReaders; ++r) {
    readers.emplace_back([&] {
      uint64_t last = 0;
      do {
        const uint64_t seq = storage().LastSeq().value();
        const Storage::Summary summary = storage().Summarize(Study(1, "s")).value();
        const auto complete = static_cast<uint64_t>(summary.by_state[2]);
        const std::vector<TrialRecord> trials = storage().ListTrials(1, {}, 0, 2 * kCommits).value();
        // One trial is RUNNING while the others are COMPLETE, and the best is the newest of them.
        bool good = seq >= last && complete >= seq && trials.size() >= complete + (complete > 0 ? 1 : 0);
        good = good && summary.by_state[1] == (complete > 0 ? 1 : 0);
        good = good && summary.best_trial == static_cast<int64_t>(complete);
        for (size_t i = 0; i < trials.size(); ++i) {
          const bool newest = i + 1 == trials.size();
          good = good && trials[i].trial.number == static_cast<int64_t>(i) + 1 &&
                 (trials[i].trial.state == study::TrialState::kRunning) == newest;
        }
        if (!good) ++failures;
        last = seq;
        std::this_thread::yield();
      } while (!done);
    });
  }
  for (int i = 1; i <= kCommits; ++i) {
    const auto n = static_cast<uint64_t>(i);
    ASSERT_TRUE(storage()
                    .Commit({PutTrial{1, Completed(i, -i)}, PutTrial{1, Trial(i + 1, study::TrialState::kRunning)},
                             AppendEvent{EventAt(n, 1)}, SetFence{n}})
                    .ok());
  }
  done = true;
  for (std::thread& reader : readers) reader.join();
  EXPECT_EQ(failures, 0);
}

}  // namespace luthier::storage

#endif  // LUTHIER_TESTS_CONTRACT_STORAGE_CONTRACT_H_
