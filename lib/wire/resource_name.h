#ifndef LUTHIER_LIB_WIRE_RESOURCE_NAME_H_
#define LUTHIER_LIB_WIRE_RESOURCE_NAME_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The one place that builds and parses resource names:
//   projects/{project}
//   projects/{project}/studies/{study}             {project}, {study}: [a-z0-9][a-z0-9_.-]{0,63}, no ".."
//   projects/{project}/studies/{study}/trials/{n}  {n}: 1 … 2^63-1, without sign or leading zeros
// Ids of studies have their project within them: study::IdWithin.
namespace luthier::wire {

struct TrialId {
  std::string study;
  int64_t number = 0;
  friend bool operator==(const TrialId&, const TrialId&) = default;
};

std::string StudyName(absl::string_view study);
std::string TrialName(absl::string_view study, int64_t number);
std::string ProjectName(absl::string_view project);

// Returns the study's id. Returns INVALID_ARGUMENT naming `field`, with the form of a name.
absl::StatusOr<std::string> ParseStudyName(absl::string_view field, absl::string_view name);
absl::StatusOr<TrialId> ParseTrialName(absl::string_view field, absl::string_view name);
absl::StatusOr<std::string> ParseProjectName(absl::string_view field, absl::string_view name);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_RESOURCE_NAME_H_
