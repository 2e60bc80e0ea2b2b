// The table of verbs. The only file that knows the command-line library.
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cli/cli.h"
#include "client/cli/commands/commands.h"
#include "client/cli/completion.h"
#include "client/cli/context.h"
#include "client/cli/help_text.h"
#include "client/cli/man_page.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/version.h"
#include "lib/command_line/command_line.h"
#include "lib/study/study_spec.h"
#include "lib/wire/channel.h"
#include "lib/wire/resource_name.h"

namespace luthier::cli {
namespace {

constexpr char kDescription[] =
    "Finds good hyperparameters: states studies, runs them, shows what came out.\n"
    "First steps: luthier run examples/branin.yaml      Manual: docs/reference/cli.md, docs/reference/study_file.md";

constexpr char kFooter[] =
    "Exit codes: 0 done, 1 failed, 2 usage, 3 server unreachable, 4 not allowed, 5 not found, 124 timed out,\n"
    "130 interrupted, 141 nobody reads the output. Results go to standard output, everything else to standard error.";

struct Verb {
  std::vector<std::string> path;
  const char* what;
  const char* example;
  void (*add_options)(CLI::App& app, Options& options);
  Handler handler;
};

void None(CLI::App&, Options&) {}

void Study(CLI::App& app, Options& o) {
  app.add_option("STUDY", o.study, "Id of the study")->required();
}

void StudyAndTrial(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("TRIAL", o.trial, "Number of the trial")->required()->check(command_line::AtLeastOne());
}

CLI::Option* Duration(CLI::App& app, const char* name, absl::Duration* duration, const char* what) {
  const auto parse = [duration](const std::string& text) {
    double seconds = 0.0;
    std::istringstream number(text);
    if (number >> seconds && number.eof() && seconds >= 0.0) {
      *duration = absl::Seconds(seconds);
      return true;
    }
    return absl::ParseDuration(text, duration) && *duration >= absl::ZeroDuration();
  };
  return app.add_option_function<std::string>(
      name,
      [parse, name](const std::string& text) {
        if (!parse(text))
          throw CLI::ValidationError(name, "'" + text + "' is not a duration such as 90s, 10m or 1h30m");
      },
      what);
}

void RunOptions(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "Study file (YAML or JSON)")->required();
  app.add_option("--workers", o.workers, "Worker processes; default: one a core, at most the study's max_parallel")
      ->check(CLI::Range(1, 1000));
  app.add_option("--slots", o.slots, "Trials that each worker runs at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--study", o.study, "Id of the study; default: from the file's name");
  app.add_option("--data-root", o.data_root, "Directory below which data sets are looked for")->capture_default_str();
  app.add_flag("--update", o.update,
               "Where the file differs from the study that is there: change what may change (see study update)");
}

void UpdateOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("-f,--file", o.file,
                 "Study file: take over all in which it differs and that may change; - for "
                 "standard input");
  app.add_option("--max-trials", o.max_trials, "Trials in all; a study that is COMPLETED goes on with more");
  app.add_option("--max-parallel", o.max_parallel, "Trials at once; 0: no limit");
  app.add_option("--patience", o.patience, "End after so many trials without a better value; 0: never");
  app.add_option("--target-value", o.target_value, "End when a trial reaches it; none: no such rule");
  app.add_option("--max-wall", o.max_wall, "End so long after the study's creation, e.g. 12h; none: no such rule");
  app.add_option("--weight", o.weight, "Share of workers where studies compete");
  app.add_option("--display-name", o.display_name, "Name for people");
  app.add_option("--description", o.description, "Text for people");
  app.add_option("--label", o.labels, "NAME=TEXT; may be repeated; an empty text removes it")->take_all();
}

void StudyImportOptions(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "JSONL from study export, or CSV; - for standard input")->required();
  app.add_option("--name", o.name, "Id of the study; default: that of the file");
  app.add_option("--metric", o.metric, "CSV: column with the results; the others become parameters");
  app.add_flag("--maximize", o.maximize, "CSV: larger is better");
  app.add_option("--ignore", o.ignored, "CSV: column to leave out; may be repeated")->take_all();
  app.add_option("--source", o.source, "Where the results come from; default: the file's name");
}

void ExportOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--format", o.export_format, "jsonl: the study and all of its trials, nothing lost; csv: a table")
      ->check(CLI::IsMember({"jsonl", "csv"}))
      ->default_val("jsonl");
  app.add_flag("--measurements", o.with_measurements, "jsonl: with learning curves, which is the default");
  app.add_flag("--without-measurements", o.without_measurements,
               "jsonl: without learning curves, which take a call for each trial");
  app.add_option("--out", o.out, "File to write; -: the terminal, which is the default");
}

void CloneOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("NAME", o.new_name, "Id of the new study")->required();
  app.add_flag("--with-trials", o.with_trials, "With the results that there are, imported");
  app.add_option("--max-trials", o.max_trials, "Trials of the new study, imported ones not counted");
}

void RetryOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("TRIALS", o.numbers, "Numbers of trials that FAILED or were CANCELLED");
  app.add_flag("--failed", o.all_failed, "All that FAILED");
}

void TrialDeleteOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("TRIALS", o.numbers, "Numbers of trials that are final")->required();
  app.add_flag("--yes", o.yes, "Really delete them");
}

void NoteOptions(CLI::App& app, Options& o) {
  StudyAndTrial(app, o);
  app.add_option("NOTES", o.notes, "NAME=TEXT; an empty text removes it")->required();
}

void TrialImportOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("FILE", o.file,
                 "CSV with a column for each parameter and the metric, or JSONL from study export; - for standard "
                 "input")
      ->required();
  app.add_option("--source", o.source, "Where the results come from; default: the file's name");
}

void CreateOptions(CLI::App& app, Options& o) {
  app.add_option("-f,--file", o.file, "Study file (YAML or JSON); - for standard input")->required();
  app.add_option("--name", o.name, "Id of the study; default: from the file's name");
}

void PreviewOptions(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "Study file (YAML or JSON)")->required();
  app.add_option("--workers", o.workers, "Trials that run at once; default 1, at most the study's max_parallel")
      ->check(CLI::Range(1, 10'000));
  app.add_option("--seconds", o.seconds_per_unit, "Time that one unit of the resource takes, or one trial without it")
      ->check(CLI::NonNegativeNumber);
}

void GetOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--epsilon", o.epsilon, "Certificate: how much better than the best a value would have to be")
      ->capture_default_str();
  app.add_option(
      "--lipschitz", o.lipschitz,
      "Certificate: largest slope of the metric along the unit cube; default: the algorithm's, if it has one");
  app.add_flag("-w,--watch", o.watch, "A line at each change, until the study is finished");
}

void ImportanceOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--metric", o.metric, "Of which metric; default: the study's");
  app.add_option("--quantile", o.quantile,
                 "What matters among this share of the best results: worse ones count as its worst; above 0, at most 1")
      ->capture_default_str();
  app.add_flag("--pairs", o.pairs, "With the interactions of two parameters");
}

void WatchOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--after", o.after, "Only events with a larger seq")->capture_default_str();
}

void WaitOptions(CLI::App& app, Options& o) {
  Study(app, o);
  Duration(app, "--timeout", &o.timeout, "Give up after this time (exit code 124); default: never");
}

void DeleteOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_flag("--yes", o.yes, "Really delete it");
}

void Wide(CLI::App& app, Options& o) {
  app.add_flag("--wide", o.wide, "All numbers of vector parameters, instead of least, median and largest");
}

void Watch(CLI::App& app, Options& o, const char* until) {
  app.add_flag("-w,--watch", o.watch, absl::StrCat("Print again what changes, ", until));
}

void StudyListOptions(CLI::App& app, Options& o) {
  app.add_option("--state", o.states, "Only studies in this state, in any case; may be repeated")->take_all();
  Watch(app, o, "until interrupted");
}

void TrialListOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--state", o.states, "Only trials in this state, in any case; may be repeated")->take_all();
  app.add_option("--filter", o.filter,
                 "Only trials for which this is true, e.g. 'params.lr > 1e-3 AND metrics.loss < .5'");
  app.add_option("--order-by", o.order_by, "Field to order by, e.g. 'metrics.loss desc'; default: by number");
  Watch(app, o, "until the study is finished");
  Wide(app, o);
}

void TrialGetOptions(CLI::App& app, Options& o) {
  StudyAndTrial(app, o);
  app.add_flag("--measurements", o.with_measurements, "With the learning curve");
  Watch(app, o, "until the trial is final");
  Wide(app, o);
}

void TrialBestOptions(CLI::App& app, Options& o) {
  Study(app, o);
  Watch(app, o, "until the study is finished");
  Wide(app, o);
}

void TrialAddOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--set", o.settings,
                 "NAME=VALUE of a parameter; may be repeated; missing ones take their default; a vector: NAME='[1, 2]'")
      ->take_all();
  app.add_option("-f,--file", o.file, "File with {name: value}");
  app.add_option("--note", o.notes, "NAME=TEXT to keep with the trial; may be repeated")->take_all();
}

void PredictOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--set", o.settings, "NAME=VALUE of a parameter; may be repeated; a vector: NAME='[1, 2]'")
      ->take_all();
  app.add_option("-f,--file", o.file, "File with {name: value}");
  app.add_option("--at-seq", o.at_seq, "The model as it was right after this event; default: as it is now");
}

void AskOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--count", o.count, "How many settings to ask for")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--worker", o.worker, "Who asks; default: cli- and the host's name");
  Duration(app, "--timeout", &o.timeout, "Give up after this time (exit code 124); default: never");
}

void MeasurementOptions(CLI::App& app, Options& o) {
  app.add_option("--metric", o.metrics, "NAME=NUMBER; may be repeated")->take_all();
  app.add_option("--elapsed", o.elapsed_seconds, "Training time so far, in seconds");
  app.add_option(
      "--gradient", o.gradient,
      "d(metric)/d(parameter): a list in the order of the space, {directional: {direction, slope}}, or a file");
  app.add_option("--slope", o.slope, "Slope of the metric along the direction that the trial asks for");
  app.add_option("--token", o.token, "Lease token; default: the one that `ask` kept");
}

void TellOptions(CLI::App& app, Options& o) {
  StudyAndTrial(app, o);
  MeasurementOptions(app, o);
  app.add_option("--step", o.step, "Step that the result belongs to");
  app.add_option("--training", o.training,
                 "How training ended: converged, precision, target, limit (the result is not that of the optimum) or "
                 "diverged");
  app.add_flag("--pruned", o.pruned, "The trial was stopped early; the metrics are its last ones, if it has any");
  app.add_flag(
      "--paused", o.paused,
      "The trial reached its target (--step is needed) and can go on from --checkpoint, if the algorithm says so");
  app.add_option("--checkpoint", o.checkpoint, "With --paused: where it can go on");
  app.add_option("--failed", o.failed, "The trial failed: a reason such as DIVERGED");
  app.add_option("--message", o.message, "More about the failure");
  app.add_flag("--infra", o.infra, "The failure says nothing about the setting: try it again");
}

void ReportOptions(CLI::App& app, Options& o) {
  StudyAndTrial(app, o);
  app.add_option("--step", o.step, "Step of this point of the learning curve")->required();
  MeasurementOptions(app, o);
  app.add_option("--checkpoint", o.checkpoint, "Where a later attempt can resume");
}

void ModelTrainOptions(CLI::App& app, Options& o) {
  app.add_option("--study", o.study, "Id of a study; its best trial's setting unless --trial says which");
  app.add_option("--trial", o.trial, "Number of the trial")->check(command_line::AtLeastOne());
  app.add_option("-f,--file", o.file, "Instead of --study: a study file, for its objective");
  app.add_option("--set", o.settings, "NAME=VALUE of a setting, over the trial's; may be repeated")->take_all();
  app.add_option("--out", o.out, "File to write the model to; one that is there is replaced")->required();
  app.add_option("--data-root", o.data_root, "Directory below which the study's data are looked for")
      ->capture_default_str();
}

void ModelFileOption(CLI::App& app, Options& o) {
  app.add_option("MODEL", o.file, "Model file, from `model train`")->required();
}

void ModelDataOptions(CLI::App& app, Options& o) {
  ModelFileOption(app, o);
  app.add_option("--data", o.data,
                 "Rows or sequences: a file as the model was trained on, plain, .gz or .xz; - for standard input")
      ->required();
  app.add_option("--format", o.data_format, "Of tables: auto (by name, then content), csv, libsvm, idx")
      ->check(CLI::IsMember({"auto", "csv", "libsvm", "idx"}))
      ->capture_default_str();
  app.add_option("--header", o.header, "CSV: whether the first line names the columns; auto: when it looks like it")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str();
  app.add_option("--label", o.label, "CSV: name of the column with the classes; default: that of the training data");
  app.add_option("--labels-file", o.labels_file,
                 "IDX: file of the labels; default: the images' name with labels-idx1 for images-idx3");
}

void CompletionOptions(CLI::App& app, Options& o) {
  app.add_option("SHELL", o.shell, "bash, zsh or fish")->required()->check(CLI::IsMember({"bash", "zsh", "fish"}));
}

void BilevelOptions(CLI::App& app, Options& o) {
  app.add_option("MODEL", o.objective, "elastic_net, sparse_group_lasso, svm or matrix_completion")
      ->required()
      ->check(CLI::IsMember({"elastic_net", "sparse_group_lasso", "svm", "matrix_completion"}));
  app.add_option("--data", o.data,
                 "Table of rows, plain, .gz or .xz, or generated: synth:regression?rows=300&cols=100, synth:logistic, "
                 "synth:matrix")
      ->required();
  app.add_option("--validation", o.validation, "Share of rows that the strengths are chosen on")->capture_default_str();
  app.add_option("--folds", o.folds, "svm: choose on so many folds instead")->check(CLI::Range(0, 100));
  app.add_option("--third", o.third, "Share of rows to measure on alone")->capture_default_str();
  app.add_option("--seed", o.first_seed, "Of the split")->capture_default_str();
  app.add_option("--group-column", o.group_column, "Column whose rows of one value stay together");
  app.add_option("--time-column", o.time_column, "Column that orders the rows: the last are held out");
  app.add_option("--set", o.settings,
                 "NAME=VALUE of a setting (`luthier objectives describe vf_MODEL`); may be repeated")
      ->take_all();
  app.add_option("--format", o.data_format, "Of the table: auto (by name, then content), csv, libsvm, idx")
      ->check(CLI::IsMember({"auto", "csv", "libsvm", "idx"}))
      ->capture_default_str();
  app.add_option("--header", o.header, "CSV: whether the first line names the columns; auto: when it looks like it")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str();
  app.add_option("--label", o.label, "CSV: name of the column with the targets; default: the last");
}

