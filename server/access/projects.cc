#include <cmath>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"
#include "server/access/registry.h"

// The registry's projects.
namespace luthier::access {
namespace {

namespace reason = base::reason;
using base::MakeError;
using base::Quote;

constexpr size_t kMaxProjects = 1000;

std::string ContentOf(absl::string_view verb, const std::string& id, const study::Quotas& quotas) {
  return absl::StrCat(verb, " ", id, " ", quotas.studies, " ", quotas.running_trials, " ", quotas.waiting_asks, " ",
                      study::FormatDouble(quotas.suggest_cpu), " ", quotas.bytes);
}

absl::Status CheckQuotas(const study::Quotas& quotas) {
  base::Violations violations;
  const auto check = [&](const char* name, double value) {
    if (!std::isfinite(value) || value < 0) {
      violations.Add(absl::StrCat("quotas.", name), absl::StrCat(value, " is below 0 (0: no limit) or not finite"));
    }
  };
  check("studies", static_cast<double>(quotas.studies));
  check("running_trials", static_cast<double>(quotas.running_trials));
  check("waiting_asks", static_cast<double>(quotas.waiting_asks));
  check("suggest_cpu", quotas.suggest_cpu);
  check("bytes", static_cast<double>(quotas.bytes));
  return violations.ToStatus();
}

}  // namespace

absl::StatusOr<ProjectRecord> Registry::FindProject(const std::string& id) const {
  base::MutexLock lock(&mutex_);
  const auto found = projects_.find(id);
  if (found != projects_.end()) return found->second;
  if (id == study::kDefaultProject) return ProjectRecord{id, absl::UnixEpoch(), {}};
  return MakeError(absl::StatusCode::kNotFound, reason::kNotFound,
                   absl::StrCat("project ", Quote(id), " does not exist"));
}

void Registry::KeepQuotas(study::QuotaTable* table) {
  base::MutexLock lock(&mutex_);
  quotas_ = table;
  for (const auto& [id, project] : projects_) quotas_->Set(id, project.quotas);
}

absl::Status Registry::Keep(const ProjectRecord& project, const ChangeRecord& request) {
  LUTHIER_RETURN_IF_ERROR(store_->Put(project, request));
  base::MutexLock lock(&mutex_);
  projects_[project.id] = project;
  if (quotas_ != nullptr) quotas_->Set(project.id, project.quotas);
  return absl::OkStatus();
}

absl::StatusOr<ProjectRecord> Registry::CreateProject(const std::string& id, const study::Quotas& quotas,
                                                      const Change& change) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  LUTHIER_RETURN_IF_ERROR(study::ValidateId("id", id));
  LUTHIER_RETURN_IF_ERROR(CheckQuotas(quotas));
  base::MutexLock changing(&changing_);
  LUTHIER_ASSIGN_OR_RETURN(auto begun, Begin(change, ContentOf("create", id, quotas)));
  if (begun.second) return FindProject(id);
  begun.first.object = id;
  {
    base::MutexLock lock(&mutex_);
    if (id == study::kDefaultProject || projects_.count(id) > 0) {
      return MakeError(absl::StatusCode::kAlreadyExists, reason::kProjectExists,
                       absl::StrCat("project ", Quote(id), " exists already"));
    }
    if (projects_.size() >= kMaxProjects) {
      return MakeError(absl::StatusCode::kResourceExhausted, reason::kLimitExceeded,
                       absl::StrCat("there are ", kMaxProjects, " projects already"));
    }
  }
  const ProjectRecord project{id, StoredTime(clock_->Wall()), quotas};
  LUTHIER_RETURN_IF_ERROR(Keep(project, begun.first));
  return project;
}

absl::StatusOr<ProjectRecord> Registry::UpdateProject(const std::string& id, const study::Quotas& quotas,
                                                      const Change& change) {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  LUTHIER_RETURN_IF_ERROR(CheckQuotas(quotas));
  base::MutexLock changing(&changing_);
  LUTHIER_ASSIGN_OR_RETURN(auto begun, Begin(change, ContentOf("update", id, quotas)));
  if (begun.second) return FindProject(id);
  begun.first.object = id;
  LUTHIER_ASSIGN_OR_RETURN(ProjectRecord project, FindProject(id));
  project.quotas = quotas;
  LUTHIER_RETURN_IF_ERROR(Keep(project, begun.first));
  return project;
}

absl::StatusOr<std::vector<ProjectRecord>> Registry::ListProjects() const {
  LUTHIER_RETURN_IF_ERROR(CheckStore());
  std::vector<ProjectRecord> all;
  base::MutexLock lock(&mutex_);
  if (projects_.count(study::kDefaultProject) == 0) all.push_back({study::kDefaultProject, absl::UnixEpoch(), {}});
  for (const auto& [id, project] : projects_) all.push_back(project);
  return all;
}

}  // namespace luthier::access
