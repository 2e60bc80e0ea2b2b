#include <algorithm>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/front.h"
#include "client/cli/commands/looking.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/front.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

Detail DetailOf(const Context& context) {
  return {context.options().verbose, context.wide()};
}

void PrintOne(Context& context, const v1::StudySpec& spec, const v1::Trial& trial) {
  if (context.structured())
    context.Print(TrialJson(trial));
  else if (context.names())
    context.out() << trial.name() << "\n";
  else if (context.options().format == OutputFormat::kCsv)
    TrialTable(spec, {trial}, context.wide()).PrintCsv(context.out());
  else
    PrintTrial(context.out(), spec, trial, DetailOf(context));
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

bool IsFinal(v1::Trial::State state) {
  return state == v1::Trial::COMPLETE || state == v1::Trial::PRUNED || state == v1::Trial::FAILED ||
         state == v1::Trial::CANCELLED;
}

// Prints the trials as they are, then each that changes, until the study is finished.
absl::StatusOr<int> WatchTrials(Context& context, const client::Client::WhichTrials& which) {
  const std::string& id = context.options().study;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  // The events after this one report changes that the list may lack.
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(id));
  const auto text = [](const v1::Trial& trial) { return JsonText(TrialJson(trial)); };
  std::map<int64_t, size_t> printed;  // Hashes of rows, which take less room: there may be a million.
  std::vector<v1::Trial> trials;
  std::vector<Json> values;
  LUTHIER_RETURN_IF_ERROR(client->FindTrials(id, which, [&](const v1::Trial& trial) {
    printed[trial.number()] = std::hash<std::string>()(text(trial));
    if (context.structured()) {
      values.push_back(TrialJson(trial));
    } else {
      trials.push_back(trial);
    }
    return context.out().good();
  }));
  ChangeWriter writer(context);
  writer.Write(TrialTable(study.spec(), trials, context.wide()), values);
  client::Client::WatchOptions options;
  options.after_seq = study.update_seq();
  absl::Status failed;
  const absl::Status watched = client->WatchStudy(id, options, [&](const v1::Event& event) {
    if (event.trial() == 0) return context.out().good();
    if (event.type() == v1::Event::TRIAL_DELETED) {
      context.err() << "trial " << event.trial() << ": deleted" << std::endl;
      return context.out().good();
    }
    client::Client::WhichTrials this_one = which;
    this_one.filter = absl::StrCat("number = ", event.trial());
    if (!which.filter.empty()) absl::StrAppend(&this_one.filter, " AND (", which.filter, ")");
    std::optional<v1::Trial> trial;  // Null: it is not wanted, or was deleted meanwhile.
    failed = client->FindTrials(id, this_one, [&](const v1::Trial& found) {
      trial = found;
      return false;
    });
    if (!failed.ok()) return false;
    if (!trial) return true;
    const size_t hash = std::hash<std::string>()(text(*trial));
    const auto [entry, added] = printed.emplace(trial->number(), hash);
    if (!added && entry->second == hash) return true;
    entry->second = hash;
    writer.Write(TrialTable(study.spec(), {*trial}, context.wide()), {TrialJson(*trial)});
    return context.out().good();
  });
  LUTHIER_RETURN_IF_ERROR(failed);
  LUTHIER_RETURN_IF_ERROR(watched);
  return kExitDone;
}

// Prints the trial that `get` returns, again at each change until `over`.
absl::StatusOr<int> WatchTrial(Context& context, absl::FunctionRef<absl::StatusOr<v1::Trial>(const v1::Study&)> get,
                               absl::FunctionRef<bool(const v1::Study&, const v1::Trial&)> over) {
  SignalScope signals;  // Before any thread starts.
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  ChangeWriter writer(context);
  std::string before;
  return LookAgain(context, signals, [&]() -> absl::StatusOr<bool> {
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study));
    LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, get(study));
    const Json json = TrialJson(trial);
    std::string text = JsonText(json);
    if (trial.number() > 0 && text != before) {
      writer.Write(TrialTable(study.spec(), {trial}, context.wide()), {json});
      before = std::move(text);
    }
    return over(study, trial);
  });
}

// Reads a value. A list of numbers is a vector, though a label may look like one, too.
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

