#include "client/plot/figure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_map>

namespace luthier::plot {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
constexpr double kRoom = 0.03;  // Part of the range that stays free at each end.
constexpr double kLargest = std::numeric_limits<double>::max();
constexpr int kLineColumns = 1000;   // Columns in which a line keeps four points.
constexpr double kPanelWidth = 640;  // Pixels in which points are told apart.
constexpr double kPanelHeight = 320;

const char* MarkName(Mark mark) {
  switch (mark) {
    case Mark::kPoints:
      return "points";
    case Mark::kLine:
      return "line";
    case Mark::kSteps:
      return "steps";
    case Mark::kBand:
      return "band";
    case Mark::kSegments:
      return "segments";
    case Mark::kBoxes:
      return "boxes";
    case Mark::kWhiskers:
      return "whiskers";
  }
  return "points";
}

const char* MeaningName(Meaning meaning) {
  switch (meaning) {
    case Meaning::kTrial:
      return "trial";
    case Meaning::kPruned:
      return "pruned";
    case Meaning::kFailed:
      return "failed";
    case Meaning::kInfeasible:
      return "infeasible";
    case Meaning::kOutside:
      return "outside";
    case Meaning::kOpen:
      return "open";
    case Meaning::kBest:
      return "best";
    case Meaning::kIncumbent:
      return "incumbent";
    case Meaning::kOther:
      return "other";
    case Meaning::kReference:
      return "reference";
    case Meaning::kModel:
      return "model";
    case Meaning::kGradient:
      return "gradient";
    case Meaning::kShaded:
      return "shaded";
  }
  return "trial";
}

Json NumbersJson(const std::vector<double>& numbers) {
  Json list = Json::array();
  for (const double number : numbers) list.push_back(std::isfinite(number) ? Json(number) : Json(nullptr));
  return list;
}

Json AxisJson(const Axis& axis) {
  Json json{{"label", axis.label}, {"log", axis.log}};
  if (axis.min) json["min"] = *axis.min;
  if (axis.max) json["max"] = *axis.max;
  if (!axis.ticks.empty()) {
    json["ticks"] = Json::array();
    for (const auto& [place, text] : axis.ticks) json["ticks"].push_back(Json{{"at", place}, {"text", text}});
  }
  return json;
}

Json LayerJson(const Layer& layer) {
  Json json{{"mark", MarkName(layer.mark)}, {"role", MeaningName(layer.meaning)}, {"name", layer.name}};
  json["x"] = NumbersJson(layer.x);
  json["y"] = NumbersJson(layer.y);
  if (!layer.x2.empty()) json["x2"] = NumbersJson(layer.x2);
  if (!layer.y2.empty()) json["y2"] = NumbersJson(layer.y2);
  if (!layer.colour.empty()) json["colour"] = NumbersJson(layer.colour);
  if (!layer.trials.empty()) json["trials"] = layer.trials;
  if (layer.shade) json["shade"] = *layer.shade;
  return json;
}

// Grows with the numbers of an axis.
struct Range {
  double low = kLargest;
  double high = -kLargest;
  void Add(const std::vector<double>& numbers, bool positive) {
    for (const double number : numbers) {
      if (!std::isfinite(number) || (positive && number <= 0.0)) continue;
      low = std::min(low, std::clamp(number, -kLargest, kLargest));
      high = std::max(high, std::clamp(number, -kLargest, kLargest));
    }
  }
};

void SetEnds(Axis* axis, Range range) {
  if (axis->min) range.low = *axis->min;
  if (axis->max) range.high = *axis->max;
  if (range.low > range.high) {
    range.low = axis->log ? 0.1 : 0.0;
    range.high = 1.0;
  }
  if (axis->log) {
    const double room = range.low == range.high ? std::log(2.0) : kRoom * std::log(range.high / range.low);
    if (!axis->min) axis->min = std::max(range.low * std::exp(-room), std::numeric_limits<double>::min());
    if (!axis->max) axis->max = std::min(range.high * std::exp(room), kLargest);
    return;
  }
  // Halves are subtracted, so that the difference stays finite.
  double room = 2.0 * kRoom * (0.5 * range.high - 0.5 * range.low);
  if (range.low == range.high) room = range.low == 0.0 ? 1.0 : 0.1 * std::abs(range.low);
  if (!axis->min) axis->min = std::max(range.low - room, -kLargest);
  if (!axis->max) axis->max = std::min(range.high + room, kLargest);
}

// Returns the layer with the elements `kept` alone.
Layer Picked(const Layer& layer, const std::vector<size_t>& kept) {
  Layer out;
  out.mark = layer.mark;
  out.meaning = layer.meaning;
  out.name = layer.name;
  out.shade = layer.shade;
  const auto pick = [&](const auto& from, auto* to) {
    if (from.empty()) return;
    to->reserve(kept.size());
    for (const size_t i : kept) to->push_back(from[i]);
  };
  pick(layer.x, &out.x);
  pick(layer.y, &out.y);
  pick(layer.x2, &out.x2);
  pick(layer.y2, &out.y2);
  pick(layer.colour, &out.colour);
  pick(layer.trials, &out.trials);
  return out;
}

Layer ThinnedPoints(const Layer& layer, const Panel& panel, size_t most) {
  std::vector<size_t> kept;
  for (double cell = 1.0;; cell *= 1.4) {
    std::unordered_map<uint64_t, size_t> cells;
    kept.clear();
    for (size_t i = 0; i < layer.x.size(); ++i) {
      const double x = PlaceOn(panel.x, layer.x[i]);
      const double y = PlaceOn(panel.y, layer.y[i]);
      if (!(x >= 0.0 && x <= 1.0 && y >= 0.0 && y <= 1.0)) continue;
      const auto column = static_cast<uint64_t>(x * kPanelWidth / cell);
      const auto row = static_cast<uint64_t>(y * kPanelHeight / cell);
      if (cells.emplace(column << 32 | row, i).second) kept.push_back(i);
      if (kept.size() > most) break;
    }
    if (kept.size() <= most) break;
  }
  return Picked(layer, kept);
}

// The first, least, largest and last point of a line in each column, and its gaps.
Layer ThinnedLine(const Layer& layer, const Panel& panel) {
  std::vector<size_t> kept;
  size_t begin = 0;
  const auto column_of = [&](size_t i) {
    const double place = PlaceOn(panel.x, layer.x[i]);
    return std::isfinite(place) ? std::floor(place * kLineColumns) : kNone;
  };
  while (begin < layer.x.size()) {
    const double column = column_of(begin);
    size_t end = begin + 1;
    if (std::isfinite(column) && std::isfinite(layer.y[begin])) {
      while (end < layer.x.size() && std::isfinite(layer.y[end]) && column_of(end) == column) ++end;
    }
    const auto less = [&](size_t a, size_t b) { return layer.y[a] < layer.y[b]; };
    std::vector<size_t> places(end - begin);
    for (size_t i = 0; i < places.size(); ++i) places[i] = begin + i;
    std::vector<size_t> four = {begin, end - 1};
    if (places.size() > 4) {
      const auto [low, high] = std::minmax_element(places.begin(), places.end(), less);
      four.insert(four.end(), {*low, *high});
      std::sort(four.begin(), four.end());
      four.erase(std::unique(four.begin(), four.end()), four.end());
      kept.insert(kept.end(), four.begin(), four.end());
    } else {
      kept.insert(kept.end(), places.begin(), places.end());
    }
    begin = end;
  }
  return Picked(layer, kept);
}

}  // namespace