void SimulateOptions(CLI::App& app, Options& o) {
  app.add_option("--algorithm", o.algorithms, "Name, or {name: {option: value}}; may be repeated")
      ->required()
      ->take_all();
  app.add_option(
         "--function", o.functions,
         "Test function, e.g. branin; may be repeated. Reports its gradient beside the value, as in a study, and "
         "auto and fobo use it; bo is auto without gradients")
      ->required()
      ->take_all();
  app.add_option("--evaluations", o.evaluations, "Evaluations of each run")
      ->check(command_line::AtLeastOne())
      ->capture_default_str();
  app.add_option("--seeds", o.seeds, "Runs, with different seeds")
      ->check(command_line::AtLeastOne())
      ->capture_default_str();
  app.add_option("--first-seed", o.first_seed, "Seed of the first run")->capture_default_str();
  app.add_option("--parallel", o.parallel, "Simulated workers")
      ->check(command_line::AtLeastOne())
      ->capture_default_str();
  CLI::Option* noise = app.add_option("--noise", o.noise,
                                      "Standard deviation of noise on each value; regret is the function's own where "
                                      "the best value was reported")
                           ->check(CLI::NonNegativeNumber)
                           ->capture_default_str();
  CLI::Option* resource =
      app.add_option("--resource", o.resource,
                     "Settings are trained, with learning curves of so many units; --evaluations counts settings")
          ->check(command_line::AtLeastOne())
          ->excludes(noise);
  app.add_option("--resource-min", o.resource_min, "Units that say something about a setting")
      ->check(command_line::AtLeastOne())
      ->capture_default_str()
      ->needs(resource);
  app.add_option("--stopping", o.stopping,
                 "Beside every algorithm a stopping rule: median, percentile, curve, or {name: {option: value}}")
      ->needs(resource);
}

void DescribeOptions(CLI::App& app, Options& o) {
  app.add_option("MODEL", o.objective, "Name of the model")->required();
}

void ReplayOptions(CLI::App& app, Options& o) {
  app.add_option("STUDY", o.study, "Id of a study; default: all");
}

void PkiOptions(CLI::App& app, Options& o) {
  app.add_option("--out", o.out, "Directory of the authority")->required();
}

void PkiIssueOptions(CLI::App& app, Options& o) {
  PkiOptions(app, o);
  app.add_option("--server", o.hosts, "Name or IP address by which clients reach the server; may be repeated")
      ->take_all();
  app.add_option("--client", o.name, "Name of a client or worker");
}

void LifetimeOption(CLI::App& app, Options& o) {
  Duration(app, "--lifetime", &o.lifetime, "How long it is valid, as 720h (default: 90 days)");
}

void TokenCreateOptions(CLI::App& app, Options& o) {
  app.add_option("--name", o.name, "Whose it is; workers with it are called NAME/WORKER")->required();
  app.add_option("--role", o.roles, "viewer, user, worker or admin; may be repeated")
      ->required()
      ->take_all()
      ->delimiter(',');
  app.add_flag("--commands", o.commands, "Its holder may create studies with a command, which runs on workers");
  app.add_option("--certificate", o.certificate,
                 "PEM file with the holder's certificate: the token is refused without it (luthierd --tls-client-ca)");
  LifetimeOption(app, o);
}

void TokenOption(CLI::App& app, Options& o) {
  app.add_option("ID", o.token, "The token's id, as luthier admin token list shows it")->required();
}

void TokenRotateOptions(CLI::App& app, Options& o) {
  TokenOption(app, o);
  Duration(app, "--overlap", &o.overlap, "How long the old secret stays valid, as 24h (default: not at all)");
  LifetimeOption(app, o);
}

void ProjectOption(CLI::App& app, Options& o) {
  app.add_option("NAME", o.name, "Name of the project")->required();
  app.add_option("--max-studies", o.quota_studies, "Studies that it may have; 0: no limit of its own");
  app.add_option("--max-running", o.quota_running, "Trials that may run at once; asks for more wait");
  app.add_option("--max-asks", o.quota_waiting, "Asks that may wait; more are told to come back");
  app.add_option("--max-cpu", o.quota_cpu,
                 "Processors for its suggestions, on average over a minute: 0.5 is half of one");
}

