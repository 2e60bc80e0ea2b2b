#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "client/cli/show.h"
#include "client/cli/show_text.h"
#include "lib/base/printable.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

Json TrainingJson(const v1::Training& training) {
  Json json = {{"outcome", OutcomeText(training)}};
  const Json all = wire::ToJson(training);
  for (const char* optional : {"gradient_norm", "duality_gap"}) {
    if (all.contains(optional)) json[optional] = all[optional];
  }
  return json;
}

}  // namespace

Json StudyJson(const v1::Study& study) {
  Json json = Json::object();
  json["id"] = IdOf(study);
  json.update(wire::ToJson(study));
  if (study.state() == v1::Study::STATE_UNSPECIFIED) json["state"] = StudyStateText(study);
  return json;
}

Json TrialJson(const v1::Trial& trial) {
  const Json all = wire::ToJson(trial);
  Json json = Json::object();
  json["number"] = trial.number();
  json["state"] = all["state"];
  json["parameters"] = all.value("parameters", Json::object());
  json["metrics"] = Json::object();
  if (trial.has_final_measurement()) {
    const Json& last = all["final_measurement"];
    json["metrics"] = last["metrics"];
    json["step"] = last["step"];
    for (const char* optional : {"elapsed_seconds", "gradient_seconds", "gradient", "gradients"}) {
      if (last.contains(optional)) json[optional] = last[optional];
    }
    if (trial.final_measurement().has_training()) {
      json["training"] = TrainingJson(trial.final_measurement().training());
    }
  }
  if (trial.has_feasible()) json["feasible"] = trial.feasible();
  json["gradient_set_aside"] = trial.gradient_set_aside();
  for (const char* field : {"failure", "attempts", "provenance", "promotions", "checkpoint", "checkpoint_step",
                            "resource_spent", "attributes", "attributes_left_out", "retry_of", "retried_by",
                            "stop_requested", "create_time", "end_time", "name"}) {
    if (all.contains(field)) json[field] = all[field];
  }
  if (!trial.measurements().empty()) json["measurements"] = all["measurements"];
  for (int i = 0; i < trial.measurements_size(); ++i) {
    if (!trial.measurements(i).has_training()) continue;
    json["measurements"][static_cast<size_t>(i)]["training"] = TrainingJson(trial.measurements(i).training());
  }
  return json;
}

std::string JsonText(const Json& value, int indent) {
  return base::PrintableJson(value.dump(indent, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
}

void PrintJson(std::ostream& out, const Json& value) {
  out << JsonText(value, 2) << "\n";
}

}  // namespace luthier::cli
