// Verbs that need no coordinator: models, objectives, simulation.
#include "client/cli/commands/commands.h"
#include "client/cli/verbs/verbs.h"
#include "lib/command_line/command_line.h"

namespace luthier::cli {
namespace {

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

}  // namespace

std::vector<Verb> ModelVerbs() {
  return {
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
  };
}

}  // namespace luthier::cli
