// Objective `crf` with a cache of what it has read and encoded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <ios>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/checkpoint.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/objectives/create.h"
#include "tests/lib/objectives/crf_objective_testing.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;
using CrfKeptDataTest = CrfObjectiveTest;

// What a worker kept gives another one the same bits, and an entry that is not whole or of another version is as none.
TEST_F(CrfKeptDataTest, KeptDataChangeNothing) {
  namespace fs = std::filesystem;
  dir_.Write("train.crfsuite", Tokens(Sentences(1, 120)));
  dir_.Write("test.crfsuite", Tokens(Sentences(2, 60)));
  dir_.Write("letters.tsv", Letters());
  // Not so long that a file system cannot write it.
  const auto long_ago = fs::last_write_time(dir_.path() + "/letters.tsv") - std::chrono::hours(24);
  EvaluationContext context;
  context.parameters = {{"l2", 0.5}};
  struct Case {
    std::string format, data, validation_data;
    size_t entries;  // Texts, encodings and an outline.
  };
  for (const Case& c :
       {Case{"columns", "train.txt", "", 3}, Case{"columns", "train.txt", "test.txt", 4},
        Case{"attributes", "train.crfsuite", "", 3}, Case{"attributes", "train.crfsuite", "test.crfsuite", 4},
        Case{"letters", "letters.tsv", "", 3}}) {
    const std::string directory = absl::StrCat(dir_.path(), "/cache ", c.format, c.entries);
    const data::DataCache cache =
        data::DataCache::Open(directory, {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000}).value();
    study::BuiltinObjective spec = Spec({{"min_count", 2.0}, {"max_passes", 5.0}, {"format", c.format}});
    spec.data = c.data;
    if (!c.validation_data.empty()) spec.options["validation_data"] = c.validation_data;
    const Measurement expected = *Make(spec).value()->Evaluate(context)->measurement;
    const auto entries = [&] {
      std::vector<fs::path> paths;
      for (const auto& entry : fs::directory_iterator(directory)) paths.push_back(entry.path());
      return paths;
    };
    for (const char* state : {"none", "there", "damaged", "truncated", "of another version", "there again"}) {
      const std::vector<fs::path> before = entries();
      EXPECT_EQ(before.size(), state == std::string("none") ? 0 : c.entries);
      for (const fs::path& path : before) {
        if (state == std::string("damaged")) {
          std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
          const auto middle = static_cast<std::streamoff>(fs::file_size(path) / 2);
          file.seekg(middle);
          const int byte = file.get();
          file.seekp(middle);
          file.put(static_cast<char>(byte ^ 1));
        } else if (state == std::string("truncated")) {
          fs::resize_file(path, fs::file_size(path) - 9);
        } else if (state == std::string("of another version")) {
          std::ofstream(path, std::ios::binary) << base::CheckpointWriter("luthier.cache/0").Finish();
        }
        fs::last_write_time(path, long_ago);
      }
      const auto made = CreateObjective(spec, space_, kLoss, &root_, &cache);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ((*made)->Evaluate(context)->measurement, expected) << c.format << " " << state;
      // All were used or made anew; texts are not looked at when the encoding is there.
      size_t touched = 0;
      for (const fs::path& path : entries()) {
        if (fs::last_write_time(path) > long_ago + std::chrono::hours(1)) ++touched;
      }
      EXPECT_EQ(touched, absl::StartsWith(state, "there") ? 2 : c.entries) << state;
    }
  }
}

// What was kept says that data are in order: they are read when another encoding is needed.
TEST_F(CrfKeptDataTest, KeptDataAreReadWhenATrialNeedsThem) {
  const std::string directory = absl::StrCat(dir_.path(), "/cache lazy");
  const data::DataCache cache =
      data::DataCache::Open(directory, {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000}).value();
  study::BuiltinObjective spec =
      Spec({{"max_passes", 3.0}, {"l2_groups", std::string("transitions")}, {"l2.transitions", 0.3}});
  const auto space = [&] {
    study::ParameterSpec count;
    count.name = "min_count";
    count.domain = study::IntRange{.min = 1, .max = 5};
    return study::SearchSpace::Create({space_.parameters()[0], count}).value();
  }();
  const auto open = [&] { return CreateObjective(spec, space, kLoss, &root_, &cache); };
  const auto at = [&](const Objective& objective, double min_count) {
    EvaluationContext context = AtStrength(0.5);
    context.parameters["min_count"] = min_count;
    return objective.Evaluate(context);
  };
  const auto fresh = CreateObjective(spec, space, kLoss, &root_);
  const auto first = open();
  ASSERT_TRUE(first.ok()) << first.status();
  const Measurement kept = *at(**first, 1.0)->measurement;
  EXPECT_EQ(at(**fresh, 1.0)->measurement, kept);
  const auto second = open();
  EXPECT_EQ(at(**second, 1.0)->measurement, kept);
  // Stopped while it is read, and then not.
  base::StopSource source;
  source.RequestStop();
  EvaluationContext stopping = AtStrength(0.5);
  stopping.parameters["min_count"] = 2.0;
  stopping.stop = source.token();
  EXPECT_EQ((*second)->Evaluate(stopping)->outcome, EvaluationOutcome::kCancelled);
  EXPECT_EQ(at(**second, 2.0)->measurement, at(**fresh, 2.0)->measurement);
  EXPECT_EQ(at(**second, 1.0)->measurement, kept);
  // Changed behind its back: what is encoded stays, what would have to be read is refused; whoever opens it anew reads.
  const auto third = open();
  dir_.Write("train.txt", Sentences(7, 100));
  EXPECT_EQ(at(**third, 1.0)->measurement, kept);
  const absl::Status changed = at(**third, 3.0).status();
  EXPECT_EQ(changed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(changed.message()), HasSubstr("train.txt has changed since this worker opened it"));
  const auto fourth = open();
  EXPECT_EQ(at(**fourth, 1.0)->measurement, at(**CreateObjective(spec, space, kLoss, &root_), 1.0)->measurement);
  EXPECT_NE(at(**fourth, 1.0)->measurement, kept);
}

}  // namespace
}  // namespace luthier::objectives
