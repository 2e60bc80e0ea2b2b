#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/study/encoding.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/messages/size.h"
#include "server/coordinator/messages/study_checks.h"
#include "server/coordinator/operations/handlers.h"
#include "server/coordinator/studies/changes.h"
#include "server/coordinator/studies/find.h"
#include "server/coordinator/studies/holder.h"

// Parameters of an open space: a trial names them while it runs.
namespace luthier::coordinator {
namespace {

using study::ParameterSpec;

absl::Status CheckOpen(const Study& s) {
  if (s.spec()->open_space) return absl::OkStatus();
  return base::MakeError(absl::StatusCode::kFailedPrecondition, base::reason::kNotOpen,
                         absl::StrCat("the space of study ", base::Quote(s.record().id),
                                      " is not open: it has the parameters that it was created with (open_space: true "
                                      "in the study file makes one that takes more)"));
}

absl::Status CheckDeclarations(const Context& c, const Study& s) {
  LUTHIER_ASSIGN_OR_RETURN(const int64_t changes, s.CountSpecChanges());
  const int64_t limit = c.options.limits.declarations;
  if (changes < limit) return absl::OkStatus();
  return LimitExceeded("declarations", limit,
                       absl::StrCat("the space of a study can grow ", limit,
                                    " times; declare parameters that come one by one in the study's space"));
}

// Returns the difference between a parameter of the study and a declared one of the same name.
std::string Difference(const ParameterSpec& known, const ParameterSpec& declared) {
  if (known.domain.index() != declared.domain.index()) return "kind";
  if (known.count != declared.count) return "count";
  return "range";
}

// Returns the parameters that the space lacks. INVALID_ARGUMENT; FAILED_PRECONDITION PARAMETER_DIFFERS.
absl::StatusOr<std::vector<ParameterSpec>> NewOnes(const study::SearchSpace& space,
                                                   const std::vector<ParameterSpec>& declared) {
  base::Violations violations;
  std::vector<ParameterSpec> fresh;
  for (size_t i = 0; i < declared.size(); ++i) {
    const ParameterSpec& p = declared[i];
    const std::string at = absl::StrCat("parameters[", i, "]");
    if (p.condition) violations.Add(at + ".condition", "is not for parameters that are declared while a trial runs");
    const absl::StatusOr<study::SearchSpace> alone = study::SearchSpace::Create({p});
    if (!alone.ok()) {
      // The space has this parameter alone: its violations are those of "[0]".
      const std::optional<base::ErrorDetail> detail = base::GetErrorDetail(alone.status());
      if (!detail) return alone.status();
      for (const base::FieldViolation& one : detail->violations) {
        violations.Add(absl::StrCat(at, absl::StripPrefix(one.field, "[0]")), one.description);
      }
      continue;
    }
    const std::optional<int> place = space.Find(p.name);
    if (!place) {
      fresh.push_back(p);
      continue;
    }
    const ParameterSpec& known = space.parameters()[static_cast<size_t>(*place)];
    if (known.domain == p.domain && known.count == p.count) continue;
    return base::MakeError(
        absl::StatusCode::kFailedPrecondition, base::reason::kParameterDiffers,
        absl::StrCat(
            "parameter ", base::Quote(p.name), " was declared with another ", Difference(known, p),
            "; a wider one can be given with `luthier study update`, another kind needs another name; where a bound "
            "depends on another parameter, declare the share of the range, from 0 to 1"));
  }
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  return fresh;
}

// Returns the larger space, with which the study is still one that is taken.
absl::StatusOr<study::SearchSpace> Grown(const Context& c, const Study& s, const std::vector<ParameterSpec>& fresh) {
  std::vector<ParameterSpec> all = s.record().spec.space.parameters();
  all.insert(all.end(), fresh.begin(), fresh.end());
  if (all.size() > static_cast<size_t>(study::kMaxParameters)) {
    return LimitExceeded("parameters", study::kMaxParameters,
                         absl::StrCat("a study has at most ", study::kMaxParameters, " parameters"));
  }
  absl::StatusOr<study::SearchSpace> space = study::SearchSpace::Create(std::move(all));
  base::Violations violations;
  violations.AddAll("space", space.status());
  LUTHIER_RETURN_IF_ERROR(violations.ToStatus());
  study::StudySpec next = s.record().spec;
  next.space = *space;
  const int64_t limit = c.options.limits.open_space_bytes;
  if (static_cast<int64_t>(BytesOf(next)) > limit) {
    return LimitExceeded("open_space_bytes", limit, "the study's parameters and labels would take too much room");
  }
  LUTHIER_RETURN_IF_ERROR(CheckChanged(s.record().spec, next));
  return space;
}

// Returns the value of a parameter that was declared after the trial was suggested. It is random, as in the first
// trial, since nothing is known of it; in an enqueued trial it is the default, if there is one.
study::ParameterValue Draw(const study::StudySpec& spec, const study::Trial& trial, const ParameterSpec& parameter) {
  const absl::StatusOr<study::SearchSpace> alone = study::SearchSpace::Create({parameter});
  const ParameterSpec& p = alone->parameters().front();
  if (p.default_value && !trial.provenance.ask_index) return *p.default_value;
  base::RandomStream random(spec.seed, absl::StrCat("declare ", p.name), static_cast<uint64_t>(trial.number));
  return study::Encoding(*alone).Sample(random).at(p.name);
}

absl::StatusOr<DeclareReply> Declare(Context& c, const DeclareOp& op) {
  LUTHIER_ASSIGN_OR_RETURN(const FoundTrial found, FindTrial(c, op.id, op.number));
  Study& s = *found.study;
  TrialSlot& slot = *found.slot;
  LUTHIER_RETURN_IF_ERROR(CheckHolder(slot, op.token));
  LUTHIER_RETURN_IF_ERROR(CheckOpen(s));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<ParameterSpec> fresh, NewOnes(s.spec()->space, op.parameters));
  study::Trial& trial = slot.record->trial;
  if (!fresh.empty()) {
    LUTHIER_RETURN_IF_ERROR(CheckDeclarations(c, s));
    LUTHIER_ASSIGN_OR_RETURN(study::SearchSpace space, Grown(c, s, fresh));
    s.GrowSpace(std::move(space), slot);
  }
  DeclareReply reply;
  bool changed = false;
  for (const ParameterSpec& parameter : op.parameters) {
    auto value = trial.parameters.find(parameter.name);
    auto given = trial.unused.find(parameter.name);
    if (value == trial.parameters.end() && given != trial.unused.end() && !trial.provenance.ask_index) {
      // The user enqueued it with this value, before any trial declared it.
      const absl::StatusOr<study::ParameterValue> canonical = study::CanonicalValue(parameter, given->second);
      if (canonical.ok()) {
        value = trial.parameters.emplace(parameter.name, *canonical).first;
        trial.unused.erase(given);
        changed = true;
      }
    }
    if (value == trial.parameters.end()) {
      value = trial.parameters.emplace(parameter.name, Draw(*s.spec(), trial, parameter)).first;
      trial.declared.insert(parameter.name);
      changed = true;
    }
    reply.parameters.emplace(parameter.name, value->second);
  }
  if (changed && fresh.empty()) {
    s.AddEvent(storage::EventType::kParametersDeclared, slot.record.get()).actor = trial.attempts.back().worker;
  }
  if (changed) s.MarkDirty(*slot.record);
  reply.seq = s.record().update_seq;
  return reply;
}

}  // namespace

void Run(Context& c, DeclareOp op) {
  Answer<DeclareReply>(c, op.done, Declare(c, op));
}

}  // namespace luthier::coordinator
