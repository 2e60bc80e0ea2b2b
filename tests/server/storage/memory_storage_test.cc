#include "server/storage/memory_storage.h"

#include <memory>

#include "tests/contract/storage_contract.h"
#include "tests/testing/faulty_storage.h"

namespace luthier::storage {
namespace {

class MemoryUnderTest : public StorageUnderTest {
 public:
  Storage& storage() override { return storage_; }
  void Reopen() override {}

 private:
  MemoryStorage storage_;
};

std::unique_ptr<StorageUnderTest> MakeMemory() {
  return std::make_unique<MemoryUnderTest>();
}

// The wrapper passes everything on while it is told of no fault.
class FaultyUnderTest : public StorageUnderTest {
 public:
  Storage& storage() override { return storage_; }
  void Reopen() override {}

 private:
  MemoryStorage memory_;
  testing::FaultyStorage storage_{&memory_};
};

std::unique_ptr<StorageUnderTest> MakeFaulty() {
  return std::make_unique<FaultyUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(Memory, StorageContract, ::testing::Values(&MakeMemory), [](const auto&) { return "All"; });
INSTANTIATE_TEST_SUITE_P(Faulty, StorageContract, ::testing::Values(&MakeFaulty), [](const auto&) { return "All"; });

TEST(FaultyStorage, FailsTheCommitItIsToldTo) {
  MemoryStorage memory;
  testing::FaultyStorage storage(&memory);
  storage.FailCommit(2, absl::UnavailableError("full"));
  storage.FailCommit(3, absl::DataLossError("sync"), testing::FaultyStorage::Outcome::kDone);
  EXPECT_TRUE(storage.Commit({SetFence{1}}).ok());
  EXPECT_EQ(storage.Commit({SetFence{2}}).code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(memory.LastFence().value(), 1u);
  EXPECT_EQ(storage.Commit({SetFence{3}}).code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(memory.LastFence().value(), 3u);
  storage.FailNextCommit(absl::UnavailableError("full"));
  EXPECT_FALSE(storage.Commit({SetFence{4}}).ok());
  EXPECT_TRUE(storage.Commit({SetFence{4}}).ok());
  EXPECT_EQ(storage.commits(), 5);
  storage.FailReads(absl::DataLossError("disk"));
  EXPECT_EQ(storage.LastFence().status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace luthier::storage
