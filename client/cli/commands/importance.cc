#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/resource_name.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

Cell Percent(double share) {
  return {absl::StrFormat("%.1f %%", 100.0 * share), study::FormatDouble(share), true};
}

using Share = v1::GetImportanceResponse::Share;

std::vector<Cell> Row(const Share& share) {
  return {Cell::Text(absl::StrJoin(share.parameters(), " x ")), Percent(share.share()), Percent(share.low()),
          Percent(share.high())};
}

Json ShareJson(Json head, const Share& share) {
  head["share"] = share.share();
  head["low"] = share.low();
  head["high"] = share.high();
  return head;
}

}  // namespace

absl::StatusOr<int> StudyImportance(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  v1::GetImportanceRequest request;
  request.set_metric(options.metric);
  request.set_quantile(options.quantile);
  request.set_pairs(options.pairs);
  LUTHIER_ASSIGN_OR_RETURN(const v1::GetImportanceResponse result, client->GetImportance(options.study, request));
  std::string metric = options.metric;
  if (metric.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
    metric = study.spec().metric().name();
  }
  if (context.structured()) {
    Json json;
    json["study"] = options.study;
    json["metric"] = metric;
    json["quantile"] = options.quantile;
    json["trials"] = result.trials();
    json["left_out"] = result.left_out();
    json["predicted"] = result.predicted();
    json["parameters"] = Json::array();
    for (const Share& share : result.parameters()) {
      json["parameters"].push_back(ShareJson({{"name", share.parameters(0)}}, share));
    }
    if (options.pairs) {
      json["pairs"] = Json::array();
      for (const Share& share : result.pairs()) {
        json["pairs"].push_back(ShareJson({{"first", share.parameters(0)}, {"second", share.parameters(1)}}, share));
      }
    }
    json["warnings"] = Json::array();
    for (const std::string& warning : result.warnings()) json["warnings"].push_back(warning);
    context.Print(json);
  } else {
    Table table({"parameter", "share", "low", "high"});
    for (const Share& share : result.parameters()) table.Add(Row(share));
    for (const Share& share : result.pairs()) table.Add(Row(share));
    context.Print(table);
  }
  context.err() << "shares of the variance of " << Printable(metric) << " over the space, from " << result.trials()
                << " complete trials; " << result.left_out() << " others are left out\n"
                << absl::StrFormat("trials that it has not seen are predicted to %.0f %%\n",
                                   100.0 * std::max(0.0, result.predicted()));
  for (const std::string& warning : result.warnings()) context.err() << "warning: " << Printable(warning) << "\n";
  return kExitDone;
}

absl::StatusOr<int> StudyPredict(Context& context) {
  v1::PredictRequest request;
  request.set_name(wire::StudyName(context.options().study));
  request.set_at_seq(context.options().at_seq);
  LUTHIER_ASSIGN_OR_RETURN(const study::Parameters setting, GivenSetting(context));
  *request.add_settings() = wire::ToProto(setting);
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::PredictResponse response, client->Predict(std::move(request)));
  const v1::PredictResponse::Prediction& expected = response.predictions(0);
  if (context.structured()) {
    Json json{{"mean", expected.mean()}, {"sd", expected.sd()}};
    if (expected.has_p_success()) json["p_success"] = expected.p_success();
    json["seq"] = response.seq();
    context.Print(json);
    return kExitDone;
  }
  Table table({"mean", "sd", "p_success"});
  table.Add({Cell::Number(expected.mean()), Cell::Number(expected.sd()),
             expected.has_p_success() ? Cell::Number(expected.p_success()) : Cell::Text("")});
  context.Print(table);
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study));
  if (study.spec().metrics_size() > 1) {
    context.err() << "of " << Printable(study.spec().metric().name())
                  << "; what the models expect of the other metrics `luthier trial explain` says of a trial\n";
  }
  return kExitDone;
}

}  // namespace luthier::cli
