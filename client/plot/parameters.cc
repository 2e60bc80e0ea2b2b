// Figures over the parameters: slice, contour, parallel, importance.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/plot/figures.h"

namespace luthier::plot {
namespace {

constexpr double kBreak = std::numeric_limits<double>::quiet_NaN();
constexpr int kSliceSettings = 40;             // Settings along an axis.
constexpr int kMostSettings = 1000;            // In a request.
constexpr int kGridSettings = 30;              // Settings along each axis of a grid.
constexpr int kLeastBins = 8, kMostBins = 24;  // Fields along each axis, where trials are averaged.
constexpr std::size_t kBestLines = 1000;
constexpr std::size_t kOtherLines = 500;
constexpr int kShades = 8;
constexpr std::size_t kTitled = 26;  // Characters of a name in a title.
constexpr std::size_t kMostBars = 30;
constexpr double kArrow = 0.045;  // Length of a slope's line, as a share of the frame.
constexpr double kAspect = 0.8;   // Height of a panel by its width.

std::string Six(double value) {
  return absl::StrFormat("%.6g", value);
}

bool HasResult(const Subject& subject, std::size_t row) {
  const std::string& state = subject.trials.Word("state", row);
  return (state == "COMPLETE" || state == "PRUNED") && std::isfinite(subject.values()[row]);
}

// Returns whether the trial was stopped before its last step, so that its value is that of an earlier one.
bool StoppedEarly(const Subject& subject, std::size_t row) {
  return subject.trials.Word("state", row) == "PRUNED";
}

// True for a parameter on whose value others depend: along its axis they would come and go.
bool IsParent(const Subject& subject, const std::string& name) {
  for (const v1::ParameterSpec& spec : subject.study.spec().space()) {
    if (spec.has_condition() && spec.condition().parent() == name) return true;
  }
  return false;
}

// Returns the parameters of the best trial; nullopt: there is none, or some of its parameters are vectors, of which a
// table has the least and largest numbers alone.
std::optional<google::protobuf::Struct> BestSetting(const Subject& subject) {
  const std::optional<std::size_t> best = subject.best();
  if (!best) return std::nullopt;
  std::vector<std::string> names;
  for (const v1::ParameterSpec& spec : subject.study.spec().space()) names.push_back(spec.name());
  const auto axes = ParameterAxis::Of(subject, names, names.size());
  if (!axes.ok()) return std::nullopt;
  google::protobuf::Struct setting;
  for (const ParameterAxis& axis : *axes) {
    if (axis.is_vector()) return std::nullopt;
    const double value = axis.At(subject.trials, *best);
    if (std::isfinite(value)) (*setting.mutable_fields())[axis.name()] = axis.ValueAt(value);
  }
  return setting;
}

// Returns the coordinates along an axis at which a model is asked.
std::vector<double> Coordinates(const ParameterAxis& axis, int most) {
  std::vector<double> places;
  const std::optional<int> levels = axis.levels();
  const int count = std::min(levels.value_or(most), most);
  const bool labels = !axis.axis().ticks.empty() && levels;
  for (int i = 0; i < count; ++i) {
    places.push_back(labels ? i : axis.CoordinateAt(count == 1 ? 0.5 : static_cast<double>(i) / (count - 1)));
  }
  return places;
}

int SettingsAlong(std::size_t axes) {
  return std::clamp(kMostSettings / static_cast<int>(std::max<std::size_t>(axes, 1)), 2, kSliceSettings);
}

// True if a model can be asked along this axis through the setting.
bool CanAsk(const Subject& subject, const google::protobuf::Struct& setting, const ParameterAxis& axis) {
  return setting.fields().count(axis.name()) > 0 && axis.levels() != 1 && !IsParent(subject, axis.name());
}

// Returns the coordinates of trials' values on a panel's axes, in layers by how they ended.
struct Scatter {
  Layer trials{.meaning = Meaning::kShaded, .name = "a trial"};
  Layer stopped{.meaning = Meaning::kPruned, .name = "stopped early"};
  Layer outside{.meaning = Meaning::kOutside, .name = "worse than the frame shows"};
  Layer infeasible{.meaning = Meaning::kInfeasible, .name = "beyond a bound"};
  Layer failed{.meaning = Meaning::kFailed, .name = "failed"};
};

void AddScatter(const Subject& subject, const ParameterAxis& axis, Panel* panel) {
  Scatter scatter;
  const std::vector<double>& numbers = subject.trials.Numbers("number");
  const double edge = EdgeOf(panel->y, subject.maximize());
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    const double x = axis.At(subject.trials, row);
    if (!std::isfinite(x)) continue;
    Layer* layer = nullptr;
    double y = edge;
    if (HasResult(subject, row)) {
      const bool far = IsOutside(panel->y, subject.values()[row], subject.maximize());
      layer = far ? &scatter.outside : StoppedEarly(subject, row) ? &scatter.stopped : &scatter.trials;
      if (!far) y = subject.values()[row];
      if (!subject.feasible(row)) layer = &scatter.infeasible;
    } else if (subject.trials.Word("state", row) == "FAILED") {
      layer = &scatter.failed;
    }
    if (layer == nullptr || !std::isfinite(y)) continue;
    layer->x.push_back(x);
    layer->y.push_back(y);
    layer->trials.push_back(static_cast<std::int64_t>(numbers[row]));
    if (layer == &scatter.trials) layer->colour.push_back(numbers[row]);
  }
  for (Layer* layer : {&scatter.trials, &scatter.stopped, &scatter.outside, &scatter.infeasible, &scatter.failed}) {
    if (!layer->x.empty()) panel->layers.push_back(std::move(*layer));
  }
}

// Adds the mean of the model and two deviations around it, and moves `at` behind its answers.
void AddModel(const ParameterAxis& axis, int most, const v1::PredictResponse& response, int* at, Panel* panel) {
  Layer band{.mark = Mark::kBand, .meaning = Meaning::kModel, .name = "two deviations of the model"};
  Layer mean{.mark = Mark::kLine, .meaning = Meaning::kModel, .name = "mean of the model"};
  for (const double x : Coordinates(axis, most)) {
    if (*at >= response.predictions_size()) return;
    const v1::PredictResponse::Prediction& expected = response.predictions((*at)++);
    mean.x.push_back(x);
    mean.y.push_back(expected.mean());
    band.x.push_back(x);
    band.y.push_back(expected.mean() - 2.0 * expected.sd());
    band.y2.push_back(expected.mean() + 2.0 * expected.sd());
  }
  panel->layers.insert(panel->layers.begin(), {std::move(band), std::move(mean)});
}

// Returns the place of each parameter's derivative in a gradient; vectors and numbers with steps have none here.
std::map<std::string, int> GradientPlaces(const v1::StudySpec& spec) {
  std::map<std::string, int> places;
  int next = 0;
  for (const v1::ParameterSpec& parameter : spec.space()) {
    if (!parameter.has_float_() || parameter.float_().has_step()) continue;
    if (!parameter.has_count()) places[parameter.name()] = next;
    next += parameter.has_count() ? parameter.count() : 1;
  }
  return places;
}

// Adds a short line through each trial in the direction in which the reported gradient says that the metric changes.
void AddGradients(const Subject& subject, const ParameterAxis& axis, const std::vector<v1::Trial>& trials,
                  Panel* panel) {
  const std::map<std::string, int> places = GradientPlaces(subject.study.spec());
  const auto place = places.find(axis.name());
  if (place == places.end()) return;
  Layer layer{.mark = Mark::kSegments, .meaning = Meaning::kGradient, .name = "reported slope"};
  for (const v1::Trial& trial : trials) {
    const v1::Measurement& result = trial.final_measurement();
    const auto value = result.metrics().find(subject.metric);
    const auto parameter = trial.parameters().fields().find(axis.name());
    if (value == result.metrics().end() || parameter == trial.parameters().fields().end()) continue;
    if (place->second >= result.gradient().full().values_size()) continue;
    double x = parameter->second.number_value();
    if (axis.axis().log && x <= 0.0) continue;
    if (!axis.axis().ticks.empty()) x = std::log(x / (1.0 - x));  // Only the logit scales of floats have ticks.
    const double y = PlaceOn(panel->y, value->second);
    // One end of the y axis is a step of this size away in units of the metric, so that d(share)/d(metric) is:
    const double per_metric = panel->y.log ? 1.0 / (value->second * std::log(*panel->y.max / *panel->y.min))
                                           : 0.5 / (0.5 * *panel->y.max - 0.5 * *panel->y.min);
    const double slope = result.gradient().full().values(place->second) * per_metric / axis.SharePerUnit(x);
    if (!std::isfinite(slope) || !(y >= 0.0 && y <= 1.0)) continue;
    const double dx = kArrow / std::hypot(1.0, slope * kAspect);
    const double share = axis.Share(x);
    layer.x.push_back(axis.CoordinateAt(share - dx));
    layer.x2.push_back(axis.CoordinateAt(share + dx));
    layer.y.push_back(ValueAt(panel->y, y + slope * (axis.Share(layer.x.back()) - share)));
    layer.y2.push_back(ValueAt(panel->y, y + slope * (axis.Share(layer.x2.back()) - share)));
    layer.trials.push_back(trial.number());
  }
  if (!layer.x.empty()) panel->layers.push_back(std::move(layer));
}

void AddBest(const Subject& subject, double x, double y, Panel* panel) {
  if (!std::isfinite(x) || !std::isfinite(y)) return;
  const auto number = static_cast<std::int64_t>(subject.trials.Numbers("number")[*subject.best()]);
  panel->layers.push_back({.meaning = Meaning::kBest,
                           .name = absl::StrCat("best, trial ", number),
                           .x = {x},
                           .y = {y},
                           .trials = {number}});
}

// Returns a sentence about the best trial where it is not the plain one: in studies with bounds, and where there is
// none.
std::string BestSentence(const Subject& subject) {
  if (!subject.trials.Has("feasible")) return "";
  std::string text = subject.BestText();
  text.front() = absl::ascii_toupper(static_cast<unsigned char>(text.front()));
  return absl::StrCat(" ", text, "; trials beyond a bound have a mark of their own.");
}

std::string ModelText(const Expectation& model, const char* what) {
  if (model.response) return absl::StrCat(" ", what);
  return model.why_not.empty() ? "" : absl::StrCat(" No model: ", Shown(model.why_not, 200), ".");
}

}  // namespace

