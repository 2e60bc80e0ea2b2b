#include "client/cli/show.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "lib/base/printable.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/registry.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// Sorts the entries: Protobuf's maps have no order.
template <typename Map>
auto Sorted(const Map& map) {
  return std::map<std::string, typename Map::mapped_type>(map.begin(), map.end());
}

std::string ShortTime(const google::protobuf::Timestamp& timestamp) {
  const absl::StatusOr<absl::Time> time = wire::FromProto(timestamp);
  return time.ok() ? absl::FormatTime("%Y-%m-%d %H:%M:%S", *time, absl::UTCTimeZone()) : "";
}

Cell ValueCell(const google::protobuf::Value& value) {
  const absl::StatusOr<study::ParameterValue> parsed = wire::FromProto(value);
  return parsed.ok() ? Cell::Value(*parsed) : Cell::Text(wire::ToJson(value).dump());
}

double MedianOf(std::vector<double> values) {
  const size_t half = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half), values.end());
  if (values.size() % 2 == 1) return values[half];
  return (*std::max_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(half)) + values[half]) / 2;
}

// Returns the value with all digits. Of a vector longer than a line it returns the first numbers and a summary of the
// others.
std::string ValueText(const google::protobuf::Value& value, bool wide) {
  constexpr size_t kShown = 8;
  const absl::StatusOr<study::ParameterValue> parsed = wire::FromProto(value);
  const auto* vector = parsed.ok() ? std::get_if<std::vector<double>>(&*parsed) : nullptr;
  if (vector == nullptr || vector->size() <= kShown || wide) return ValueCell(value).exact;
  std::string text = "[";
  for (size_t k = 0; k < kShown; ++k) absl::StrAppend(&text, study::FormatDouble((*vector)[k]), ", ");
  const auto [least, most] = std::minmax_element(vector->begin(), vector->end());
  return absl::StrCat(text, "…] of ", vector->size(), " numbers, ", ShortNumber(*least), " to ", ShortNumber(*most),
                      ", median ", ShortNumber(MedianOf(*vector)), " (all with --wide, or -o json)");
}

constexpr char kSetAside[] =
    "gradient set aside: it contradicts the losses that the same worker reported; the losses are kept";

// Returns the outcome as people and scripts write it: "converged".
std::string OutcomeText(const v1::Training& training) {
  return absl::AsciiStrToLower(v1::Training::Outcome_Name(training.outcome()));
}

Json TrainingJson(const v1::Training& training) {
  Json json = {{"outcome", OutcomeText(training)}};
  const Json all = wire::ToJson(training);
  for (const char* optional : {"gradient_norm", "duality_gap"}) {
    if (all.contains(optional)) json[optional] = all[optional];
  }
  return json;
}

// Prints how training ended, and what it took.
void PrintEnding(std::ostream& out, const v1::Measurement& last) {
  if (last.has_training()) {
    const v1::Training& training = last.training();
    out << "training ended: " << OutcomeText(training);
    if (training.outcome() == v1::Training::LIMIT) out << " (the metrics are not those of the optimum)";
    if (training.has_gradient_norm()) out << ", gradient norm " << ShortNumber(training.gradient_norm());
    if (training.has_duality_gap()) out << ", duality gap " << ShortNumber(training.duality_gap());
    out << "\n";
  }
  if (last.has_elapsed_seconds()) {
    out << "time: " << ShortNumber(last.elapsed_seconds()) << " s";
    if (last.has_gradient_seconds()) out << ", " << ShortNumber(last.gradient_seconds()) << " s of it for the gradient";
    out << "\n";
  } else if (last.has_gradient_seconds()) {
    out << "time: " << ShortNumber(last.gradient_seconds()) << " s for the gradient\n";
  }
}

