#include <gtest/gtest.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "lib/base/log.h"
#include "lib/base/random.h"
#include "tests/server/storage/memory_disk.h"

// Power cuts at any moment, again and again, against SQLite itself.
namespace luthier::storage {
namespace {

class PowerCut : public ::testing::Test {
 protected:
  struct Result {
    int cuts = 0;
    int with_losses = 0;          // Cuts that lost an acknowledged batch.
    int kept_unacknowledged = 0;  // Cuts after which the batch in flight was there, whole.
    int cut_while_opening = 0;    // Making, recovering or checking the file.
    int damaged = 0;              // Cuts after which the database did not open or was not whole.
  };

  struct Options {
    uint64_t disks = 0;
    int cuts = 0;               // Of each disk.
    bool normal_sync = false;   // Mutant M2.
    bool ignore_syncs = false;  // Mutant of the disk: then contents are not checked.
  };

  static void SetUpTestSuite() { base::SetLogLevel(base::LogLevel::kOff); }  // Every cut would log an error.

  // Each life of a disk ends by a power cut at a random change of the disk, but for the last one.
  static Result Run(const Options& options) {
    Result result;
    for (uint64_t seed = 0; seed < options.disks && !HasFailure(); ++seed) {
      SCOPED_TRACE(absl::StrCat("seed ", seed));
      Disk disk(seed);
      if (options.ignore_syncs) disk.vfs().IgnoreSyncs();
      base::RandomStream random(seed, "when power fails");
      int64_t acknowledged = 0;
      for (int life = 0; life <= options.cuts; ++life) {
        const bool last = life == options.cuts;
        if (!last) disk.vfs().CutAt(static_cast<int64_t>(1 + random.UniformInt(200)));
        if (!Live(disk, random, options, last, &acknowledged, &result)) break;
        disk.vfs().Restart();
        result.cuts += last ? 0 : 1;
      }
    }
    return result;
  }

 private:
  // From opening to the cut; in the last life only a look. False when the database can't be opened any more.
  static bool Live(Disk& disk, base::RandomStream& random, const Options& options, bool last, int64_t* acknowledged,
                   Result* result) {
    // Checkpoints all the time, or hardly ever.
    const int checkpoint_pages = random.UniformInt(2) == 0 ? 12 : 1000;
    const absl::StatusOr<std::unique_ptr<SqliteStorage>> opened = disk.Open(checkpoint_pages, options.normal_sync);
    if (!opened.ok() && disk.vfs().is_off()) {
      result->cut_while_opening += 1;
      return true;
    }
    if (!opened.ok()) {
      result->damaged += 1;
      EXPECT_TRUE(options.ignore_syncs) << opened.status();
      return false;
    }
    SqliteStorage& storage = **opened;
    if (disk.vfs().is_off()) return true;
    const absl::StatusOr<uint64_t> fence = storage.LastFence();
    if (!fence.ok()) {
      result->damaged += 1;
      EXPECT_TRUE(options.ignore_syncs) << fence.status();
      return false;
    }
    const auto found = static_cast<int64_t>(*fence);
    if (!options.ignore_syncs) {
      EXPECT_EQ(disk.WholeBatches(storage), found);
    }
    result->with_losses += found < *acknowledged ? 1 : 0;
    result->kept_unacknowledged += found > *acknowledged ? 1 : 0;
    EXPECT_LE(found, *acknowledged + 1);
    *acknowledged = found;
    while (!last && !disk.vfs().is_off()) {
      const absl::Status status = storage.Commit(Batch(*acknowledged + 1));
      EXPECT_TRUE(status.ok() || disk.vfs().is_off() || options.ignore_syncs) << status;
      if (!status.ok()) break;
      *acknowledged += 1;
    }
    return true;
  }
};

TEST_F(PowerCut, LosesNothingAcknowledgedAndTearsNothing) {
  const Result result = Run({.disks = 100, .cuts = 5});
  EXPECT_EQ(result.cuts, 500);
  EXPECT_EQ(result.with_losses, 0);
  EXPECT_EQ(result.damaged, 0);
  // The test would prove little if cuts always fell between commits, or never into opening, making or recovering.
  EXPECT_GE(result.kept_unacknowledged, 3);
  EXPECT_GT(result.cut_while_opening, 5);
}

// Mutant M2. Nothing is damaged, but acknowledged batches are gone: why synchronous is FULL.
TEST_F(PowerCut, NormalSyncLosesAcknowledgedBatches) {
  const Result result = Run({.disks = 20, .cuts = 5, .normal_sync = true});
  EXPECT_EQ(result.cuts, 100);
  EXPECT_EQ(result.damaged, 0);
  EXPECT_GT(result.with_losses, 30);
}

// The same on a drive that lies about syncs: the test sees the harm.
TEST_F(PowerCut, DriveThatIgnoresSyncsIsFoundOut) {
  const Result result = Run({.disks = 10, .cuts = 5, .ignore_syncs = true});
  EXPECT_GT(result.with_losses + result.damaged, 5);
}

}  // namespace
}  // namespace luthier::storage
