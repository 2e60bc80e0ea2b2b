// Figures in which trials follow each other: history, edf, timeline, curves.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

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
constexpr std::size_t kFewMarks = 2000;  // Marks that may lie over a line.

std::string Number(double value) {
  return absl::StrFormat("%.6g", value);
}

std::string NothingYet(const Subject& subject) {
  return subject.metric == "value" ? "no trial has a result yet"
                                   : absl::StrCat("no trial has a value of ", Shown(subject.metric), " yet");
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
    const std::string& state = subject.trials.Word("state", row);
    if (!std::isfinite(values[row]) || (state != "COMPLETE" && state != "PRUNED")) continue;
    if (!origin.empty() && subject.trials.Word("origin", row) != origin) continue;
    last = numbers[row];  // The line goes on beside trials that can't be the best one.
    if (state != "COMPLETE" || !subject.feasible(row)) continue;
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
  Layer paused{.meaning = Meaning::kOpen, .name = "paused, with its value so far"};
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
    } else if (state == "PAUSED" && !IsOutside(panel->y, y, subject.maximize())) {
      layer = &paused;
    }
    if (layer == nullptr || !std::isfinite(y)) continue;
    layer->x.push_back(x[row]);
    layer->y.push_back(y);
    layer->trials.push_back(static_cast<std::int64_t>(numbers[row]));
  }
  for (Layer* layer : {&complete, &pruned, &outside, &infeasible, &failed, &paused}) {
    if (!layer->x.empty()) panel->layers.push_back(std::move(*layer));
  }
}

std::string Counts(const Subject& subject) {
  std::map<std::string, int> counts;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) ++counts[subject.trials.Word("state", row)];
  std::string text = absl::StrCat(subject.trials.rows(), subject.trials.rows() == 1 ? " trial" : " trials");
  for (const auto& [state, word] :
       {std::pair("FAILED", "failed"), std::pair("PRUNED", "stopped early"), std::pair("PAUSED", "paused")}) {
    if (counts[state] > 0) absl::StrAppend(&text, ", ", counts[state], " ", word);
  }
  std::size_t infeasible = 0;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!subject.feasible(row)) ++infeasible;
  }
  if (infeasible > 0) absl::StrAppend(&text, ", ", infeasible, " beyond a bound");
  return text;
}

// Returns a sentence that says why a better value of a trial that was stopped early is not the best one; "": there is
// none.
std::string EarlierSteps(const Subject& subject) {
  const std::optional<std::size_t> best = subject.best();
  if (!best) return "";
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (subject.trials.Word("state", row) == "PRUNED" && subject.feasible(row) &&
        IsBetter(subject, subject.values()[row], subject.values()[*best])) {
      return " Values of trials that were stopped early are from an earlier step, so that none of them is the best.";
    }
  }
  return "";
}

// Moves the layers whose marks are told apart by their shapes behind the others, so that lines do not hide them, unless
// there are so many marks that they would hide the lines.
void PutShapesOver(std::vector<Layer>* layers) {
  std::stable_partition(layers->begin(), layers->end(), [](const Layer& layer) {
    const bool shapes = layer.meaning == Meaning::kInfeasible || layer.meaning == Meaning::kFailed;
    return !shapes || layer.mark != Mark::kPoints || layer.x.size() > kFewMarks;
  });
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
  // A line of one trial has no length.
  const bool alone = line.x.size() == 1;
  if (alone && !others.empty()) line.mark = Mark::kPoints;
  if (!line.x.empty() && (!alone || !others.empty())) panel.layers.push_back(std::move(line));
  PutShapesOver(&panel.layers);
  if (const auto best = subject.best(); best && others.empty()) {
    const double number = subject.trials.Numbers("number")[*best];
    panel.layers.push_back({.meaning = Meaning::kBest,
                            .name = absl::StrCat("best, trial ", static_cast<std::int64_t>(number)),
                            .x = {number},
                            .y = {subject.values()[*best]},
                            .trials = {static_cast<std::int64_t>(number)}});
  }
  figure.caption = absl::StrCat(Counts(subject), "; ", subject.BestText(), ".", EarlierSteps(subject));
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

namespace {

// Runs are kept by worker and state.
using Runs = std::map<std::string, std::map<std::string, std::vector<Run>>>;

// Returns when a trial's only attempt ended, which is not when the trial became final if it was paused before, or the
// trial's end; `open` if it has none.
double EndOf(const Subject& subject, std::size_t row, double open) {
  const double seconds = subject.trials.Numbers("seconds")[row];
  if (subject.trials.Numbers("attempts")[row] == 1.0 && std::isfinite(seconds)) {
    return subject.trials.Numbers("start_time")[row] + seconds;
  }
  const double end = subject.trials.Numbers("end_time")[row];
  return std::isfinite(end) ? end : open;
}

double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + 1e-9 * time.nanos();
}

// Adds a run for each attempt of a trial, which waits between them.
void AddAttempts(const v1::Trial& trial, double first, double last, Runs* rows) {
  for (int i = 0; i < trial.attempts_size(); ++i) {
    const v1::Attempt& attempt = trial.attempts(i);
    const bool is_last = i + 1 == trial.attempts_size();
    const bool pauses = attempt.outcome() == v1::Attempt::PAUSED && (!is_last || trial.state() == v1::Trial::PAUSED);
    const std::string state = pauses ? "PAUSED" : is_last ? v1::Trial::State_Name(trial.state()) : "GIVEN_UP";
    const double begin = SecondsOf(attempt.start_time());
    const double end = attempt.has_end_time() ? SecondsOf(attempt.end_time()) : last;
    (*rows)[attempt.worker()][state].push_back({begin - first, std::max(begin, end) - first, trial.number()});
  }
}

// Returns when the first trial began, and when the last one ended; those that run do so until now.
std::pair<double, double> SpanOf(const Subject& subject) {
  const std::vector<double>& starts = subject.trials.Numbers("start_time");
  double first = std::numeric_limits<double>::infinity();
  double last = -first;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!std::isfinite(starts[row])) continue;
    const bool runs = subject.now && subject.trials.Word("state", row) == "RUNNING";
    first = std::min(first, starts[row]);
    last = std::max({last, starts[row], EndOf(subject, row, runs ? *subject.now : starts[row])});
  }
  return {first, last};
}

}  // namespace