// Prints how large the gradient is, how exact, and how it was solved for.
void PrintGradient(std::ostream& out, const v1::Gradient& gradient, bool verbose) {
  if (!gradient.has_full()) {
    out << "slope: " << ShortNumber(gradient.directional().slope()) << " along the direction asked for";
  } else {
    double norm = 0.0;
    for (const double entry : gradient.full().values()) norm = std::hypot(norm, entry);
    out << "gradient: " << gradient.full().values_size() << " entries, norm " << ShortNumber(norm);
  }
  if (gradient.has_error_bound()) out << ", error at most " << ShortNumber(gradient.error_bound());
  out << "\n";
  if (!gradient.has_solve() || !verbose) return;
  const v1::Gradient::ImplicitSolve& solve = gradient.solve();
  out << "  solved " << (solve.tolerance() > 0.0 ? "to tolerance " + ShortNumber(solve.tolerance()) : "to all digits")
      << ": gradient of training " << ShortNumber(solve.inner_gradient_norm()) << ", residual "
      << ShortNumber(solve.residual());
  if (solve.strong_convexity() > 0.0) out << ", strong convexity " << ShortNumber(solve.strong_convexity());
  if (solve.has_log_error_bound()) {
    out << ", error by logarithms at most " << ShortNumber(solve.log_error_bound())
        << (solve.certified() ? " (proven)" : " (estimated)");
  }
  out << "\n";
}

// Returns the option of a builtin objective that limits its training; "": none is known.
std::string LimitOption(const v1::StudySpec& spec) {
  if (!spec.objective().has_builtin()) return "";
  const absl::StatusOr<const catalogue::ObjectiveInfo*> info =
      catalogue::FindObjective(spec.objective().builtin().model());
  if (!info.ok()) return "";
  for (const char* option : {"max_iterations", "max_passes"}) {
    if ((*info)->FindParameter(option) != nullptr) return option;
  }
  return "";
}

// Returns why the trial is not simply COMPLETE.
std::string Note(const v1::Trial& trial) {
  if (!trial.has_failure()) return "";
  return absl::StrCat(v1::Failure::Kind_Name(trial.failure().kind()), " ", trial.failure().reason());
}

std::string Indented(absl::string_view text) {
  return absl::StrCat("  ", absl::StrReplaceAll(absl::StripTrailingAsciiWhitespace(text), {{"\n", "\n  "}}));
}

void PrintMap(std::ostream& out, const char* title, const std::map<std::string, double>& values, bool exact = true) {
  if (values.empty()) return;
  out << title << ":\n";
  for (const auto& [name, value] : values) {
    out << "  " << Printable(name) << " = " << (exact ? study::FormatDouble(value) : ShortNumber(value)) << "\n";
  }
}

// Returns `text` with its decimal numbers in six digits. Digits within words, paths and versions are not changed.
std::string WithShortNumbers(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool may_begin = out.empty() || absl::StrContains(" =([,:", out.substr(out.size() - 1));
    const size_t length = std::min(text.find_first_not_of("0123456789.eE+-"), text.size());
    const absl::string_view number = text.substr(0, length);
    const bool ends = length == text.size() || absl::StrContains(" )],;", text.substr(length, 1));
    double value = 0.0;
    if (may_begin && ends && absl::StrContains(number, '.') && absl::SimpleAtod(number, &value)) {
      out += ShortNumber(value);
      text.remove_prefix(length);
    } else {
      out += text[0];
      text.remove_prefix(1);
    }
  }
  return out;
}

// Returns an estimated share: "12.3 % (+-0.5 %)".
std::string ShareText(double share, double standard_error) {
  return absl::StrFormat("%.1f %% (+-%.1f %%)", 100.0 * share, 100.0 * standard_error);
}

// Returns the condition of a certificate: a bound on slopes, and the quantity that it bounds.
std::string ConditionText(const std::string& what, double lipschitz) {
  return absl::StrCat("provided that ", what, " nowhere changes faster than L = ", ShortNumber(lipschitz),
                      " per side of the unit cube that the scaled parameters span");
}

void PrintCertificate(std::ostream& out, const std::string& metric, const v1::Certificate& c) {
  const std::string name = Printable(metric);
  out << "ruled out\n  " << ShareText(c.excluded_share(), c.standard_error()) << " of the space cannot hold a " << name
      << " better than " << study::FormatDouble(c.best_value()) << " by more than " << study::FormatDouble(c.epsilon())
      << ",\n  " << ConditionText(name, c.lipschitz()) << "\n  (estimated by " << c.points() << " points from "
      << c.results() << " results, between which the steepest slope is " << ShortNumber(c.steepest_slope()) << ")\n";
}

std::string Percent(double share) {
  return absl::StrFormat("%.0f %%", 100.0 * share);
}

