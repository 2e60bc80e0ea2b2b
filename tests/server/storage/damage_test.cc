// Whatever a disk does to the bytes of a database: what is read is what was written, or DATA_LOSS.
#include "server/storage/damage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "server/storage/backup.h"
#include "server/storage/data_directory.h"
#include "server/storage/inspect.h"
#include "server/storage/sqlite_storage.h"
#include "tests/testing/storage_model.h"
#include "tests/testing/storage_records.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::storage {
namespace {

using testing::TemporaryDirectory;

constexpr size_t kPage = 4096;
constexpr int kAll = 1'000'000;

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

absl::StatusOr<std::unique_ptr<SqliteStorage>> Open(const std::string& directory) {
  SqliteOptions options;
  options.directory = directory;
  options.check_behind = true;  // As luthierd: nothing but what is read is looked at.
  options.readers = 1;
  return SqliteStorage::Open(options);
}

template <typename T>
void Note(const absl::StatusOr<T>& answer, std::vector<absl::StatusOr<std::string>>* answers) {
  answers->push_back(answer.ok() ? absl::StatusOr<std::string>(testing::Text(*answer))
                                 : absl::StatusOr<std::string>(answer.status()));
}

// All that can be asked, each answer by itself.
std::vector<absl::StatusOr<std::string>> Answers(Storage& storage, const std::vector<StudyRecord>& studies) {
  std::vector<absl::StatusOr<std::string>> answers;
  for (const StudyRecord& study : studies) {
    Note(storage.GetStudy(study.id), &answers);
    Note(storage.ListTrials(study.key, {}, 0, kAll), &answers);
    for (const study::TrialState state : {study::TrialState::kPending, study::TrialState::kComplete}) {
      Note(storage.ListTrials(study.key, {{state}}, 0, kAll), &answers);
    }
    for (int64_t trial = 1; trial <= 4; ++trial) Note(storage.ListMeasurements(study.key, trial, 1), &answers);
    Note(storage.ListEvents(study.key, 0, kAll), &answers);
    Note(storage.ListEventsBefore(study.key, 40, 10), &answers);
    Note(storage.Summarize(study), &answers);
  }
  for (int i = 0; i < 10; ++i) Note(storage.FindRequest(absl::StrCat("r", i)), &answers);
  return answers;
}

int Times(int few) {
  const char* text = std::getenv("LUTHIER_ATTACK_FLIPS");
  int times = few;
  return text != nullptr && absl::SimpleAtoi(text, &times) ? times : few;
}

class DamageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto storage = Open(good_.path()).value();
    testing::StorageModel model;
    base::RandomStream random(3, "storage fixture");
    for (int i = 0; i < 60; ++i) {
      const WriteBatch batch = model.RandomBatch(random);
      EXPECT_EQ(storage->Commit(batch).ok(), model.Commit(batch));
    }
    studies_ = storage->ListStudies("", kAll).value();
    ASSERT_FALSE(studies_.empty());
    answers_ = Answers(*storage, studies_);
    ASSERT_TRUE(storage->Close().ok());
    bytes_ = ReadFile(DatabasePath(good_.path()));
    ASSERT_GT(bytes_.size(), 10 * kPage);
  }
  // Whether anybody notices; fails where something else is served than was written.
  bool IsNoticed(const std::string& bytes) {
    const TemporaryDirectory directory;
    WriteFile(DatabasePath(directory.path()), bytes);
    const auto diagnosis = Diagnose(directory.path());
    bool noticed = !diagnosis.ok() || !diagnosis->findings.empty();
    const TemporaryDirectory elsewhere;
    const bool restored = Restore(DatabasePath(directory.path()), elsewhere.path()).ok();
    EXPECT_NE(restored, noticed);
    const auto storage = Open(directory.path());
    if (!storage.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(storage.status()) || absl::IsFailedPrecondition(storage.status()))
          << storage.status();
      return true;
    }
    const std::vector<absl::StatusOr<std::string>> answers = Answers(**storage, studies_);
    EXPECT_EQ(answers.size(), answers_.size());
    for (size_t i = 0; i < answers.size(); ++i) {
      if (answers[i].ok()) {
        EXPECT_EQ(*answers[i], *answers_[i]);
        continue;
      }
      EXPECT_TRUE(IsDamage(answers[i].status())) << answers[i].status();
      noticed = true;
    }
    return noticed;
  }

  TemporaryDirectory good_;
  std::vector<StudyRecord> studies_;
  std::vector<absl::StatusOr<std::string>> answers_;
  std::string bytes_;
};

TEST_F(DamageTest, FlippedBytesAreNeverServed) {
  base::RandomStream random(7, "flips");
  const int times = Times(60);
  int noticed = 0;
  for (int i = 0; i < times; ++i) {
    std::string bytes = bytes_;
    // Every fifth in the first page, which has the header and the schema.
    const size_t at = random.UniformInt(i % 5 == 0 ? kPage : bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ static_cast<char>(1 + random.UniformInt(255)));
    SCOPED_TRACE(absl::StrCat("byte ", at));
    noticed += IsNoticed(bytes) ? 1 : 0;
    if (HasFailure()) return;
  }
  RecordProperty("noticed", noticed);
  EXPECT_GE(noticed, times * 6 / 10) << noticed << " of " << times;
}

TEST_F(DamageTest, ZeroedExchangedAndLostPagesAreNoticed) {
  base::RandomStream random(8, "pages");
  const size_t pages = bytes_.size() / kPage;
  for (int i = 0; i < 10; ++i) {
    const size_t one = 1 + random.UniformInt(pages - 1), other = 1 + (one + random.UniformInt(pages - 2)) % (pages - 1);
    SCOPED_TRACE(absl::StrCat("pages ", one, " ", other));
    std::string zeroed = bytes_;
    zeroed.replace(one * kPage, kPage, kPage, '\0');
    EXPECT_TRUE(IsNoticed(zeroed));
    if (one != other) {
      std::string exchanged = bytes_;
      exchanged.replace(one * kPage, kPage, bytes_, other * kPage, kPage);
      exchanged.replace(other * kPage, kPage, bytes_, one * kPage, kPage);
      EXPECT_TRUE(IsNoticed(exchanged));
    }
    EXPECT_TRUE(IsNoticed(bytes_.substr(0, one * kPage)));
    EXPECT_TRUE(IsNoticed(bytes_.substr(0, one * kPage + 100)));
  }
}

}  // namespace
}  // namespace luthier::storage
