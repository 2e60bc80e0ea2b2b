#include "client/plot/subject.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/error.h"
#include "lib/base/printable.h"
#include "lib/base/status_macros.h"
#include "lib/study/parameters.h"

namespace luthier::plot {
namespace {

constexpr double kNowhere = std::numeric_limits<double>::quiet_NaN();
constexpr double kReach = 3.0;       // Distance of the worse trials, in units of that of three quarters.
constexpr double kLogRatio = 300.0;  // From this ratio of the median to the least value on the axis is logarithmic.
constexpr double kMostShown = std::numeric_limits<double>::max();
constexpr double kMostTick = 1e300;    // Larger numbers are drawn in units of it, for which texts do not stand.
constexpr int kMostLevels = 24;        // Integers of fewer values are told apart.
constexpr std::size_t kTickText = 17;  // Characters of a label.

double Logit(double value) {
  return std::log(value / (1.0 - value));
}

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1) + 0.5)];
}

std::vector<std::pair<double, std::string>> LogitTicks(double min, double max) {
  std::vector<std::pair<double, std::string>> ticks;
  for (const double value : {1e-6, 1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999}) {
    if (value >= min && value <= max) ticks.emplace_back(Logit(value), study::FormatDouble(value));
  }
  if (ticks.size() < 2) {
    ticks = {{Logit(min), absl::StrCat(min)}, {Logit(max), absl::StrCat(max)}};
  }
  return ticks;
}

std::vector<std::pair<double, std::string>> LabelTicks(const std::vector<std::string>& labels) {
  std::vector<std::pair<double, std::string>> ticks;
  const std::size_t every = (labels.size() + kMostLevels - 1) / kMostLevels;
  const std::vector<std::string> texts = Distinct(labels, kTickText);
  for (std::size_t i = 0; i < labels.size(); i += every) ticks.emplace_back(i, texts[i]);
  return ticks;
}

constexpr std::size_t kShared = 4;  // Characters that all of some names begin with, from which on they are left out.

std::vector<absl::string_view> CharactersOf(const std::string& text) {
  std::vector<absl::string_view> characters;
  for (absl::string_view rest = text; !rest.empty(); rest.remove_prefix(characters.back().size())) {
    characters.push_back(rest.substr(0, base::FirstCharacter(rest).bytes));
  }
  return characters;
}

}  // namespace

const v1::MetricSpec* Subject::spec() const {
  for (const v1::MetricSpec& one : study.spec().metrics()) {
    if (one.name() == metric) return &one;
  }
  return metric == study.spec().metric().name() ? &study.spec().metric() : nullptr;
}

std::optional<std::size_t> Subject::best() const {
  std::optional<std::size_t> best;
  const std::vector<double>& value = values();
  for (std::size_t row = 0; row < trials.rows(); ++row) {
    if (!std::isfinite(value[row]) || trials.Word("state", row) != "COMPLETE" || !feasible(row)) continue;
    if (!best || (maximize() ? value[row] > value[*best] : value[row] < value[*best])) best = row;
  }
  return best;
}

Axis Subject::ValueAxis(const std::vector<double>& more) const {
  std::vector<double> all = values();
  std::vector<double> legal;
  for (std::size_t row = 0; row < all.size(); ++row) {
    if (feasible(row)) legal.push_back(all[row]);
  }
  legal.insert(legal.end(), more.begin(), more.end());
  all.insert(all.end(), more.begin(), more.end());
  const bool any = std::any_of(legal.begin(), legal.end(), [](double value) { return std::isfinite(value); });
  Axis axis = MetricAxis(metric, any ? legal : all, maximize());
  // A logarithm would hide infeasible values that are not above 0.
  if (axis.log && std::any_of(all.begin(), all.end(), [](double value) { return value <= 0.0; })) axis.log = false;
  const bool differs = std::any_of(all.begin(), all.end(), [&](double value) {
    return std::isfinite(value) && !axis.ticks.empty() && value != axis.ticks.front().first;
  });
  if (differs) axis.ticks.clear();
  CloseAxis(all, &axis);
  return axis;
}