void AuditOptions(CLI::App& app, Options& o) {
  app.add_option("--count", o.entries, "Entries")->check(CLI::Range(1, 1000000))->capture_default_str();
}

const std::vector<std::pair<std::string, std::string>>& Groups() {
  static const auto* const kGroups = new std::vector<std::pair<std::string, std::string>>{
      {"study", "State, look at and control studies"},
      {"trial", "Look at and change the trials of a study"},
      {"worker", "Look at workers"},
      {"model", "Train the model of a setting, keep it in a file, apply it"},
      {"server", "The coordinator that answers"},
      {"admin", "Who may do what: certificates, tokens, projects, the audit"},
      {"admin pki", "A private certificate authority"},
      {"admin token", "Tokens, by which callers are known"},
      {"admin project", "Projects, which keep studies apart"}};
  return *kGroups;
}

const std::vector<Verb>& Verbs() {
  static const auto* const kVerbs = new std::vector<Verb>{
      {{"run"},
       "Run a study on this machine: coordinator, workers and progress in one",
       "luthier run examples/logistic.yaml --workers 2",
       RunOptions,
       Run},
      {{"study", "create"},
       "Store a study at the server",
       "luthier study create -f study.yaml --name my-study",
       CreateOptions,
       StudyCreate},
      {{"study", "preview"},
       "What a study file will do: rungs, training in all, how long it takes",
       "luthier study preview study.yaml --workers 8 --seconds 30",
       PreviewOptions,
       StudyPreview},
      {{"study", "list"}, "All studies", "luthier study list -o json", StudyListOptions, StudyList},
      {{"study", "get"},
       "One study: state, counts, what its results rule out, spec",
       "luthier study get my-study --epsilon 0.01",
       GetOptions,
       StudyGet},
      {{"study", "importance"},
       "Which parameters the results depend on",
       "luthier study importance my-study --pairs",
       ImportanceOptions,
       StudyImportance},
      {{"study", "predict"},
       "What the study's model expects of a setting",
       "luthier study predict my-study --set lr=0.1 --set depth=3",
       PredictOptions,
       StudyPredict},
      {{"study", "update"},
       "Change a study that is there: more trials, wider ranges, a mended command",
       "luthier study update my-study --max-trials 200",
       UpdateOptions,
       StudyUpdate},
      {{"study", "export"},
       "Write a study and its trials to a file",
       "luthier study export my-study --out my-study.jsonl",
       ExportOptions,
       StudyExport},
      {{"study", "import"},
       "Make a study of a file with results",
       "luthier study import results.csv --metric loss",
       StudyImportOptions,
       StudyImport},
      {{"study", "schema"},
       "A JSON Schema of study files, for editors",
       "luthier study schema > study.schema.json",
       None,
       StudySchema},
      {{"study", "clone"},
       "Make another study like this one",
       "luthier study clone my-study my-study-2 --with-trials",
       CloneOptions,
       StudyClone},
      {{"study", "watch"},
       "Events as they happen, until the study is finished",
       "luthier study watch my-study -o json",
       WatchOptions,
       StudyWatch},
      {{"study", "wait"},
       "Wait until the study is finished",
       "luthier study wait my-study --timeout 2h",
       WaitOptions,
       StudyWait},
      {{"study", "pause"},
       "Grant nothing new; running trials go on",
       "luthier study pause my-study",
       Study,
       StudyPause},
      {{"study", "resume"}, "Go on with a paused study", "luthier study resume my-study", Study, StudyResume},
      {{"study", "stop"}, "No more trials; running ones may finish", "luthier study stop my-study", Study, StudyStop},
      {{"study", "cancel"},
       "End the study and its running trials",
       "luthier study cancel my-study",
       Study,
       StudyCancel},
      {{"study", "delete"},
       "Remove the study and its trials for ever",
       "luthier study delete my-study --yes",
       DeleteOptions,
       StudyDelete},
      {{"trial", "list"},
       "All trials of a study",
       "luthier trial list my-study --state COMPLETE -o csv",
       TrialListOptions,
       TrialList},
      {{"trial", "get"},
       "One trial: parameters, result, attempts",
       "luthier trial get my-study 7 --measurements",
       TrialGetOptions,
       TrialGet},
      {{"trial", "best"}, "The best trial so far", "luthier trial best my-study -o json", TrialBestOptions, TrialBest},
      {{"trial", "explain"},
       "Why this setting was tried",
       "luthier trial explain my-study 7",
       StudyAndTrial,
       TrialExplain},
      {{"trial", "add"},
       "Try a setting of your own next",
       "luthier trial add my-study --set lr=0.1 --set depth=3",
       TrialAddOptions,
       TrialAdd},
      {{"trial", "retry"},
       "Try settings again that failed, in place of the old trials",
       "luthier trial retry my-study --failed",
       RetryOptions,
       TrialRetry},
      {{"trial", "import"},
       "Add results from elsewhere: a table, or another study",
       "luthier trial import my-study results.csv",
       TrialImportOptions,
       TrialImport},
      {{"trial", "note"},
       "Keep texts with a trial",
       "luthier trial note my-study 7 checked=yes",
       NoteOptions,
       TrialNote},
      {{"trial", "command"},
       "What a shell runs to run the trial's command again",
       "luthier trial command my-study 7 > again.sh",
       StudyAndTrial,
       TrialCommand},
      {{"trial", "delete"},
       "Take trials out of the study for ever",
       "luthier trial delete my-study 7 --yes",
       TrialDeleteOptions,
       TrialDelete},
      {{"trial", "stop"},
       "End a running trial with what it has; its value counts",
       "luthier trial stop my-study 7",
       StudyAndTrial,
       TrialStop},
      {{"trial", "cancel"}, "Cancel an open trial", "luthier trial cancel my-study 7", StudyAndTrial, TrialCancel},
      {{"worker", "list"},
       "Workers that asked since the coordinator started, and how their attempts ended",
       "luthier worker list",
       None,
       WorkerList},
      {{"ask"}, "Ask for a setting to evaluate yourself", "luthier ask my-study -o json", AskOptions, Ask},
      {{"tell"},
       "Tell the result of a setting that was asked for",
       "luthier tell my-study 7 --metric loss=0.31 --gradient '[0.2, -1.5]'",
       TellOptions,
       Tell},
      {{"report"},
       "Report a point of a learning curve",
       "luthier report my-study 7 --step 3 --metric loss=0.5",
       ReportOptions,
       Report},
      {{"model", "train"},
       "Train the model of a trial on all of the study's data and write it to a file",
       "luthier model train --study my-study --out my.lmodel --data-root DIR",
       ModelTrainOptions,
       ModelTrain},
      {{"model", "show"}, "What a model file holds", "luthier model show my.lmodel", ModelFileOption, ModelShow},
      {{"model", "predict"},
       "Predict labels: a row each, or CoNLL columns with the prediction behind them",
       "luthier model predict my.lmodel --data new.csv -o csv",
       ModelDataOptions,
       ModelPredict},
      {{"model", "evaluate"},
       "Compare predictions with the labels of a file",
       "luthier model evaluate my.lmodel --data test.csv",
       ModelDataOptions,
       ModelEvaluate},
      {{"bilevel"},
       "Choose all strengths of a sparse or low-rank model at once, without a study",
       "luthier bilevel elastic_net --data table.csv",
       BilevelOptions,
       Bilevel},
      {{"simulate"},
       "Compare algorithms on test functions, without a server",
       "luthier simulate --algorithm bo --algorithm random --function branin --evaluations 40 --seeds 10",
       SimulateOptions,
       Simulate},
      {{"objectives"}, "The builtin objectives", "luthier objectives", None, Objectives},
      {{"objectives", "describe"},
       "One objective: parameters, options, metrics, an example",
       "luthier objectives describe logistic",
       DescribeOptions,
       ObjectivesDescribe},
      {{"algorithms"}, "The search algorithms and their options", "luthier algorithms", None, Algorithms},
      {{"verify-replay"},
       "Compute every stored suggestion again and compare it bit for bit; needs --db DIR",
       "luthier verify-replay --db luthier.db.d",
       ReplayOptions,
       VerifyReplayVerb},
      {{"server", "info"},
       "Version, encryption, and as what the server knows you",
       "luthier server info",
       None,
       ServerInfo},
      {{"admin", "pki", "init"},
       "Make a private certificate authority",
       "luthier admin pki init --out pki",
       PkiOptions,
       AdminPkiInit},
      {{"admin", "pki", "issue"},
       "Issue a certificate for a server, or for a client or worker",
       "luthier admin pki issue --out pki --server db1.example",
       PkiIssueOptions,
       AdminPkiIssue},
      {{"admin", "token", "create"},
       "Make a token; it is printed once",
       "luthier admin token create --role worker --name gpu1 --db /var/lib/luthier > gpu1.token",
       TokenCreateOptions,
       AdminTokenCreate},
      {{"admin", "token", "list"},
       "The tokens, without their secrets",
       "luthier admin token list",
       None,
       AdminTokenList},
      {{"admin", "token", "rotate"},
       "Give a token a new secret",
       "luthier admin token rotate 0123456789abcdef --overlap 24h",
       TokenRotateOptions,
       AdminTokenRotate},
      {{"admin", "token", "revoke"},
       "Refuse a token from now on",
       "luthier admin token revoke 0123456789abcdef",
       TokenOption,
       AdminTokenRevoke},
      {{"admin", "project", "create"},
       "Make a project",
       "luthier admin project create vision",
       ProjectOption,
       AdminProjectCreate},
      {{"admin", "project", "update"},
       "Give a project other quotas",
       "luthier admin project update vision --max-running 32",
       ProjectOption,
       AdminProjectUpdate},
      {{"admin", "project", "list"}, "The projects", "luthier admin project list", None, AdminProjectList},
      {{"admin", "audit"},
       "What was done and refused, newest first, a JSON object a line",
       "luthier admin audit --count 20",
       AuditOptions,
       AdminAudit},
      {{"completion"},
       "A script that completes verbs and options in a shell",
       "luthier completion bash > ~/.local/share/bash-completion/completions/luthier",
       CompletionOptions,
       nullptr},  // RunCli does it: it needs the command line itself.
      {{"manual"}, "The manual page of this program", "luthier manual | man -l -", None, nullptr},  // As completion.
      {{"version"}, "The version of this program", "luthier version", None, Version},
  };
  return *kVerbs;
}

