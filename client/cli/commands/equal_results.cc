#include "client/cli/commands/equal_results.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "client/cli/show.h"
#include "client/cli/table.h"
#include "lib/base/status_macros.h"
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

}  // namespace luthier::cli