std::string Subject::BestText() const {
  const auto number = [](double value) { return absl::StrFormat("%.6g", value); };
  const bool several = study.spec().metrics_size() > 1;
  const std::string value_of = several || !is_objective() ? absl::StrCat("value of ", Shown(metric)) : "value";
  if (const std::optional<std::size_t> row = best()) {
    return absl::StrCat("the ", is_objective() ? "best " : "smallest ", value_of, " is ", number(values()[*row]),
                        " in trial ", number(trials.Numbers("number")[*row]));
  }
  std::size_t complete = 0;
  std::size_t infeasible = 0;
  for (std::size_t row = 0; row < trials.rows(); ++row) {
    if (trials.Word("state", row) != "COMPLETE") continue;
    ++complete;
    if (!feasible(row)) ++infeasible;
  }
  if (complete == 0) return "no trial is complete";
  if (infeasible < complete) return absl::StrCat("no feasible trial has a value of ", Shown(metric));
  if (study.least_violating_trial() == 0) return "none of these trials is feasible, so that none is the best";
  return absl::StrCat("no trial is feasible, so that none is the best; trial ", study.least_violating_trial(),
                      " violates the bounds least, by ", number(study.least_violation()),
                      " (in standard deviations of the metrics)");
}

std::string Shown(const std::string& text, std::size_t most) {
  std::string out;
  absl::string_view rest = text;
  for (std::size_t n = 0; !rest.empty(); ++n) {
    if (n == most) return base::Printable(absl::StrCat(out, "…"));
    const std::size_t bytes = base::FirstCharacter(rest).bytes;
    absl::StrAppend(&out, rest.substr(0, bytes));
    rest.remove_prefix(bytes);
  }
  return base::Printable(out);
}

std::string Shortened(const std::string& text, std::size_t most) {
  const std::vector<absl::string_view> characters = CharactersOf(text);
  if (characters.size() <= most) return base::Printable(text);
  const std::size_t head = most / 2;
  const std::size_t tail = most - head - 1;
  std::string out;
  for (std::size_t i = 0; i < head; ++i) absl::StrAppend(&out, characters[i]);
  absl::StrAppend(&out, "…");
  for (std::size_t i = characters.size() - tail; i < characters.size(); ++i) absl::StrAppend(&out, characters[i]);
  return base::Printable(out);
}

std::vector<std::string> Distinct(const std::vector<std::string>& texts, std::size_t most) {
  std::vector<std::vector<absl::string_view>> longer;
  for (const std::string& text : texts) {
    longer.push_back(CharactersOf(text));
    if (longer.back().size() <= most) longer.pop_back();
  }
  std::size_t same = 0;
  const auto shared = [&](const std::vector<absl::string_view>& text) {
    return text.size() > same + 1 && text[same] == longer.front()[same];
  };
  while (longer.size() > 1 && std::all_of(longer.begin(), longer.end(), shared)) ++same;
  std::vector<std::string> out;
  for (const std::string& text : texts) {
    const std::vector<absl::string_view> characters = CharactersOf(text);
    std::size_t bytes = 0;
    for (std::size_t k = 0; k < same && characters.size() > most; ++k) bytes += characters[k].size();
    const bool cut = same >= kShared && characters.size() > most;
    out.push_back(Shortened(cut ? absl::StrCat("…", text.substr(bytes)) : text, most));
  }
  return out;
}