// Help in 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode mode) const override {
    return WrapHelp(CLI::Formatter::make_help(app, std::move(name), mode));
  }
};

// The whole command line; *chosen becomes the handler of the verb that was given.
std::unique_ptr<CLI::App> BuildApp(Options* options, Handler* chosen) {
  auto app = std::make_unique<CLI::App>(kDescription, "luthier");
  app->footer(kFooter);
  app->formatter(std::make_shared<HelpFormatter>());
  app->get_formatter()->column_width(kHelpColumn);
  app->fallthrough();
  app->add_option("--server", options->server, "host:port or unix:PATH")
      ->envname("LUTHIER_SERVER")
      ->capture_default_str();
  app->add_option(
      "--tls-ca", options->security.tls_ca,
      "PEM file with the certificate that signed the server's, or system: use TLS. Default: $LUTHIER_TLS_CA");
  app->add_option("--tls-cert", options->security.tls_cert, "PEM file with your certificate, where one is asked for");
  app->add_option("--tls-key", options->security.tls_key, "PEM file with its private key");
  app->add_option("--tls-server-name", options->security.tls_server_name,
                  "Name in the server's certificate, where it is not the host of --server");
  app->add_option("--token-file", options->token_file,
                  "File with your token, readable by you alone; -: standard input. Default: $LUTHIER_TOKEN_FILE, "
                  "$LUTHIER_TOKEN");
  app->add_option("--project", options->project, "Project of studies that are named without one (default: default)")
      ->envname("LUTHIER_PROJECT");
  app->add_option("--db", options->db, "Data directory to use instead of a server; run: default luthier.db.d");
  const std::map<std::string, OutputFormat> formats = {{"table", OutputFormat::kTable}, {"wide", OutputFormat::kWide},
                                                       {"json", OutputFormat::kJson},   {"yaml", OutputFormat::kYaml},
                                                       {"csv", OutputFormat::kCsv},     {"name", OutputFormat::kName}};
  app->add_option_function<std::string>(
         "-o,--output", [options, formats](const std::string& name) { options->format = formats.at(name); },
         "table, wide (all columns), json, yaml, csv or name (resource names, a line each)")
      ->check(CLI::IsMember({"table", "wide", "json", "yaml", "csv", "name"}))
      ->default_str("table");
  app->add_option("--log-level", options->log_level,
                  "Of the coordinator in this process: debug, info, warning, error, off")
      ->check(CLI::IsMember({"debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app->add_flag("-v,--verbose", options->verbose,
                "With what the service and the algorithm keep to themselves: settings chosen, workers, origins");
  app->set_version_flag("--version", absl::StrCat("luthier ", base::kVersion));
  app->require_subcommand(1);
  for (const auto& [path, what] : Groups()) {
    const std::vector<std::string> words = absl::StrSplit(path, ' ');
    CLI::App* parent = app.get();
    for (size_t i = 0; i + 1 < words.size(); ++i) parent = parent->get_subcommand(words[i]);
    parent->add_subcommand(words.back(), what)->require_subcommand(1);
  }
  for (const Verb& verb : Verbs()) {
    CLI::App* parent = app.get();
    for (size_t i = 0; i + 1 < verb.path.size(); ++i) parent = parent->get_subcommand(verb.path[i]);
    CLI::App* sub = parent->add_subcommand(verb.path.back(), verb.what);
    verb.add_options(*sub, *options);
    sub->footer(absl::StrCat("Example:\n  ", verb.example, "\nOptions of all verbs: luthier --help"));
    sub->callback([options, chosen, handler = verb.handler, sub, path = absl::StrJoin(verb.path, " ")] {
      // "objectives describe": the inner verb was asked for.
      if (!sub->get_subcommands().empty()) return;
      *chosen = handler;
      options->verb = sub->get_name();
      options->path = path;
    });
  }
  return app;
}

// STUDY as an id; the full name, as the API has it, and PROJECT/STUDY are taken too.
absl::Status CheckStudyId(Options* options) {
  if (!options->project.empty()) {
    const absl::Status project = study::ValidateId("--project", options->project);
    if (!project.ok()) return UsageError("--project", base::GetErrorDetail(project)->violations[0].description);
  }
  if (options->study.empty() || options->verb == "run") return absl::OkStatus();  // `run` checks the id it takes.
  const absl::StatusOr<std::string> full = wire::ParseStudyName("STUDY", options->study);
  if (full.ok()) {
    options->study = *full;
    return absl::OkStatus();
  }
  if (!absl::StrContains(options->study, "/") && !options->project.empty()) {
    options->study = study::IdWithin(options->project, options->study);
  }
  const absl::Status valid = wire::ParseStudyName("STUDY", wire::StudyName(options->study)).status();
  return valid.ok() ? valid : UsageError("STUDY", base::GetErrorDetail(valid)->violations[0].description);
}

// Names of trials, as -o name prints them, in place of STUDY TRIAL: "projects/p/studies/s/trials/3" becomes
// "projects/p/studies/s" "3", and after that other trials of the same study become their numbers. Values of options
// stay as they are.
std::vector<std::string> WithoutTrialNames(const std::vector<std::string>& args) {
  std::vector<std::string> out;
  std::string study;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool value = i > 0 && absl::StartsWith(args[i - 1], "-");
    const absl::StatusOr<wire::TrialId> id = wire::ParseTrialName("TRIAL", args[i]);
    if (value || !id.ok()) {
      out.push_back(args[i]);
      continue;
    }
    if (id->study != study) out.push_back(wire::StudyName(id->study));
    study = id->study;
    out.push_back(absl::StrCat(id->number));
  }
  return out;
}

// Verbs whose results have names.
bool HasNames(const Options& options) {
  static const auto* const kOthers =
      new std::set<std::string>{"study preview", "study importance", "study predict", "study export",   "study schema",
                                "study watch",   "trial explain",    "trial command", "report",         "worker list",
                                "model train",   "model show",       "model predict", "model evaluate", "bilevel",
                                "simulate",      "verify-replay",    "completion",    "manual",         "version"};
  return kOthers->count(options.path) == 0 && !absl::StartsWith(options.path, "admin ") &&
         !absl::StartsWith(options.path, "server ");
}

}  // namespace

