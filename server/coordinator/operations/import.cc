#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/gradients.h"
#include "lib/study/legal_settings.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/messages/measurements.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/operations/finish_checks.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/operations/repeated.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/counts.h"

namespace luthier::coordinator {
namespace {

using study::TrialState;

constexpr char kImported[] = "import";

// A COMPLETE trial of which a metric of the study is not finite is FAILED, as when a worker reports it.
void FailIfNotFinite(const study::StudySpec& spec, ImportedTrial* trial) {
  if (trial->state != TrialState::kComplete || !trial->measurement) return;
  std::string wrong = NonFiniteMetrics(spec, *trial->measurement);
  if (wrong.empty()) return;
  trial->state = TrialState::kFailed;
  trial->failure = study::Failure{study::FailureKind::kConfig, study::failure::kNonFinite, std::move(wrong)};
  trial->measurement.reset();
}

void CheckCurve(const ImportedTrial& trial, const std::string& at, int64_t most, base::Violations* violations) {
  if (static_cast<int64_t>(trial.curve.size()) > most) {
    violations->Add(at, absl::StrCat("has ", trial.curve.size(), " points; a trial has at most ", most));
    return;
  }
  for (size_t k = 0; k < trial.curve.size(); ++k) {
    const std::string point = absl::StrCat(at, "[", k, "]");
    violations->AddAll("", CheckMeasurement(trial.curve[k], point));
    if (k > 0 && trial.curve[k].step <= trial.curve[k - 1].step) {
      violations->Add(absl::StrCat(point, ".step"), "is not above the one before");
    }
  }
}

// Returns the canonical setting. A trial of an open space has only the parameters that its objective asked for.
absl::StatusOr<study::Parameters> CanonicalSetting(const study::StudySpec& spec, const study::Parameters& setting) {
  if (!spec.open_space) return spec.space.Canonical(setting);
  std::vector<study::ParameterSpec> some;
  for (const study::ParameterSpec& p : spec.space.parameters()) {
    if (setting.count(p.name) > 0) some.push_back(p);
  }
  LUTHIER_ASSIGN_OR_RETURN(const study::SearchSpace space, study::SearchSpace::Create(std::move(some)));
  return space.Canonical(setting);
}

// Checks one trial and makes its parameters canonical.
void CheckTrial(const Study& s, const study::LegalSettings& legal, const std::string& at, int64_t points,
                ImportedTrial* trial, base::Violations* violations) {
  absl::StatusOr<study::Parameters> canonical = CanonicalSetting(*s.spec(), trial->parameters);
  if (canonical.ok()) {
    trial->parameters = *std::move(canonical);
    if (const std::string why = legal.WhyNot(trial->parameters); !why.empty()) {
      violations->Add(at + ".parameters", why);
    }
  } else {
    violations->AddAll(at + ".parameters", canonical.status());
  }
  if (trial->measurement) {
    violations->AddAll("", CheckMeasurement(*trial->measurement, at + ".final_measurement"));
    if (trial->measurement->gradient && !trial->measurement->gradient->by_name.empty()) {
      absl::StatusOr<study::Gradient> known =
          study::FromNames(s.spec()->space, trial->parameters, *trial->measurement->gradient);
      violations->AddAll(at + ".final_measurement.gradient", known.status());
      if (known.ok()) trial->measurement->gradient = *std::move(known);
    } else if (trial->measurement->gradient) {
      const auto dimension = static_cast<int>(s.spec()->space.differentiable().size());
      violations->AddAll(at + ".final_measurement.gradient",
                         study::ValidateGradient(*trial->measurement->gradient, dimension));
    }
    violations->AddAll(at + ".final_measurement",
                       study::TakeGradients(*s.spec(), trial->parameters, &*trial->measurement));
  }
  if (trial->state == TrialState::kComplete) {
    const std::string lacks = LacksMetrics(*s.spec(), trial->measurement.value_or(study::Measurement()));
    if (!lacks.empty()) {
      violations->Add(at + ".final_measurement.metrics", absl::StrCat(lacks, "; a COMPLETE trial has each"));
    }
  }
  for (size_t k = 0; k < trial->curve.size(); ++k) {
    violations->AddAll(absl::StrCat(at, ".measurements[", k, "]"),
                       study::TakeGradients(*s.spec(), trial->parameters, &trial->curve[k]));
  }
  CheckCurve(*trial, at + ".measurements", points, violations);
  FailIfNotFinite(*s.spec(), trial);
}

absl::Status Check(const Context& c, const Study& s, ImportOp* op) {
  LUTHIER_RETURN_IF_ERROR(s.CheckMayGoOn());
  LUTHIER_RETURN_IF_ERROR(CheckBytes(c, study::ProjectOf(op->id)));
  if (s.spec()->reproducible) {
    return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kReproducible,
                           absl::StrCat("study ", base::Quote(op->id),
                                        " is reproducible: what it suggests follows from its own trials alone; take "
                                        "the results into a study without reproducible"));
  }
  base::Violations violations;
  const study::LegalSettings legal(s.spec()->space, s.spec()->constraints);
  for (size_t i = 0; i < op->trials.size(); ++i) {
    CheckTrial(s, legal, absl::StrCat("trials[", i, "]"), c.options.limits.points, &op->trials[i], &violations);
  }
  return violations.ToStatus();
}

int64_t Store(Study& s, ImportedTrial imported, const std::string& actor) {
  study::Trial trial;
  trial.parameters = std::move(imported.parameters);
  trial.attributes = std::move(imported.attributes);
  trial.provenance.designer = kImported;
  trial.provenance.origin = kImported;
  const int64_t number = s.Store(std::move(trial), storage::EventType::kTrialImported, actor);
  TrialSlot& slot = s.slot(number);
  study::Trial& stored = slot.record->trial;
  for (study::Measurement& point : imported.curve) s.AddImportedPoint(number, std::move(point));
  stored.final_measurement = std::move(imported.measurement);
  stored.failure = std::move(imported.failure);
  TrialEnd end{.event = study::TrialEvent::kComplete, .actor = actor, .rules = false};
  if (stored.failure) end.detail = stored.failure->reason;
  if (stored.final_measurement) {
    const auto& metrics = stored.final_measurement->metrics;
    if (const auto value = metrics.find(s.spec()->metric.name); value != metrics.end()) end.value = value->second;
    end.step = stored.final_measurement->step;
  }
  s.EndImported(slot, imported.state, end);
  if (imported.create_time) stored.create_time = *imported.create_time;
  if (imported.end_time) stored.end_time = *imported.end_time;
  return number;
}

absl::StatusOr<ImportReply> Rebuild(Context& c, const ImportOp& op, const storage::StoredTrials& stored) {
  LUTHIER_ASSIGN_OR_RETURN(const Study* const s, FindRepliedStudy(c, op.id, stored.study));
  return ImportReply{stored.trials, stored.seq != 0 ? stored.seq : s->record().update_seq};
}

absl::StatusOr<ImportReply> Import(Context& c, Study& s, ImportOp& op, storage::StoredTrials* stored) {
  LUTHIER_RETURN_IF_ERROR(Check(c, s, &op));
  const auto count = static_cast<int64_t>(op.trials.size());
  LUTHIER_RETURN_IF_ERROR(s.AddRoom(count, op.actor));
  ImportReply reply;
  for (ImportedTrial& trial : op.trials) reply.numbers.push_back(Store(s, std::move(trial), op.actor));
  // Failures from elsewhere do not count as failures in a row here.
  s.ForgetFailures();
  s.GoOnOrEnd(absl::StrCat(count, " trials imported"), op.actor);
  reply.seq = s.record().update_seq;
  *stored = {s.record().key, reply.numbers, reply.seq};
  return reply;
}

}  // namespace

void Run(Context& c, ImportOp op) {
  RunOnce<storage::StoredTrials, ImportReply>(
      c, op, [&](const auto& stored) { return Rebuild(c, op, stored); },
      [&](Study& s, storage::StoredTrials* stored) { return Import(c, s, op, stored); });
}

}  // namespace luthier::coordinator
