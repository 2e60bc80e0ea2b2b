// Verbs of studies.
#include "client/cli/commands/commands.h"
#include "client/cli/verbs/verbs.h"

namespace luthier::cli {
namespace {

void RunOptions(CLI::App& app, Options& o) {
  app.add_option("FILE", o.file, "Study file (YAML or JSON)")->required();
  app.add_option("--workers", o.workers, "Worker processes; default: one a core, at most the study's max_parallel")
      ->check(CLI::Range(1, 1000));
  app.add_option("--slots", o.slots, "Trials that each worker runs at once")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--gpus", o.gpus,
                 "all, how many, or which (0,2): one worker runs a trial on each of these GPUs, which its command sees "
                 "alone, by CUDA_VISIBLE_DEVICES; in place of --workers and --slots");
  app.add_option("--if-changed", o.if_changed,
                 "Where the command, or a file that it names, is another one than that of the study's trials: continue "
                 "without a word, go on in a study of its own (fresh), or raise an error; default: a warning")
      ->check(CLI::IsMember({"continue", "fresh", "raise"}));
  app.add_option("--study", o.study, "Id of the study; default: from the file's name");
  app.add_option("--data-root", o.data_root, "Directory below which data sets are looked for")->capture_default_str();
  app.add_flag("--update", o.update,
               "Where the file differs from the study that is there: change what may change (see study update)");
  app.add_flag("--ui", o.ui, "Show the study in a browser while it runs: prints the page's address, with a token");
}

void UiOptions(CLI::App& app, Options& o) {
  app.add_option("STUDY", o.study, "Id of the study to show; default: all studies");
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
  app.add_option("--until-answered", o.until_answered,
                 "true: end once too little is left to gain; false: use all trials");
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
  command_line::AddDuration(app, "--timeout", &o.timeout, "Give up after this time (exit code 124); default: never");
}

void DeleteOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_flag("--yes", o.yes, "Really delete it");
}

void UndeleteOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--as", o.new_id, "Id that it gets; default: the one that it had");
}

void StudyListOptions(CLI::App& app, Options& o) {
  app.add_flag("--deleted", o.deleted, "Studies that were deleted and can be brought back (luthier study undelete)");
  app.add_option("--state", o.states, "Only studies in this state, in any case; may be repeated")->take_all();
  Watch(app, o, "until interrupted");
}

void PredictOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--set", o.settings, "NAME=VALUE of a parameter; may be repeated; a vector: NAME='[1, 2]'")
      ->take_all();
  app.add_option("-f,--file", o.file, "File with {name: value}");
  app.add_option("--at-seq", o.at_seq, "The model as it was right after this event; default: as it is now");
}

std::vector<Verb> RunVerbs() {
  return {
      {{"run"},
       "Run a study on this machine: coordinator, workers and progress in one",
       "luthier run examples/logistic.yaml --workers 2",
       RunOptions,
       Run},
      {{"ui"},
       "Show studies in a browser: prints the page's address, and opens it where there is a terminal and a screen",
       "luthier ui --db luthier.db.d",
       UiOptions,
       Ui},
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
  };
}

std::vector<Verb> ResultVerbs() {
  return {
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
  };
}

std::vector<Verb> StateVerbs() {
  return {
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
       "Remove the study and its trials; for 7 days that can be undone",
       "luthier study delete my-study --yes",
       DeleteOptions,
       StudyDelete},
      {{"study", "undelete"},
       "Bring back a study that was deleted in the last 7 days",
       "luthier study undelete my-study",
       UndeleteOptions,
       StudyUndelete},
  };
}

}  // namespace

std::vector<Verb> StudyVerbs() {
  return Joined({RunVerbs(), ResultVerbs(), StateVerbs()});
}

}  // namespace luthier::cli
