#include "client/cli/commands/remarks.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/show.h"
#include "client/cli/table.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"
#include "lib/wire/json.h"

namespace luthier::cli {

absl::StatusOr<std::string> EqualResultsWarning(client::Client& client, const v1::Study& study) {
  if (study.trials().complete() < kEqualResults) return "";
  const std::string& metric = study.spec().metric().name();
  std::optional<v1::Trial> first;
  int64_t equal = 0;
  bool settings_differ = false, results_differ = false;
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::COMPLETE}, [&](const v1::Trial& trial) {
    const auto result = trial.final_measurement().metrics().find(metric);
    if (result == trial.final_measurement().metrics().end()) return true;
    if (!first) first = trial;
    results_differ = result->second != first->final_measurement().metrics().at(metric);
    const auto setting = [](const v1::Trial& one) { return wire::ToJson(one.parameters()).dump(); };
    settings_differ = settings_differ || setting(trial) != setting(*first);
    ++equal;
    return !results_differ;
  }));
  if (results_differ || !settings_differ || equal < kEqualResults) return "";
  return absl::StrCat(
      "all ", equal, " results are equal, ", metric, " ", ShortNumber(first->final_measurement().metrics().at(metric)),
      ": the search has nothing to go by; look at what the metric measures, and at whether the objective "
      "uses its parameters");
}

namespace {

bool IsNoisy(const v1::Algorithm& algorithm) {
  return algorithm.auto_().noisy() || algorithm.bo().noisy() || algorithm.fobo().noisy() || algorithm.hbo().noisy() ||
         algorithm.lbo().noisy();
}

bool AddsNoise(const v1::Objective& objective) {
  const auto& options = objective.builtin().options();
  const auto noise = options.find("noise");
  return noise != options.end() && noise->second.number_value() > 0.0;
}

}  // namespace

absl::StatusOr<std::string> UnchangedBestNote(client::Client& client, const v1::Study& study) {
  const int64_t results = study.trials().complete();
  const double best = study.best_value();
  if (study.state() != v1::Study::COMPLETED || results < 2 * kUnchangedResults || best == 0.0) return "";
  // A study that something else ended did not use its budget up.
  if (study.state_reason() != "max_trials reached" || AddsNoise(study.spec().objective())) return "";
  if (study.recommended_trial() > 0 || IsNoisy(study.spec().algorithm()) || IsNoisy(study.resolved_algorithm()))
    return "";
  // Half a unit of the sixth digit.
  const double digit = 0.5 * std::pow(10.0, std::floor(std::log10(std::abs(best))) - 5.0);
  const bool down = study.spec().metric().goal() != v1::MAXIMIZE;
  client::Client::WhichTrials as_good;
  as_good.states = {v1::Trial::COMPLETE};
  as_good.filter = absl::StrCat("metrics.\"", study.spec().metric().name(), "\"",
                                down ? " <= " : " >= ", study::FormatDouble(down ? best + digit : best - digit));
  if (!study.spec().metrics().empty()) as_good.filter += " AND feasible != false";
  int64_t since = 0;
  LUTHIER_RETURN_IF_ERROR(client.FindTrials(IdOf(study), as_good, [&](const v1::Trial& trial) {
    since = trial.number();
    return false;
  }));
  // Every trial has ended, so the number of the last one is their number.
  const int64_t all = results + study.trials().pruned() + study.trials().failed() + study.trials().cancelled();
  if (since == 0 || all - since < std::max<int64_t>(kUnchangedResults, all / 2)) return "";
  return absl::StrCat("the best ", study.spec().metric().name(), " is the same to six digits since trial ", since,
                      " of ", all, ": for results like these budget.max_trials could be smaller");
}

absl::StatusOr<std::string> NoGradientsWarning(client::Client& client, const v1::Study& study) {
  const v1::Algorithm& algorithm = study.spec().algorithm();
  const char* name = algorithm.has_hoag()                 ? "hoag"
                     : algorithm.has_projected_gradient() ? "projected_gradient"
                     : algorithm.has_iterdiff()           ? "iterdiff"
                                                          : nullptr;
  if (name == nullptr || study.trials().complete() == 0) return "";
  bool found = false;
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::COMPLETE}, [&](const v1::Trial& trial) {
    found = trial.final_measurement().has_gradient();
    return !found;
  }));
  if (found) return "";
  return absl::StrCat("no trial has a gradient, so ", name, " has tried random settings alone; ",
                      study.spec().objective().has_builtin()
                          ? "a gradient is that of a training at its optimum: leave max_passes and max_iterations out, "
                            "or raise them"
                          : "report one beside the loss, or take another algorithm");
}

absl::StatusOr<std::string> OnlyPrunedNote(client::Client& client, const v1::Study& study) {
  if (study.trials().complete() > 0 || study.trials().failed() > 0 || study.trials().pruned() == 0) return "";
  const std::string& metric = study.spec().metric().name();
  int64_t first = 0;
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::PRUNED}, [&](const v1::Trial& trial) {
    first = trial.number();
    return false;
  }));
  std::string note =
      absl::StrCat("all ", study.trials().pruned(), " trials were pruned, so none was trained to its end");
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client.GetTrial(IdOf(study), first));
  for (const v1::Measurement& measurement : trial.measurements()) {
    const auto value = measurement.metrics().find(metric);
    if (value == measurement.metrics().end() || std::isfinite(value->second)) continue;
    absl::StrAppend(&note, "; trial ", first, " had a ", metric, " of ", ShortNumber(value->second), " at step ",
                    measurement.step(), ", and what is not finite where trials are compared does not go on");
    break;
  }
  return note;
}

}  // namespace luthier::cli