v1::PredictRequest SliceSettings(const Subject& subject, const std::vector<ParameterAxis>& axes) {
  v1::PredictRequest request;
  const std::optional<google::protobuf::Struct> best = BestSetting(subject);
  if (!best || subject.metric != subject.study.spec().metric().name()) return request;
  for (const ParameterAxis& axis : axes) {
    if (!CanAsk(subject, *best, axis)) continue;
    for (const double x : Coordinates(axis, SettingsAlong(axes.size()))) {
      google::protobuf::Struct* const setting = request.add_settings();
      *setting = *best;
      (*setting->mutable_fields())[axis.name()] = axis.ValueAt(x);
    }
  }
  return request;
}

Figure Slice(const Subject& subject, const std::vector<ParameterAxis>& axes, const Expectation& model,
             const std::vector<v1::Trial>& with_gradients) {
  Figure figure{.kind = "slice",
                .title = absl::StrCat(Shown(subject.metric), " over the parameters of ", Shown(subject.id))};
  figure.columns = static_cast<int>(std::clamp<std::size_t>(axes.size(), 1, 3));
  const std::optional<google::protobuf::Struct> setting = BestSetting(subject);
  int at = 0;
  for (const ParameterAxis& axis : axes) {
    Panel panel;
    panel.x = axis.axis();
    panel.y = subject.ValueAxis();
    panel.colour = Axis{.label = "trial"};
    AddScatter(subject, axis, &panel);
    if (panel.layers.empty()) panel.empty = "no trial has a value here yet";
    if (model.response && setting && CanAsk(subject, *setting, axis)) {
      AddModel(axis, SettingsAlong(axes.size()), *model.response, &at, &panel);
    }
    AddGradients(subject, axis, with_gradients, &panel);
    if (const auto best = subject.best()) {
      AddBest(subject, axis.At(subject.trials, *best), subject.values()[*best], &panel);
    }
    figure.panels.push_back(std::move(panel));
  }
  if (axes.empty()) figure.panels.push_back({.empty = "the study has no parameter that varies"});
  figure.caption = absl::StrCat(
      "Each point is a trial, newer ones darker.",
      ModelText(model,
                "The line is what the model expects of the best trial's setting when this parameter alone changes."),
      BestSentence(subject));
  return figure;
}

