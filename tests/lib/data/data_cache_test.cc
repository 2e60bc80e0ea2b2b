#include "lib/data/data_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_root.h"
#include "lib/data/readers.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"
#include "tests/lib/base/look_meter.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::data {
namespace {

class DataCacheTest : public ::testing::Test {
 protected:
  DataCacheTest() : cache_(DataCache::Open(directory_.path() + "/cache", {.min_source_bytes = 1}).value()) {}

  UniqueFd OpenSource(const std::string& name) const {
    return UniqueFd(open((directory_.path() + "/" + name).c_str(), O_RDONLY));
  }
  // As if the file had been there for long: a test does not wait two seconds.
  static DataCache::Source Settled(DataCache::Source source) {
    source.settled = true;
    return source;
  }
  void Put(const std::string& key, int fd, uint64_t value) const {
    const auto write = [&](base::CheckpointWriter* writer) { writer->U64(value); };
    EXPECT_TRUE(cache_.Put(key, fd, Settled(*cache_.Look(fd)), write).ok());
  }
  // What the entry holds; 0: there is none.
  uint64_t Find(const std::string& key, int fd) const {
    std::optional<DataCache::Entry> entry = cache_.Find(key, fd, *cache_.Look(fd)).value();
    if (!entry) return 0;
    const uint64_t value = entry->reader().U64();
    EXPECT_TRUE(entry->reader().Done());
    return value;
  }
  std::vector<std::string> Entries() const {
    std::vector<std::string> paths;
    for (const auto& entry : std::filesystem::directory_iterator(directory_.path() + "/cache")) {
      paths.push_back(entry.path().string());
    }
    return paths;
  }

  testing::TemporaryDirectory directory_;
  DataCache cache_;
};

TEST_F(DataCacheTest, GivesBackWhatWasKeptOfThisKeyAndSource) {
  directory_.Write("a", "some text");
  directory_.Write("b", "some texT");
  const UniqueFd a = OpenSource("a"), b = OpenSource("b");
  EXPECT_EQ(Find("k", a.get()), 0u);
  Put("k", a.get(), 7);
  EXPECT_EQ(Find("k", a.get()), 7u);
  EXPECT_EQ(Find("other", a.get()), 0u);
  EXPECT_EQ(Find("k", b.get()), 0u) << "another file of that size";
  Put("k", b.get(), 8);
  EXPECT_EQ(Find("k", b.get()), 8u);
  EXPECT_EQ(Find("k", a.get()), 0u) << "replaced";
}

TEST_F(DataCacheTest, ACopyOfTheSourceWillDoAndAChangeWillNot) {
  directory_.Write("a", "some text");
  const UniqueFd a = OpenSource("a");
  Put("k", a.get(), 7);
  directory_.Write("copy", "some text");
  EXPECT_EQ(Find("k", OpenSource("copy").get()), 7u);
  // Written in place, the same size, and its time of modification set back.
  struct stat before = {};
  ASSERT_EQ(fstat(a.get(), &before), 0);
  std::ofstream(directory_.path() + "/a", std::ios::in | std::ios::out) << "SOME";
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory_.path() + "/a").c_str(), times, 0), 0);
  EXPECT_EQ(Find("k", a.get()), 0u);
}

TEST_F(DataCacheTest, ASourceThatMayStillChangeIsNotKept) {
  directory_.Write("a", "some text");
  const UniqueFd a = OpenSource("a");
  const DataCache::Source fresh = *cache_.Look(a.get());
  EXPECT_FALSE(fresh.settled);
  const auto one = [](base::CheckpointWriter* writer) { writer->U64(1); };
  EXPECT_TRUE(cache_.Put("k", a.get(), fresh, one).ok());
  EXPECT_TRUE(Entries().empty());
  // It changed between being looked at and being kept.
  std::ofstream(directory_.path() + "/a") << "other text";
  EXPECT_TRUE(cache_.Put("k", a.get(), Settled(fresh), one).ok());
  EXPECT_TRUE(Entries().empty());
}

TEST_F(DataCacheTest, DamagedEntriesAreIgnoredAndMadeAnew) {
  directory_.Write("a", "some text");
  const UniqueFd a = OpenSource("a");
  Put("k", a.get(), 7);
  ASSERT_EQ(Entries().size(), 1u);
  const std::string path = Entries()[0];
  std::ifstream file(path, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x04);
    std::ofstream(path, std::ios::binary) << flipped;
    EXPECT_EQ(Find("k", a.get()), 0u) << at;
  }
  for (size_t length = 0; length < whole.size(); length += 5) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    EXPECT_EQ(Find("k", a.get()), 0u) << length;
  }
  // Whole, but of another version.
  base::CheckpointWriter writer("luthier.cache/0");
  writer.Text("k");
  std::ofstream(path, std::ios::binary) << std::move(writer).Finish();
  EXPECT_EQ(Find("k", a.get()), 0u);
  Put("k", a.get(), 9);
  EXPECT_EQ(Find("k", a.get()), 9u);
}