absl::StatusOr<study::Parameters> GivenSetting(Context& context) {
  const Options& options = context.options();
  study::Parameters parameters;
  if (!options.file.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const std::string text, context.ReadFile(options.file));
    LUTHIER_ASSIGN_OR_RETURN(parameters, wire::ParseParameters(text, options.file));
  }
  LUTHIER_ASSIGN_OR_RETURN(const auto settings, ParsePairs("--set", options.settings));
  for (const auto& [name, text] : settings) parameters[name] = ParseSetting(text);
  return parameters;
}

namespace {

// Says which metrics of a filter that found nothing no trial has: they may be misspelt.
void NoteUnknownMetrics(Context& context, client::Client& client) {
  constexpr absl::string_view kPrefix = "metrics.";
  const absl::string_view filter = context.options().filter;
  std::set<std::string> names;
  for (size_t at = filter.find(kPrefix); at != filter.npos; at = filter.find(kPrefix, at + 1)) {
    size_t end = at + kPrefix.size();
    while (end < filter.size() &&
           (absl::ascii_isalnum(static_cast<unsigned char>(filter[end])) || filter[end] == '_' || filter[end] == '.')) {
      ++end;
    }
    names.emplace(filter.substr(at, end - at));
  }
  if (names.empty()) return;
  const absl::Status table = client.GetTrialTable(
      context.options().study, {names.begin(), names.end()},
      [](const v1::GetTrialTableResponse&) { return absl::CancelledError("the names are all that is asked for"); });
  const auto detail = base::GetErrorDetail(table);
  if (!absl::IsInvalidArgument(table) || !detail) return;
  for (const auto& violation : detail->violations) {
    context.err() << "note: no trial fits the filter, and " << violation.description << "\n";
  }
}

}  // namespace

