#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/show.h"
#include "client/cli/show_text.h"
#include "lib/wire/convert.h"

namespace luthier::cli {
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

std::string ObjectiveNames(const v1::StudySpec& spec) {
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : spec.metrics()) {
    if (metric.goal() != v1::GOAL_UNSPECIFIED) names.push_back(metric.name());
  }
  return names.empty() ? spec.metric().name() : absl::StrJoin(names, ", ");
}

}  // namespace

Table StudyTable(const std::vector<v1::Study>& studies) {
  const auto any = [&](auto has) { return std::any_of(studies.begin(), studies.end(), has); };
  const bool owners = any([](const v1::Study& study) { return !study.owner().empty(); });
  const bool deleted = any([](const v1::Study& study) { return study.has_delete_time(); });
  std::vector<Column> columns = {"id",          "state",       "done",      "trials",          {"running", 3},
                                 {"failed", 2}, {"metric", 4}, {"best", 1}, {"best_trial", 5}, {"created", 6}};
  if (owners) columns.push_back({"owner", 7});
  if (deleted) columns.insert(columns.end(), {{"deleted", 0}, {"gone", 0}});
  Table table(std::move(columns));
  for (const v1::Study& study : studies) {
    const v1::TrialCounts& counts = study.trials();
    std::vector<Cell> row = {Cell::Text(IdOf(study)),
                             Cell::State(StudyStateText(study)),
                             Cell::Integer(DoneTrials(counts)),
                             Cell::Integer(study.spec().budget().max_trials()),
                             Cell::Integer(counts.running()),
                             Cell::Integer(counts.failed()),
                             Cell::Text(ObjectiveNames(study.spec())),
                             study.has_best_value() ? Cell::Number(study.best_value()) : Cell::Empty(),
                             study.best_trial() > 0 ? Cell::Integer(study.best_trial()) : Cell::Empty(),
                             Cell::Text(ShortTime(study.create_time()))};
    if (owners) row.push_back(Cell::Text(study.owner()));
    if (deleted)
      row.insert(row.end(), {Cell::Text(ShortTime(study.delete_time())), Cell::Text(ShortTime(study.purge_time()))});
    table.Add(std::move(row), study.name());
  }
  return table;
}

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
  // The study's own come first.
  std::vector<std::string> metrics = MetricNames(spec);
  for (const std::string& name : metrics) other_metrics.erase(name);
  const size_t own = metrics.size();
  metrics.insert(metrics.end(), other_metrics.begin(), other_metrics.end());

  // Columns that a narrow terminal leaves out, the last first.
  enum Rank { kNote = 1, kParameter, kOtherMetric, kTraining, kInternal };
  std::vector<Column> columns = {"number", "state"};
  for (size_t i = 0; i < metrics.size(); ++i) {
    const bool clash = std::find(titles.begin(), titles.end(), metrics[i]) != titles.end();
    columns.emplace_back(clash ? "metric." + metrics[i] : metrics[i], i < own ? 0 : kOtherMetric);
  }
  const bool bounds =
      std::any_of(trials.begin(), trials.end(), [](const v1::Trial& trial) { return trial.has_feasible(); });
  if (bounds) columns.emplace_back("feasible");
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
    if (bounds) row.push_back(trial.has_feasible() ? Cell::Text(trial.feasible() ? "yes" : "no") : Cell::Empty());
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

}  // namespace luthier::cli
