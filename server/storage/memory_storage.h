#ifndef LUTHIER_SERVER_STORAGE_MEMORY_STORAGE_H_
#define LUTHIER_SERVER_STORAGE_MEMORY_STORAGE_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/mutex.h"
#include "server/storage/rules.h"
#include "server/storage/storage.h"

namespace luthier::storage {

// Storage that lives as long as the process: for tests, simulations and servers without a data directory. Obeys the
// same rules as the durable one (rules.h). Thread-safe; every call holds one lock. Reads cost O(rows returned),
// Summarize O(trials of the study), ListSetAside O(events of the study).
class MemoryStorage final : public Storage {
 public:
  MemoryStorage() = default;

  absl::Status Commit(const WriteBatch& batch) override;
  absl::StatusOr<bool> EraseSome(int) override { return false; }  // Commit has erased them.
  absl::StatusOr<uint64_t> LastSeq() override;
  absl::StatusOr<uint64_t> LastFence() override;
  absl::StatusOr<absl::Duration> LastUptime() override;
  absl::StatusOr<StudyKey> LastStudyKey() override;
  absl::StatusOr<std::vector<StudyRecord>> ListStudies(const std::string& after_id, int limit) override;
  absl::StatusOr<StudyRecord> GetStudy(const std::string& id) override;
  absl::StatusOr<std::vector<StudyRecord>> ListDeleted(StudyKey after, int limit) override;
  absl::StatusOr<TrialRecord> GetTrial(StudyKey study, int64_t number) override;
  absl::StatusOr<std::vector<FormerSpec>> ListFormerSpecs(StudyKey study) override;
  absl::StatusOr<std::vector<TrialRecord>> ListTrials(StudyKey study, const TrialFilter& filter, int64_t after,
                                                      int limit) override;
  absl::StatusOr<std::vector<TrialSketch>> SketchTrials(const StudyRecord& study,
                                                        const std::vector<study::TrialState>& whole, int64_t after,
                                                        int limit) override;
  absl::StatusOr<std::vector<study::Measurement>> ListMeasurements(StudyKey study, int64_t trial,
                                                                   int32_t attempt) override;
  absl::StatusOr<std::vector<Event>> ListEvents(StudyKey study, uint64_t after, int limit) override;
  absl::StatusOr<std::vector<Event>> ListEventsBefore(StudyKey study, uint64_t before, int limit) override;
  absl::StatusOr<std::vector<SetAside>> ListSetAside(StudyKey study, int64_t after, int limit) override;
  absl::StatusOr<std::optional<RequestRecord>> FindRequest(const std::string& id) override;
  absl::StatusOr<Summary> Summarize(const StudyRecord& study) override;

 private:
  using PointKey = std::tuple<int64_t, int32_t, int64_t>;  // trial, attempt, step
  struct StudyRows {
    StudyRecord record;
    std::vector<FormerSpec> former_specs;
    std::map<int64_t, TrialRecord> trials;
    std::map<PointKey, study::Measurement> points;
  };
  // The row that one mutation replaced, to put back when a later one of its batch is refused.
  struct Undo;

  absl::Status Apply(const PutStudy& put, StudyKey keys_before, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const DeleteStudy& deletion, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const HideStudy& hiding, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const UnhideStudy& unhiding, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const PutFormerSpec& put, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const PutTrial& put, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const PutMeasurement& put, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const AppendEvent& append, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const PutRequest& put, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const ChangeRequest& change, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const SetUptime& set, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const ForgetRequestsBefore& forget, StudyKey, std::vector<Undo>* undo)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Apply(const SetFence& set, StudyKey, std::vector<Undo>* undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RollBack(std::vector<Undo> undo) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  base::Mutex mutex_;
  Counters counters_ ABSL_GUARDED_BY(mutex_);
  std::map<StudyKey, StudyRows> studies_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, StudyKey> ids_ ABSL_GUARDED_BY(mutex_);            // Without hidden studies.
  std::map<StudyKey, std::vector<Event>> events_ ABSL_GUARDED_BY(mutex_);  // Each in order of seq.
  std::map<std::string, RequestRecord> requests_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_MEMORY_STORAGE_H_