// Returns the better side of a term: values if it has one parameter, else the sign of the product.
std::string BetterText(const v1::HarmonicaStage::Term& term) {
  if (!term.better_values().empty()) return Printable(term.better_values());
  if (term.factors_size() == 2) return term.better_sign() > 0 ? "alike" : "different";
  return term.better_sign() > 0 ? "product +1" : "product -1";
}

void PrintHarmonicaStage(std::ostream& out, int number, const v1::HarmonicaStage& stage) {
  out << "stage " << number << ": " << stage.samples() << " samples";
  if (stage.failed() > 0) out << " (" << stage.failed() << " failed)";
  out << ", of whose variance a polynomial explains " << Percent(stage.r2()) << " (cross-validated "
      << Percent(stage.cross_validated_r2()) << ")\n";
  for (const std::string& warning : stage.warnings()) out << "warning  " << Printable(warning) << "\n";
  Table table({"rank", "term", "weight", "better", "variance", "found again"});
  for (int k = 0; k < stage.terms_size(); ++k) {
    const v1::HarmonicaStage::Term& term = stage.terms(k);
    std::string name;
    for (const v1::HarmonicaStage::Factor& factor : term.factors()) {
      absl::StrAppend(&name, name.empty() ? "" : " x ", factor.name());
    }
    table.Add({Cell::Integer(k + 1), Cell::Text(name), Cell::Number(term.weight()), Cell::Text(BetterText(term)),
               Cell::Text(Percent(term.variance_share())),
               term.has_bootstrap_frequency() ? Cell::Text(Percent(term.bootstrap_frequency())) : Cell::Empty()});
  }
  if (!table.empty()) table.PrintAligned(out);
  for (const v1::HarmonicaStage::Restriction& restriction : stage.restrictions()) {
    const std::map<std::string, std::string> values(restriction.values().begin(), restriction.values().end());
    std::vector<std::string> parts;
    for (const auto& [parameter, left] : values) parts.push_back(Printable(absl::StrCat(parameter, "=", left)));
    out << "handed on: " << absl::StrJoin(parts, ", ") << "  (" << ShortNumber(restriction.value()) << ")\n";
  }
}

void PrintHarmonica(std::ostream& out, const v1::Study& study) {
  for (int q = 0; q < study.harmonica_stages_size(); ++q) PrintHarmonicaStage(out, q + 1, study.harmonica_stages(q));
  if (study.parameters_never_selected_size() == 0) return;
  std::vector<std::string> names;
  for (const std::string& name : study.parameters_never_selected()) names.push_back(Printable(name));
  out << "never selected: " << absl::StrJoin(names, ", ") << "\n";
}

// Returns "epochs", "steps", ….
std::string UnitOf(const v1::StudySpec& spec) {
  return spec.resource().unit().empty() ? "steps" : Printable(spec.resource().unit());
}

// Prints the learning curve, and the result as its last line unless it is a point of the curve.
void PrintCurve(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial) {
  const std::string& metric = spec.metric().name();
  Table table({"step", metric, "elapsed_seconds"});
  const auto add = [&](Cell step, const v1::Measurement& m) {
    const auto found = m.metrics().find(metric);
    table.Add({std::move(step), found == m.metrics().end() ? Cell::Empty() : Cell::Number(found->second),
               m.has_elapsed_seconds() ? Cell::Number(m.elapsed_seconds()) : Cell::Empty()});
  };
  for (const v1::Measurement& m : trial.measurements()) add(Cell::Integer(m.step()), m);
  const v1::Measurement& last = *trial.measurements().rbegin();
  const v1::Measurement& result = trial.final_measurement();
  if (trial.has_final_measurement() && result.step() > last.step()) {
    add(Cell::Integer(result.step()), result);
  } else if (trial.has_final_measurement() && result.metrics().contains(metric) &&
             (!last.metrics().contains(metric) || last.metrics().at(metric) != result.metrics().at(metric))) {
    add({"result", "result", /*number=*/true}, result);  // Aligned with the steps.
  }
  table.PrintAligned(out);
}

