// Figures in which trials follow each other: history, edf, timeline, curves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/figures.h"
#include "lib/study/parameters.h"
#include "lib/study/rung_schedule.h"
#include "lib/wire/convert.h"

namespace luthier::plot {
namespace {

constexpr double kGap = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kMostRows = 40;  // Workers that have a row each.
constexpr double kTimeColumns = 1500;  // Runs of a worker that are closer than one of them are drawn as one.
constexpr std::size_t kMostRungLines = 12;

std::string Number(double value) {
  return absl::StrFormat("%.6g", value);
}

std::string NothingYet(const Subject& subject) {
  return absl::StrCat("no trial has a value of ", Shown(subject.metric), " yet");
}

bool IsBetter(const Subject& subject, double a, double b) {
  return subject.maximize() ? a > b : a < b;
}

// Returns the best value so far, at the trials that made it better and at the last one. `origin`: of trials of this
// origin alone; "": of all.
Layer BestSoFar(const Subject& subject, const std::string& origin) {
  Layer layer{.mark = Mark::kSteps, .meaning = Meaning::kIncumbent};
  const std::vector<double>& values = subject.values();
  const std::vector<double>& numbers = subject.trials.Numbers("number");
  double last = 0.0;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!std::isfinite(values[row]) || subject.trials.Word("state", row) != "COMPLETE") continue;
    if (!origin.empty() && subject.trials.Word("origin", row) != origin) continue;
    last = numbers[row];  // The line goes on beside trials that can't be the best one.
    if (!subject.feasible(row)) continue;
    if (!layer.y.empty() && !IsBetter(subject, values[row], layer.y.back())) continue;
    layer.x.push_back(numbers[row]);
    layer.y.push_back(values[row]);
    layer.trials.push_back(static_cast<std::int64_t>(numbers[row]));
  }
  if (!layer.x.empty() && layer.x.back() < last) {
    layer.x.push_back(last);
    layer.y.push_back(layer.y.back());
    layer.trials.push_back(layer.trials.back());
  }
  return layer;
}

// Adds the trials to a panel over `x` and their values, in a layer for each way in which they ended.
void AddTrials(const Subject& subject, const std::vector<double>& x, Panel* panel) {
  Layer complete{.meaning = Meaning::kTrial, .name = "a trial"};
  Layer pruned{.meaning = Meaning::kPruned, .name = "stopped early"};
  Layer outside{.meaning = Meaning::kOutside, .name = "worse than the frame shows"};
  Layer failed{.meaning = Meaning::kFailed, .name = "failed"};
  Layer infeasible{.meaning = Meaning::kInfeasible, .name = "beyond a bound"};
  const std::vector<double>& values = subject.values();
  const std::vector<double>& numbers = subject.trials.Numbers("number");
  const double edge = EdgeOf(panel->y, subject.maximize());
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    const std::string& state = subject.trials.Word("state", row);
    Layer* layer = nullptr;
    double y = values[row];
    if (state == "FAILED") {
      layer = &failed;
      y = edge;
    } else if ((state == "COMPLETE" || state == "PRUNED") && std::isfinite(y)) {
      layer = state == "PRUNED" ? &pruned : &complete;
      if (IsOutside(panel->y, y, subject.maximize())) {
        layer = &outside;
        y = edge;
      }
      if (!subject.feasible(row)) layer = &infeasible;
    }
    if (layer == nullptr || !std::isfinite(y)) continue;
    layer->x.push_back(x[row]);
    layer->y.push_back(y);
    layer->trials.push_back(static_cast<std::int64_t>(numbers[row]));
  }
  for (Layer* layer : {&complete, &pruned, &outside, &infeasible, &failed}) {
    if (!layer->x.empty()) panel->layers.push_back(std::move(*layer));
  }
}

std::string Counts(const Subject& subject) {
  std::map<std::string, int> counts;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) ++counts[subject.trials.Word("state", row)];
  std::string text = absl::StrCat(subject.trials.rows(), subject.trials.rows() == 1 ? " trial" : " trials");
  for (const auto& [state, word] : {std::pair("FAILED", "failed"), std::pair("PRUNED", "stopped early")}) {
    if (counts[state] > 0) absl::StrAppend(&text, ", ", counts[state], " ", word);
  }
  std::size_t infeasible = 0;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!subject.feasible(row)) ++infeasible;
  }
  if (infeasible > 0) absl::StrAppend(&text, ", ", infeasible, " beyond a bound");
  return text;
}

