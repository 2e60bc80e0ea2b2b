// Verbs of trials, and of workers, who run them.
#include "client/cli/commands/commands.h"
#include "client/cli/verbs/verbs.h"

namespace luthier::cli {
namespace {

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

void Wide(CLI::App& app, Options& o) {
  app.add_flag("--wide", o.wide, "All numbers of vector parameters, instead of least, median and largest");
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
  app.add_option("--pick", o.pick, "Of several objectives: knee, the best compromise on the front");
  app.add_option(
         "--at-most", o.at_most,
         "NAME=NUMBER: the front's trials with no more; with such limits on all objectives but one, the best of "
         "that; may be repeated")
      ->take_all();
  app.add_option("--at-least", o.at_least, "NAME=NUMBER: those with no less; may be repeated")->take_all();
}

void TrialAddOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--set", o.settings,
                 "NAME=VALUE of a parameter; may be repeated; missing ones take their default; a vector: NAME='[1, 2]'")
      ->take_all();
  app.add_option("-f,--file", o.file, "File with {name: value}");
  app.add_option("--note", o.notes, "NAME=TEXT to keep with the trial; may be repeated")->take_all();
}

void AskOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option("--count", o.count, "How many settings to ask for")->check(CLI::Range(1, 64))->capture_default_str();
  app.add_option("--worker", o.worker, "Who asks; default: cli- and the host's name");
  command_line::AddDuration(app, "--timeout", &o.timeout, "Give up after this time (exit code 124); default: never");
}

void MeasurementOptions(CLI::App& app, Options& o) {
  app.add_option("--metric", o.metrics, "NAME=NUMBER; may be repeated")->take_all();
  app.add_option("--elapsed", o.elapsed_seconds, "Training time so far, in seconds");
  app.add_option(
      "--gradient", o.gradient,
      "d(metric)/d(parameter): a list in the order of the space, {directional: {direction, slope}}, or a file");
  app.add_option("--gradient-of", o.gradients_of,
                 "NAME=GRADIENT: that of another metric, as --gradient; may be repeated")
      ->take_all();
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

}  // namespace

std::vector<Verb> TrialVerbs() {
  return {
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
      {{"trial", "best"},
       "The best trial so far; of several objectives the front",
       "luthier trial best my-study -o json",
       TrialBestOptions,
       TrialBest},
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
  };
}

}  // namespace luthier::cli