// Prints how far training got, and what that took.
void PrintTraining(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial) {
  int64_t reached = 0;
  for (const v1::Attempt& attempt : trial.attempts()) reached = std::max(reached, attempt.last_step());
  const int64_t target =
      trial.promotions().empty() ? trial.provenance().resource() : trial.promotions().rbegin()->resource();
  out << "training: " << reached;
  if (target > 0) out << " of " << target;
  out << " " << UnitOf(spec) << ", " << trial.resource_spent() << " in all attempts";
  if (trial.resource_spent() > reached) out << " (" << trial.resource_spent() - reached << " more than once)";
  out << "\n";
  if (trial.state() == v1::Trial::COMPLETE && reached == 0) {
    out << "warning: no step of the training was reported, so it could not be paused or stopped\n";
  } else if (trial.state() == v1::Trial::COMPLETE && target > 0 && target < spec.resource().max() && reached > target) {
    out << "warning: it was to pause at " << target << ", and trained on\n";
  }
  for (const v1::Provenance& promotion : trial.promotions()) {
    out << "promoted: to " << promotion.resource() << " as suggestion " << promotion.ask_index() << "\n";
  }
}

// Returns names in the order of the space, then those that only trials have.
std::vector<std::string> ParameterNames(const v1::StudySpec& spec, const std::vector<const v1::Trial*>& trials) {
  std::vector<std::string> names;
  std::set<std::string> known;
  for (const v1::ParameterSpec& p : spec.space()) {
    names.push_back(p.name());
    known.insert(p.name());
  }
  std::set<std::string> others;
  for (const v1::Trial* trial : trials) {
    for (const auto& [name, value] : trial->parameters().fields()) {
      if (known.count(name) == 0) others.insert(name);
    }
  }
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

}  // namespace

std::string DirectionText(const google::protobuf::RepeatedField<double>& direction) {
  const auto append = [](std::string* out, double value) { absl::StrAppend(out, study::FormatDouble(value)); };
  return absl::StrCat("[", absl::StrJoin(direction, ", ", append), "]");
}

std::string IdOf(const v1::Study& study) {
  return study.name().substr(study.name().rfind('/') + 1);
}

std::string StudyStateText(const v1::Study& study) {
  return study.state() == v1::Study::STATE_UNSPECIFIED ? "DAMAGED" : v1::Study::State_Name(study.state());
}

Json StudyJson(const v1::Study& study) {
  Json json = Json::object();
  json["id"] = IdOf(study);
  json.update(wire::ToJson(study));
  if (study.state() == v1::Study::STATE_UNSPECIFIED) json["state"] = StudyStateText(study);
  return json;
}

Json TrialJson(const v1::Trial& trial) {
  const Json all = wire::ToJson(trial);
  Json json = Json::object();
  json["number"] = trial.number();
  json["state"] = all["state"];
  json["parameters"] = all.value("parameters", Json::object());
  json["metrics"] = Json::object();
  if (trial.has_final_measurement()) {
    const Json& last = all["final_measurement"];
    json["metrics"] = last["metrics"];
    json["step"] = last["step"];
    for (const char* optional : {"elapsed_seconds", "gradient_seconds", "gradient"}) {
      if (last.contains(optional)) json[optional] = last[optional];
    }
    if (trial.final_measurement().has_training()) {
      json["training"] = TrainingJson(trial.final_measurement().training());
    }
  }
  json["gradient_set_aside"] = trial.gradient_set_aside();
  for (const char* field : {"failure", "attempts", "provenance", "promotions", "checkpoint", "checkpoint_step",
                            "resource_spent", "attributes", "attributes_left_out", "retry_of", "retried_by",
                            "stop_requested", "create_time", "end_time", "name"}) {
    if (all.contains(field)) json[field] = all[field];
  }
  if (!trial.measurements().empty()) json["measurements"] = all["measurements"];
  for (int i = 0; i < trial.measurements_size(); ++i) {
    if (!trial.measurements(i).has_training()) continue;
    json["measurements"][static_cast<size_t>(i)]["training"] = TrainingJson(trial.measurements(i).training());
  }
  return json;
}

std::string JsonText(const Json& value, int indent) {
  return base::PrintableJson(value.dump(indent, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace));
}

void PrintJson(std::ostream& out, const Json& value) {
  out << JsonText(value, 2) << "\n";
}

int64_t DoneTrials(const v1::TrialCounts& counts) {
  return counts.complete() + counts.pruned() + counts.failed() + counts.cancelled() + counts.deleted();
}

