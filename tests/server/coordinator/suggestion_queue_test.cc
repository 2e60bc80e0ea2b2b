#include "server/coordinator/proposals/suggestion_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "server/storage/memory_storage.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using storage::StudyKey;
using ::testing::ElementsAre;
using ::testing::Gt;

// What a designer does, told of the study's seed, its history and the stop.
using Compute =
    std::function<absl::StatusOr<search::Suggestion>(uint64_t seed, const study::History&, const base::StopToken&)>;

class FakeDesigner final : public search::Designer {
 public:
  FakeDesigner(uint64_t seed, Compute compute) : seed_(seed), compute_(std::move(compute)) {}
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t,
                                             const base::StopToken& stop) override {
    return compute_(seed_, history, stop);
  }

 private:
  const uint64_t seed_;
  const Compute compute_;
};

search::Suggestion Anything() {
  search::Suggestion suggestion;
  suggestion.parameters = {{"x", 0.5}, {"n", 3.0}};
  suggestion.origin = "fake";
  return suggestion;
}

const absl::Duration kPatience = absl::Seconds(20);  // Of what would otherwise wait for ever.

absl::StatusOr<search::Suggestion> UntilStopped(const base::StopToken& stop) {
  EXPECT_TRUE(stop.WaitFor(kPatience)) << "nobody stopped it";
  return base::StoppedError();
}

// Blocks whoever waits until it is opened.
class Gate {
 public:
  void Open() { source_.RequestStop(); }
  void Wait() const { source_.token().WaitFor(absl::InfiniteDuration()); }

 private:
  base::StopSource source_;
};

// A queue with its deliveries. Keys of studies are their seeds.
class SuggestionQueueTest : public ::testing::Test {
 protected:
  SuggestionQueue& Start(Compute compute, SuggestionQueue::Options options = {}) {
    options.designers = [this, compute = std::move(compute)](const study::StudySpec& spec) {
      base::MutexLock lock(&mutex_);
      made_.push_back(spec.seed);
      return std::make_unique<FakeDesigner>(spec.seed, compute);
    };
    queue_ = std::make_unique<SuggestionQueue>(
        &storage_, &clock_, std::move(options),
        [this](ProposalsOp op) {
          base::MutexLock lock(&mutex_);
          delivered_.push_back(std::move(op));
          changed_.SignalAll();
        },
        nullptr);
    return *queue_;
  }
  // Starts a queue of one thread, which takes `seconds` for each suggestion of a study.
  SuggestionQueue& StartTimed(std::function<int(uint64_t seed)> seconds, const study::QuotaTable& quotas) {
    SuggestionQueue::Options options;
    options.threads = 1;
    options.quotas = &quotas;
    return Start(
        [this, seconds = std::move(seconds)](uint64_t seed, const auto&, const auto&) {
          clock_.Advance(absl::Seconds(seconds(seed)));
          return Anything();
        },
        std::move(options));
  }
  // Starts the same, where no study is light. Study 9 waits for `gate`, and others behind it.
  SuggestionQueue& StartBehind(const Gate& gate, std::function<int(uint64_t seed)> seconds) {
    SuggestionQueue::Options options;
    options.threads = 1;
    options.light = absl::ZeroDuration();
    return Start(
        [this, &gate, seconds = std::move(seconds)](uint64_t seed, const auto&, const auto&) {
          if (seed == 9) gate.Wait();
          clock_.Advance(absl::Seconds(seconds(seed)));
          return Anything();
        },
        std::move(options));
  }
  // Asks for suggestions of a study in a project.
  void RequestIn(const char* project, StudyKey study, int count) {
    ProposalRequest request = Request(study, 100, count);
    request.project = project;
    queue_->Request(request, Spec(study));
  }
  static ProposalRequest Request(StudyKey study, uint64_t first, int count = 1) {
    ProposalRequest request;
    request.study = study;
    request.generation = 1;
    request.first_ask_index = first;
    request.count = count;
    return request;
  }
  static std::shared_ptr<const study::StudySpec> Spec(StudyKey study, double weight = 1.0) {
    study::StudySpec spec = MakeSpec();
    spec.seed = static_cast<uint64_t>(study);
    spec.weight = weight;
    return std::make_shared<const study::StudySpec>(std::move(spec));
  }
  // Waits for so many deliveries in all.
  std::vector<ProposalsOp> Delivered(size_t count) {
    base::MutexLock lock(&mutex_);
    bool late = false;
    while (delivered_.size() < count && !late) late = changed_.WaitFor(&mutex_, kPatience);
    EXPECT_GE(delivered_.size(), count);
    std::vector<ProposalsOp> delivered = delivered_;
    delivered.resize(std::max(delivered.size(), count));  // So that callers may look at each.
    return delivered;
  }
  // Counts the deliveries of each study from one place to another.
  std::map<StudyKey, int> Counts(size_t begin, size_t end) {
    const std::vector<ProposalsOp> delivered = Delivered(end);
    std::map<StudyKey, int> counts;
    for (size_t i = begin; i < end; ++i) ++counts[delivered[i].study];
    return counts;
  }
  std::vector<uint64_t> Made() {
    base::MutexLock lock(&mutex_);
    return made_;
  }

