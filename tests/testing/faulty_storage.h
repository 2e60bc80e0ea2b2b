#ifndef LUTHIER_TESTS_TESTING_FAULTY_STORAGE_H_
#define LUTHIER_TESTS_TESTING_FAULTY_STORAGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"
#include "server/storage/storage.h"

namespace luthier::testing {

// Passes every call on to another storage, but fails the commits it is told to. Counts commits from 1. Thread-safe as
// the other is, which must outlive it.
class FaultyStorage final : public storage::Storage {
 public:
  // What became of a failed commit: kNotDone as after a full disk; kDone as after a sync that failed late, when the
  // caller knows nothing.
  enum class Outcome { kNotDone, kDone };

  explicit FaultyStorage(storage::Storage* other) : other_(other) {}

  // Commit number `n` returns `status`.
  void FailCommit(int64_t n, absl::Status status, Outcome outcome = Outcome::kNotDone) {
    base::MutexLock lock(&mutex_);
    faults_[n] = Fault{std::move(status), outcome};
  }
  // The next commit returns `status`.
  void FailNextCommit(absl::Status status, Outcome outcome = Outcome::kNotDone) {
    FailCommit(commits() + 1, std::move(status), outcome);
  }
  // Every read returns `status` from now on; OK ends it.
  void FailReads(absl::Status status) {
    base::MutexLock lock(&mutex_);
    read_status_ = std::move(status);
  }
  // Commits called so far, failed ones included.
  int64_t commits() {
    base::MutexLock lock(&mutex_);
    return commits_;
  }
  // Reads called so far.
  int64_t reads() {
    base::MutexLock lock(&mutex_);
    return reads_;
  }

  absl::StatusOr<bool> EraseSome(int rows) override { return other_->EraseSome(rows); }
  absl::Status Commit(const storage::WriteBatch& batch) override {
    const std::optional<Fault> fault = NextFault();
    if (!fault) return other_->Commit(batch);
    if (fault->outcome == Outcome::kDone) {
      if (absl::Status status = other_->Commit(batch); !status.ok()) return status;
    }
    return fault->status;
  }

  absl::StatusOr<uint64_t> LastSeq() override {
    return Read<uint64_t>([&] { return other_->LastSeq(); });
  }
  absl::StatusOr<uint64_t> LastFence() override {
    return Read<uint64_t>([&] { return other_->LastFence(); });
  }
  absl::StatusOr<absl::Duration> LastUptime() override {
    return Read<absl::Duration>([&] { return other_->LastUptime(); });
  }
  absl::StatusOr<storage::StudyKey> LastStudyKey() override {
    return Read<storage::StudyKey>([&] { return other_->LastStudyKey(); });
  }
  absl::StatusOr<std::vector<storage::StudyRecord>> ListStudies(const std::string& after_id, int limit) override {
    return Read<std::vector<storage::StudyRecord>>([&] { return other_->ListStudies(after_id, limit); });
  }
  absl::StatusOr<std::vector<storage::StudyRecord>> ListDeleted(storage::StudyKey after, int limit) override {
    return Read<std::vector<storage::StudyRecord>>([&] { return other_->ListDeleted(after, limit); });
  }
  absl::StatusOr<storage::StudyRecord> GetStudy(const std::string& id) override {
    return Read<storage::StudyRecord>([&] { return other_->GetStudy(id); });
  }
  absl::StatusOr<storage::TrialRecord> GetTrial(storage::StudyKey study, int64_t number) override {
    return Read<storage::TrialRecord>([&] { return other_->GetTrial(study, number); });
  }
  absl::StatusOr<std::vector<storage::FormerSpec>> ListFormerSpecs(storage::StudyKey study) override {
    return Read<std::vector<storage::FormerSpec>>([&] { return other_->ListFormerSpecs(study); });
  }
  absl::StatusOr<std::vector<storage::TrialRecord>> ListTrials(storage::StudyKey study,
                                                               const storage::TrialFilter& filter, int64_t after,
                                                               int limit) override {
    return Read<std::vector<storage::TrialRecord>>([&] { return other_->ListTrials(study, filter, after, limit); });
  }
  absl::StatusOr<std::vector<storage::TrialSketch>> SketchTrials(const storage::StudyRecord& study,
                                                                 const std::vector<study::TrialState>& whole,
                                                                 int64_t after, int limit) override {
    return Read<std::vector<storage::TrialSketch>>([&] { return other_->SketchTrials(study, whole, after, limit); });
  }
  absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(storage::StudyKey study, int64_t trial,
                                                                   int32_t attempt) override {
    return Read<std::vector<study::Measurement>>([&] { return other_->ListMeasurements(study, trial, attempt); });
  }
  absl::StatusOr<std::vector<storage::Event>> ListEvents(storage::StudyKey study, uint64_t after, int limit) override {
    return Read<std::vector<storage::Event>>([&] { return other_->ListEvents(study, after, limit); });
  }
  absl::StatusOr<std::vector<storage::Event>> ListEventsBefore(storage::StudyKey study, uint64_t before,
                                                               int limit) override {
    return Read<std::vector<storage::Event>>([&] { return other_->ListEventsBefore(study, before, limit); });
  }
  absl::StatusOr<std::vector<storage::SetAside>> ListSetAside(storage::StudyKey study, int64_t after,
                                                              int limit) override {
    return Read<std::vector<storage::SetAside>>([&] { return other_->ListSetAside(study, after, limit); });
  }
  absl::StatusOr<std::optional<storage::RequestRecord>> FindRequest(const std::string& id) override {
    return Read<std::optional<storage::RequestRecord>>([&] { return other_->FindRequest(id); });
  }
  absl::StatusOr<Summary> Summarize(const storage::StudyRecord& study) override {
    return Read<Summary>([&] { return other_->Summarize(study); });
  }

 private:
  struct Fault {
    absl::Status status;
    Outcome outcome = Outcome::kNotDone;
  };

  std::optional<Fault> NextFault() {
    base::MutexLock lock(&mutex_);
    const auto found = faults_.find(++commits_);
    return found == faults_.end() ? std::nullopt : std::optional<Fault>(found->second);
  }

  template <typename T, typename F>
  absl::StatusOr<T> Read(F&& read) {
    {
      base::MutexLock lock(&mutex_);
      ++reads_;
      if (!read_status_.ok()) return read_status_;
    }
    return read();
  }

  storage::Storage* const other_;
  base::Mutex mutex_;
  int64_t commits_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t reads_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Fault> faults_ ABSL_GUARDED_BY(mutex_);
  absl::Status read_status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_FAULTY_STORAGE_H_