bool IsOver(const v1::Study& study) {
  const bool finished = study.state() != v1::Study::ACTIVE && study.state() != v1::Study::PAUSED;
  return finished && study.trials().running() == 0 && study.trials().pending() == 0;
}

// True if no trial reported a step, though the study has a resource.
bool NeverReportedAStep(const v1::Study& study) {
  return study.spec().has_resource() && study.trials().complete() > 0 && study.resource_spent() == 0;
}

std::string Summary(const v1::Study& study) {
  const v1::TrialCounts& counts = study.trials();
  std::string text = absl::StrCat(DoneTrials(counts), "/", study.spec().budget().max_trials(), " done");
  if (study.has_best_value()) {
    absl::StrAppend(&text, ", best ", ShortNumber(study.best_value()), " (trial ", study.best_trial(), ")");
  }
  const std::pair<int64_t, const char*> others[] = {{counts.running(), "running"}, {counts.pending(), "pending"},
                                                    {counts.paused(), "paused"},   {counts.pruned(), "pruned"},
                                                    {counts.failed(), "failed"},   {counts.cancelled(), "cancelled"},
                                                    {counts.deleted(), "deleted"}};
  for (const auto& [count, what] : others) {
    if (count > 0) absl::StrAppend(&text, ", ", count, " ", what);
  }
  if (counts.retried() > 0) absl::StrAppend(&text, " (", counts.retried(), " of them tried again)");
  if (NeverReportedAStep(study)) text += ", no steps reported";
  return text;
}

std::string TrainingsText(const v1::TrainingCounts& counts) {
  const std::pair<int64_t, const char*> all[] = {{counts.converged(), "converged"},
                                                 {counts.precision(), "precision"},
                                                 {counts.target(), "target"},
                                                 {counts.limit(), "limit"},
                                                 {counts.diverged(), "diverged"}};
  std::string text;
  for (const auto& [count, what] : all) {
    if (count > 0) absl::StrAppend(&text, text.empty() ? "" : ", ", count, " ", what);
  }
  return text;
}

std::string LimitWarning(const v1::Study& study) {
  const v1::TrainingCounts& counts = study.trainings();
  if (counts.limit() == 0) return "";
  const int64_t all = counts.converged() + counts.precision() + counts.target() + counts.limit() + counts.diverged();
  const std::string option = LimitOption(study.spec());
  return absl::StrCat(
      counts.limit(), " of ", all, all == 1 ? " training" : " trainings", " ended at ",
      counts.limit() == 1 ? "its" : "their", " limit", option.empty() ? "" : absl::StrCat(" (", option, ")"),
      counts.limit() == 1 ? ": its result is not that of the optimum" : ": their results are not those of the optimum");
}

Table StudyTable(const std::vector<v1::Study>& studies) {
  Table table({"id",
               "state",
               "done",
               "trials",
               {"running", 3},
               {"failed", 2},
               {"metric", 4},
               {"best", 1},
               {"best_trial", 5},
               {"created", 6}});
  for (const v1::Study& study : studies) {
    const v1::TrialCounts& counts = study.trials();
    table.Add({Cell::Text(IdOf(study)), Cell::State(StudyStateText(study)), Cell::Integer(DoneTrials(counts)),
               Cell::Integer(study.spec().budget().max_trials()), Cell::Integer(counts.running()),
               Cell::Integer(counts.failed()), Cell::Text(study.spec().metric().name()),
               study.has_best_value() ? Cell::Number(study.best_value()) : Cell::Empty(),
               study.best_trial() > 0 ? Cell::Integer(study.best_trial()) : Cell::Empty(),
               Cell::Text(ShortTime(study.create_time()))},
              study.name());
  }
  return table;
}

namespace {

// A column of a parameter: its value, or one that summarises a vector.
struct ParameterColumn {
  enum class Kind { kWhole, kElement, kMin, kMedian, kMax };
  std::string parameter;
  Kind kind = Kind::kWhole;
  int element = 0;