  base::ManualClock clock_;
  storage::MemoryStorage storage_;
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<ProposalsOp> delivered_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> made_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SuggestionQueue> queue_;
};

TEST_F(SuggestionQueueTest, SuggestionsOfARequestAreDeliveredOneByOne) {
  SuggestionQueue& queue = Start([](uint64_t, const auto&, const auto&) { return Anything(); });
  queue.Request(Request(1, 5, 3), Spec(1));
  const std::vector<ProposalsOp> delivered = Delivered(3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(delivered[i].study, 1);
    EXPECT_EQ(delivered[i].generation, 1u);
    EXPECT_EQ(delivered[i].first_ask_index, 5 + i);
    EXPECT_EQ(delivered[i].suggestions.size(), 1u);
    EXPECT_EQ(delivered[i].more, i < 2);
  }
}

// However many studies a project has.
TEST_F(SuggestionQueueTest, ProjectsShareTheTimeEqually) {
  Gate gate;
  StartBehind(gate, [](uint64_t) { return 1; }).Request(Request(9, 100), Spec(9));
  for (StudyKey study = 1; study <= 5; ++study) RequestIn("many", study, 30);
  RequestIn("one", 6, 30);
  gate.Open();
  EXPECT_NEAR(Counts(0, 41)[6], 20, 2);
}

TEST_F(SuggestionQueueTest, AProjectPausesOnceItsQuotaOfProcessorsIsUsed) {
  study::QuotaTable quotas;
  quotas.Set("p", {0, 0, 0, 0.1});
  SuggestionQueue& queue = StartTimed([](uint64_t) { return 1; }, quotas);
  RequestIn("p", 1, 30);
  // Six seconds are a minute's; while they are computed six more tenths come.
  const size_t before = Delivered(6).size();
  queue.Request(Request(2, 0, 20), Spec(2));  // Another project goes on, and its 20 seconds are two for the first.
  Delivered(before + 20);
  queue_ = nullptr;
  EXPECT_NEAR(Counts(0, Delivered(0).size())[1], 8, 2);
}

TEST_F(SuggestionQueueTest, UsedQuotaOutlivesTheStudiesThatUsedIt) {
  study::QuotaTable quotas;
  quotas.Set("p", {0, 0, 0, 0.1});
  // A hundred seconds are 94 too many: they last 940 seconds.
  SuggestionQueue& queue = StartTimed([](uint64_t seed) { return seed == 1 ? 100 : 1; }, quotas);
  RequestIn("p", 1, 1);
  Delivered(1);
  queue.Forget(1);  // Its project has no study left.
  RequestIn("p", 2, 1);
  RequestIn("another", 3, 20);
  Delivered(21);
  queue_ = nullptr;
  EXPECT_EQ(Counts(0, Delivered(0).size())[2], 0);
}

TEST_F(SuggestionQueueTest, TimeUsedWithoutAQuotaDoesNotCountAgainstALaterOne) {
  study::QuotaTable quotas;
  SuggestionQueue& queue = StartTimed([](uint64_t) { return 1000; }, quotas);
  ProposalRequest request = Request(1, 100);
  request.project = "p";
  for (const double quota : {0.0, 0.1, 0.0, 0.1}) {  // The second computes under a quota, and is forgiven by the third.
    quotas.Set("p", {0, 0, 0, quota});
    queue.Request(request, Spec(1));
    ++request.first_ask_index;
    Delivered(request.first_ask_index - 100);
  }
}