absl::StatusOr<int> TrialList(Context& context) {
  const std::string& id = context.options().study;
  client::Client::WhichTrials which;
  LUTHIER_ASSIGN_OR_RETURN(which.states, States(context.options().states));
  which.filter = context.options().filter;
  which.order_by = context.options().order_by;
  if (context.options().watch) {
    if (!which.order_by.empty())
      return UsageError("--order-by", "isn't taken with --watch: trials come as they change");
    return WatchTrials(context, which);
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  bool none = true;
  if (context.names()) {
    LUTHIER_RETURN_IF_ERROR(client->FindTrials(id, which, [&](const v1::Trial& trial) {
      context.out() << trial.name() << "\n";
      none = false;
      return context.out().good();
    }));
    if (none) NoteUnknownMetrics(context, *client);
    return kExitDone;
  }
  if (context.structured()) {
    // Trials are printed one by one: a study may have a million.
    bool first = true;
    const absl::Status status = client->FindTrials(id, which, [&](const v1::Trial& trial) {
      context.PrintElement(TrialJson(trial), first);
      first = false;
      return context.out().good();
    });
    LUTHIER_RETURN_IF_ERROR(status);
    context.ClosePrintedList(first);
    if (first) NoteUnknownMetrics(context, *client);
    return kExitDone;
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(id));
  std::vector<v1::Trial> trials;
  LUTHIER_RETURN_IF_ERROR(client->FindTrials(id, which, [&](const v1::Trial& trial) {
    trials.push_back(trial);
    return true;
  }));
  if (context.shown()) context.err() << id << ": " << Summary(study) << "\n";
  context.Print(TrialTable(study.spec(), trials, context.wide()));
  if (trials.empty()) NoteUnknownMetrics(context, *client);
  return kExitDone;
}

absl::StatusOr<int> TrialGet(Context& context) {
  const Options& options = context.options();
  if (options.watch) {
    return WatchTrial(
        context,
        [&](const v1::Study&) -> absl::StatusOr<v1::Trial> {
          LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
          return client->GetTrial(options.study, options.trial, options.with_measurements);
        },
        [](const v1::Study&, const v1::Trial& trial) { return IsFinal(trial.state()); });
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial,
                           client->GetTrial(options.study, options.trial, options.with_measurements));
  PrintOne(context, study.spec(), trial);
  return kExitDone;
}

namespace {

// Prints the front of a study of several objectives, or what the options choose of it.
absl::StatusOr<int> PrintFront(Context& context, client::Client& client, const v1::Study& study) {
  LUTHIER_ASSIGN_OR_RETURN(std::vector<v1::Trial> front, FrontTrials(client, study, study::Front::kMost));
  LUTHIER_ASSIGN_OR_RETURN(const Choice choice, ChooseOnFront(context.options(), study, std::move(front)));
  const std::vector<v1::Trial>& chosen = choice.trials;
  if (choice.one) {
    PrintOne(context, study.spec(), chosen.front());
    return kExitDone;
  }
  if (context.structured()) {
    bool first = true;
    for (const v1::Trial& trial : chosen) {
      context.PrintElement(TrialJson(trial), first);
      first = false;
    }
    context.ClosePrintedList(first);
    return kExitDone;
  }
  if (context.shown()) {
    context.err() << IdOf(study) << ": " << FrontText(study) << "\n";
    if (const std::string note = HypervolumeNote(study); !note.empty()) context.err() << "note: " << note << "\n";
  }
  context.Print(TrialTable(study.spec(), chosen, context.wide()));
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> TrialBest(Context& context) {
  const std::string& id = context.options().study;
  const bool chooses =
      !context.options().pick.empty() || !context.options().at_most.empty() || !context.options().at_least.empty();
  if (chooses && context.options().watch) {
    return UsageError("--watch", "isn't taken with --pick, --at-most and --at-least");
  }
  if (context.options().watch) {
    return WatchTrial(
        context,
        [&](const v1::Study& study) -> absl::StatusOr<v1::Trial> {
          if (HasSeveralObjectives(study.spec())) {
            return UsageError("--watch",
                              "follows one trial, and this study has several objectives; `luthier study watch`");
          }
          if (study.best_trial() == 0) return v1::Trial();
          LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
          return client->GetTrial(id, study.best_trial());
        },
        [](const v1::Study& study, const v1::Trial&) { return IsOver(study); });
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetRecommendation(id));
  if (HasSeveralObjectives(study.spec())) return PrintFront(context, *client, study);
  if (chooses) {
    return UsageError(
        !context.options().pick.empty()      ? "--pick"
        : !context.options().at_most.empty() ? "--at-most"
                                             : "--at-least",
        "chooses among trials of several objectives, and this study has one; `luthier trial best` without "
        "it prints the best trial, and `luthier trial list --filter` finds others");
  }
  if (study.best_trial() == 0) return NoBestTrial(study);
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->GetTrial(id, study.best_trial()));
  if (const std::string noisy = RecommendationText(study); !noisy.empty()) {
    context.err() << "results are noisy; recommended: " << noisy << "\n";
  }
  PrintOne(context, study.spec(), trial);
  return kExitDone;
}

absl::StatusOr<int> TrialExplain(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::ExplainTrialResponse explained,
                           client->ExplainTrial(options.study, options.trial));
  if (context.structured()) {
    Json json = TrialJson(explained.trial());
    json["explanation"] = Json::array();
    for (const std::string& sentence : explained.sentences()) json["explanation"].push_back(sentence);
    if (explained.has_surprise()) json["surprise"] = explained.surprise();
    if (explained.expectations_size() > 0) json["expectations"] = wire::ToJson(explained)["expectations"];
    context.Print(json);
  } else {
    PrintExplanation(context.out(), explained, DetailOf(context));
  }
  return kExitDone;
}

namespace {

// Notes names in a setting for an open space that it has no parameter for: a trial may declare them later, or they are
// misspelt.
void NoteUnknown(Context& context, const v1::Study& study, const study::Parameters& given) {
  std::vector<std::string> names;
  for (const v1::ParameterSpec& p : study.spec().space()) names.push_back(p.name());
  for (const auto& [name, value] : given) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    context.err() << "note: study " << IdOf(study) << " has no parameter " << base::Quote(name)
                  << base::DidYouMean(name, names) << " so far; "
                  << "if no trial tells one by that name, the value is left out (luthier trial explain)\n";
  }
}

}  // namespace

absl::StatusOr<int> TrialAdd(Context& context) {
  const Options& options = context.options();
  client::NewTrial trial;
  LUTHIER_ASSIGN_OR_RETURN(trial.parameters, GivenSetting(context));
  LUTHIER_ASSIGN_OR_RETURN(trial.attributes, ParsePairs("--note", options.notes));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> added, client->EnqueueTrials(options.study, {trial}));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  NoteUnknown(context, study, trial.parameters);
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Trial& t : added) list.push_back(TrialJson(t));
    context.Print(list);
    return kExitDone;
  }
  context.Print(TrialTable(study.spec(), added));
  return kExitDone;
}

absl::StatusOr<int> TrialCancel(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->CancelTrial(options.study, options.trial));
  if (context.structured())
    context.Print(TrialJson(trial));
  else if (context.names())
    context.out() << trial.name() << "\n";
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