TEST_F(DataCacheTest, TheOldestGoWhenThereIsNoRoom) {
  directory_.Write("a", "some text");
  const UniqueFd a = OpenSource("a");
  const DataCache small =
      DataCache::Open(directory_.path() + "/cache", {.max_bytes = 2500, .min_source_bytes = 1}).value();
  const auto put = [&](const std::string& key, size_t bytes) {
    const auto write = [&](base::CheckpointWriter* writer) { writer->Text(std::string(bytes, 'x')); };
    EXPECT_TRUE(small.Put(key, a.get(), Settled(*small.Look(a.get())), write).ok());
  };
  const auto there = [&](const std::string& key) {
    return small.Find(key, a.get(), *small.Look(a.get())).value().has_value();
  };
  put("1", 800);
  put("2", 800);
  const timespec past[2] = {{1'000'000, 0}, {1'000'000, 0}};
  for (const std::string& path : Entries()) ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), past, 0), 0);
  EXPECT_TRUE(there("1"));  // Used: younger than 2 now.
  put("3", 800);
  EXPECT_TRUE(there("1"));
  EXPECT_FALSE(there("2"));
  EXPECT_TRUE(there("3"));
  put("4", 5000);  // More than there is room for at all.
  EXPECT_FALSE(there("4"));
  EXPECT_TRUE(there("3"));
}

