#include "lib/importance/importance.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPoor = 0.3;  // Forests that predict less of the variance are warned about.

struct Input {
  std::vector<importance::Observation> observations;
  int64_t left_out = 0;
  std::set<std::string> metrics;  // That complete trials have.
};

absl::StatusOr<Input> ReadTrials(client::Client* client, const std::string& id, const study::SearchSpace& space,
                                 const std::string& metric) {
  Input input;
  absl::Status bad;
  LUTHIER_RETURN_IF_ERROR(client->ListTrials(id, {}, [&](const v1::Trial& trial) {
    const auto& metrics = trial.final_measurement().metrics();
    if (trial.state() == v1::Trial::COMPLETE) {
      for (const auto& [name, value] : metrics) input.metrics.insert(name);
    }
    const auto value = metrics.find(metric);
    if (trial.state() != v1::Trial::COMPLETE || value == metrics.end() || !std::isfinite(value->second)) {
      ++input.left_out;
      return true;
    }
    absl::StatusOr<study::Parameters> parameters = wire::FromProto(trial.parameters());
    if (parameters.ok()) parameters = space.Canonical(*parameters);
    if (!parameters.ok()) {
      bad = parameters.status();
      return false;
    }
    input.observations.push_back({*std::move(parameters), value->second});
    return true;
  }));
  LUTHIER_RETURN_IF_ERROR(bad);
  return input;
}

Cell Percent(double share) {
  return {absl::StrFormat("%.1f %%", 100.0 * share), study::FormatDouble(share), true};
}

std::vector<Cell> Row(std::string name, const importance::Share& share) {
  return {Cell::Text(name), Percent(share.share), Percent(share.low), Percent(share.high)};
}

Json ShareJson(Json head, const importance::Share& share) {
  head["share"] = share.share;
  head["low"] = share.low;
  head["high"] = share.high;
  return head;
}

}  // namespace

absl::StatusOr<int> StudyImportance(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, wire::FromProto(study.spec()));
  const std::string metric = options.metric.empty() ? spec.metric.name : options.metric;
  LUTHIER_ASSIGN_OR_RETURN(const Input input, ReadTrials(client, options.study, spec.space, metric));
  if (input.observations.empty() && !input.metrics.empty()) {
    const std::vector<std::string> known(input.metrics.begin(), input.metrics.end());
    return UsageError("--metric", absl::StrCat("no complete trial has ", base::Quote(metric), "; they have ",
                                               absl::StrJoin(known, ", "), base::DidYouMean(metric, known)));
  }
  const importance::ImportanceOptions how{.quantile = options.quantile, .pairs = options.pairs, .seed = spec.seed};
  LUTHIER_ASSIGN_OR_RETURN(const importance::Importance result,
                           importance::Compute(spec.space, spec.metric.goal, input.observations, how));
  if (context.structured()) {
    Json json;
    json["study"] = options.study;
    json["metric"] = metric;
    json["quantile"] = options.quantile;
    json["trials"] = input.observations.size();
    json["left_out"] = input.left_out;
    json["predicted"] = result.predicted;
    json["parameters"] = Json::array();
    for (const auto& [name, share] : result.parameters)
      json["parameters"].push_back(ShareJson({{"name", name}}, share));
    if (options.pairs) {
      json["pairs"] = Json::array();
      for (const auto& [first, second, share] : result.pairs) {
        json["pairs"].push_back(ShareJson({{"first", first}, {"second", second}}, share));
      }
    }
    context.Print(json);
  } else {
    Table table({"parameter", "share", "low", "high"});
    for (const auto& [name, share] : result.parameters) table.Add(Row(name, share));
    for (const auto& [first, second, share] : result.pairs) table.Add(Row(absl::StrCat(first, " x ", second), share));
    context.Print(table);
  }
  context.err() << "shares of the variance of " << Printable(metric) << " over the space, from "
                << input.observations.size() << " complete trials; " << input.left_out
                << " others (failed, pruned, open, cancelled) are left out\n"
                << absl::StrFormat("trials that it has not seen are predicted to %.0f %%",
                                   100.0 * std::max(0.0, result.predicted))
                << (result.predicted < kPoor ? ": too little for the shares to mean much; more trials help" : "")
                << "\n";
  return kExitDone;
}

}  // namespace luthier::cli