  std::string Title() const {
    switch (kind) {
      case Kind::kWhole:
        break;
      case Kind::kElement:
        return absl::StrCat(parameter, "[", element, "]");
      case Kind::kMin:
        return parameter + ".min";
      case Kind::kMedian:
        return parameter + ".median";
      case Kind::kMax:
        return parameter + ".max";
    }
    return parameter;
  }
};

Cell CellOf(const ParameterColumn& column, const v1::Trial& trial) {
  const auto found = trial.parameters().fields().find(column.parameter);
  if (found == trial.parameters().fields().end()) return Cell::Empty();
  if (column.kind == ParameterColumn::Kind::kWhole) return ValueCell(found->second);
  const absl::StatusOr<study::ParameterValue> value = wire::FromProto(found->second);
  const auto* vector = value.ok() ? std::get_if<std::vector<double>>(&*value) : nullptr;
  if (vector == nullptr || vector->empty()) return Cell::Empty();
  switch (column.kind) {
    case ParameterColumn::Kind::kElement: {
      const auto element = static_cast<size_t>(column.element);
      return element < vector->size() ? Cell::Number((*vector)[element]) : Cell::Empty();
    }
    case ParameterColumn::Kind::kMin:
      return Cell::Number(*std::min_element(vector->begin(), vector->end()));
    case ParameterColumn::Kind::kMax:
      return Cell::Number(*std::max_element(vector->begin(), vector->end()));
    case ParameterColumn::Kind::kMedian:
    case ParameterColumn::Kind::kWhole:
      return Cell::Number(MedianOf(*vector));
  }
  return Cell::Empty();
}

std::vector<ParameterColumn> ParameterColumns(const v1::StudySpec& spec, const std::vector<const v1::Trial*>& trials,
                                              bool wide) {
  using Kind = ParameterColumn::Kind;
  std::map<std::string, int> counts;
  for (const v1::ParameterSpec& p : spec.space()) {
    if (p.has_count()) counts[p.name()] = p.count();
  }
  std::vector<ParameterColumn> columns;
  for (const std::string& name : ParameterNames(spec, trials)) {
    const auto vector = counts.find(name);
    if (vector == counts.end()) {
      columns.push_back({name});
    } else if (!wide) {
      for (const Kind kind : {Kind::kMin, Kind::kMedian, Kind::kMax}) columns.push_back({name, kind});
    } else {
      for (int element = 0; element < vector->second; ++element) columns.push_back({name, Kind::kElement, element});
    }
  }
  return columns;
}

}  // namespace

Table TrialTable(const v1::StudySpec& spec, const std::vector<v1::Trial>& trials, bool wide) {
  std::vector<const v1::Trial*> pointers;
  for (const v1::Trial& trial : trials) pointers.push_back(&trial);
  const std::vector<ParameterColumn> parameters = ParameterColumns(spec, pointers, wide);
  std::vector<std::string> titles;
  for (const ParameterColumn& column : parameters) titles.push_back(column.Title());
  std::set<std::string> other_metrics;
  for (const v1::Trial& trial : trials) {
    for (const auto& [name, value] : trial.final_measurement().metrics()) other_metrics.insert(name);
  }
  other_metrics.erase(spec.metric().name());
  std::vector<std::string> metrics = {spec.metric().name()};
  metrics.insert(metrics.end(), other_metrics.begin(), other_metrics.end());

  // Columns that a narrow terminal leaves out, the last first.
  enum Rank { kNote = 1, kParameter, kOtherMetric, kTraining, kInternal };
  std::vector<Column> columns = {"number", "state"};
  for (const std::string& name : metrics) {
    const bool clash = std::find(titles.begin(), titles.end(), name) != titles.end();
    columns.emplace_back(clash ? "metric." + name : name, name == spec.metric().name() ? 0 : kOtherMetric);
  }
  for (const std::string& title : titles) columns.emplace_back(title, kParameter);
  const bool training = std::any_of(trials.begin(), trials.end(),
                                    [](const v1::Trial& trial) { return trial.final_measurement().has_training(); });
  if (training) columns.emplace_back("training", kTraining);
  for (const char* name : {"attempts", "origin", "worker"}) {
    columns.emplace_back(name, kInternal);
    columns.back().internal = true;
  }
  columns.emplace_back("note", kNote);
  columns.back().if_filled = true;
  Table table(columns);
  for (const v1::Trial& trial : trials) {
    std::vector<Cell> row = {Cell::Integer(trial.number()), Cell::State(v1::Trial::State_Name(trial.state()))};
    for (const std::string& name : metrics) {
      const auto found = trial.final_measurement().metrics().find(name);
      row.push_back(found == trial.final_measurement().metrics().end() ? Cell::Empty() : Cell::Number(found->second));
    }
    for (const ParameterColumn& column : parameters) row.push_back(CellOf(column, trial));
    if (training) {
      const v1::Measurement& last = trial.final_measurement();
      row.push_back(last.has_training() ? Cell::Text(OutcomeText(last.training())) : Cell::Empty());
    }
    row.push_back(Cell::Integer(trial.attempts_size()));
    row.push_back(Cell::Text(trial.provenance().origin()));
    row.push_back(trial.attempts().empty() ? Cell::Empty() : Cell::Text(trial.attempts().rbegin()->worker()));
    row.push_back(Cell::Text(Note(trial)));
    table.Add(std::move(row), trial.name());
  }
  return table;
}