Axis MetricAxis(const std::string& label, const std::vector<double>& values, bool maximize) {
  Axis axis{.label = Shown(label)};
  std::vector<double> sorted;
  for (const double value : values) {
    if (std::isfinite(value)) sorted.push_back(std::clamp(value, -kMostShown, kMostShown));
  }
  if (sorted.empty()) return axis;
  std::sort(sorted.begin(), sorted.end());
  const double size = std::abs(sorted.front());
  if (sorted.front() == sorted.back() && size < kMostTick && (size == 0.0 || size > 1.0 / kMostTick)) {
    axis.ticks = {{sorted.front(), absl::StrFormat("%.6g", sorted.front())}};  // There is no other number to tell.
  }
  axis.log = !maximize && sorted.front() > 0.0 && Quantile(sorted, 0.5) / sorted.front() > kLogRatio;
  const auto scaled = [&](double value) { return axis.log ? std::log(value) : value; };
  const double best = scaled(maximize ? sorted.back() : sorted.front());
  const double worst = scaled(maximize ? sorted.front() : sorted.back());
  const double usual = scaled(Quantile(sorted, maximize ? 0.25 : 0.75));
  const double limit = best + kReach * (usual - best);
  if (usual == best || !std::isfinite(limit) || std::abs(worst - best) <= std::abs(limit - best)) return axis;
  (maximize ? axis.min : axis.max) = axis.log ? std::exp(limit) : limit;
  return axis;
}

bool IsOutside(const Axis& axis, double value, bool maximize) {
  if (maximize) return axis.min && value < *axis.min;
  return axis.max && value > *axis.max;
}

void CloseAxis(const std::vector<double>& values, Axis* axis) {
  Panel probe;
  probe.y = *axis;
  probe.layers.push_back({.x = values, .y = values});
  SetEnds(&probe);
  *axis = probe.y;
}

double EdgeOf(const Axis& axis, bool maximize) {
  constexpr double kWithin = 0.015;
  return plot::ValueAt(axis, maximize ? kWithin : 1.0 - kWithin);
}

absl::StatusOr<std::vector<ParameterAxis>> ParameterAxis::Of(const Subject& subject,
                                                             const std::vector<std::string>& names, std::size_t most) {
  std::vector<ParameterAxis> axes;
  std::vector<std::string> known;
  const auto& space = subject.study.spec().space();
  for (const v1::ParameterSpec& spec : space) known.push_back(spec.name());
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) {
      return absl::InvalidArgumentError(absl::StrCat("parameter ", base::Quote(name), " is named twice"));
    }
    bool found = false;
    for (const v1::ParameterSpec& spec : space) {
      std::string part;
      if (name != spec.name()) {
        if (!spec.has_count() || !absl::StartsWith(name, spec.name())) continue;
        part = name.substr(spec.name().size());
        if (part != ".min" && part != ".median" && part != ".max") continue;
      }
      axes.push_back(OfSpec(spec, part));
      found = true;
      break;
    }
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat(base::Quote(name), " is no parameter of study ", subject.id, base::DidYouMean(name, known)));
    }
  }
  if (!names.empty()) return axes;
  for (const v1::ParameterSpec& spec : space) {
    if (axes.size() == most) break;
    ParameterAxis axis = OfSpec(spec, "");
    if (axis.levels() != 1) axes.push_back(std::move(axis));
  }
  return axes;
}

ParameterAxis ParameterAxis::OfSpec(const v1::ParameterSpec& spec, const std::string& part) {
  ParameterAxis out;
  out.name_ = spec.name();
  out.vector_ = spec.has_count();
  const std::string suffix = !out.vector_ ? "" : part.empty() ? ".median" : part;
  out.column_ = absl::StrCat("params.", spec.name(), suffix);
  out.axis_.label = Shown(absl::StrCat(spec.display_name().empty() ? spec.name() : spec.display_name(), suffix), 80);
  if (spec.has_float_()) {
    const v1::FloatRange& range = spec.float_();
    out.axis_.min = range.min();
    out.axis_.max = range.max();
    out.axis_.log = range.scale() == v1::LOG;
    out.step_ = range.step();
    if (range.scale() == v1::LOGIT && range.min() < range.max()) {
      out.kind_ = Kind::kLogit;
      out.axis_.min = Logit(range.min());
      out.axis_.max = Logit(range.max());
      out.axis_.ticks = LogitTicks(range.min(), range.max());
    }
  } else if (spec.has_int_()) {
    out.kind_ = Kind::kInt;
    out.axis_.min = static_cast<double>(spec.int_().min());
    out.axis_.max = static_cast<double>(spec.int_().max());
    out.axis_.log = spec.int_().scale() == v1::LOG;
    out.step_ = static_cast<double>(std::max<int64_t>(spec.int_().step(), 1));
  } else {
    out.kind_ = spec.has_bool_() ? Kind::kBool : Kind::kLabels;
    const auto& labels = spec.has_ordinal() ? spec.ordinal().values() : spec.categorical().values();
    out.labels_.assign(labels.begin(), labels.end());
    if (spec.has_bool_()) out.labels_ = {"false", "true"};
    out.axis_.min = -0.5;
    out.axis_.max = static_cast<double>(out.labels_.size()) - 0.5;
    out.axis_.ticks = LabelTicks(out.labels_);
  }
  out.first_ = *out.axis_.min;
  if (*out.axis_.min == *out.axis_.max) {
    out.constant_ = true;
    const double room = out.first_ == 0.0 ? 1.0 : 0.5 * std::abs(out.first_);
    out.axis_.min = out.first_ - room;
    out.axis_.max = out.first_ + room;
  }
  return out;
}