Figure Timeline(const Subject& subject, const std::vector<v1::Trial>& several) {
  Figure figure{.kind = "timeline", .title = absl::StrCat("When the trials of ", Shown(subject.id), " ran")};
  Panel panel;
  const std::vector<double>& starts = subject.trials.Numbers("start_time");
  const auto [first, last] = SpanOf(subject);
  Runs rows;
  std::map<std::int64_t, const v1::Trial*> attempts_of;
  for (const v1::Trial& trial : several) attempts_of[trial.number()] = &trial;
  int unknown = 0;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (!std::isfinite(starts[row])) continue;
    const auto number = static_cast<std::int64_t>(subject.trials.Numbers("number")[row]);
    const auto found = attempts_of.find(number);
    if (found != attempts_of.end()) {
      AddAttempts(*found->second, first, last, &rows);
      continue;
    }
    if (subject.trials.Numbers("attempts")[row] > 1.0) ++unknown;
    const double end = EndOf(subject, row, last);
    rows[subject.trials.Word("worker", row)][subject.trials.Word("state", row)].push_back(
        {starts[row] - first, std::max(end, starts[row]) - first, number});
  }
  const Unit unit = UnitOf(last - first);
  panel.x = {.label = absl::StrCat(unit.word, " since the first trial began")};
  const std::map<std::string, std::pair<Meaning, const char*>> states = {
      {"COMPLETE", {Meaning::kTrial, "complete"}},        {"PRUNED", {Meaning::kPruned, "stopped early"}},
      {"FAILED", {Meaning::kFailed, "failed"}},           {"RUNNING", {Meaning::kOpen, "runs"}},
      {"PAUSED", {Meaning::kOther, "ran until a pause"}}, {"CANCELLED", {Meaning::kFailed, "cancelled"}},
      {"GIVEN_UP", {Meaning::kFailed, "given up"}}};
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
  if (unknown > 0) {
    absl::StrAppend(&figure.caption, " ", unknown,
                    " trials of several attempts are drawn as one box from the first to the last.");
  }
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

// Returns the points of a trial's learning curve, which ends at its result. NaN and infinite values are kept.
Layer CurveOf(const v1::Trial& trial, const std::string& metric) {
  Layer curve{.mark = Mark::kLine, .meaning = Meaning::kShaded};
  const auto add = [&](const v1::Measurement& point) {
    const auto value = point.metrics().find(metric);
    if (value == point.metrics().end()) return;
    curve.x.push_back(static_cast<double>(point.step()));
    curve.y.push_back(value->second);
    curve.trials.push_back(trial.number());
  };
  for (const v1::Measurement& point : trial.measurements()) add(point);
  if (!curve.x.empty() && trial.has_final_measurement() &&
      static_cast<double>(trial.final_measurement().step()) > curve.x.back()) {
    add(trial.final_measurement());
  }
  return curve;
}

// Returns the value of a curve at a step, by a straight line between its points; NaN before its first one.
double ValueOn(const Layer& curve, double step) {
  const auto at = std::lower_bound(curve.x.begin(), curve.x.end(), step);
  if (at == curve.x.end()) return kGap;
  const auto k = static_cast<std::size_t>(at - curve.x.begin());
  if (*at == step) return curve.y[k];
  if (k == 0) return kGap;
  return curve.y[k - 1] + (step - curve.x[k - 1]) / (*at - curve.x[k - 1]) * (curve.y[k] - curve.y[k - 1]);
}