double Shade(std::size_t index, std::size_t count) {
  return count < 2 ? 1.0 : 1.0 - static_cast<double>(index) / static_cast<double>(count - 1);
}

}  // namespace

Figure History(const Subject& subject, const std::vector<Subject>& others) {
  Figure figure{.kind = "history", .title = absl::StrCat("History of ", Shown(subject.id))};
  Panel panel;
  panel.x.label = "trial";
  std::vector<double> values;
  for (const Subject& other : others) {
    const Layer line = BestSoFar(other, "");
    values.insert(values.end(), line.y.begin(), line.y.end());
  }
  panel.y = subject.ValueAxis(values);
  AddTrials(subject, subject.trials.Numbers("number"), &panel);
  if (panel.layers.empty()) panel.empty = NothingYet(subject);
  // Trials that the search would have made anyway show what it gains.
  Layer explored = BestSoFar(subject, "explore");
  if (explored.x.size() > 1) {
    explored.meaning = Meaning::kOther;
    explored.shade = 0.5;
    explored.name = "best of its own explorations";
    panel.layers.push_back(std::move(explored));
  }
  if (subject.study.spec().budget().has_target_value() && subject.metric == subject.study.spec().metric().name()) {
    const double target = subject.study.spec().budget().target_value();
    const double last = subject.trials.rows() == 0 ? 1.0 : subject.trials.Numbers("number").back();
    panel.layers.push_back({.mark = Mark::kLine,
                            .meaning = Meaning::kReference,
                            .name = "target",
                            .x = {0.0, last},
                            .y = {target, target}});
  }
  for (std::size_t i = 0; i < others.size(); ++i) {
    Layer line = BestSoFar(others[i], "");
    line.meaning = Meaning::kOther;
    line.shade = Shade(i, others.size());
    line.name = absl::StrCat("best so far of ", Shown(others[i].id));
    panel.layers.push_back(std::move(line));
  }
  Layer line = BestSoFar(subject, "");
  line.name = others.empty() ? "best so far" : absl::StrCat("best so far of ", Shown(subject.id));
  if (!line.x.empty()) panel.layers.push_back(std::move(line));
  figure.caption = absl::StrCat(Counts(subject), "; ", subject.BestText(), ".");
  figure.panels.push_back(std::move(panel));
  return figure;
}

Figure Edf(const Subject& subject, const std::vector<Subject>& others) {
  Figure figure{.kind = "edf", .title = absl::StrCat("How good the trials of ", Shown(subject.id), " are")};
  Panel panel;
  std::vector<double> all;
  std::vector<const Subject*> subjects = {&subject};
  for (const Subject& other : others) subjects.push_back(&other);
  const auto legal = [](const Subject& one) {
    std::vector<double> values;
    for (std::size_t row = 0; row < one.trials.rows(); ++row) {
      if (std::isfinite(one.values()[row]) && one.feasible(row)) values.push_back(one.values()[row]);
    }
    return values;
  };
  for (const Subject* one : subjects) {
    const std::vector<double> values = legal(*one);
    all.insert(all.end(), values.begin(), values.end());
  }
  panel.x = MetricAxis(subject.metric, all, subject.maximize());
  panel.y = {.label = "share of trials that are as good", .min = 0.0, .max = 1.0};
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    std::vector<double> values = legal(*subjects[i]);
    std::sort(values.begin(), values.end());
    if (subject.maximize()) std::reverse(values.begin(), values.end());
    Layer layer{.mark = Mark::kSteps, .meaning = i == 0 ? Meaning::kIncumbent : Meaning::kOther};
    layer.name = Shown(subjects[i]->id);
    if (i > 0) layer.shade = Shade(i - 1, others.size());
    for (std::size_t k = 0; k < values.size(); ++k) {
      layer.x.push_back(values[k]);
      layer.y.push_back(static_cast<double>(k + 1) / static_cast<double>(values.size()));
    }
    if (!values.empty()) panel.layers.push_back(std::move(layer));
  }
  if (panel.layers.empty()) panel.empty = NothingYet(subject);
  figure.caption = absl::StrCat(Counts(subject), "; ", subject.BestText(), ". A curve further to the ",
                                subject.maximize() ? "right" : "left", " is better.");
  if (subject.trials.Has("feasible")) absl::StrAppend(&figure.caption, " Trials beyond a bound are not in it.");
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

// A run of a trial, or of several that follow each other closely.
struct Run {
  double begin = 0.0, end = 0.0;
  std::int64_t trial = 0;
};

struct Unit {
  const char* word;
  double seconds;
};

