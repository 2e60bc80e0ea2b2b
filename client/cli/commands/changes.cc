// Verbs that change an existing study, and export and import results.
#include <algorithm>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/cli/commands/commands.h"
#include "client/cli/commands/exchange.h"
#include "client/cli/commands/trial_csv.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/command_template.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "lib/wire/resource_name.h"
#include "worker/objectives/command_inputs.h"
#include "worker/run/runner.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostImportBytes = size_t{1} << 30;

// Runs `write` on --out, or on the output without that option. An incomplete file is an error.
absl::Status WriteOut(const Context& context, const std::function<absl::Status(std::ostream&)>& write) {
  const std::string& path = context.options().out;
  if (path.empty() || path == "-") return write(context.out());
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  if (!file) return absl::FailedPreconditionError(absl::StrCat(path, ": can't be written"));
  LUTHIER_RETURN_IF_ERROR(write(file));
  file.close();
  if (file) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(path, ": could not be written to its end"));
}

absl::StatusOr<ImportFile> ReadImport(const Context& context, const v1::StudySpec* spec, std::string* text) {
  const std::string& path = context.options().file;
  LUTHIER_ASSIGN_OR_RETURN(*text, context.ReadFile(path, kMostImportBytes));
  const std::string source = path == "-" ? "standard input" : path;
  if (text->size() > kMostImportBytes) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": is larger than 1 GiB; split it"));
  }
  return ParseImport(*text, source, spec);
}

std::string SourceOf(const Context& context) {
  const Options& options = context.options();
  if (!options.source.empty()) return options.source;
  return options.file == "-" ? "standard input" : options.file.substr(options.file.rfind('/') + 1);
}

// Says what an import added, and what it left out.
void SayImported(const Context& context, const ImportFile& file, size_t imported) {
  context.err() << imported << (imported == 1 ? " trial imported" : " trials imported");
  if (file.open > 0) context.err() << "; " << file.open << " without a result left out";
  if (file.incomplete > 0) context.err() << "; " << file.incomplete << " failed without all parameters left out";
  if (!file.ignored.empty()) context.err() << "; columns left out: " << SomeColumns(file.ignored);
  context.err() << "\n";
  if (file.beyond == 0) return;
  context.err()
      << "note: " << file.beyond << (file.beyond == 1 ? " of them is" : " of them are")
      << " beyond bounds by the file's column \"feasible\", and count as the others here: a table does not say "
         "which bounds; import JSONL, or write a study file with them (metrics:, at_most:) and then: luthier "
         "trial import STUDY FILE\n";
}

absl::StatusOr<v1::Study> Imported(const Context& context, client::Client& client, const std::string& id,
                                   const ImportFile& file) {
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, client.ImportTrials(id, file.trials, SourceOf(context)));
  SayImported(context, file, numbers.size());
  return client.GetStudy(id);
}

