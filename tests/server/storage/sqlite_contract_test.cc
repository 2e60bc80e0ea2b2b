#include <memory>

#include "lib/base/check.h"
#include "server/storage/sqlite_storage.h"
#include "tests/contract/storage_contract.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::storage {
namespace {

class SqliteUnderTest : public StorageUnderTest {
 public:
  SqliteUnderTest() { Open(); }
  Storage& storage() override { return *storage_; }
  void Reopen() override {
    storage_.reset();
    Open();
  }

 private:
  void Open() {
    SqliteOptions options;
    options.directory = directory_.path();
    options.checkpoint_pages = 20;  // So that commits meet checkpoints.
    absl::StatusOr<std::unique_ptr<SqliteStorage>> storage = SqliteStorage::Open(options);
    if (!storage.ok()) GTEST_FAIL() << storage.status();
    storage_ = *std::move(storage);
  }

  const testing::TemporaryDirectory directory_;
  std::unique_ptr<SqliteStorage> storage_;
};

std::unique_ptr<StorageUnderTest> MakeSqlite() {
  return std::make_unique<SqliteUnderTest>();
}

INSTANTIATE_TEST_SUITE_P(Sqlite, StorageContract, ::testing::Values(&MakeSqlite), [](const auto&) { return "All"; });

TEST(SqliteDurability, ReopeningAfterEveryFewBatchesAgreesWithTheModel) {
  for (uint64_t seed = 100; seed < 103; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    SqliteUnderTest sqlite;
    base::RandomStream random(seed, "reopening");
    testing::StorageModel model;
    for (int step = 0; step < 60; ++step) {
      const WriteBatch batch = model.RandomBatch(random);
      ASSERT_EQ(sqlite.storage().Commit(batch).ok(), model.Commit(batch));
      if (random.UniformInt(6) != 0) continue;
      sqlite.Reopen();
      ASSERT_EQ(model.Difference(sqlite.storage()), "") << "step " << step;
    }
  }
}

}  // namespace
}  // namespace luthier::storage
