#ifndef LUTHIER_SERVER_STORAGE_RECORD_CODEC_H_
#define LUTHIER_SERVER_STORAGE_RECORD_CODEC_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/storage/storage.h"

// Rows' bodies <-> records. Encoding is total and lossless: every bit of every double, text that is not UTF-8, empty
// maps. (lib/wire, which converts for the API, refuses and mends input instead; a row that was accepted must never be
// refused when it is read.) Decoding fails with DATA_LOSS for bytes that no encoder wrote.
namespace luthier::storage {

// Encodes everything of the record but trial.number, trial.state, create_seq and finish_seq, which are columns.
std::string EncodeTrialBody(const TrialRecord& record);
// Leaves the fields of columns at their defaults.
absl::StatusOr<TrialRecord> DecodeTrialBody(absl::string_view body);

// Returns TrialSketch::asks of the body, which is read only as far as needed.
absl::StatusOr<int64_t> CountAsks(absl::string_view body);

std::string EncodeMeasurement(const study::Measurement& measurement);
absl::StatusOr<study::Measurement> DecodeMeasurement(absl::string_view body);

// Encodes the fields of an event that have no column: step and ask_index. Damaged bytes leave them absent.
std::string EncodeEventFacts(const Event& event);
void DecodeEventFacts(absl::string_view bytes, Event* event);

// Encodes replies of a known type: no LegacyReply, no DamagedReply.
std::string EncodeReply(const StoredReply& reply);
absl::StatusOr<StoredReply> DecodeReply(absl::string_view bytes);

// Returns the study's spec as a luthier.v1.StudySpec. INTERNAL BUG unless lib/wire reads it back equal, as for a spec
// that was never validated.
absl::StatusOr<std::string> EncodeSpec(const study::StudySpec& spec);
absl::StatusOr<study::StudySpec> DecodeSpec(absl::string_view bytes);

// Encodes FormerSpec::back: fields that designers do not use.
std::string EncodeWayBack(const study::SpecChange& change);
absl::StatusOr<study::SpecChange> DecodeWayBack(absl::string_view bytes);

// Returns nanoseconds since 1970, for the years 1678 to 2262. Times beyond become the infinite past and future, which
// are the smallest and the largest number.
int64_t TimeToNanos(absl::Time time);
absl::Time TimeFromNanos(int64_t nanos);

}  // namespace luthier::storage

#endif  // LUTHIER_SERVER_STORAGE_RECORD_CODEC_H_