int RunCli(const std::vector<std::string>& given, const Environment& environment) {
  const std::vector<std::string> args = WithoutTrialNames(given);
  Options options;
  options.server = environment.getenv("LUTHIER_SERVER").value_or("");
  if (options.server.empty()) options.server = wire::DefaultServer();
  Handler handler = nullptr;
  const std::unique_ptr<CLI::App> app = BuildApp(&options, &handler);
  if (const std::optional<int> code = command_line::Parse(*app, args, *environment.out, *environment.err)) return *code;
  if (options.verb == "completion") {
    *environment.out << CompletionScript(*app, options.shell).value();
    return kExitDone;
  }
  if (options.verb == "manual") {
    *environment.out << ManPage(*app, base::kVersion);
    return kExitDone;
  }
  if (options.format == OutputFormat::kName && !HasNames(options)) {
    return Explain(UsageError("--output", absl::StrCat("what ", options.path,
                                                       " prints has no names; it is there as "
                                                       "table, wide, json, yaml or csv")),
                   options, *environment.err);
  }
  base::LogLevel level = base::LogLevel::kWarning;
  base::ParseLogLevel(options.log_level, &level);
  base::SetLogLevel(level);
  Context context(environment, options);
  if (const absl::Status known = context.FindProject(&options.project); !known.ok()) {
    return Explain(known, options, *environment.err);
  }
  if (const absl::Status id = CheckStudyId(&options); !id.ok()) return Explain(id, options, *environment.err);
  const absl::StatusOr<int> result = handler(context);
  environment.out->flush();
  const bool written = environment.out->good();
  // `| head`: who reads has enough, and nothing is wrong.
  if (!written && environment.out_closed && environment.out_closed()) return kExitPipe;
  if (!result.ok()) return Explain(result.status(), options, *environment.err);
  if (!written) {
    *environment.err << "luthier: standard output can't be written\n";
    return kExitFailed;
  }
  return *result;
}

}  // namespace luthier::cli
