// Verbs that draw studies.
#include "absl/strings/str_cat.h"
#include "client/cli/commands/commands.h"
#include "client/cli/verbs/verbs.h"

namespace luthier::cli {
namespace {

void PlotOptions(CLI::App& app, Options& o) {
  Study(app, o);
  app.add_option(
         "--out", o.out,
         "File to write: .svg, .png or .pdf, drawn by gnuplot; .html, a page for a browser; .json, the numbers; .gp, "
         "gnuplot's script; -: draw in the terminal")
      ->required();
}

void MetricOptions(CLI::App& app, Options& o) {
  PlotOptions(app, o);
  app.add_option("--metric", o.metric, "Of which metric; default: the study's");
}

void FrontOptions(CLI::App& app, Options& o) {
  PlotOptions(app, o);
  app.add_option("--metrics", o.metrics,
                 "Names of two objectives, with a comma between them: across and up; default: the first two")
      ->delimiter(',');
  app.add_option("--last", o.last, "Only so many trials, the last ones; default: all")
      ->check(command_line::AtLeastOne());
}

void LastOption(CLI::App& app, Options& o) {
  app.add_option("--last", o.last, "Only so many trials, the last ones; default: all")
      ->check(command_line::AtLeastOne());
}

void TrialsOptions(CLI::App& app, Options& o) {
  MetricOptions(app, o);
  LastOption(app, o);
}

void TimelineOptions(CLI::App& app, Options& o) {
  PlotOptions(app, o);
  LastOption(app, o);
}

void CompareOptions(CLI::App& app, Options& o) {
  TrialsOptions(app, o);
  app.add_option("--compare", o.compared, "Another study to draw with it; may be repeated, up to 7 times")->take_all();
}

void ParametersOptions(CLI::App& app, Options& o) {
  TrialsOptions(app, o);
  app.add_option("--params", o.parameters, "Names of parameters, with commas between them; default: the first 12")
      ->delimiter(',');
}

void ContourOptions(CLI::App& app, Options& o) {
  TrialsOptions(app, o);
  app.add_option(
         "--params", o.parameters,
         "Names of two parameters, with a comma between them; default: the two on which the results depend most")
      ->delimiter(',');
}

void PlotImportanceOptions(CLI::App& app, Options& o) {
  MetricOptions(app, o);
  app.add_flag("--pairs", o.pairs, "With the interactions of two parameters");
}

}  // namespace

std::vector<Verb> PlotVerbs() {
  return {
      {{"plot", "history"},
       "Values by trial, and the best one so far",
       "luthier plot history my-study --out history.svg",
       CompareOptions,
       PlotHistory},
      {{"plot", "front"},
       "Trials by two objectives, and those of which no other is as good in both",
       "luthier plot front my-study --metrics accuracy,latency --out front.svg",
       FrontOptions,
       PlotFront},
      {{"plot", "slice"},
       "The metric over each parameter, with what the model expects and the slopes that were reported",
       "luthier plot slice my-study --params lr,depth --out slice.png",
       ParametersOptions,
       PlotSlice},
      {{"plot", "contour"},
       "The metric over two parameters",
       "luthier plot contour my-study --params lr,depth --out contour.svg",
       ContourOptions,
       PlotContour},
      {{"plot", "importance"},
       "How much of the metric's variance each parameter explains",
       "luthier plot importance my-study --out importance.pdf",
       PlotImportanceOptions,
       PlotImportance},
      {{"plot", "parallel"},
       "A line for each trial through its parameters and its value",
       "luthier plot parallel my-study --out parallel.svg",
       ParametersOptions,
       PlotParallel},
      {{"plot", "curves"},
       "Learning curves of the best trials and of some others",
       "luthier plot curves my-study --out curves.svg",
       TrialsOptions,
       PlotCurves},
      {{"plot", "timeline"},
       "When trials ran, on which worker",
       "luthier plot timeline my-study --out timeline.svg",
       TimelineOptions,
       PlotTimeline},
      {{"plot", "edf"},
       "The share of trials that are as good as each value",
       "luthier plot edf my-study --compare other-study --out edf.svg",
       CompareOptions,
       PlotEdf},
  };
}

}  // namespace luthier::cli