Unit UnitOf(double seconds) {
  if (seconds > 2 * 86400.0) return {"days", 86400.0};
  if (seconds > 2 * 3600.0) return {"hours", 3600.0};
  if (seconds > 120.0) return {"minutes", 60.0};
  return {"seconds", 1.0};
}

}  // namespace

Figure Timeline(const Subject& subject) {
  Figure figure{.kind = "timeline", .title = absl::StrCat("When the trials of ", Shown(subject.id), " ran")};
  Panel panel;
  const std::vector<double>& starts = subject.trials.Numbers("start_time");
  const std::vector<double>& ends = subject.trials.Numbers("end_time");
  const std::vector<double>& numbers = subject.trials.Numbers("number");
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  std::map<std::string, std::map<std::string, std::vector<Run>>> rows;  // By worker and state.
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!std::isfinite(starts[row])) continue;
    first = std::min(first, starts[row]);
    last = std::max({last, starts[row], std::isfinite(ends[row]) ? ends[row] : starts[row]});
  }
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!std::isfinite(starts[row])) continue;
    const double end = std::isfinite(ends[row]) ? std::max(ends[row], starts[row]) : last;
    rows[subject.trials.Word("worker", row)][subject.trials.Word("state", row)].push_back(
        {starts[row] - first, end - first, static_cast<std::int64_t>(numbers[row])});
  }
  const Unit unit = UnitOf(last - first);
  panel.x = {.label = absl::StrCat(unit.word, " since the first trial began")};
  const std::map<std::string, std::pair<Meaning, const char*>> states = {
      {"COMPLETE", {Meaning::kTrial, "complete"}},      {"PRUNED", {Meaning::kPruned, "stopped early"}},
      {"FAILED", {Meaning::kFailed, "failed"}},         {"RUNNING", {Meaning::kOpen, "runs"}},
      {"PAUSED", {Meaning::kPruned, "waits to go on"}}, {"CANCELLED", {Meaning::kFailed, "cancelled"}}};
  std::map<std::string, Layer> layers;
  const double close = (last - first) / kTimeColumns;
  std::size_t place = 0;
  for (auto& [worker, by_state] : rows) {
    const bool has_row = place < kMostRows;
    const double y = static_cast<double>(has_row ? place : kMostRows);
    if (has_row) panel.y.ticks.emplace_back(y, worker.empty() ? "nobody" : Shown(worker));
    ++place;
    for (auto& [state, runs] : by_state) {
      const auto known = states.find(state);
      if (known == states.end()) continue;
      Layer& layer = layers[known->second.second];
      layer.mark = Mark::kBoxes;
      layer.meaning = known->second.first;
      layer.name = known->second.second;
      std::sort(runs.begin(), runs.end(), [](const Run& a, const Run& b) { return a.begin < b.begin; });
      for (std::size_t i = 0; i < runs.size();) {
        Run run = runs[i];
        for (++i; i < runs.size() && runs[i].begin <= run.end + close && runs[i].end - run.begin < 4 * close; ++i) {
          run.end = std::max(run.end, runs[i].end);
        }
        layer.x.push_back(run.begin / unit.seconds);
        layer.x2.push_back(run.end / unit.seconds);
        layer.y.push_back(y - 0.38);
        layer.y2.push_back(y + 0.38);
        layer.trials.push_back(run.trial);
      }
    }
  }
  if (place > kMostRows) {
    panel.y.ticks.emplace_back(kMostRows, absl::StrCat(place - kMostRows, " others"));
  }
  for (auto& [name, layer] : layers) panel.layers.push_back(std::move(layer));
  if (panel.layers.empty()) panel.empty = "no trial has begun yet";
  panel.y.min = -0.7;
  panel.y.max = static_cast<double>(std::min(place, kMostRows + 1)) - 0.3;
  figure.caption = absl::StrCat(Counts(subject), " by ", place, place == 1 ? " worker" : " workers", ", in ",
                                Number(place == 0 ? 0.0 : (last - first) / unit.seconds), " ", unit.word, ".");
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