TEST_F(DataCacheTest, WritersAndReadersAtOnceSeeWholeEntries) {
  directory_.Write("a", "some text");
  const UniqueFd a = OpenSource("a");
  const DataCache::Source source = Settled(*cache_.Look(a.get()));
  std::vector<std::thread> threads;
  for (uint64_t k = 1; k <= 4; ++k) {
    threads.emplace_back([&, k] {
      for (int i = 0; i < 30; ++i) {
        const auto write = [&](base::CheckpointWriter* writer) {
          for (int j = 0; j < 2000; ++j) writer->U64(k);
        };
        ASSERT_TRUE(cache_.Put("k", a.get(), source, write).ok());
        std::optional<DataCache::Entry> entry = cache_.Find("k", a.get(), source).value();
        ASSERT_TRUE(entry.has_value());
        const uint64_t first = entry->reader().U64();
        for (int j = 1; j < 2000; ++j) ASSERT_EQ(entry->reader().U64(), first);
        ASSERT_TRUE(entry->reader().Done());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Entries().size(), 1u);
}

// Whatever it is at: reading the source, writing the entry, reading it. Nothing is left of an entry that was given up,
// and what was there before is still good.
TEST_F(DataCacheTest, AStopLeavesNoHalfEntryAndHarmsNone) {
  directory_.Write("a", std::string(2'500'000, 'a'));
  const UniqueFd a = OpenSource("a");
  const DataCache::Source source = Settled(*cache_.Look(a.get()));
  const std::vector<int64_t> numbers(400'000, 3);
  base::StopSource stop;
  testing::LookMeter meter([&] { stop.RequestStop(); });
  const auto put = [&](int64_t first) {
    const auto write = [&](base::CheckpointWriter* writer) {
      writer->U64(static_cast<uint64_t>(first));
      writer->Array(numbers);
    };
    return cache_.Put("k", a.get(), source, write, stop.token());
  };
  const auto find = [&]() -> absl::StatusOr<int64_t> {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<DataCache::Entry> entry, cache_.Find("k", a.get(), source, stop.token()));
    if (!entry) return -1;
    const auto first = static_cast<int64_t>(entry->reader().U64());
    const std::vector<int64_t> found = entry->reader().Array<int64_t>();
    LUTHIER_RETURN_IF_ERROR(entry->reader().status());
    return found == numbers ? first : -2;
  };
  ASSERT_TRUE(put(0).ok());
  const int64_t looks_to_put = meter.looks();
  EXPECT_GE(looks_to_put, 9);
  meter.Restart(0);
  EXPECT_EQ(find().value(), 0);
  const int64_t looks_to_find = meter.looks();
  EXPECT_GE(looks_to_find, 50);
  for (const bool there : {true, false}) {
    for (int64_t at = 1; at <= looks_to_put; ++at) {
      if (!there) std::filesystem::remove(Entries().empty() ? "" : Entries()[0]);
      meter.Restart(at);
      EXPECT_EQ(put(7), base::StoppedError()) << at;
      EXPECT_EQ(meter.looks(), at);
      stop = base::StopSource();
      EXPECT_EQ(Entries().size(), there ? 1u : 0u) << at;
      EXPECT_EQ(find().value(), there ? 0 : -1) << at;
    }
  }
  ASSERT_TRUE(put(5).ok());
  for (int64_t at = 1; at <= looks_to_find; ++at) {
    meter.Restart(at);
    EXPECT_EQ(find().status(), base::StoppedError());
    EXPECT_EQ(meter.looks(), at);
    stop = base::StopSource();
  }
  meter.Restart(0);
  EXPECT_EQ(find().value(), 5);
}

TEST_F(DataCacheTest, SmallSourcesAndPlacesThatCannotBeAreLeftAlone) {
  directory_.Write("a", "some text");
  const DataCache usual = DataCache::Open(directory_.path() + "/cache", {}).value();
  EXPECT_FALSE(usual.Look(OpenSource("a").get()).has_value());
  EXPECT_FALSE(usual.Look(OpenSource(".").get()).has_value());
  EXPECT_EQ(DataCache::Open(directory_.path() + "/a/cache", {}).status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DataCacheTest, ADataSetFromItIsTheOneThatWasParsed) {
  std::string text = "x,y,kind\n";
  for (int i = 0; i < 50; ++i)
    text += std::to_string(i % 7) + "," + std::to_string(i * i % 11) + (i % 3 ? ",a\n" : ",b\n");
  directory_.Write("t.csv", text);
  const DataRoot root = DataRoot::Open(directory_.path()).value();
  const LoadedDataset parsed = LoadDataset("t.csv", {}, &root, nullptr).value();
  EXPECT_EQ(parsed.fingerprint, Fingerprint(parsed.dataset).value());
  const DataCache at_once =
      DataCache::Open(directory_.path() + "/cache", {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000})
          .value();
  for (const size_t entries : {0, 1}) {
    ASSERT_EQ(Entries().size(), entries);
    const LoadedDataset cached = LoadDataset("t.csv", {}, &root, &at_once).value();
    EXPECT_EQ(cached.dataset.x, parsed.dataset.x);
    EXPECT_EQ(cached.dataset.label, parsed.dataset.label);
    EXPECT_EQ(cached.dataset.classes, parsed.dataset.classes);
    EXPECT_EQ(cached.dataset.features, parsed.dataset.features);
    EXPECT_EQ(cached.dataset.label_name, "kind");
    EXPECT_EQ(cached.dataset.name, "t.csv");
    EXPECT_EQ(cached.fingerprint, parsed.fingerprint);
  }
  // Other options are another entry.
  ReadOptions named;
  named.header = Header::kYes;
  EXPECT_EQ(LoadDataset("t.csv", named, &root, &at_once)->fingerprint, parsed.fingerprint);
  EXPECT_EQ(Entries().size(), 2u);
}

TEST_F(DataCacheTest, ImagesAreKeptWithTheirLabels) {
  const auto write = [&](uint64_t seed) {
    notation::ImageSpec spec;
    spec.rows = 40;
    spec.side = 8;
    spec.classes = 3;
    spec.seed = seed;
    const IdxFiles files = SynthesizeImages(spec).value();
    directory_.Write("t-images-idx3-ubyte", files.images);
    directory_.Write("t-labels-idx1-ubyte", files.labels);
  };
  const DataRoot root = DataRoot::Open(directory_.path()).value();
  const DataCache at_once =
      DataCache::Open(directory_.path() + "/cache", {.min_source_bytes = 1, .settle_nanoseconds = -1'000'000'000})
          .value();
  const auto load = [&](const DataCache* cache) {
    return LoadDataset("t-images-idx3-ubyte", {}, &root, cache).value().fingerprint;
  };
  write(1);
  const std::string first = load(nullptr);
  EXPECT_EQ(load(&at_once), first);
  EXPECT_EQ(Entries().size(), 1u);
  EXPECT_EQ(load(&at_once), first);
  EXPECT_EQ(Entries().size(), 1u);
  // Other labels for the same images are other data.
  std::string labels = SynthesizeImages({.rows = 40, .side = 8, .classes = 3, .seed = 1}).value().labels;
  std::reverse(labels.begin() + 8, labels.end());
  directory_.Write("t-labels-idx1-ubyte", labels);
  EXPECT_NE(load(&at_once), first);
  EXPECT_EQ(load(&at_once), load(nullptr));
  // Labels that are missing are an error, whatever was kept.
  std::filesystem::remove(directory_.path() + "/t-labels-idx1-ubyte");
  EXPECT_FALSE(LoadDataset("t-images-idx3-ubyte", {}, &root, &at_once).ok());
}

}  // namespace
}  // namespace luthier::data