double ParameterAxis::At(const TrialColumns& trials, std::size_t row) const {
  if (kind_ == Kind::kLabels || kind_ == Kind::kBool) {
    const std::string& word = trials.Word(column_, row);
    const auto found = std::find(labels_.begin(), labels_.end(), word);
    return found == labels_.end() ? kNowhere : static_cast<double>(found - labels_.begin());
  }
  const double value = trials.Numbers(column_)[row];
  return kind_ == Kind::kLogit ? Logit(value) : value;
}

double ParameterAxis::Share(double coordinate) const {
  const double low = *axis_.min;
  const double high = *axis_.max;
  if (axis_.log) return std::log(coordinate / low) / std::log(high / low);
  return (0.5 * coordinate - 0.5 * low) / (0.5 * high - 0.5 * low);
}

double ParameterAxis::CoordinateAt(double share) const {
  const double low = *axis_.min;
  const double high = *axis_.max;
  if (axis_.log) return std::clamp(low * std::pow(high / low, share), low, high);
  const double width = high - low;
  if (!std::isfinite(width)) return std::clamp((1.0 - share) * low + share * high, low, high);
  return std::clamp(low + share * width, low, high);
}

google::protobuf::Value ParameterAxis::ValueAt(double coordinate) const {
  google::protobuf::Value value;
  const auto label = [&] {
    const double last = static_cast<double>(labels_.size()) - 1.0;
    return static_cast<std::size_t>(std::clamp(std::round(coordinate), 0.0, last));
  };
  switch (kind_) {
    case Kind::kFloat:
    case Kind::kInt:
      value.set_number_value(step_ > 0.0 ? first_ + step_ * std::round((coordinate - first_) / step_) : coordinate);
      break;
    case Kind::kLogit:
      value.set_number_value(1.0 / (1.0 + std::exp(-coordinate)));
      break;
    case Kind::kLabels:
      value.set_string_value(labels_[label()]);
      break;
    case Kind::kBool:
      value.set_bool_value(label() == 1);
      break;
  }
  return value;
}

std::optional<int> ParameterAxis::levels() const {
  if (kind_ == Kind::kLabels || kind_ == Kind::kBool) return static_cast<int>(labels_.size());
  if (constant_) return 1;
  if (step_ <= 0.0) return std::nullopt;
  const double count = std::floor((*axis_.max - *axis_.min) / step_) + 1.0;
  return count <= kMostLevels ? std::optional<int>(static_cast<int>(count)) : std::nullopt;
}

double ParameterAxis::SharePerUnit(double coordinate) const {
  const double low = *axis_.min;
  const double high = *axis_.max;
  if (axis_.log) return 1.0 / (coordinate * std::log(high / low));
  if (kind_ != Kind::kLogit) return 1.0 / (high - low);
  const double value = 1.0 / (1.0 + std::exp(-coordinate));
  return 1.0 / (value * (1.0 - value) * (high - low));
}

}  // namespace luthier::plot