// Returns the median of the curves at each step up to which at least half of them last, and at least three.
Layer MedianCurve(const std::vector<Layer>& curves) {
  Layer layer{.mark = Mark::kLine, .meaning = Meaning::kOther, .name = "median"};
  std::set<double> steps;
  for (const Layer& curve : curves) steps.insert(curve.x.begin(), curve.x.end());
  for (const double step : steps) {
    std::vector<double> values;
    std::size_t left = 0;
    for (const Layer& curve : curves) {
      if (curve.x.back() < step) continue;
      ++left;
      const double value = ValueOn(curve, step);
      if (std::isfinite(value)) values.push_back(value);
    }
    if (left < 3 || 2 * left < curves.size()) break;
    if (values.size() < 3 || 2 * values.size() < left) continue;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    layer.x.push_back(step);
    layer.y.push_back(values[values.size() / 2]);
  }
  return layer;
}

// Draws the best trial's curve over the others, with its name.
void MarkBest(const Subject& subject, std::vector<Layer>* layers) {
  const std::optional<std::size_t> best = subject.best();
  if (!best) return;
  const auto number = static_cast<std::int64_t>(subject.trials.Numbers("number")[*best]);
  for (auto layer = layers->begin(); layer != layers->end(); ++layer) {
    if (layer->mark != Mark::kLine || layer->trials.empty() || layer->trials[0] != number) continue;
    Layer first = std::move(*layer);
    layers->erase(layer);
    first.meaning = Meaning::kBest;
    first.shade.reset();
    first.name = absl::StrCat("best, trial ", number);
    layers->push_back(std::move(first));
    return;
  }
}

}  // namespace

namespace {

// Returns the trials as they rank: by result, those without one by their last finite point; without any they are last.
std::vector<const v1::Trial*> Ranked(const Subject& subject, const std::vector<v1::Trial>& trials) {
  const auto loss = [&](const v1::Trial& trial) {
    double last = std::numeric_limits<double>::infinity();
    const auto look = [&](const v1::Measurement& point) {
      const auto value = point.metrics().find(subject.metric);
      if (value == point.metrics().end() || !std::isfinite(value->second)) return;
      last = subject.maximize() ? -value->second : value->second;
    };
    for (const v1::Measurement& point : trial.measurements()) look(point);
    if (trial.has_final_measurement()) look(trial.final_measurement());
    return last;
  };
  std::vector<std::pair<double, const v1::Trial*>> ranks;
  for (const v1::Trial& trial : trials) ranks.emplace_back(loss(trial), &trial);
  std::stable_sort(ranks.begin(), ranks.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const v1::Trial*> ranked;
  for (const auto& [rank, trial] : ranks) ranked.push_back(trial);
  return ranked;
}

}  // namespace

Figure Curves(const Subject& subject, const std::vector<v1::Trial>& several) {
  const std::vector<const v1::Trial*> trials = Ranked(subject, several);
  Figure figure{.kind = "curves", .title = absl::StrCat("Learning curves of ", Shown(subject.id))};
  Panel panel;
  const std::string& unit = subject.study.spec().resource().unit();
  panel.x = {.label = unit.empty() ? "step" : Shown(unit)};
  std::vector<double> all;
  Layer ends{.meaning = Meaning::kPruned, .name = "stopped early"};
  std::vector<Layer> curves;
  bool infeasible = false;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    Layer curve = CurveOf(*trials[i], subject.metric);
    if (curve.x.empty()) continue;
    all.insert(all.end(), curve.y.begin(), curve.y.end());
    if (trials[i]->has_feasible() && !trials[i]->feasible()) {
      curve.meaning = Meaning::kInfeasible;
      curve.name = infeasible ? "" : "beyond a bound";
    } else {
      curve.shade = Shade(i, trials.size());
    }
    infeasible |= curve.meaning == Meaning::kInfeasible;
    if (trials[i]->state() == v1::Trial::PRUNED) {
      ends.x.push_back(curve.x.back());
      ends.y.push_back(curve.y.back());
      ends.trials.push_back(trials[i]->number());
    }
    curves.push_back(std::move(curve));
  }
  panel.y = MetricAxis(subject.metric, all, subject.maximize());
  CloseAxis(all, &panel.y);
  const std::size_t shown = curves.size();
  Layer median = MedianCurve(curves);
  bool ends_early = false;
  for (const Layer& curve : curves) ends_early |= !median.x.empty() && curve.x.back() > median.x.back();
  // Better ones are drawn over worse ones.
  for (auto curve = curves.rbegin(); curve != curves.rend(); ++curve) panel.layers.push_back(std::move(*curve));
  if (panel.layers.empty()) panel.empty = "no trial has reported a learning curve";
  ends_early &= median.x.size() > 1;
  if (median.x.size() > 1) panel.layers.push_back(std::move(median));
  MarkBest(subject, &panel.layers);
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
  if (ends_early) {
    absl::StrAppend(&figure.caption,
                    " The median ends where fewer than half of the trials that began are left, or fewer than three.");
  }
  absl::StrAppend(&figure.caption, EarlierSteps(subject));
  if (subject.is_objective()) {
    absl::StrAppend(&figure.caption, " The ", subject.maximize() ? "largest" : "smallest", " value is the best.");
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace luthier::plot