v1::PredictRequest ContourSettings(const Subject& subject, const ParameterAxis& x, const ParameterAxis& y) {
  v1::PredictRequest request;
  const std::optional<google::protobuf::Struct> best = BestSetting(subject);
  if (!best || subject.metric != subject.study.spec().metric().name()) return request;
  if (!CanAsk(subject, *best, x) || !CanAsk(subject, *best, y)) return request;
  for (const double at_y : Coordinates(y, kGridSettings)) {
    for (const double at_x : Coordinates(x, kGridSettings)) {
      google::protobuf::Struct* const setting = request.add_settings();
      *setting = *best;
      (*setting->mutable_fields())[x.name()] = x.ValueAt(at_x);
      (*setting->mutable_fields())[y.name()] = y.ValueAt(at_y);
    }
  }
  return request;
}

namespace {

// The edges of `count` fields of equal width on an axis.
std::vector<double> Edges(const ParameterAxis& axis, int count) {
  std::vector<double> edges;
  const bool labels = !axis.axis().ticks.empty() && axis.levels();
  if (labels) count = *axis.levels();
  for (int i = 0; i <= count; ++i) {
    edges.push_back(labels ? i - 0.5 : axis.CoordinateAt(static_cast<double>(i) / count));
  }
  return edges;
}

// Returns the axis of colours: from the best value to that which a quarter are worse than, so that the good ones
// differ.
Axis ColourAxis(const std::string& label, const std::vector<double>& values, bool maximize) {
  std::vector<double> sorted;
  for (const double value : values) {
    if (std::isfinite(value)) sorted.push_back(value);
  }
  if (sorted.empty()) return MetricAxis(label, values, maximize);
  std::sort(sorted.begin(), sorted.end());
  const double best = maximize ? sorted.back() : sorted.front();
  const double share = (maximize ? 0.25 : 0.75) * static_cast<double>(sorted.size() - 1);
  const double usual = sorted[static_cast<std::size_t>(std::lround(share))];
  if (usual == best) return MetricAxis(label, values, maximize);
  return {.label = label, .min = std::min(best, usual), .max = std::max(best, usual)};
}

void AddField(const std::vector<double>& x, const std::vector<double>& y, std::size_t column, std::size_t row,
              double value, Layer* layer) {
  layer->x.push_back(x[column]);
  layer->x2.push_back(x[column + 1]);
  layer->y.push_back(y[row]);
  layer->y2.push_back(y[row + 1]);
  layer->colour.push_back(value);
}

Layer ModelFields(const ParameterAxis& x, const ParameterAxis& y, const v1::PredictResponse& response) {
  Layer layer{.mark = Mark::kBoxes, .meaning = Meaning::kShaded};
  const std::size_t columns = Coordinates(x, kGridSettings).size();
  const std::size_t rows = Coordinates(y, kGridSettings).size();
  const std::vector<double> x_edges = Edges(x, static_cast<int>(columns));
  const std::vector<double> y_edges = Edges(y, static_cast<int>(rows));
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t column = 0; column < columns; ++column) {
      const auto at = static_cast<int>(row * columns + column);
      if (at >= response.predictions_size()) return layer;
      AddField(x_edges, y_edges, column, row, response.predictions(at).mean(), &layer);
    }
  }
  return layer;
}

