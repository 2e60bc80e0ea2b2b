#ifndef LUTHIER_LIB_WIRE_RESOURCE_NAME_H_
#define LUTHIER_LIB_WIRE_RESOURCE_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
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

// A name in a field of a request, parsed once. Who needs a form asks for it, and gets INVALID_ARGUMENT naming the
// field, with that form, if the name is of another.
class ResourceName {
 public:
  ResourceName() = default;  // Empty.
  ResourceName(absl::string_view field, absl::string_view name);

  bool empty() const { return name_.empty(); }
  // Returns what stands where a project is named, whatever follows it; empty: nothing does.
  const std::string& project() const { return project_; }
  absl::StatusOr<std::string> Project() const;
  absl::StatusOr<std::string> Study() const;  // Its id.
  absl::StatusOr<TrialId> Trial() const;

 private:
  absl::Status Malformed(absl::string_view form) const;
  absl::Status Check(size_t ids, absl::string_view form) const;

  std::string field_, name_, project_;
  std::vector<std::string> ids_;  // Ids of project, study and trial; none of a text that is no name.
};

// Returns the same for a name that is asked for one form.
absl::StatusOr<std::string> ParseStudyName(absl::string_view field, absl::string_view name);
absl::StatusOr<TrialId> ParseTrialName(absl::string_view field, absl::string_view name);
absl::StatusOr<std::string> ParseProjectName(absl::string_view field, absl::string_view name);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_RESOURCE_NAME_H_
