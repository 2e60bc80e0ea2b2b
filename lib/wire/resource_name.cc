#include "lib/wire/resource_name.h"

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"

namespace luthier::wire {
namespace {

constexpr absl::string_view kStudies = "projects/default/studies/";
constexpr absl::string_view kTrials = "/trials/";

absl::Status Malformed(absl::string_view field, absl::string_view name, absl::string_view form) {
  if (name.empty()) return base::BadField(field, absl::StrCat("is required: ", form));
  return base::BadField(field, absl::StrCat(base::Quote(name), " is not of the form ", form));
}

}  // namespace

std::string StudyName(absl::string_view study) {
  return absl::StrCat(kStudies, study);
}

std::string TrialName(absl::string_view study, int64_t number) {
  return absl::StrCat(kStudies, study, kTrials, number);
}

absl::StatusOr<std::string> ParseStudyName(absl::string_view field, absl::string_view name) {
  absl::string_view id = name;
  if (!absl::ConsumePrefix(&id, kStudies) || absl::StrContains(id, "/")) {
    return Malformed(field, name, "projects/default/studies/{study}");
  }
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field, id));
  return std::string(id);
}

absl::StatusOr<TrialId> ParseTrialName(absl::string_view field, absl::string_view name) {
  const absl::Status malformed = Malformed(field, name, "projects/default/studies/{study}/trials/{number}");
  absl::string_view rest = name;
  if (!absl::ConsumePrefix(&rest, kStudies)) return malformed;
  const size_t slash = rest.find('/');
  if (slash == absl::string_view::npos || !absl::StartsWith(rest.substr(slash), kTrials)) return malformed;
  const absl::string_view digits = rest.substr(slash + kTrials.size());
  if (digits.empty() || digits[0] == '0') return malformed;
  for (const char c : digits) {
    if (c < '0' || c > '9') return malformed;
  }
  TrialId id;
  if (!absl::SimpleAtoi(digits, &id.number)) return malformed;
  LUTHIER_RETURN_IF_ERROR(study::ValidateId(field, rest.substr(0, slash)));
  id.study = std::string(rest.substr(0, slash));
  return id;
}

}  // namespace luthier::wire