// Returns fields with the means of the complete trials in them.
Layer MeanFields(const Subject& subject, const ParameterAxis& x, const ParameterAxis& y) {
  Layer layer{.mark = Mark::kBoxes, .meaning = Meaning::kShaded};
  const auto bins = static_cast<int>(std::sqrt(static_cast<double>(subject.trials.rows())));
  const std::vector<double> x_edges = Edges(x, std::clamp(bins, kLeastBins, kMostBins));
  const std::vector<double> y_edges = Edges(y, std::clamp(bins, kLeastBins, kMostBins));
  const std::size_t columns = x_edges.size() - 1;
  const std::size_t rows = y_edges.size() - 1;
  std::vector<double> sums(columns * rows, 0.0);
  std::vector<double> counts(columns * rows, 0.0);
  const auto field = [](const ParameterAxis& axis, double coordinate, std::size_t count) {
    const double share = std::clamp(axis.Share(coordinate), 0.0, 1.0);
    return std::min(static_cast<std::size_t>(share * static_cast<double>(count)), count - 1);
  };
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    const double at_x = x.At(subject.trials, row);
    const double at_y = y.At(subject.trials, row);
    const bool counts_here = HasResult(subject, row) && !StoppedEarly(subject, row);
    if (!counts_here || !std::isfinite(at_x) || !std::isfinite(at_y)) continue;
    const std::size_t at = field(y, at_y, rows) * columns + field(x, at_x, columns);
    counts[at] += 1.0;
    sums[at] += (subject.values()[row] - sums[at]) / counts[at];  // The mean so far.
  }
  for (std::size_t at = 0; at < sums.size(); ++at) {
    if (counts[at] > 0.0) AddField(x_edges, y_edges, at % columns, at / columns, sums[at], &layer);
  }
  return layer;
}

}  // namespace

