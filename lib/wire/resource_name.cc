#include "lib/wire/resource_name.h"

#include <algorithm>
#include <array>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "lib/study/study_spec.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kProjects = "projects";
constexpr absl::string_view kStudies = "studies";
constexpr absl::string_view kTrials = "trials";

}  // namespace

std::string ProjectName(absl::string_view project) {
  return absl::StrCat(kProjects, "/", project);
}

std::string StudyName(absl::string_view study) {
  return absl::StrCat(ProjectName(study::ProjectOf(study)), "/", kStudies, "/", study::ShortId(study));
}

std::string TrialName(absl::string_view study, int64_t number) {
  return absl::StrCat(StudyName(study), "/", kTrials, "/", number);
}

ResourceName::ResourceName(absl::string_view field, absl::string_view name) : field_(field), name_(name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() > 1 && parts[0] == kProjects) project_ = std::string(parts[1]);
  if (parts.size() % 2 != 0 || parts.size() > 6) return;
  for (size_t i = 0; i < parts.size(); i += 2) {
    constexpr std::array<absl::string_view, 3> kKinds = {kProjects, kStudies, kTrials};
    if (parts[i] != kKinds[i / 2]) {
      ids_.clear();
      return;
    }
    ids_.emplace_back(parts[i + 1]);
  }
}

absl::Status ResourceName::Malformed(absl::string_view form) const {
  if (name_.empty()) return base::BadField(field_, absl::StrCat("is required: ", form));
  return base::BadField(field_, absl::StrCat(base::Quote(name_), " is not of the form ", form));
}

absl::Status ResourceName::Check(size_t ids, absl::string_view form) const {
  if (ids_.size() != ids) return Malformed(form);
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field_, ids_[0]));
  return ids > 1 ? study::ValidateId(field_, ids_[1]) : absl::OkStatus();
}

absl::StatusOr<std::string> ResourceName::Project() const {
  LUTHIER_RETURN_IF_ERROR(Check(1, "projects/{project}"));
  return ids_[0];
}

absl::StatusOr<std::string> ResourceName::Study() const {
  LUTHIER_RETURN_IF_ERROR(Check(2, "projects/{project}/studies/{study}"));
  return study::IdWithin(ids_[0], ids_[1]);
}

absl::StatusOr<TrialId> ResourceName::Trial() const {
  constexpr absl::string_view kForm = "projects/{project}/studies/{study}/trials/{number}";
  LUTHIER_RETURN_IF_ERROR(Check(3, kForm));
  const std::string& number = ids_[2];
  TrialId id{study::IdWithin(ids_[0], ids_[1]), 0};
  const bool digits = std::all_of(number.begin(), number.end(), absl::ascii_isdigit);
  if (!digits || number.empty() || number[0] == '0' || !absl::SimpleAtoi(number, &id.number)) return Malformed(kForm);
  return id;
}

absl::StatusOr<std::string> ParseProjectName(absl::string_view field, absl::string_view name) {
  return ResourceName(field, name).Project();
}

absl::StatusOr<std::string> ParseStudyName(absl::string_view field, absl::string_view name) {
  return ResourceName(field, name).Study();
}

absl::StatusOr<TrialId> ParseTrialName(absl::string_view field, absl::string_view name) {
  return ResourceName(field, name).Trial();
}

}  // namespace luthier::wire
