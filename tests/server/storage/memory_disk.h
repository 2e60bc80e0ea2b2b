#ifndef LUTHIER_TESTS_SERVER_STORAGE_MEMORY_DISK_H_
#define LUTHIER_TESTS_SERVER_STORAGE_MEMORY_DISK_H_

#include <SQLiteCpp/Column.h>
#include <SQLiteCpp/Database.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/powercut_vfs.h"
#include "tests/testing/storage_records.h"
#include "tests/testing/temporary_directory.h"

// A workload whose every batch can be told from its traces, on a disk of memory that fails at will.
namespace luthier::storage {

using testing::Completed;
using testing::EventAt;
using testing::Point;
using testing::PowerCutVfs;
using testing::Request;
using testing::Study;
using testing::Trial;

inline constexpr uint64_t kEventsPerBatch = 3;

// Batch i (from 1) touches every table; batches differ in size, so that they span from one page to several.
inline WriteBatch Batch(int64_t i) {
  base::RandomStream random(static_cast<uint64_t>(i), "power cut batch");
  const auto n = static_cast<uint64_t>(i);
  WriteBatch batch = {PutStudy{Study(1, "s")}, PutTrial{1, Trial(i, study::TrialState::kRunning)}};
  if (i > 1) batch.push_back(PutTrial{1, Completed(i - 1, static_cast<double>(i % 7))});
  batch.push_back(PutMeasurement{Point(1, i, 1, 0, 0.5)});
  for (uint64_t e = 0; e < kEventsPerBatch; ++e) {
    Event event = EventAt(kEventsPerBatch * (n - 1) + e + 1, 1);
    event.detail = std::string(random.UniformInt(3000), 'd');
    batch.push_back(AppendEvent{event});
  }
  batch.push_back(PutRequest{Request(absl::StrCat("r", i), i)});
  batch.push_back(SetFence{n});
  return batch;
}

class Disk {
 public:
  explicit Disk(uint64_t seed) : vfs_(seed) {}
  PowerCutVfs& vfs() { return vfs_; }

  absl::StatusOr<std::unique_ptr<SqliteStorage>> Open(int checkpoint_pages, bool normal_sync = false,
                                                      bool retry_after_io_error = false) {
    SqliteOptions options;
    options.directory = directory_.path();  // Only the lock is in it.
    options.vfs = vfs_.name();
    options.readers = 1;
    options.checkpoint_pages = checkpoint_pages;
    options.unsafe_normal_sync = normal_sync;
    options.unsafe_retry_after_io_error = retry_after_io_error;
    return SqliteStorage::Open(options);
  }

  // Checks that the storage holds batches 1 … m and nothing of a later one, and that SQLite finds no damage. Returns m;
  // -1 after a failure.
  int64_t WholeBatches(SqliteStorage& storage) {
    const auto m = static_cast<int64_t>(storage.LastFence().value());
    const auto n = static_cast<uint64_t>(m);
    EXPECT_EQ(storage.LastSeq().value(), kEventsPerBatch * n);
    const std::vector<Event> events = storage.ListEvents(1, 0, 1'000'000).value();
    EXPECT_EQ(events.size(), kEventsPerBatch * n);
    for (size_t e = 0; e < events.size(); ++e) EXPECT_EQ(events[e].seq, e + 1);
    const std::vector<TrialRecord> trials = storage.ListTrials(1, {}, 0, 1'000'000).value();
    EXPECT_EQ(trials.size(), n);
    for (size_t t = 0; t < trials.size(); ++t) {
      const auto number = static_cast<int64_t>(t) + 1;
      const bool newest = number == m;
      EXPECT_EQ(trials[t], newest ? Trial(number, study::TrialState::kRunning)
                                  : Completed(number, static_cast<double>((number + 1) % 7)));
      EXPECT_EQ(storage.ListMeasurements(1, number, 1).value().size(), 1u);
      EXPECT_TRUE(storage.FindRequest(absl::StrCat("r", number)).value().has_value());
    }
    EXPECT_FALSE(storage.FindRequest(absl::StrCat("r", m + 1)).value().has_value());
    EXPECT_EQ(storage.GetStudy("s").ok(), m > 0);
    ConnectionOptions connection;
    connection.path = DatabasePath(directory_.path());
    connection.vfs = vfs_.name();
    const std::unique_ptr<SQLite::Database> db = OpenConnection(connection).value();
    EXPECT_EQ(db->execAndGet("PRAGMA integrity_check").getString(), "ok");
    EXPECT_EQ(db->execAndGet("SELECT count(*) FROM pragma_foreign_key_check").getInt(), 0);
    return ::testing::Test::HasFailure() ? -1 : m;
  }

 private:
  const testing::TemporaryDirectory directory_;
  PowerCutVfs vfs_;
};

}  // namespace luthier::storage

#endif  // LUTHIER_TESTS_SERVER_STORAGE_MEMORY_DISK_H_