void PrintResolution(std::ostream& out, const v1::Study& study) {
  if (!study.has_resolved_algorithm()) return;
  out << "chosen by the service: algorithm:\n" << Indented(wire::ToYaml(study.resolved_algorithm())) << "\n";
  for (const std::string& reason : study.algorithm_reasons()) out << "  " << Printable(reason) << "\n";
}

void PrintChoice(std::ostream& out, const v1::Study& study) {
  if (!study.has_resolved_algorithm()) return;
  const v1::Algorithm& algorithm = study.resolved_algorithm();
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  algorithm.GetReflection()->ListFields(algorithm, &fields);
  if (fields.empty()) return;
  out << "algorithm " << fields.front()->name() << ", chosen by the service";
  if (!study.algorithm_reasons().empty()) out << ": " << Printable(study.algorithm_reasons(0));
  out << "\n";
}

void PrintStudy(std::ostream& out, const v1::Study& study, Detail detail) {
  out << IdOf(study) << ": " << StudyStateText(study);
  if (!study.state_reason().empty()) out << " (" << Printable(study.state_reason()) << ")";
  out << ", " << Summary(study) << "\n";
  if (study.resource_spent() > 0) {
    out << "trained  " << study.resource_spent() << " " << UnitOf(study.spec())
        << " in all trials, restarts included\n";
  }
  if (const std::string trainings = TrainingsText(study.trainings()); !trainings.empty()) {
    out << "training " << trainings << "\n";
  }
  out << "created  " << ShortTime(study.create_time()) << " UTC\n";
  if (NeverReportedAStep(study)) {
    out << "warning  no trial has reported a step of its training, so none can be paused or stopped early: the "
           "objective has to report `step`\n";
  }
  if (const std::string warning = LimitWarning(study); !warning.empty()) {
    out << "warning  " << warning << "; see luthier trial list " << IdOf(study) << "\n";
  }
  for (const v1::GradientsSetAside& entry : study.gradients_set_aside()) {
    out << "warning  the gradients of worker " << Printable(entry.worker()) << " are set aside in " << entry.trials()
        << (entry.trials() == 1 ? " trial" : " trials") << ": check their sign and units\n";
  }
  detail.verbose ? PrintResolution(out, study) : PrintChoice(out, study);
  PrintHarmonica(out, study);
  if (study.has_certificate()) PrintCertificate(out, study.spec().metric().name(), study.certificate());
  out << "spec\n" << Indented(wire::ToYaml(study.spec())) << "\n";
}

