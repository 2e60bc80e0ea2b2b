#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

void PrintOne(Context& context, const v1::StudySpec& spec, const v1::Trial& trial) {
  if (context.structured())
    context.Print(TrialJson(trial));
  else if (context.options().format == OutputFormat::kCsv)
    TrialTable(spec, {trial}, context.options().wide).PrintCsv(context.out());
  else
    PrintTrial(context.out(), spec, trial, context.options().wide);
}

absl::StatusOr<std::vector<v1::Trial::State>> States(const std::vector<std::string>& names) {
  std::vector<v1::Trial::State> states;
  std::vector<std::string> known;
  for (int i = 1; i < v1::Trial::State_ARRAYSIZE; ++i) known.push_back(v1::Trial::State_Name(i));
  for (const std::string& name : names) {
    v1::Trial::State state = v1::Trial::STATE_UNSPECIFIED;
    const std::string upper = absl::AsciiStrToUpper(name);
    if (!v1::Trial::State_Parse(upper, &state) || state == v1::Trial::STATE_UNSPECIFIED) {
      return UsageError("--state", absl::StrCat(base::Quote(name), " is not one of ", absl::StrJoin(known, ", "),
                                                base::DidYouMean(upper, known)));
    }
    states.push_back(state);
  }
  return states;
}

// A list of numbers is a vector; a label may look like one, too.
study::ParameterValue ParseSetting(const std::string& text) {
  if (absl::StartsWith(text, "[")) {
    const absl::StatusOr<study::Parameters> list = wire::ParseParameters(absl::StrCat("v: ", text), "--set");
    if (list.ok()) return list->at("v");
  }
  return wire::ParseValue(text);
}

}  // namespace

absl::StatusOr<std::map<std::string, std::string>> ParsePairs(const char* option,
                                                              const std::vector<std::string>& texts) {
  std::map<std::string, std::string> pairs;
  for (const std::string& text : texts) {
    const size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return UsageError(option, absl::StrCat(base::Quote(text), " is not of the form NAME=VALUE"));
    }
    if (!pairs.emplace(text.substr(0, equals), text.substr(equals + 1)).second) {
      return UsageError(option, absl::StrCat(base::Quote(text.substr(0, equals)), " is given twice"));
    }
  }
  return pairs;
}

absl::StatusOr<int> TrialList(Context& context) {
  const std::string& id = context.options().study;
  client::Client::WhichTrials which;
  LUTHIER_ASSIGN_OR_RETURN(which.states, States(context.options().states));
  which.filter = context.options().filter;
  which.order_by = context.options().order_by;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (context.structured()) {
    // Trial by trial: a study may have a million.
    bool first = true;
    const absl::Status status = client->FindTrials(id, which, [&](const v1::Trial& trial) {
      context.PrintElement(TrialJson(trial), first);
      first = false;
      return context.out().good();
    });
    LUTHIER_RETURN_IF_ERROR(status);
    context.ClosePrintedList(first);
    return kExitDone;
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(id));
  std::vector<v1::Trial> trials;
  LUTHIER_RETURN_IF_ERROR(client->FindTrials(id, which, [&](const v1::Trial& trial) {
    trials.push_back(trial);
    return true;
  }));
  context.Print(TrialTable(study.spec(), trials, context.options().wide));
  return kExitDone;
}

absl::StatusOr<int> TrialGet(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial,
                           client->GetTrial(options.study, options.trial, options.with_measurements));
  PrintOne(context, study.spec(), trial);
  return kExitDone;
}

absl::StatusOr<int> TrialBest(Context& context) {
  const std::string& id = context.options().study;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(id));
  if (study.best_trial() == 0) {
    return absl::FailedPreconditionError(absl::StrCat("no trial of ", id, " is COMPLETE yet: ", Summary(study)));
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->GetTrial(id, study.best_trial()));
  PrintOne(context, study.spec(), trial);
  return kExitDone;
}

absl::StatusOr<int> TrialExplain(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->GetTrial(options.study, options.trial));
  if (options.format == OutputFormat::kTable)
    PrintExplanation(context.out(), study.spec(), trial);
  else
    PrintOne(context, study.spec(), trial);
  return kExitDone;
}

absl::StatusOr<int> TrialAdd(Context& context) {
  const Options& options = context.options();
  client::NewTrial trial;
  if (!options.file.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, context.ReadFile(options.file));
    LUTHIER_ASSIGN_OR_RETURN(trial.parameters, wire::ParseParameters(text, options.file));
  }
  LUTHIER_ASSIGN_OR_RETURN(const auto settings, ParsePairs("--set", options.settings));
  for (const auto& [name, text] : settings) trial.parameters[name] = ParseSetting(text);
  LUTHIER_ASSIGN_OR_RETURN(trial.attributes, ParsePairs("--note", options.notes));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> added, client->EnqueueTrials(options.study, {trial}));
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Trial& t : added) list.push_back(TrialJson(t));
    context.Print(list);
    return kExitDone;
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  context.Print(TrialTable(study.spec(), added));
  return kExitDone;
}

absl::StatusOr<int> TrialCancel(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->CancelTrial(options.study, options.trial));
  if (context.structured())
    context.Print(TrialJson(trial));
  else
    context.out() << "trial " << trial.number() << ": " << v1::Trial::State_Name(trial.state()) << "\n";
  return kExitDone;
}

absl::StatusOr<int> TrialStop(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->StopTrial(options.study, options.trial));
  if (context.structured()) {
    context.Print(TrialJson(trial));
    return kExitDone;
  }
  context.out() << "trial " << trial.number() << ": " << v1::Trial::State_Name(trial.state());
  if (trial.state() == v1::Trial::RUNNING) context.out() << ", to end with what it has at its next report";
  context.out() << "\n";
  return kExitDone;
}

}  // namespace luthier::cli
