// `luthier bilevel`: chooses all strengths of a sparse or low-rank model at once, without a study.
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/vf_idca_objective.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

absl::StatusOr<study::BuiltinObjective> ObjectiveOf(const Options& options, std::string* root) {
  study::BuiltinObjective objective;
  objective.model = absl::StrCat("vf_", options.objective);
  if (absl::StartsWith(options.data, "synth:")) {
    objective.data = options.data;
  } else {
    const std::filesystem::path path(options.data);
    *root = path.has_parent_path() ? path.parent_path().string() : ".";
    objective.data = path.filename().string();
    if (objective.data.empty()) return UsageError("--data", "names no file");
  }
  objective.split.validation = options.validation;
  objective.split.folds = options.folds;
  objective.split.seed = options.first_seed;
  objective.split.third = options.third;
  objective.split.group_column = options.group_column;
  objective.split.time_column = options.time_column;
  if (options.data_format != "auto") objective.options["format"] = options.data_format;
  if (options.header != "auto") objective.options["header"] = options.header;
  if (!options.label.empty()) objective.options["label"] = options.label;
  LUTHIER_ASSIGN_OR_RETURN(const auto settings, ParsePairs("--set", options.settings));
  for (const auto& [name, text] : settings) objective.options[name] = wire::ParseValue(text);
  return objective;
}

Json MetricsJson(const study::Measurement& measurement) {
  Json out = Json::object();
  for (const auto& [name, value] : measurement.metrics) out[name] = value;
  return out;
}

}  // namespace

absl::StatusOr<int> Bilevel(Context& context) {
  std::string directory = ".";
  LUTHIER_ASSIGN_OR_RETURN(const study::BuiltinObjective objective, ObjectiveOf(context.options(), &directory));
  LUTHIER_RETURN_IF_ERROR(catalogue::Validate(objective, study::SearchSpace(),
                                              {.name = "validation_loss", .goal = study::Goal::kMinimize}));
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::ObjectiveInfo* info, catalogue::FindObjective(objective.model));
  LUTHIER_ASSIGN_OR_RETURN(const data::DataRoot root, data::DataRoot::Open(directory));
  LUTHIER_ASSIGN_OR_RETURN(const std::unique_ptr<objectives::VfIdcaObjective> made,
                           objectives::CreateVfIdcaObjective({*info, objective, {}, {}, &root}, {}));
  Json path = Json::array();
  objectives::EvaluationContext evaluation;
  evaluation.report = [&](const study::Measurement& point) {
    if (context.structured()) {
      Json step = {{"step", point.step}};
      step.update(MetricsJson(point));
      path.push_back(std::move(step));
    } else {
      std::string line =
          absl::StrFormat("step %d: validation_loss %.6g", point.step, point.metrics.at("validation_loss"));
      for (const auto& [name, value] : point.metrics) {
        if (name != "validation_loss") absl::StrAppendFormat(&line, ", %s %.6g", name, value);
      }
      context.err() << line << "\n";
    }
    return true;
  };
  std::vector<objectives::Strength> strengths;
  LUTHIER_ASSIGN_OR_RETURN(const objectives::EvaluationResult result, made->Run(evaluation, &strengths));
  if (result.failure) return absl::FailedPreconditionError(result.failure->message);
  const study::Measurement& last = *result.measurement;
  const bool converged = last.training->outcome == study::TrainingOutcome::kConverged;
  if (!converged) {
    context.err() << "note: not converged: it ended at max_steps, or a problem on the way was not solved to its "
                     "accuracy\n";
  }
  if (!result.note.empty()) context.err() << "note: " << result.note << "\n";
  if (context.structured()) {
    Json found = Json::object();
    for (const objectives::Strength& strength : strengths) found[strength.name] = strength.value;
    context.Print(Json{{"strengths", found},
                       {"metrics", MetricsJson(last)},
                       {"converged", converged},
                       {"note", result.note},
                       {"path", path}});
    return kExitDone;
  }
  Table table({"kind", "name", "value"});
  for (const objectives::Strength& strength : strengths) {
    table.Add({Cell::Text("strength"), Cell::Text(strength.name), Cell::Number(strength.value)});
  }
  for (const auto& [name, value] : last.metrics) {
    const std::string& shown = name;
    if (absl::c_any_of(strengths, [&](const objectives::Strength& s) { return s.name == shown; })) continue;  // Shown.
    table.Add({Cell::Text("metric"), Cell::Text(name), Cell::Number(value)});
  }
  context.Print(table);
  return kExitDone;
}

}  // namespace luthier::cli
