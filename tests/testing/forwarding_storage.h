#ifndef LUTHIER_TESTS_TESTING_FORWARDING_STORAGE_H_
#define LUTHIER_TESTS_TESTING_FORWARDING_STORAGE_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"
#include "server/storage/storage.h"

namespace luthier::testing {

// Passes every call on to another storage, which must outlive it: what fakes derive from. Thread-safe as the other is.
class ForwardingStorage : public storage::Storage {
 public:
  explicit ForwardingStorage(storage::Storage* other) : other_(other) {}

  absl::Status Commit(const storage::WriteBatch& batch) override { return other_->Commit(batch); }
  absl::StatusOr<bool> EraseSome(int rows) override { return other_->EraseSome(rows); }
  absl::StatusOr<uint64_t> LastSeq() override { return other_->LastSeq(); }
  absl::StatusOr<uint64_t> LastFence() override { return other_->LastFence(); }
  absl::StatusOr<absl::Duration> LastUptime() override { return other_->LastUptime(); }
  absl::StatusOr<storage::StudyKey> LastStudyKey() override { return other_->LastStudyKey(); }
  absl::StatusOr<std::vector<storage::StudyRecord>> ListStudies(const std::string& after, int limit) override {
    return other_->ListStudies(after, limit);
  }
  absl::StatusOr<storage::StudyRecord> GetStudy(const std::string& id) override { return other_->GetStudy(id); }
  absl::StatusOr<std::vector<storage::StudyRecord>> ListDeleted(storage::StudyKey after, int limit) override {
    return other_->ListDeleted(after, limit);
  }
  absl::StatusOr<storage::TrialRecord> GetTrial(storage::StudyKey study, int64_t number) override {
    return other_->GetTrial(study, number);
  }
  absl::StatusOr<std::vector<storage::FormerSpec>> ListFormerSpecs(storage::StudyKey study) override {
    return other_->ListFormerSpecs(study);
  }
  absl::StatusOr<std::vector<storage::TrialRecord>> ListTrials(storage::StudyKey study,
                                                               const storage::TrialFilter& filter, int64_t after,
                                                               int limit) override {
    return other_->ListTrials(study, filter, after, limit);
  }
  absl::StatusOr<std::vector<storage::TrialSketch>> SketchTrials(const storage::StudyRecord& study,
                                                                 const std::vector<study::TrialState>& whole,
                                                                 int64_t after, int limit) override {
    return other_->SketchTrials(study, whole, after, limit);
  }
  absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(storage::StudyKey study, int64_t trial,
                                                                   int32_t attempt) override {
    return other_->ListMeasurements(study, trial, attempt);
  }
  absl::StatusOr<std::vector<storage::Event>> ListEvents(storage::StudyKey study, uint64_t after, int limit) override {
    return other_->ListEvents(study, after, limit);
  }
  absl::StatusOr<std::vector<storage::Event>> ListEventsBefore(storage::StudyKey study, uint64_t before,
                                                               int limit) override {
    return other_->ListEventsBefore(study, before, limit);
  }
  absl::StatusOr<std::vector<storage::SetAside>> ListSetAside(storage::StudyKey study, int64_t after,
                                                              int limit) override {
    return other_->ListSetAside(study, after, limit);
  }
  absl::StatusOr<std::optional<storage::RequestRecord>> FindRequest(const std::string& id) override {
    return other_->FindRequest(id);
  }
  absl::StatusOr<Summary> Summarize(const storage::StudyRecord& study) override { return other_->Summarize(study); }

 protected:
  storage::Storage* const other_;
};

// Holds the writer inside a commit until it is let go.
class GatedStorage final : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  void Close() {
    base::MutexLock lock(&mutex_);
    closed_ = true;
  }
  void Open() {
    base::MutexLock lock(&mutex_);
    closed_ = false;
    changed_.SignalAll();
  }
  // Until a commit stands at the closed gate.
  void AwaitCommit() {
    base::MutexLock lock(&mutex_);
    while (waiting_ == 0) changed_.Wait(&mutex_);
  }
  absl::Status Commit(const storage::WriteBatch& batch) override {
    {
      base::MutexLock lock(&mutex_);
      ++waiting_;
      changed_.SignalAll();
      while (closed_) changed_.Wait(&mutex_);
      --waiting_;
    }
    return other_->Commit(batch);
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Lets a test act between two reads of one caller.
class HookedStorage final : public ForwardingStorage {
 public:
  using ForwardingStorage::ForwardingStorage;
  // Called once, before the next Summarize, on its thread.
  void BeforeSummarize(std::function<void()> hook) {
    base::MutexLock lock(&mutex_);
    hook_ = std::move(hook);
  }
  absl::StatusOr<Summary> Summarize(const storage::StudyRecord& study) override {
    std::function<void()> hook;
    {
      base::MutexLock lock(&mutex_);
      hook.swap(hook_);
    }
    if (hook) hook();
    return other_->Summarize(study);
  }

 private:
  base::Mutex mutex_;
  std::function<void()> hook_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_FORWARDING_STORAGE_H_