TEST_F(SuggestionQueueTest, StudiesShareTheTimeByWeight) {
  Gate gate;
  // Study 3 takes twice as long for each.
  SuggestionQueue& queue = StartBehind(gate, [](uint64_t seed) { return seed == 3 ? 2 : 1; });
  queue.Request(Request(9, 100), Spec(9));
  queue.Request(Request(1, 100, 60), Spec(1, 1.0));
  queue.Request(Request(2, 100, 60), Spec(2, 3.0));
  queue.Request(Request(3, 100, 60), Spec(3, 2.0));
  gate.Open();
  std::map<StudyKey, int> counts = Counts(1, 51);
  // Of 60 s: 10, 30 and 20.
  EXPECT_NEAR(counts[1], 10, 1);
  EXPECT_NEAR(counts[2], 30, 1);
  EXPECT_NEAR(counts[3], 10, 1);
}

TEST_F(SuggestionQueueTest, AStudyThatComesBackHasNotSavedUpTime) {
  Gate gate;
  SuggestionQueue& queue = StartBehind(gate, [](uint64_t) { return 1; });
  queue.Request(Request(1, 100, 50), Spec(1));
  Delivered(50);
  queue.Request(Request(9, 100), Spec(9));
  queue.Request(Request(1, 150, 20), Spec(1));
  queue.Request(Request(2, 100, 20), Spec(2));
  gate.Open();
  std::map<StudyKey, int> counts = Counts(51, 71);
  EXPECT_NEAR(counts[1], 10, 1);
  EXPECT_NEAR(counts[2], 10, 1);
}

TEST_F(SuggestionQueueTest, LightStudiesDoNotWaitForTheModelsOfOthers) {
  SuggestionQueue& queue = Start([](uint64_t seed, const auto&, const base::StopToken& stop) {
    return seed < 10 ? UntilStopped(stop) : absl::StatusOr<search::Suggestion>(Anything());
  });
  for (StudyKey heavy = 1; heavy <= 5; ++heavy) queue.Request(Request(heavy, 100), Spec(heavy));
  queue.Request(Request(10, 0, 3), Spec(10));
  for (const ProposalsOp& op : Delivered(3)) EXPECT_EQ(op.study, 10);
  queue_ = nullptr;  // Models under way are stopped.
  base::MutexLock lock(&mutex_);
  EXPECT_EQ(delivered_.size(), 3u);
}

TEST_F(SuggestionQueueTest, AStudyIsHeavyOnceASuggestionTookLong) {
  SuggestionQueue::Options options;
  options.threads = 0;  // The thread for light studies is alone.
  SuggestionQueue& queue = Start(
      [&](uint64_t seed, const auto&, const auto&) {
        clock_.Advance(seed == 1 ? absl::Seconds(1) : absl::Milliseconds(1));
        return Anything();
      },
      options);
  queue.Request(Request(1, 0, 2), Spec(1));
  queue.Request(Request(2, 0, 2), Spec(2));
  EXPECT_EQ(Delivered(3).size(), 3u);
  queue.Request(Request(2, 2, 2), Spec(2));
  std::vector<StudyKey> studies;
  for (const ProposalsOp& op : Delivered(5)) studies.push_back(op.study);
  EXPECT_EQ(std::count(studies.begin(), studies.end(), 1), 1);
}

TEST_F(SuggestionQueueTest, ComputationsForAForgottenStudyAreStoppedAndNotDelivered) {
  Gate begun;
  int asked = 0;  // Of one study: never at once.
  SuggestionQueue& queue = Start([&](uint64_t, const auto&, const base::StopToken& stop) {
    if (++asked > 1) return absl::StatusOr<search::Suggestion>(Anything());
    begun.Open();
    return UntilStopped(stop);
  });
  queue.Request(Request(1, 0), Spec(1));
  begun.Wait();
  queue.Forget(1);
  queue.Request(Request(1, 7), Spec(1));
  const std::vector<ProposalsOp> delivered = Delivered(1);
  EXPECT_EQ(delivered[0].first_ask_index, 7u);
  EXPECT_THAT(Made(), ElementsAre(1, 1));
}