Json ToJson(const Figure& figure) {
  Json json{{"kind", figure.kind}, {"title", figure.title}, {"caption", figure.caption}, {"columns", figure.columns}};
  json["panels"] = Json::array();
  for (const Panel& panel : figure.panels) {
    Json one{{"title", panel.title}, {"x", AxisJson(panel.x)}, {"y", AxisJson(panel.y)}};
    if (panel.colour) one["colour"] = AxisJson(*panel.colour);
    if (panel.colour) one["dark_low"] = panel.dark_low;
    one["layers"] = Json::array();
    for (const Layer& layer : panel.layers) one["layers"].push_back(LayerJson(layer));
    if (!panel.notes.empty()) one["notes"] = Json::array();
    for (const Note& note : panel.notes) {
      one["notes"].push_back(Json{{"x", note.x}, {"y", note.y}, {"text", note.text}, {"above", note.above}});
    }
    if (!panel.empty.empty()) one["empty"] = panel.empty;
    json["panels"].push_back(std::move(one));
  }
  return json;
}

double PlaceOn(const Axis& axis, double value) {
  if (axis.log) return value <= 0.0 ? kNone : std::log(value / *axis.min) / std::log(*axis.max / *axis.min);
  // Halves are subtracted, so that the difference stays finite.
  return (0.5 * value - 0.5 * *axis.min) / (0.5 * *axis.max - 0.5 * *axis.min);
}

double ValueAt(const Axis& axis, double place) {
  if (axis.log) return *axis.min * std::pow(*axis.max / *axis.min, place);
  return (1.0 - place) * *axis.min + place * *axis.max;
}

void SetEnds(Panel* panel) {
  Range x, y, colour;
  for (const Layer& layer : panel->layers) {
    x.Add(layer.x, panel->x.log);
    x.Add(layer.x2, panel->x.log);
    y.Add(layer.y, panel->y.log);
    y.Add(layer.y2, panel->y.log);
    if (panel->colour) colour.Add(layer.colour, panel->colour->log);
  }
  SetEnds(&panel->x, x);
  SetEnds(&panel->y, y);
  if (panel->colour) SetEnds(&*panel->colour, colour);
}

Figure Thinned(const Figure& figure, size_t most_points) {
  Figure thinned = figure;
  for (Panel& panel : thinned.panels) {
    SetEnds(&panel);
    for (Layer& layer : panel.layers) {
      if (layer.mark == Mark::kPoints && layer.x.size() > most_points) {
        layer = ThinnedPoints(layer, panel, most_points);
      } else if ((layer.mark == Mark::kLine || layer.mark == Mark::kSteps) && layer.x.size() > 4 * kLineColumns) {
        layer = ThinnedLine(layer, panel);
      }
    }
  }
  return thinned;
}

}  // namespace luthier::plot
