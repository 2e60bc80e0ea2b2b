// Trials by two objectives, and those of which no other is as good in both.
#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/plot/figures.h"

namespace luthier::plot {
namespace {

// One of the two metrics: its values by row, and what the study says of it.
struct Direction {
  std::string name;
  const std::vector<double>* values;
  v1::MetricSpec spec;
  bool maximize() const { return spec.goal() == v1::MAXIMIZE; }
  // Returns a value that is the smaller, the better the row is.
  double Cost(std::size_t row) const { return maximize() ? -(*values)[row] : (*values)[row]; }
};

Direction Along(const Subject& subject, const std::string& name) {
  Direction along{.name = name, .values = &subject.trials.Numbers("metrics." + name), .spec = {}};
  if (subject.study.spec().metric().name() == name) along.spec = subject.study.spec().metric();
  for (const v1::MetricSpec& one : subject.study.spec().metrics()) {
    if (one.name() == name) along.spec = one;
  }
  return along;
}

void AddPoint(double x, double y, double number, Layer* layer) {
  layer->x.push_back(x);
  layer->y.push_back(y);
  layer->trials.push_back(static_cast<std::int64_t>(number));
}

// Returns an axis for the rows within bounds, and for those beyond one unless there are more of them.
Axis AxisOf(const Direction& along, const std::vector<std::size_t>& legal, const std::vector<std::size_t>& beyond) {
  std::vector<double> values;
  for (const std::size_t row : legal) values.push_back((*along.values)[row]);
  if (legal.empty() || beyond.size() <= legal.size()) {
    for (const std::size_t row : beyond) values.push_back((*along.values)[row]);
  }
  Axis axis = MetricAxis(Shown(along.name), values, along.maximize());
  CloseAxis(values, &axis);
  return axis;
}

double Within(const Axis& axis, const Direction& along, std::size_t row, bool* moved) {
  const double value = (*along.values)[row];
  const double at = std::clamp(value, *axis.min, *axis.max);
  if (at == value) return value;
  *moved = true;
  return IsOutside(axis, value, along.maximize()) ? EdgeOf(axis, along.maximize()) : at;
}

// Adds a line where a bound on one of the two metrics is, if the frame shows it.
void AddBounds(const Direction& along, bool across, Panel* panel) {
  const Axis& own = across ? panel->x : panel->y;
  const Axis& other = across ? panel->y : panel->x;
  const auto add = [&](double bound, const char* words) {
    if (!(bound >= *own.min && bound <= *own.max)) return;
    Layer line{.mark = Mark::kLine, .meaning = Meaning::kReference};
    line.name = absl::StrCat("the bound: ", Shown(along.name), words, absl::StrFormat("%.6g", bound));
    (across ? line.x : line.y) = {bound, bound};
    (across ? line.y : line.x) = {*other.min, *other.max};
    panel->layers.push_back(std::move(line));
  };
  if (along.spec.has_at_least()) add(along.spec.at_least(), " at least ");
  if (along.spec.has_at_most()) add(along.spec.at_most(), " at most ");
}

// Returns the bounds of the study as a sentence behind another; "": there are none.
std::string BoundsText(const v1::StudySpec& spec) {
  std::string text;
  for (const v1::MetricSpec& one : spec.metrics()) {
    const auto add = [&](const char* words, double bound) {
      absl::StrAppend(&text, text.empty() ? "" : ", ", Shown(one.name()), words, absl::StrFormat("%.6g", bound));
    };
    if (one.has_at_least()) add(" at least ", one.at_least());
    if (one.has_at_most()) add(" at most ", one.at_most());
  }
  return text.empty() ? "" : absl::StrCat(" Bounds: ", text, ".");
}

// Returns the rows of which no other is at least as good in both, by the first metric.
std::vector<std::size_t> FrontOf(const Direction& a, const Direction& b, std::vector<std::size_t> rows) {
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t p, std::size_t q) {
    return a.Cost(p) != a.Cost(q) ? a.Cost(p) < a.Cost(q) : b.Cost(p) < b.Cost(q);
  });
  std::vector<std::size_t> front;
  double least = std::numeric_limits<double>::infinity();
  for (const std::size_t row : rows) {
    if (b.Cost(row) >= least) continue;
    least = b.Cost(row);
    front.push_back(row);
  }
  return front;
}

}  // namespace

Figure Front(const Subject& subject, const std::string& across, const std::string& up) {
  Figure figure{.kind = "front"};
  figure.title = absl::StrCat(Shown(up), " against ", Shown(across), " in ", Shown(subject.id));
  const Direction a = Along(subject, across);
  const Direction b = Along(subject, up);
  const std::vector<double>& numbers = subject.trials.Numbers("number");
  std::vector<std::size_t> legal, beyond;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    const bool known = std::isfinite((*a.values)[row]) && std::isfinite((*b.values)[row]);
    if (subject.trials.Word("state", row) != "COMPLETE" || !known) continue;
    (subject.feasible(row) ? legal : beyond).push_back(row);
  }
  Panel panel;
  panel.x = AxisOf(a, legal, beyond);
  panel.y = AxisOf(b, legal, beyond);
  Layer trials{.meaning = Meaning::kTrial, .name = "a trial"};
  Layer outside{.meaning = Meaning::kOutside, .name = "worse than the frame shows"};
  Layer infeasible{.meaning = Meaning::kInfeasible, .name = "beyond a bound"};
  Layer line{.mark = Mark::kSteps, .meaning = Meaning::kIncumbent, .name = "the front: nothing is better in both"};
  Layer best{.meaning = Meaning::kBest, .name = "on the front of these two"};
  int far = 0;
  for (const auto* rows : {&legal, &beyond}) {
    for (const std::size_t row : *rows) {
      bool moved = false;
      const double x = Within(panel.x, a, row, &moved);
      const double y = Within(panel.y, b, row, &moved);
      AddPoint(x, y, numbers[row], rows == &beyond ? &infeasible : moved ? &outside : &trials);
      if (rows == &beyond && moved) ++far;
    }
  }
  for (const std::size_t row : FrontOf(a, b, legal)) {
    AddPoint((*a.values)[row], (*b.values)[row], numbers[row], &line);
    AddPoint((*a.values)[row], (*b.values)[row], numbers[row], &best);
  }
  const std::size_t count = best.x.size();
  for (Layer* layer : {&trials, &outside, &line, &infeasible, &best}) {
    if (!layer->x.empty()) panel.layers.push_back(std::move(*layer));
  }
  if (panel.layers.empty()) {
    panel.empty = "no trial has both values yet";
  } else {
    AddBounds(a, true, &panel);
    AddBounds(b, false, &panel);
  }
  figure.caption = absl::StrCat(count, count == 1 ? " trial is" : " trials are", " on the front of ", Shown(across),
                                " and ", Shown(up), ": no other is at least as good in both. The best corner is the ",
                                b.maximize() ? "upper " : "lower ", a.maximize() ? "right" : "left", " one.");
  if (!beyond.empty()) {
    absl::StrAppend(&figure.caption, " ", beyond.size(), beyond.size() == 1 ? " trial is" : " trials are",
                    " beyond a bound");
    if (far > 0) absl::StrAppend(&figure.caption, "; ", far, " of them at the edge, outside of the frame");
    absl::StrAppend(&figure.caption, ".");
  }
  absl::StrAppend(&figure.caption, BoundsText(subject.study.spec()));
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace luthier::plot