// Returns text for a shell: in quotes if it has special characters.
std::string ShellQuoted(const std::string& text) {
  const bool plain = !text.empty() && text.find_first_not_of(
                                          "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                          "0123456789_-./:=,+@%") == std::string::npos;
  if (plain) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

bool IsSecret(const std::string& name) {
  const std::string upper = absl::AsciiStrToUpper(name);
  for (const char* word : {"TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "API_KEY", "APIKEY", "PRIVATE"}) {
    if (absl::StrContains(upper, word)) return true;
  }
  return absl::EndsWith(upper, "_KEY");
}

// Prints what would run the trial again: JSON and YAML have argv and environment, other formats lines for a shell.
absl::StatusOr<int> PrintCommand(const Context& context, const worker::RunRequest& request,
                                 const study::CommandObjective& command) {
  const std::string file = absl::StrCat("trial-", request.trial, ".json");
  const worker::CommandInputs inputs = worker::InputsOf(request, file, "");
  std::vector<std::string> argv;
  for (const std::string& argument : command.argv) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<std::string> expanded, study::ExpandTemplate(argument, inputs.values));
    if (expanded) argv.push_back(*std::move(expanded));
  }
  std::map<std::string, std::string> environment;
  std::vector<std::string> secrets;
  for (const auto& [name, value] : command.environment) {
    LUTHIER_ASSIGN_OR_RETURN(const std::optional<std::string> expanded, study::ExpandTemplate(value, inputs.values));
    if (!expanded) continue;
    if (IsSecret(name)) {
      secrets.push_back(name);
    } else {
      environment[name] = *expanded;
    }
  }
  for (const auto& [name, value] : inputs.variables) environment[name] = value;
  if (context.structured()) {
    Json json = Json::object();
    json["argv"] = argv;
    json["environment"] = environment;
    json["left_out"] = secrets;
    json["parameters_file"] = Json::parse(worker::ParametersJson(request));
    context.Print(json);
    return kExitDone;
  }
  for (const std::string& name : secrets) context.err() << "set " << name << " yourself: it looks like a secret\n";
  context.out() << "cat > " << file << " <<'END'\n" << worker::ParametersJson(request) << "END\n";
  context.out() << "env";
  for (const auto& [name, value] : environment) context.out() << " " << ShellQuoted(absl::StrCat(name, "=", value));
  for (const std::string& argument : argv) context.out() << " " << ShellQuoted(argument);
  // Results on descriptor 3 go to the output; descriptor 4 has no answers.
  context.out() << " 3>&1 4</dev/null\n";
  return kExitDone;
}

}  // namespace

absl::StatusOr<v1::Study> UpdateToFile(client::Client& client, const v1::Study& study, const v1::StudySpec& spec) {
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec now, wire::FromProto(study.spec()));
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec wanted, wire::FromProto(spec));
  std::vector<std::string> fields;
  const auto differs = [&](bool different, const char* field) {
    if (different) fields.push_back(field);
  };
  differs(now.display_name != wanted.display_name, "display_name");
  differs(now.description != wanted.description, "description");
  differs(now.labels != wanted.labels, "labels");
  differs(now.budget.max_trials - study.added_trials() != wanted.budget.max_trials, "budget.max_trials");
  differs(now.budget.max_parallel != wanted.budget.max_parallel, "budget.max_parallel");
  differs(now.budget.patience != wanted.budget.patience, "budget.patience");
  differs(now.budget.target_value != wanted.budget.target_value, "budget.target_value");
  differs(now.budget.max_wall != wanted.budget.max_wall, "budget.max_wall");
  differs(now.budget.until_answered != wanted.budget.until_answered, "budget.until_answered");
  differs(now.weight != wanted.weight, "weight");
  differs(!(now.space == wanted.space), "space");
  const bool commands = std::holds_alternative<study::CommandObjective>(now.objective) &&
                        std::holds_alternative<study::CommandObjective>(wanted.objective);
  differs(commands && !(now.objective == wanted.objective), "objective.command");
  // When these are taken over, no difference may be left.
  study::StudySpec rest = wanted;
  rest.display_name = now.display_name;
  rest.description = now.description;
  rest.labels = now.labels;
  rest.budget.max_trials = now.budget.max_trials;
  rest.budget.max_parallel = now.budget.max_parallel;
  rest.budget.patience = now.budget.patience;
  rest.budget.target_value = now.budget.target_value;
  rest.budget.max_wall = now.budget.max_wall;
  rest.budget.until_answered = now.budget.until_answered;
  rest.weight = now.weight;
  if (now.space.size() == wanted.space.size()) rest.space = now.space;
  if (commands) rest.objective = now.objective;
  if (const std::string other = study::FirstDifference(now, rest); !other.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(other, " of study ", base::Quote(IdOf(study)),
                     " can't be changed; under another name the file is another study"));
  }
  if (fields.empty()) return study;
  // The number that imports and retries added comes on top of the file's budget.
  v1::StudySpec next = spec;
  next.mutable_budget()->set_max_trials(wanted.budget.max_trials + study.added_trials());
  return client.UpdateStudy(IdOf(study), next, fields);
}