Figure Contour(const Subject& subject, const ParameterAxis& x, const ParameterAxis& y, const Expectation& model) {
  Figure figure{.kind = "contour"};
  figure.title = absl::StrCat(Shown(subject.metric), " over ", Shortened(x.axis().label, kTitled), " and ",
                              Shortened(y.axis().label, kTitled), " in ", Shown(subject.id));
  Panel panel;
  panel.x = x.axis();
  panel.y = y.axis();
  Layer fields = model.response ? ModelFields(x, y, *model.response) : MeanFields(subject, x, y);
  panel.colour = ColourAxis(subject.metric, fields.colour, subject.maximize());
  panel.dark_low = !subject.maximize();
  if (!fields.x.empty()) panel.layers.push_back(std::move(fields));
  Layer trials{.meaning = Meaning::kTrial, .name = "a trial"};
  Layer stopped{.meaning = Meaning::kPruned, .name = "stopped early"};
  Layer infeasible{.meaning = Meaning::kInfeasible, .name = "beyond a bound"};
  Layer failed{.meaning = Meaning::kFailed, .name = "failed"};
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    Layer* layer = nullptr;
    if (HasResult(subject, row)) {
      layer = !subject.feasible(row) ? &infeasible : StoppedEarly(subject, row) ? &stopped : &trials;
    } else if (subject.trials.Word("state", row) == "FAILED") {
      layer = &failed;
    }
    const double at_x = x.At(subject.trials, row);
    const double at_y = y.At(subject.trials, row);
    if (layer == nullptr || !std::isfinite(at_x) || !std::isfinite(at_y)) continue;
    layer->x.push_back(at_x);
    layer->y.push_back(at_y);
    layer->trials.push_back(static_cast<std::int64_t>(subject.trials.Numbers("number")[row]));
  }
  for (Layer* layer : {&trials, &stopped, &infeasible, &failed}) {
    if (!layer->x.empty()) panel.layers.push_back(std::move(*layer));
  }
  if (const auto best = subject.best()) {
    AddBest(subject, x.At(subject.trials, *best), y.At(subject.trials, *best), &panel);
  }
  if (panel.layers.empty()) panel.empty = "no trial has a value here yet";
  figure.caption = absl::StrCat(
      model.response
          ? "The colour is what the model expects when these two parameters change from the best trial's setting; the "
            "worst quarter is alike."
          : "The colour is the mean of the complete trials in each field; the worst quarter is alike.",
      ModelText(model, "Points are trials."), BestSentence(subject));
  figure.panels.push_back(std::move(panel));
  return figure;
}

namespace {

// Adds a trial's line through the axes of its parameters to its value, with a gap behind it. Returns whether it passes
// by an axis, since the trial has no value there.
bool AddLine(const Subject& subject, const std::vector<ParameterAxis>& axes, const Axis& metric, std::size_t row,
             Layer* layer) {
  const auto number = static_cast<std::int64_t>(subject.trials.Numbers("number")[row]);
  bool skips = false;
  const auto add = [&](double x, double y) {
    layer->x.push_back(x);
    layer->y.push_back(y);
    layer->trials.push_back(number);
  };
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const double share = axes[k].Share(axes[k].At(subject.trials, row));
    if (std::isfinite(share)) {
      add(static_cast<double>(k), share);
    } else {
      skips = true;
    }
  }
  add(static_cast<double>(axes.size()), std::clamp(PlaceOn(metric, subject.values()[row]), 0.0, 1.0));
  add(kBreak, kBreak);
  return skips;
}

