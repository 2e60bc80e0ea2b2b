#include "server/service/lookup.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/metrics.h"
#include "lib/wire/convert.h"

namespace luthier::service {
namespace {

absl::Status NotFound(const std::string& what) {
  return base::MakeError(absl::StatusCode::kNotFound, base::reason::kNotFound, what);
}

}  // namespace

absl::StatusOr<storage::StudyRecord> FindStudy(storage::Storage* storage, const std::string& id) {
  absl::StatusOr<storage::StudyRecord> study = storage->GetStudy(id);
  if (absl::IsNotFound(study.status())) return NotFound(absl::StrCat("study ", base::Quote(id), " does not exist"));
  return study;
}

absl::StatusOr<storage::TrialRecord> FindTrial(storage::Storage* storage, const storage::StudyRecord& study,
                                               int64_t number) {
  const auto name = [&] { return absl::StrCat("trial ", number, " of study ", base::Quote(study.id)); };
  absl::StatusOr<storage::TrialRecord> trial = storage->GetTrial(study.key, number);
  if (absl::IsNotFound(trial.status())) return NotFound(absl::StrCat(name(), " does not exist"));
  if (trial.ok() && trial->trial.deleted) return NotFound(absl::StrCat(name(), " was deleted"));
  return trial;
}

absl::StatusOr<v1::Trial> ReadTrial(storage::Storage* storage, const storage::StudyRecord& study,
                                    const storage::TrialRecord& trial) {
  v1::Trial message = wire::ToProto(trial.trial, study.id);
  if (const std::optional<bool> feasible = FeasibleOf(study.spec, trial.trial)) message.set_feasible(*feasible);
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<storage::SetAside> set_aside,
                           storage->ListSetAside(study.key, trial.trial.number - 1, 1));
  message.set_gradient_set_aside(!set_aside.empty() && set_aside[0].trial == trial.trial.number);
  return message;
}

std::optional<bool> FeasibleOf(const study::StudySpec& spec, const study::Trial& trial) {
  if (!trial.final_measurement || !study::HasBounds(spec)) return std::nullopt;
  const std::optional<std::vector<double>> values = study::ValuesOf(spec, *trial.final_measurement);
  if (!values) return std::nullopt;
  return study::IsFeasible(spec.metrics, *values);
}

}  // namespace luthier::service
