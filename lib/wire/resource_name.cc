#include "lib/wire/resource_name.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "lib/study/study_spec.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kProjects = "projects/";
constexpr absl::string_view kStudies = "/studies/";
constexpr absl::string_view kTrials = "/trials/";

absl::Status Malformed(absl::string_view field, absl::string_view name, absl::string_view form) {
  if (name.empty()) return base::BadField(field, absl::StrCat("is required: ", form));
  return base::BadField(field, absl::StrCat(base::Quote(name), " is not of the form ", form));
}

// Takes everything before the next '/', or all there is.
absl::string_view TakePart(absl::string_view* text) {
  const absl::string_view part = text->substr(0, text->find('/'));
  text->remove_prefix(part.size());
  return part;
}

// Takes "projects/{project}/studies/{study}"; the id, or `malformed`.
absl::StatusOr<std::string> TakeStudy(absl::string_view field, absl::string_view* text, const absl::Status& malformed) {
  if (!absl::ConsumePrefix(text, kProjects)) return malformed;
  const absl::string_view project = TakePart(text);
  if (!absl::ConsumePrefix(text, kStudies)) return malformed;
  const absl::string_view study = TakePart(text);
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field, project));
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field, study));
  return study::IdWithin(project, study);
}

}  // namespace

std::string ProjectName(absl::string_view project) {
  return absl::StrCat(kProjects, project);
}

std::string StudyName(absl::string_view study) {
  return absl::StrCat(kProjects, study::ProjectOf(study), kStudies, study::ShortId(study));
}

std::string TrialName(absl::string_view study, int64_t number) {
  return absl::StrCat(StudyName(study), kTrials, number);
}

absl::StatusOr<std::string> ParseProjectName(absl::string_view field, absl::string_view name) {
  absl::string_view project = name;
  if (!absl::ConsumePrefix(&project, kProjects)) return Malformed(field, name, "projects/{project}");
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field, project));
  return std::string(project);
}

absl::StatusOr<std::string> ParseStudyName(absl::string_view field, absl::string_view name) {
  const absl::Status malformed = Malformed(field, name, "projects/{project}/studies/{study}");
  absl::string_view rest = name;
  absl::StatusOr<std::string> id = TakeStudy(field, &rest, malformed);
  if (id.ok() && !rest.empty()) return malformed;
  return id;
}

absl::StatusOr<TrialId> ParseTrialName(absl::string_view field, absl::string_view name) {
  const absl::Status malformed = Malformed(field, name, "projects/{project}/studies/{study}/trials/{number}");
  absl::string_view rest = name;
  TrialId id;
  LUTHIER_ASSIGN_OR_RETURN(id.study, TakeStudy(field, &rest, malformed));
  if (!absl::ConsumePrefix(&rest, kTrials) || rest.empty() || rest[0] == '0') return malformed;
  for (const char c : rest) {
    if (c < '0' || c > '9') return malformed;
  }
  if (!absl::SimpleAtoi(rest, &id.number)) return malformed;
  return id;
}

}  // namespace luthier::wire
