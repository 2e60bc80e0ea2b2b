// What a worker keeps on disk: the spool, checkpoints.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "tests/worker/testing.h"
#include "worker/disk/checkpoint_store.h"
#include "worker/disk/durable_file.h"
#include "worker/disk/spool.h"

namespace luthier::worker {
namespace {

using ::testing::UnorderedElementsAre;

FinalResult ExampleResult() {
  FinalResult result;
  result.study = "demo";
  result.trial = 12;
  result.token = std::string("\x00\xff\x10 token bytes", 16);
  result.measurement.step = 3;
  result.measurement.metrics = {{"loss", 0.1},     {"tiny", std::numeric_limits<double>::denorm_min()},
                                {"zero", -0.0},    {"big", std::numeric_limits<double>::max()},
                                {"inf", HUGE_VAL}, {"minus", -HUGE_VAL}};
  result.measurement.elapsed_seconds = 1.0 / 3.0;
  result.measurement.gradient = study::Gradient{{1.0 / 7.0, -2.0}, {}, 0.0, 0.25};
  result.measurement.training = {study::TrainingOutcome::kLimit, 1.0 / 9.0, std::nullopt};
  result.measurement.gradient_seconds = 1.0 / 11.0;
  result.pruned = true;
  result.checkpoint = "file:demo.12.a1";
  result.output_tail = "done \"é\"\n";
  return result;
}

bool SameBits(double a, double b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

TEST(SpoolFormat, ReadsBackTheSameBits) {
  const FinalResult result = ExampleResult();
  const absl::StatusOr<FinalResult> back = ParseResult(SerializeResult(result));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(*back, result);
  for (const auto& [name, value] : result.measurement.metrics) {
    EXPECT_TRUE(SameBits(value, back->measurement.metrics.at(name))) << name;
  }
  FinalResult nan = result;
  nan.measurement.metrics = {{"loss", std::numeric_limits<double>::quiet_NaN()}};
  nan.measurement.gradient = study::Gradient{{}, {1.0, 0.0}, -3.5, {}};
  nan.measurement.elapsed_seconds.reset();
  const FinalResult nan_back = ParseResult(SerializeResult(nan)).value();
  EXPECT_TRUE(SameBits(nan.measurement.metrics["loss"], nan_back.measurement.metrics.at("loss")));
  EXPECT_EQ(nan_back.measurement.gradient, nan.measurement.gradient);
  FinalResult failed;
  failed.study = "demo";
  failed.trial = 1;
  failed.token = "t";
  failed.failed = true;
  failed.failure = {study::FailureKind::kInfra, "SIGNAL", "killed"};
  EXPECT_EQ(ParseResult(SerializeResult(failed)).value(), failed);
}

TEST(SpoolFormat, KeepsThatItIsAPauseAndWhereItBegan) {
  FinalResult result;
  result.study = "demo";
  result.trial = 3;
  result.token = "0123456789abcdef";
  result.paused = true;
  result.start_step = 27;
  result.checkpoint = "c";
  EXPECT_EQ(ParseResult(SerializeResult(result)).value(), result);
}

TEST(SpoolFormat, EveryOutcomeOfATrainingComesBack) {
  FinalResult result = ExampleResult();
  for (int i = 0; i < study::kTrainingOutcomeCount; ++i) {
    result.measurement.training = {static_cast<study::TrainingOutcome>(i), std::nullopt, 0.5};
    EXPECT_EQ(ParseResult(SerializeResult(result)).value(), result) << i;
  }
  // One of a newer worker costs what is said of the training, not the result.
  std::string text = SerializeResult(result);
  text.replace(text.find("diverged"), 8, "tired");
  result.measurement.training.reset();
  EXPECT_EQ(ParseResult(text).value(), result);
}

TEST(SpoolFormat, RandomDoublesSurvive) {
  base::RandomStream random(3, "spool");
  for (int k = 0; k < 2000; ++k) {
    const uint64_t bits = random.NextU64();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    if (std::isnan(value)) continue;
    FinalResult result = ExampleResult();
    result.measurement.metrics = {{"loss", value}};
    EXPECT_TRUE(SameBits(ParseResult(SerializeResult(result)).value().measurement.metrics.at("loss"), value));
  }
}

TEST(SpoolFormat, DamagedTextIsRefusedOrAtLeastHarmless) {
  const std::string text = SerializeResult(ExampleResult());
  EXPECT_FALSE(ParseResult("").ok());
  EXPECT_FALSE(ParseResult("[]").ok());
  EXPECT_FALSE(ParseResult("{\"version\": 2}").ok());
  for (size_t length = 0; length + 2 < text.size(); ++length) EXPECT_FALSE(ParseResult(text.substr(0, length)).ok());
  base::RandomStream random(4, "spool_damage");
  for (int k = 0; k < 3000; ++k) {
    std::string damaged = text;
    damaged[random.UniformInt(damaged.size())] = static_cast<char>(random.UniformInt(256));
    ParseResult(damaged).status().IgnoreError();
  }
}

TEST(Spool, KeepsResultsUntilTheyAreRemoved) {
  const TemporaryDirectory temporary;
  const Spool spool = Spool::Open(temporary.path() + "/a/b").value();
  EXPECT_THAT(spool.Leftovers(), IsEmpty());
  FinalResult one = ExampleResult(), two = ExampleResult();
  two.token = "other";
  ASSERT_TRUE(spool.Write(one).ok());
  ASSERT_TRUE(spool.Write(two).ok());
  one.pruned = false;
  ASSERT_TRUE(spool.Write(one).ok());
  EXPECT_THAT(spool.Leftovers(), UnorderedElementsAre(one, two));
  spool.Remove(two);
  EXPECT_THAT(spool.Leftovers(), ElementsAre(one));
  spool.SetAside(one);
  spool.Remove(one);
  EXPECT_THAT(spool.Leftovers(), IsEmpty());
}

TEST(Spool, SetsStrangeFilesAsideAndIgnoresUnfinishedOnes) {
  const TemporaryDirectory temporary;
  const Spool spool = Spool::Open(temporary.path()).value();
  temporary.Write("00.result", "half a fi");
  temporary.Write("ff.result", SerializeResult(ExampleResult()));  // Not its name.
  temporary.Write(".aa.result.1.tmp", "unfinished");
  temporary.Write("readme", "hello");
  EXPECT_THAT(spool.Leftovers(), IsEmpty());
  EXPECT_THAT(temporary.Files(),
              UnorderedElementsAre("00.result.rejected", "ff.result.rejected", ".aa.result.1.tmp", "readme"));
}

TEST(Spool, SaysWhenItCannotWrite) {
  const TemporaryDirectory temporary;
  temporary.Write("file", "");
  EXPECT_TRUE(absl::IsUnavailable(Spool::Open(temporary.path() + "/file/spool").status()));
  const Spool spool = Spool::Open(temporary.path() + "/spool").value();
  std::filesystem::remove_all(spool.directory());
  temporary.Write("spool", "a file in its place");
  EXPECT_TRUE(absl::IsUnavailable(spool.Ready()));
  EXPECT_TRUE(absl::IsUnavailable(spool.Write(ExampleResult())));
  EXPECT_THAT(spool.Leftovers(), IsEmpty());
}

TEST(Spool, IsMadeAgainWhenItWasTakenAway) {
  const TemporaryDirectory temporary;
  const Spool spool = Spool::Open(temporary.path() + "/a/spool").value();
  ASSERT_TRUE(spool.Write(ExampleResult()).ok());
  std::filesystem::rename(temporary.path() + "/a", temporary.path() + "/b");
  EXPECT_TRUE(spool.Keep(ExampleResult()).ok());  // Of a result that is still on its way.
  EXPECT_THAT(spool.Leftovers(), ElementsAre(ExampleResult()));
  std::filesystem::remove_all(temporary.path() + "/a");
  EXPECT_TRUE(spool.Ready().ok());
  EXPECT_TRUE(std::filesystem::is_directory(spool.directory()));
  EXPECT_THAT(spool.Leftovers(), IsEmpty());
}

TEST(CheckpointStore, GivesBackWhatWasSaved) {
  const TemporaryDirectory temporary;
  const CheckpointStore store = CheckpointStore::Open(temporary.path() + "/c").value();
  const std::string snapshot("\x00\x01\xff bytes", 9);
  const std::string reference = store.Save("a.study", 3, 2, "first").value();
  EXPECT_EQ(reference, "file:a.study.3.a2");
  EXPECT_EQ(*store.Load(reference), "first");
  EXPECT_EQ(*store.Save("a.study", 3, 2, snapshot), reference);
  EXPECT_EQ(*store.Load(reference), snapshot);
  EXPECT_EQ(*store.Load(store.Save("a.study", 3, 3, "").value()), "");
  EXPECT_EQ(*store.Load(reference), snapshot) << "another attempt's file is its own";
  store.Remove(reference);
  EXPECT_TRUE(absl::IsNotFound(store.Load(reference).status()));
  store.Remove(reference);
  std::filesystem::remove_all(temporary.path() + "/c");
  EXPECT_EQ(*store.Load(store.Save("a.study", 3, 2, snapshot).value()), snapshot);
}

TEST(CheckpointStore, RemovesThoseOfOneStudy) {
  TemporaryDirectory temporary;
  const CheckpointStore store = CheckpointStore::Open(temporary.path()).value();
  for (const char* study : {"a", "a.1", "b", "a.1.a2"}) ASSERT_TRUE(store.Save(study, 1, 2, "x").ok());
  ASSERT_TRUE(store.Save("a", 12, 3, "x").ok());
  temporary.Write("notes", "");
  store.RemoveStudy("a");
  EXPECT_THAT(temporary.Files(), ::testing::UnorderedElementsAre("a.1.1.a2", "b.1.a2", "a.1.a2.1.a2", "notes"));
  store.RemoveStudy("a.1");
  EXPECT_THAT(temporary.Files(), ::testing::UnorderedElementsAre("b.1.a2", "a.1.a2.1.a2", "notes"));
}

TEST(CheckpointStore, NeverLeavesItsDirectory) {
  const TemporaryDirectory temporary;
  temporary.Write("outside", "x");
  const CheckpointStore store = CheckpointStore::Open(temporary.path() + "/c").value();
  for (const char* reference : {"file:../outside", "file:/etc/passwd", "file:.hidden", "file:", "outside", "s3://b/k",
                                "file:a/b", "file:a..b", "file:A"}) {
    EXPECT_TRUE(absl::IsNotFound(store.Load(reference).status())) << reference;
    store.Remove(reference);
  }
  EXPECT_EQ(ReadFile(temporary.path() + "/outside"), "x");
}

TEST(CheckpointStore, NoticesEveryDamagedByte) {
  const TemporaryDirectory temporary;
  const CheckpointStore store = CheckpointStore::Open(temporary.path()).value();
  const std::string reference = store.Save("s", 1, 1, "snapshot").value();
  const std::string file = temporary.path() + "/s.1.a1", good = ReadFile(file);
  for (size_t i = 0; i < good.size(); ++i) {
    std::string damaged = good;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    temporary.Write("s.1.a1", damaged);
    EXPECT_EQ(store.Load(reference).status().code(), absl::StatusCode::kDataLoss) << i;
    temporary.Write("s.1.a1", good.substr(0, i));
    EXPECT_EQ(store.Load(reference).status().code(), absl::StatusCode::kDataLoss) << i;
  }
}

TEST(WriteDurably, LeavesTheOldFileWhenItFails) {
  const TemporaryDirectory temporary;
  ASSERT_TRUE(WriteDurably(temporary.path(), "f", "one").ok());
  EXPECT_EQ(*ReadWhole(temporary.path() + "/f", 100), "one");
  EXPECT_EQ(ReadWhole(temporary.path() + "/f", 2).status().code(), absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE(WriteDurably(temporary.path(), "f", "two").ok());
  std::filesystem::create_directory(temporary.path() + "/d");
  std::filesystem::create_directory(temporary.path() + "/d/x");
  EXPECT_TRUE(absl::IsUnavailable(WriteDurably(temporary.path(), "d", "no")));
  EXPECT_THAT(temporary.Files(), UnorderedElementsAre("f", "d"));
  EXPECT_EQ(*ReadWhole(temporary.path() + "/f", 100), "two");
}

}  // namespace
}  // namespace luthier::worker
