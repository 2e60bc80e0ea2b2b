#ifndef LUTHIER_CLIENT_PLOT_FIGURES_H_
#define LUTHIER_CLIENT_PLOT_FIGURES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/plot/figure.h"
#include "client/plot/subject.h"
#include "luthier/v1/study_service.pb.h"
#include "luthier/v1/trial.pb.h"

// The figures of studies. All are pure functions of what the service answered; a figure without anything to show says
// why (Panel::empty).
namespace luthier::plot {

// Values by trial, and the best one so far. `others` are drawn as their best value so far alone.
Figure History(const Subject& subject, const std::vector<Subject>& others);

// Trials by two metrics of the study with goals, by their names, and those within all bounds of which no other is at
// least as good in both. What is worse than the frame is a mark at its edge. Needs the columns of both metrics.
Figure Front(const Subject& subject, const std::string& across, const std::string& up);

// The share of trials that are as good as each value, or better.
Figure Edf(const Subject& subject, const std::vector<Subject>& others);

// When trials ran, in a row for each worker. Trials that run are drawn up to the latest time of all. Needs the columns
// start_time, end_time, seconds, attempts and worker. `several` are trials of more than one attempt, whose attempts are
// drawn one by one, since between them nothing runs; others are drawn as one box, which the caption says.
Figure Timeline(const Subject& subject, const std::vector<v1::Trial>& several);

// A line for each trial through its parameters and its value: the best 1,000, and some of the others.
Figure Parallel(const Subject& subject, const std::vector<ParameterAxis>& axes);

// Shows how much of the metric's variance parameters explain, with the interval of each share.
Figure Importance(const Subject& subject, const v1::GetImportanceResponse& importance);

// The learning curves of `trials`, which have their measurements, with the steps at which the study's algorithm
// compares them.
Figure Curves(const Subject& subject, const std::vector<v1::Trial>& trials);

// The answer of the study's model at the settings of a request, if it has a model.
struct Expectation {
  std::optional<v1::PredictResponse> response;
  std::string why_not;  // Says to people why there is none.
};

// Returns settings along each axis through the best trial, of which a model is to predict the metric; empty if there is
// no best trial, or no axis along which the other parameters stay what they are.
v1::PredictRequest SliceSettings(const Subject& subject, const std::vector<ParameterAxis>& axes);

// The metric over each parameter: trials, newer ones darker; what the model expects along the line through the best
// trial (answers to SliceSettings); and the slopes that `with_gradients` reported.
Figure Slice(const Subject& subject, const std::vector<ParameterAxis>& axes, const Expectation& model,
             const std::vector<v1::Trial>& with_gradients);

// Returns a grid of settings over two axes through the best trial; empty as SliceSettings.
v1::PredictRequest ContourSettings(const Subject& subject, const ParameterAxis& x, const ParameterAxis& y);

// The metric over two parameters: what the model expects (answers to ContourSettings), else the mean of the trials in
// each field; and where trials were.
Figure Contour(const Subject& subject, const ParameterAxis& x, const ParameterAxis& y, const Expectation& model);

}  // namespace luthier::plot

#endif  // LUTHIER_CLIENT_PLOT_FIGURES_H_
