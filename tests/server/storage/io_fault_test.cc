#include <gtest/gtest.h>
#include <sqlite3.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "tests/server/storage/memory_disk.h"

// The k-th read, write or sync fails, for each k: what was acknowledged stays, what was refused stays away, and after
// an I/O error nothing is acknowledged any more.
namespace luthier::storage {
namespace {

using testing::PowerCutVfs;

constexpr int64_t kFaults = 100;
constexpr int64_t kBatches = 25;
constexpr int kCheckpointPages = 12;

struct FaultCase {
  const char* name;
  PowerCutVfs::Operation operation;
  int code;
  bool partial;
};

class IoFaultBase : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { base::SetLogLevel(base::LogLevel::kOff); }

  // A disk with five batches, orderly closed: where every run begins.
  static PowerCutVfs::Image StartImage(Disk& disk) {
    const std::unique_ptr<SqliteStorage> storage = disk.Open(kCheckpointPages).value();
    for (int64_t i = 1; i <= kFirst; ++i) EXPECT_TRUE(storage->Commit(Batch(i)).ok());
    EXPECT_TRUE(storage->Close().ok());
    return disk.vfs().Save();
  }

  static constexpr int64_t kFirst = 5;
};

using IoFaultMutant = IoFaultBase;

class IoFault : public IoFaultBase, public ::testing::WithParamInterface<FaultCase> {
 protected:
  // Commits and reads until kBatches are acknowledged or storage gives up. Returns how many are.
  static int64_t Work(SqliteStorage& storage, const FaultCase& fault) {
    int64_t acknowledged = kFirst;
    bool poisoned = false;
    for (int step = 0; step < 2 * kBatches && acknowledged < kBatches; ++step) {
      const absl::Status status = storage.Commit(Batch(acknowledged + 1));
      EXPECT_FALSE(poisoned && status.ok()) << "acknowledged after an I/O error";
      if (status.ok()) {
        ++acknowledged;
      } else if (absl::IsUnavailable(status)) {
        EXPECT_EQ(fault.code & 0xFF, SQLITE_FULL) << status;
        EXPECT_EQ(base::GetReason(status), base::reason::kStorageFull);
        EXPECT_TRUE(base::GetErrorDetail(status)->retry_delay.has_value());
      } else {
        EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
        poisoned = true;
      }
      // The point of a read is that it, too, meets the disk.
      const absl::Status read = storage.ListTrials(1, {}, 0, 100).status();
      EXPECT_TRUE(read.ok() || absl::IsDataLoss(read)) << read;
      EXPECT_FALSE(poisoned && read.ok());
      poisoned = poisoned || !read.ok();
    }
    EXPECT_TRUE(poisoned || acknowledged == kBatches);
    return acknowledged;
  }
};

TEST_P(IoFault, NothingAcknowledgedIsLostAndNothingIsAcknowledgedAfterwards) {
  const FaultCase& fault = GetParam();
  Disk disk(1);
  const PowerCutVfs::Image start = StartImage(disk);
  int met = 0;
  int survived = 0;
  for (int64_t k = 1; k <= kFaults; ++k) {
    for (const bool power_cut : {false, true}) {
      SCOPED_TRACE(absl::StrCat(fault.name, " number ", k, power_cut ? " and a power cut" : ""));
      disk.vfs().Load(start);
      disk.vfs().Arm({fault.operation, k, fault.code, fault.partial});
      int64_t acknowledged = kFirst;
      {
        const absl::StatusOr<std::unique_ptr<SqliteStorage>> storage = disk.Open(kCheckpointPages);
        if (storage.ok()) acknowledged = Work(**storage, fault);
        met += disk.vfs().fault_happened() ? 1 : 0;
        EXPECT_TRUE(storage.ok() || disk.vfs().fault_happened()) << storage.status();
        survived += storage.ok() && disk.vfs().fault_happened() && acknowledged == kBatches ? 1 : 0;
        // The process ends here in whatever way, or the power does.
        if (power_cut) disk.vfs().Restart();
      }
      disk.vfs().Arm({PowerCutVfs::Operation::kRead, /*at=*/int64_t{1} << 40, SQLITE_OK, false});
      const absl::StatusOr<std::unique_ptr<SqliteStorage>> again = disk.Open(kCheckpointPages);
      ASSERT_TRUE(again.ok()) << again.status();
      const int64_t found = disk.WholeBatches(**again);
      EXPECT_GE(found, acknowledged);
      EXPECT_LE(found, acknowledged + 1);
      // A full disk is an answer: the refused batch is not there, unless it was sent again and acknowledged.
      if ((fault.code & 0xFF) == SQLITE_FULL) {
        EXPECT_EQ(found, acknowledged);
      }
      if (HasFailure()) return;
    }
  }
  EXPECT_GT(met, kFaults) << "the faults hardly ever met the workload";
  // A full disk is survived; an I/O error of the writing connection never is, but SQLite may read once more.
  if ((fault.code & 0xFF) == SQLITE_FULL) {
    EXPECT_GT(survived, met / 2);
  }
}

// Mutant M11 goes on after a failed sync: what IoFault forbids, and sees. (On this disk it loses nothing, because
// SQLite writes the refused frames again. That is luck of the layout, not a promise of the kernel's.)
TEST_F(IoFaultMutant, RetryingAfterAFailedSyncIsFoundOut) {
  Disk disk(1);
  const PowerCutVfs::Image start = StartImage(disk);
  int acknowledged_after_error = 0;
  for (int64_t k = 1; k <= 10; ++k) {
    disk.vfs().Load(start);
    disk.vfs().Arm({PowerCutVfs::Operation::kSync, k, SQLITE_IOERR_FSYNC, false});
    const absl::StatusOr<std::unique_ptr<SqliteStorage>> storage =
        disk.Open(kCheckpointPages, /*normal_sync=*/false, /*retry_after_io_error=*/true);
    int64_t next = kFirst + 1;
    bool failed = false;
    for (int step = 0; storage.ok() && step < 10; ++step) {
      const absl::Status status = (*storage)->Commit(Batch(next));
      failed = failed || absl::IsDataLoss(status);
      next += status.ok() ? 1 : 0;
      acknowledged_after_error += failed && status.ok() ? 1 : 0;
    }
  }
  EXPECT_GT(acknowledged_after_error, 0);
}

INSTANTIATE_TEST_SUITE_P(
    All, IoFault,
    ::testing::Values(FaultCase{"FullDisk", PowerCutVfs::Operation::kWrite, SQLITE_FULL, false},
                      FaultCase{"FullDiskAfterHalfAWrite", PowerCutVfs::Operation::kWrite, SQLITE_FULL, true},
                      FaultCase{"FailedWrite", PowerCutVfs::Operation::kWrite, SQLITE_IOERR_WRITE, true},
                      FaultCase{"FailedSync", PowerCutVfs::Operation::kSync, SQLITE_IOERR_FSYNC, false},
                      FaultCase{"FailedRead", PowerCutVfs::Operation::kRead, SQLITE_IOERR_READ, false}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace luthier::storage