void PrintTrial(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial, Detail detail) {
  out << "trial " << trial.number() << ": " << v1::Trial::State_Name(trial.state()) << "\n";
  out << "parameters:\n";
  for (const std::string& name : ParameterNames(spec, {&trial})) {
    const auto found = trial.parameters().fields().find(name);
    if (found == trial.parameters().fields().end()) continue;
    out << "  " << Printable(name) << " = " << Printable(ValueText(found->second, detail.wide)) << "\n";
  }
  if (trial.stop_requested() && trial.state() == v1::Trial::RUNNING) out << "its end was asked for\n";
  PrintMap(out, "metrics", Sorted(trial.final_measurement().metrics()));
  PrintEnding(out, trial.final_measurement());
  if (trial.final_measurement().has_gradient())
    PrintGradient(out, trial.final_measurement().gradient(), detail.verbose);
  if (trial.gradient_set_aside()) out << kSetAside << "\n";
  if (trial.has_failure()) {
    out << "failure: " << Note(trial) << "\n";
    if (!trial.failure().message().empty()) out << Indented(base::PrintableLines(trial.failure().message())) << "\n";
  }
  if (!trial.checkpoint().empty()) {
    out << "checkpoint: " << Printable(trial.checkpoint());
    if (trial.checkpoint_step() > 0) out << ", of step " << trial.checkpoint_step();
    out << "\n";
  }
  if (spec.has_resource()) PrintTraining(out, spec, trial);
  for (const auto& [key, value] : Sorted(trial.attributes())) {
    out << "note: " << Printable(key) << " = " << Printable(value) << "\n";
  }
  for (const v1::Attempt& attempt : trial.attempts()) {
    out << "attempt " << attempt.number() << ": " << v1::Attempt::Outcome_Name(attempt.outcome()) << " on "
        << Printable(attempt.worker()) << ", " << ShortTime(attempt.start_time());
    if (attempt.has_end_time()) out << " to " << ShortTime(attempt.end_time());
    out << " UTC";
    if (attempt.last_step() > 0) out << ", steps " << attempt.start_step() << " to " << attempt.last_step();
    if (attempt.has_failure()) {
      out << ", " << v1::Failure::Kind_Name(attempt.failure().kind()) << " " << attempt.failure().reason();
    }
    out << "\n";
    if (!attempt.output_tail().empty()) out << Indented(base::PrintableLines(attempt.output_tail())) << "\n";
  }
  if (!trial.measurements().empty()) PrintCurve(out, spec, trial);
}

std::string EventLine(const v1::Event& event, bool colour) {
  const std::string type = v1::Event::Type_Name(event.type());
  Tone tone = Tone::kPlain;
  if (absl::EndsWith(type, "_COMPLETED")) tone = Tone::kGood;
  if (absl::EndsWith(type, "_FAILED") || absl::EndsWith(type, "_CANCELLED")) tone = Tone::kBad;
  // An old program shows a newer server's type by its number.
  std::string text = absl::StrFormat("%8d  %s  ", event.seq(), ShortTime(event.time()));
  const std::string shown = type.empty() ? absl::StrCat("event ", event.type()) : type;
  absl::StrAppend(&text, colour ? Painted(shown, tone) : shown,
                  std::string(16 - std::min<size_t>(16, shown.size()), ' '));
  if (event.trial() > 0) absl::StrAppend(&text, "  trial ", event.trial());
  // Details name metrics with their values. One that equals the event's value is the study's.
  const bool told = absl::StrContains(event.detail(), absl::StrCat("=", study::FormatDouble(event.value())));
  if (event.has_value() && !told) absl::StrAppend(&text, "  ", ShortNumber(event.value()));
  if (!event.detail().empty()) absl::StrAppend(&text, "  ", Printable(WithShortNumbers(event.detail())));
  return text;
}

std::string FailureText(const v1::Trial& trial) {
  constexpr size_t kMaxLines = 10;
  std::vector<std::string> lines = absl::StrSplit(absl::StripTrailingAsciiWhitespace(trial.failure().message()), '\n');
  // The first line says what happened. The last ones of a program's errors usually say why.
  if (lines.size() > kMaxLines) {
    lines.erase(lines.begin() + 1, lines.end() - (kMaxLines - 2));
    lines.insert(lines.begin() + 1, "…");
  }
  std::string text;
  for (const std::string& line : lines) absl::StrAppend(&text, "  ", Printable(line), "\n");
  return text;
}

void PrintExplanation(std::ostream& out, const v1::ExplainTrialResponse& explained, Detail detail) {
  const v1::Trial& trial = explained.trial();
  out << "trial " << trial.number() << ": " << v1::Trial::State_Name(trial.state()) << "\n";
  for (const std::string& sentence : explained.sentences()) out << Printable(sentence) << "\n";
  PrintMap(out, "what the algorithm computed", Sorted(trial.provenance().details()), detail.verbose);
  for (const v1::Provenance& promotion : trial.promotions()) {
    PrintMap(out, absl::StrCat("what it computed to go on to step ", promotion.resource()).c_str(),
             Sorted(promotion.details()), detail.verbose);
  }
}

}  // namespace luthier::cli