TEST_F(SuggestionQueueTest, AForgottenStudyThatWaitsIsNotComputed) {
  Gate begun, gate;
  SuggestionQueue::Options options;
  options.threads = 1;
  options.light = absl::ZeroDuration();
  SuggestionQueue& queue = Start(
      [&](uint64_t seed, const auto&, const auto&) {
        if (seed == 1) {
          begun.Open();
          gate.Wait();
        }
        return Anything();
      },
      options);
  queue.Request(Request(1, 0), Spec(1));
  begun.Wait();
  queue.Request(Request(2, 0), Spec(2));
  queue.Forget(2);
  queue.Forget(3);  // Never asked.
  queue.Request(Request(4, 0), Spec(4));
  gate.Open();
  Delivered(2);
  EXPECT_THAT(Made(), ElementsAre(1, 4));
}

TEST_F(SuggestionQueueTest, UpdatesAreSeenByLaterRequestsAndByNoEarlierOne) {
  std::vector<size_t> sizes;
  study::StudySpec spec = *Spec(1);
  spec.algorithm = study::BoOptions{};  // Its history counts.
  const auto shared = std::make_shared<const study::StudySpec>(spec);
  Gate begun, gate;
  SuggestionQueue& queue = Start([&](uint64_t, const study::History& history, const auto&) {
    if (sizes.empty()) {
      begun.Open();
      gate.Wait();
    }
    sizes.push_back(history.trials().size());
    return Anything();
  });
  const auto stored = [](int64_t number, std::optional<uint64_t> ask) {
    HistoryUpdate update;
    update.study = 1;
    update.seq = static_cast<uint64_t>(number);
    update.kind = HistoryUpdate::Kind::kStored;
    update.trial.number = number;
    update.trial.ask_index = ask;
    update.trial.parameters = Anything().parameters;
    return update;
  };
  queue.Update(stored(1, 0));  // Nobody asked yet: it would be read from storage.
  queue.Request(Request(1, 0, 2), shared);
  begun.Wait();
  queue.Update(stored(1, 0));
  queue.Update(stored(2, 1));
  queue.Update(stored(3, std::nullopt));  // Somebody added it.
  queue.Request(Request(1, 2), shared);
  gate.Open();
  Delivered(3);
  EXPECT_THAT(sizes, ElementsAre(0, 1, 3));
}

TEST_F(SuggestionQueueTest, ManyUpdatesAreAppliedWithoutARequest) {
  study::StudySpec spec = *Spec(1);
  spec.algorithm = study::BoOptions{};
  const auto shared = std::make_shared<const study::StudySpec>(spec);
  size_t seen = 0;
  SuggestionQueue& queue = Start([&](uint64_t, const study::History& history, const auto&) {
    seen = history.trials().size();
    return Anything();
  });
  queue.Request(Request(1, 0), shared);
  Delivered(1);
  for (int64_t number = 1; number <= 1000; ++number) {
    HistoryUpdate update;
    update.study = 1;
    update.seq = static_cast<uint64_t>(number);
    update.trial.number = number;
    update.trial.parameters = Anything().parameters;
    queue.Update(update);
  }
  queue.Request(Request(1, 1), shared);
  Delivered(2);
  EXPECT_THAT(seen, Gt(1000u));  // And the open ask 0.
}

TEST_F(SuggestionQueueTest, TheMemoryOfIdleDesignersIsBounded) {
  Gate begun, gate;
  SuggestionQueue::Options options;
  options.threads = 0;                          // One thread alone: it has put a study away when it begins another.
  options.max_idle_bytes = int64_t{200} << 10;  // Three studies without trials.
  SuggestionQueue& queue = Start(
      [&](uint64_t seed, const auto&, const auto&) {
        if (seed == 9) {
          begun.Open();
          gate.Wait();
        }
        return Anything();
      },
      options);
  size_t count = 0;
  for (const StudyKey study : {1, 2, 3, 1, 4}) {
    queue.Request(Request(study, 0), Spec(study));
    Delivered(++count);
  }
  queue.Request(Request(9, 0), Spec(9));
  begun.Wait();  // 2 has waited the longest and went for 4.
  gate.Open();
  for (const StudyKey study : {1, 2}) queue.Request(Request(study, 0), Spec(study));
  Delivered(8);
  EXPECT_THAT(Made(), ElementsAre(1, 2, 3, 4, 9, 2));
}

}  // namespace
}  // namespace luthier::coordinator::testing