// Returns what a picture of parallel coordinates says of its lines.
std::string LinesText(const Subject& subject, std::size_t drawn, std::size_t all, bool has_stopped, bool has_infeasible,
                      bool skips) {
  std::string text = drawn == 1
                         ? "The line is the only trial with a value."
                         : absl::StrCat("A line for each of ", drawn, drawn < all ? absl::StrCat(" of ", all) : "",
                                        " trials, the darker the better.");
  if (has_stopped) {
    absl::StrAppend(&text,
                    " Those of trials that were stopped early have values of an earlier step, and another dash.");
  }
  if (has_infeasible) {
    std::string best = subject.BestText();
    best.front() = absl::ascii_toupper(static_cast<unsigned char>(best.front()));
    absl::StrAppend(&text, " Those of trials beyond a bound are dashed. ", best, ".");
  }
  if (skips) absl::StrAppend(&text, " A line passes by the axes of parameters that its trial does not have.");
  return text;
}

}  // namespace

namespace {

// Returns the axis of the metric, whose ends are values of trials: they are read as results.
Axis AxisOfValues(const Subject& subject, const std::vector<std::size_t>& rows) {
  Axis axis = subject.ValueAxis();
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const std::size_t row : rows) {
    const double value = subject.values()[row];
    if (!std::isfinite(value) || IsOutside(axis, value, subject.maximize())) continue;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  if (low < high) {
    axis.min = low;
    axis.max = high;
  }
  return axis;
}

}  // namespace

Figure Parallel(const Subject& subject, const std::vector<ParameterAxis>& axes) {
  Figure figure{.kind = "parallel", .title = absl::StrCat("Settings and values of ", Shown(subject.id))};
  Panel panel;
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < subject.trials.rows(); ++row) {
    if (HasResult(subject, row)) rows.push_back(row);
  }
  const std::vector<double>& values = subject.values();
  const Axis metric = AxisOfValues(subject, rows);
  // The best come first, then those that were stopped early, and infeasible ones last.
  const auto late = [&](std::size_t row) { return !subject.feasible(row) ? 2 : StoppedEarly(subject, row) ? 1 : 0; };
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    if (late(a) != late(b)) return late(a) < late(b);
    return subject.maximize() ? values[a] > values[b] : values[a] < values[b];
  });
  const std::size_t all = rows.size();
  if (rows.size() > kBestLines + kOtherLines) {
    std::vector<std::size_t> kept(rows.begin(), rows.begin() + kBestLines);
    const std::size_t rest = rows.size() - kBestLines;
    for (std::size_t i = 0; i < kOtherLines; ++i) kept.push_back(rows[kBestLines + i * rest / kOtherLines]);
    rows = std::move(kept);
  }
  std::vector<Layer> layers(kShades, {.mark = Mark::kLine, .meaning = Meaning::kShaded});
  Layer stopped{.mark = Mark::kLine, .meaning = Meaning::kPruned, .name = "stopped early"};
  Layer infeasible{.mark = Mark::kLine, .meaning = Meaning::kInfeasible, .name = "beyond a bound"};
  const auto complete = static_cast<std::size_t>(
      std::count_if(rows.begin(), rows.end(), [&](std::size_t row) { return late(row) == 0; }));
  bool skips = false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto shade = static_cast<int>(i * kShades / std::max<std::size_t>(complete, 1));
    Layer& layer = i < complete         ? layers[static_cast<std::size_t>(kShades - 1 - shade)]
                   : late(rows[i]) == 1 ? stopped
                                        : infeasible;
    if (i < complete) layer.shade = 1.0 - static_cast<double>(shade) / (kShades - 1);
    if (AddLine(subject, axes, metric, rows[i], &layer)) skips = true;
  }
  const bool has_stopped = !stopped.x.empty();
  const bool has_infeasible = !infeasible.x.empty();
  layers.insert(layers.begin(), {std::move(infeasible), std::move(stopped)});
  for (Layer& layer : layers) {
    if (!layer.x.empty()) panel.layers.push_back(std::move(layer));
  }
  if (panel.layers.empty()) panel.empty = "no trial has a value yet";
  for (std::size_t k = 0; k <= axes.size(); ++k) {
    const Axis& axis = k < axes.size() ? axes[k].axis() : metric;
    const auto x = static_cast<double>(k);
    panel.x.ticks.emplace_back(x, axis.label);
    if (axis.ticks.empty()) {
      panel.notes.push_back({x, 0.0, Six(*axis.min), false});
      panel.notes.push_back({x, 1.0, Six(*axis.max), true});
    } else {
      for (const auto& [place, text] : axis.ticks) {
        panel.notes.push_back({x, (place - *axis.min) / (*axis.max - *axis.min), text, true});
      }
    }
    panel.layers.push_back(
        {.mark = Mark::kSegments, .meaning = Meaning::kReference, .x = {x}, .y = {0.0}, .x2 = {x}, .y2 = {1.0}});
  }
  panel.x.min = -0.3;
  panel.x.max = static_cast<double>(axes.size()) + 0.3;
  panel.y = {.min = -0.08, .max = 1.08, .ticks = {{-1.0, ""}}};
  figure.caption = LinesText(subject, rows.size(), all, has_stopped, has_infeasible, skips);
  const auto space = static_cast<std::size_t>(subject.study.spec().space_size());
  if (axes.size() < space) absl::StrAppend(&figure.caption, " ", axes.size(), " of ", space, " parameters are shown.");
  figure.panels.push_back(std::move(panel));
  return figure;
}

