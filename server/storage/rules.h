#ifndef LUTHIER_SERVER_STORAGE_RULES_H_
#define LUTHIER_SERVER_STORAGE_RULES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/storage/storage.h"

// Rules and derivations that every implementation of Storage shares. The rules that need other rows:
//
//   * a study's id is unique; the key of a new one is above LastStudyKey() as it was before the batch;
//   * the metrics of a stored study never change, nor does its id but by UnhideStudy;
//   * a study is hidden once, and brought back once; while it is hidden, it and its trials can't be put;
//   * a trial needs its study, a measurement its trial;
//   * the state of a final trial never changes;
//   * an event's seq is above every earlier one; fence and uptime never go down; a request's id is unique.
//
// DeleteStudy of an unknown key is no error (a study may be created and deleted in one batch), but the key counts as
// used.
namespace luthier::storage {

// Returns INTERNAL BUG: the coordinator asked for something that must not be stored.
absl::Status Violation(absl::string_view what);

// Checks the rules that need nothing but the mutation: ranges of keys, numbers and enums, seqs and fences below 2^63,
// request ids of 1 to 64 bytes, replies of a known type.
absl::Status CheckMutation(const Mutation& mutation);

// The counters of a database, and the rules about them.
struct Counters {
  uint64_t seq = 0;  // Number of the newest event.
  uint64_t fence = 0;
  absl::Duration uptime = absl::ZeroDuration();
  StudyKey key = 0;  // Largest key ever given to a study.

  absl::Status TakeSeq(uint64_t next);
  absl::Status TakeFence(uint64_t next);
  absl::Status TakeUptime(absl::Duration next);
  // `before` is the largest key before the batch.
  absl::Status TakeNewStudy(StudyKey next, StudyKey before);
  void TakeDeletedStudy(StudyKey deleted);
};

// Checks a stored study that is put again: its id and its metrics must stay.
absl::Status CheckSameStudy(const std::string& stored_id, const study::StudySpec& stored_spec, const StudyRecord& next);
// A request that is changed must be stored.
absl::Status NoSuchRequest(const std::string& id);
// Violations of the rules about trials and measurements.
absl::Status TrialWithoutStudy(StudyKey study);
absl::Status NotThereToHide(StudyKey study);
absl::Status NotHidden(StudyKey study);
absl::Status MeasurementWithoutTrial(int64_t trial);
absl::Status FinalTrialWouldChange(int64_t number);

// Returns the number by which a trial is ranked: the finite final value of the study's objective, of several the first,
// of a COMPLETE trial that is feasible and was not removed; absent for all others. Never -0.0.
std::optional<double> RankedValue(const TrialRecord& record, const study::StudySpec& spec);

// Returns the sketch without the row.
TrialSketch SketchOf(const TrialRecord& record, const study::StudySpec& spec);

// Returns how the training of a COMPLETE trial ended that was not removed; absent for all others, and if nobody said.
std::optional<study::TrainingOutcome> CountedTraining(const TrialRecord& record);

// Returns NOT_FOUND, as GetStudy and GetTrial do.
absl::Status NoSuchStudy(const std::string& id);
absl::Status NoSuchTrial(StudyKey study, int64_t number);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_RULES_H_