absl::StatusOr<int> StudyUpdate(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (!options.file.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const Context::StudyToCreate input, context.ReadStudy(options.file, options.study));
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
    const absl::StatusOr<v1::Study> updated = UpdateToFile(*client, study, input.file.spec());
    if (!updated.ok()) return input.file.Locate(updated.status());
    return PrintChanged(context, *updated);
  }
  v1::StudySpec spec;
  std::vector<std::string> fields;
  const auto budget = [&](const std::optional<int64_t>& value, const char* field, auto set) {
    if (!value) return;
    (spec.mutable_budget()->*set)(*value);
    fields.push_back(field);
  };
  budget(options.max_trials, "budget.max_trials", &v1::Budget::set_max_trials);
  budget(options.max_parallel, "budget.max_parallel", &v1::Budget::set_max_parallel);
  budget(options.patience, "budget.patience", &v1::Budget::set_patience);
  if (!options.target_value.empty()) {
    fields.push_back("budget.target_value");
    const study::ParameterValue value = wire::ParseValue(options.target_value);
    if (const double* number = std::get_if<double>(&value)) {
      spec.mutable_budget()->set_target_value(*number);
    } else if (options.target_value != "none") {
      return UsageError("--target-value", absl::StrCat(base::Quote(options.target_value), " is no number, nor none"));
    }
  }
  if (!options.max_wall.empty()) {
    fields.push_back("budget.max_wall");
    absl::Duration max_wall;
    if (options.max_wall != "none") {
      if (!absl::ParseDuration(options.max_wall, &max_wall)) {
        return UsageError("--max-wall",
                          absl::StrCat(base::Quote(options.max_wall), " is no duration such as 90m or 12h, nor none"));
      }
      *spec.mutable_budget()->mutable_max_wall() = wire::ToProto(max_wall);
    }
  }
  if (options.until_answered) {
    spec.mutable_budget()->set_until_answered(*options.until_answered);
    fields.push_back("budget.until_answered");
  }
  if (options.weight) {
    spec.set_weight(*options.weight);
    fields.push_back("weight");
  }
  if (options.display_name) {
    spec.set_display_name(*options.display_name);
    fields.push_back("display_name");
  }
  if (options.description) {
    spec.set_description(*options.description);
    fields.push_back("description");
  }
  if (!options.labels.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(const auto labels, ParsePairs("--label", options.labels));
    LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
    *spec.mutable_labels() = study.spec().labels();
    for (const auto& [key, value] : labels) {
      if (value.empty()) {
        spec.mutable_labels()->erase(key);
      } else {
        (*spec.mutable_labels())[key] = value;
      }
    }
    fields.push_back("labels");
  }
  if (fields.empty()) {
    return UsageError("study update", "needs something to change: --max-trials, --file, …; see study update --help");
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->UpdateStudy(options.study, spec, fields));
  return PrintChanged(context, study);
}

absl::StatusOr<int> StudyImport(Context& context) {
  const Options& options = context.options();
  std::string text;
  v1::StudySpec spec;
  if (!options.metric.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(text, context.ReadFile(options.file, kMostImportBytes));
    LUTHIER_ASSIGN_OR_RETURN(spec, GuessSpec(text, options.file, options.metric, options.maximize, options.ignored));
  }
  // The text is read once: it may come from standard input.
  if (text.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(text, context.ReadFile(options.file, kMostImportBytes));
  }
  LUTHIER_ASSIGN_OR_RETURN(const ImportFile file,
                           ParseImport(text, options.file, options.metric.empty() ? nullptr : &spec));
  std::string id = options.name.empty() ? file.id : options.name;
  if (file.spec) {
    LUTHIER_ASSIGN_OR_RETURN(const wire::StudyFile study, wire::StudyFile::Parse(*file.spec, options.file));
    spec = study.spec();
  } else if (options.metric.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(options.file, ": does not begin with a study; import it into one: luthier trial import"));
  }
  if (id.empty()) id = study::Slug(options.file.substr(options.file.rfind('/') + 1));
  // Results come on top of the budget, as they are not tried again; the exported study's is set again at the end. It is
  // created with all of it, since algorithms plan by it.
  const int64_t most = file.spec ? spec.budget().max_trials() : 0;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  const absl::StatusOr<v1::Study> there = client->GetStudy(id);
  if (there.ok()) {
    return absl::AlreadyExistsError(absl::StrCat("study ", id,
                                                 " is there already; give this one another name with "
                                                 "--name, or add to it: luthier trial import ",
                                                 id, " ", options.file));
  }
  LUTHIER_RETURN_IF_ERROR(client->CreateStudy(id, spec).status());
  absl::StatusOr<v1::Study> study = Imported(context, *client, id, file);
  // The study gets the size of the exported one: a finished study is finished again.
  if (study.ok() && most > 0 && study->spec().budget().max_trials() > most) {
    v1::StudySpec exported;
    exported.mutable_budget()->set_max_trials(most);
    study = client->UpdateStudy(id, exported, {"budget.max_trials"});
  }
  if (!study.ok()) {
    // The study is deleted, so that the mended file can be imported again under the same name.
    client->DeleteStudy(id).IgnoreError();
    return study.status();
  }
  return PrintChanged(context, *study);
}