Figure Importance(const Subject& subject, const v1::GetImportanceResponse& importance) {
  Figure figure{.kind = "importance",
                .title = absl::StrCat("What ", Shown(subject.metric), " depends on in ", Shown(subject.id))};
  Panel panel;
  panel.x = {.label = "share of the variance", .min = 0.0, .max = 1.0};
  std::vector<const v1::GetImportanceResponse::Share*> shares;
  for (const auto& share : importance.parameters()) shares.push_back(&share);
  for (const auto& share : importance.pairs()) shares.push_back(&share);
  std::stable_sort(shares.begin(), shares.end(), [](const auto* a, const auto* b) { return a->share() > b->share(); });
  const std::size_t count = std::min(shares.size(), kMostBars);
  Layer bars{.mark = Mark::kBoxes, .meaning = Meaning::kTrial, .name = "share"};
  Layer whiskers{.mark = Mark::kWhiskers, .meaning = Meaning::kReference, .name = "interval: 5 % to 95 %"};
  double longest = 0.0;
  for (std::size_t i = 0; i < count; ++i) {
    const double y = static_cast<double>(count - 1 - i);  // The largest is on top.
    panel.y.ticks.emplace_back(y, Shown(absl::StrJoin(shares[i]->parameters(), " × "), 132));
    bars.x.push_back(0.0);
    bars.x2.push_back(shares[i]->share());
    bars.y.push_back(y - 0.3);
    bars.y2.push_back(y + 0.3);
    whiskers.x.push_back(shares[i]->low());
    whiskers.x2.push_back(shares[i]->high());
    whiskers.y.push_back(y);
    longest = std::max({longest, shares[i]->share(), shares[i]->high()});
  }
  panel.x.max = std::clamp(1.1 * longest, 0.1, 1.0);
  panel.y.min = -0.6;
  panel.y.max = static_cast<double>(count) - 0.4;
  if (count > 0) {
    panel.layers = {std::move(bars), std::move(whiskers)};
  } else {
    panel.empty = "the study has no parameter that varies";
  }
  figure.caption = absl::StrFormat(
      "From %d complete trials. A model of the shares predicts %.0f %% of the variance of trials that it has "
      "not seen.",
      importance.trials(), 100.0 * std::max(0.0, importance.predicted()));
  if (count < shares.size()) absl::StrAppend(&figure.caption, " ", count, " of ", shares.size(), " shares are shown.");
  if (importance.warnings_size() > 0) {
    figure.warning = importance.warnings(0);
    absl::StrAppend(&figure.caption, " ", figure.warning);
  }
  if (importance.warnings_size() > 1) {
    absl::StrAppend(&figure.caption, " luthier study importance has ", importance.warnings_size() - 1, " more ",
                    importance.warnings_size() == 2 ? "warning." : "warnings.");
  }
  figure.panels.push_back(std::move(panel));
  return figure;
}

}  // namespace luthier::plot