// Returns the steps at which the study's algorithm compares trials.
std::vector<double> Rungs(const v1::Study& study) {
  v1::StudySpec spec = study.spec();
  if (study.has_resolved_algorithm()) *spec.mutable_algorithm() = study.resolved_algorithm();
  const v1::Algorithm& algorithm = spec.algorithm();
  if (!algorithm.has_successive_halving() && !algorithm.has_hyperband() && !algorithm.has_asha()) return {};
  const auto parsed = wire::FromProto(spec);
  if (!parsed.ok()) return {};
  std::vector<double> steps;
  for (const study::Bracket& bracket : study::BracketsOf(*parsed)) {
    steps.insert(steps.end(), bracket.steps.begin(), bracket.steps.end());
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  if (steps.size() > kMostRungLines) steps.resize(kMostRungLines);
  return steps;
}

// Returns the median of the curves' values at each step that at least three of them have.
Layer MedianCurve(const std::vector<v1::Trial>& trials, const std::string& metric) {
  Layer layer{.mark = Mark::kLine, .meaning = Meaning::kOther, .name = "median"};
  std::map<std::int64_t, std::vector<double>> by_step;
  for (const v1::Trial& trial : trials) {
    for (const v1::Measurement& point : trial.measurements()) {
      const auto value = point.metrics().find(metric);
      if (value != point.metrics().end() && std::isfinite(value->second))
        by_step[point.step()].push_back(value->second);
    }
  }
  for (auto& [step, values] : by_step) {
    if (values.size() < 3) continue;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    layer.x.push_back(static_cast<double>(step));
    layer.y.push_back(values[values.size() / 2]);
  }
  return layer;
}

}  // namespace

Figure Curves(const Subject& subject, const std::vector<v1::Trial>& trials) {
  Figure figure{.kind = "curves", .title = absl::StrCat("Learning curves of ", Shown(subject.id))};
  Panel panel;
  const std::string& unit = subject.study.spec().resource().unit();
  panel.x = {.label = unit.empty() ? "step" : Shown(unit)};
  std::vector<double> all;
  Layer ends{.meaning = Meaning::kPruned, .name = "stopped early"};
  std::vector<Layer> curves;
  bool infeasible = false;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Layer curve{.mark = Mark::kLine, .meaning = Meaning::kShaded, .shade = Shade(i, trials.size())};
    if (trials[i].has_feasible() && !trials[i].feasible()) {
      curve = {.mark = Mark::kLine, .meaning = Meaning::kInfeasible, .name = infeasible ? "" : "beyond a bound"};
    }
    for (const v1::Measurement& point : trials[i].measurements()) {
      const auto value = point.metrics().find(subject.metric);
      if (value == point.metrics().end()) continue;
      curve.x.push_back(static_cast<double>(point.step()));
      curve.y.push_back(value->second);
      curve.trials.push_back(trials[i].number());
      all.push_back(value->second);
    }
    if (curve.x.empty()) continue;
    infeasible |= curve.meaning == Meaning::kInfeasible;
    if (trials[i].state() == v1::Trial::PRUNED) {
      ends.x.push_back(curve.x.back());
      ends.y.push_back(curve.y.back());
      ends.trials.push_back(trials[i].number());
    }
    curves.push_back(std::move(curve));
  }
  panel.y = MetricAxis(subject.metric, all, subject.maximize());
  CloseAxis(all, &panel.y);
  const std::size_t shown = curves.size();
  // Better ones are drawn over worse ones.
  for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve) panel.layers.push_back(std::move(*curve));
  if (panel.layers.empty()) panel.empty = "no trial has reported a learning curve";
  Layer median = MedianCurve(trials, subject.metric);
  if (median.x.size() > 1) panel.layers.push_back(std::move(median));
  const std::vector<double> rungs = Rungs(subject.study);
  Layer lines{.mark = Mark::kSegments, .meaning = Meaning::kReference, .name = "rung"};
  for (const double rung : rungs) {
    lines.x.push_back(rung);
    lines.x2.push_back(rung);
    lines.y.push_back(*panel.y.min);
    lines.y2.push_back(*panel.y.max);
  }
  if (!rungs.empty() && shown > 0) panel.layers.push_back(std::move(lines));
  // Rungs are powers, so that their distances are equal on a logarithmic axis; a curve may begin at step 0, though.
  panel.x.log = rungs.size() > 2;
  for (const Layer& layer : panel.layers) {
    for (const double x : layer.x) panel.x.log = panel.x.log && x > 0.0;
  }
  if (!ends.x.empty()) panel.layers.push_back(std::move(ends));
  figure.caption =
      absl::StrCat(shown, shown == 1 ? " curve" : " curves", ", the darker the better",
                   infeasible ? "; those of trials beyond a bound are dashed" : "", "; ", subject.BestText(), ".");
  if (subject.is_objective()) {
    absl::StrAppend(&figure.caption, " The ", subject.maximize() ? "largest" : "smallest", " value is the best.");
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace luthier::plot