absl::StatusOr<int> StudyExport(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  const bool csv = options.export_format == "csv";
  const absl::Status written = WriteOut(context, [&](std::ostream& out) -> absl::Status {
    std::vector<v1::Trial> trials;
    if (!csv) out << StudyLine(study) << "\n";
    absl::Status failed;
    const absl::Status listed = client->ListTrials(options.study, {}, [&](const v1::Trial& trial) {
      if (csv) {
        trials.push_back(trial);
        return true;
      }
      // Lists have neither learning curves nor long attributes.
      if (options.without_measurements && trial.attributes_left_out().empty()) {
        out << TrialLine(trial) << "\n";
        return out.good();
      }
      const absl::StatusOr<v1::Trial> whole =
          client->GetTrial(options.study, trial.number(), !options.without_measurements);
      if (absl::IsNotFound(whole.status())) return true;  // The trial was deleted meanwhile.
      failed = whole.status();
      if (whole.ok()) out << TrialLine(*whole) << "\n";
      return whole.ok() && out.good();
    });
    LUTHIER_RETURN_IF_ERROR(listed);
    LUTHIER_RETURN_IF_ERROR(failed);
    if (csv) WriteTrialsCsv(study.spec(), trials, out);
    return absl::OkStatus();
  });
  LUTHIER_RETURN_IF_ERROR(written);
  return kExitDone;
}

absl::StatusOr<int> StudyClone(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  v1::StudySpec spec = study.spec();
  spec.mutable_budget()->set_max_trials(std::max<int64_t>(1, spec.budget().max_trials() - study.added_trials()));
  if (options.max_trials) spec.mutable_budget()->set_max_trials(*options.max_trials);
  ImportFile file;
  if (options.with_trials) {
    std::vector<int64_t> numbers;
    LUTHIER_RETURN_IF_ERROR(client->ListTrials(
        options.study, {v1::Trial::COMPLETE, v1::Trial::PRUNED, v1::Trial::FAILED}, [&](const v1::Trial& trial) {
          if (trial.retried_by() == 0) numbers.push_back(trial.number());
          return true;
        }));
    // Lists have neither learning curves nor long attributes.
    for (const int64_t number : numbers) {
      LUTHIER_ASSIGN_OR_RETURN(v1::Trial trial, client->GetTrial(options.study, number, /*with_measurements=*/true));
      file.trials.push_back(std::move(trial));
    }
  }
  const bool there = client->GetStudy(options.new_name).ok();
  LUTHIER_RETURN_IF_ERROR(client->CreateStudy(options.new_name, spec).status());
  if (!file.trials.empty()) {
    const absl::StatusOr<std::vector<int64_t>> numbers =
        client->ImportTrials(options.new_name, file.trials, absl::StrCat("study ", options.study));
    if (!numbers.ok()) {
      if (!there) client->DeleteStudy(options.new_name).IgnoreError();  // An error leaves no study behind.
      return numbers.status();
    }
    SayImported(context, file, numbers->size());
  }
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study made, client->GetStudy(options.new_name));
  return PrintChanged(context, made);
}

absl::StatusOr<int> TrialRetry(Context& context) {
  const Options& options = context.options();
  if (options.numbers.empty() != options.all_failed) {
    return UsageError("trial retry", options.all_failed ? "takes numbers or --failed, not both"
                                                        : "needs numbers of trials, or --failed");
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> trials,
                           options.all_failed ? client->RetryFailedTrials(options.study)
                                              : client->RetryTrials(options.study, options.numbers));
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Trial& trial : trials) list.push_back(TrialJson(trial));
    context.Print(list);
    return kExitDone;
  }
  if (trials.empty()) context.err() << "no trial of " << options.study << " failed: there is nothing to retry\n";
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  if (options.format == OutputFormat::kCsv || context.names()) {
    context.Print(TrialTable(study.spec(), trials));
    return kExitDone;
  }
  for (const v1::Trial& trial : trials) {
    context.out() << "trial " << trial.retry_of() << " is tried again as trial " << trial.number() << "\n";
  }
  return PrintChanged(context, study);
}

absl::StatusOr<int> TrialDelete(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  if (!options.yes) {
    return absl::FailedPreconditionError(
        absl::StrCat("deleting takes ", options.numbers.size() == 1 ? "a trial" : "trials",
                     " out of the study for ever; if that is wanted: luthier trial delete ", options.study, " ",
                     absl::StrJoin(options.numbers, " "), " --yes"));
  }
  for (const int64_t number : options.numbers) {
    LUTHIER_RETURN_IF_ERROR(client->DeleteTrial(options.study, number));
    if (context.names()) {
      context.out() << wire::TrialName(options.study, number) << "\n";
    } else if (!context.structured()) {
      context.out() << "trial " << number << ": deleted\n";
    }
  }
  if (context.structured()) context.Print(Json{{"study", options.study}, {"deleted", options.numbers}});
  return kExitDone;
}

absl::StatusOr<int> TrialNote(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(const auto notes, ParsePairs("NOTE", options.notes));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial trial, client->SetAttributes(options.study, options.trial, notes));
  if (context.structured()) {
    context.Print(TrialJson(trial));
    return kExitDone;
  }
  if (context.names()) {
    context.out() << trial.name() << "\n";
    return kExitDone;
  }
  const std::map<std::string, std::string> sorted(trial.attributes().begin(), trial.attributes().end());
  for (const auto& [key, value] : sorted) context.out() << Printable(key) << " = " << Printable(value) << "\n";
  return kExitDone;
}

absl::StatusOr<int> TrialImport(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  std::string text;
  LUTHIER_ASSIGN_OR_RETURN(const ImportFile file, ReadImport(context, &study.spec(), &text));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study after, Imported(context, *client, options.study, file));
  return PrintChanged(context, after);
}

absl::StatusOr<int> TrialCommand(Context& context) {
  const Options& options = context.options();
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(options.study));
  LUTHIER_ASSIGN_OR_RETURN(const v1::Trial message, client->GetTrial(options.study, options.trial));
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, wire::FromProto(study.spec()));
  LUTHIER_ASSIGN_OR_RETURN(const study::Trial trial, wire::FromProto(message));
  const auto* command = std::get_if<study::CommandObjective>(&spec.objective);
  if (std::holds_alternative<study::ExternalObjective>(spec.objective)) {
    return absl::FailedPreconditionError(
        absl::StrCat("study ", options.study,
                     " runs no command: its trials are asked for and told by a program of yours; luthier trial "
                     "get ",
                     options.study, " ", options.trial, " prints this trial's setting, to be evaluated there again"));
  }
  if (command == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("study ", options.study,
                     " runs no command; train its model again with: luthier model train "
                     "--study ",
                     options.study, " --trial ", options.trial, " --out FILE"));
  }
  worker::RunRequest request;
  request.study = options.study;
  request.spec = spec;
  request.trial = trial.number;
  request.attempt = std::max<int32_t>(1, static_cast<int32_t>(trial.attempts.size()));
  request.parameters = trial.parameters;
  request.seed = worker::ObjectiveSeed(spec.seed, trial.number);
  request.target_step = trial.target();
  return PrintCommand(context, request, *command);
}

}  // namespace luthier::cli
