// Verbs that need no server.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/base/version.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/registry.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/simulate/training.h"
#include "lib/wire/convert.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// Reads "bo" or "{bo: {noisy: true}}"; the label is the text itself.
absl::StatusOr<study::AlgorithmSpec> ParseAlgorithm(const std::string& text) {
  if (!absl::StartsWith(text, "{")) {
    std::vector<std::string> names;
    for (const search::AlgorithmInfo& info : search::Algorithms()) names.push_back(info.name);
    if (std::find(names.begin(), names.end(), text) == names.end()) {
      return UsageError("--algorithm", absl::StrCat(base::Quote(text), " is none", base::DidYouMean(text, names),
                                                    "; `luthier algorithms` lists them, {name: {option: value}} sets "
                                                    "their options"));
    }
  }
  return wire::ParseAlgorithm(text);
}

Json NumberOrNull(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

Json RowJson(const simulate::Row& row) {
  return {{"algorithm", row.algorithm},         {"function", row.function},         {"seed", row.seed},
          {"evaluation", row.evaluation},       {"value", NumberOrNull(row.value)}, {"best", NumberOrNull(row.best)},
          {"regret", NumberOrNull(row.regret)}, {"suggest_ms", row.suggest_ms}};
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// Keeps the last row of each run, by algorithm and function in the order of the command line.
class SimulationSummary {
 public:
  void Add(const simulate::Row& row) {
    const auto key = std::make_pair(row.algorithm, row.function);
    if (last_.find(key) == last_.end()) order_.push_back(key);
    Runs& runs = last_[key];
    runs.last[row.seed] = row;
    runs.milliseconds += row.suggest_ms;
    ++runs.rows;
  }
  Table ToTable() const {
    Table table({"algorithm", "function", "seeds", "evaluations", "median_best", "median_regret", "mean_suggest_ms"});
    for (const auto& key : order_) {
      const Runs& runs = last_.at(key);
      std::vector<double> best;
      std::vector<double> regret;
      int64_t evaluations = 0;
      for (const auto& [seed, row] : runs.last) {
        if (std::isfinite(row.best)) best.push_back(row.best);
        if (row.regret) regret.push_back(*row.regret);
        evaluations = std::max(evaluations, row.evaluation);
      }
      table.Add({Cell::Text(key.first), Cell::Text(key.second), Cell::Integer(static_cast<int64_t>(runs.last.size())),
                 Cell::Integer(evaluations), best.empty() ? Cell::Empty() : Cell::Number(Median(best)),
                 regret.empty() ? Cell::Empty() : Cell::Number(Median(regret)),
                 Cell::Number(runs.milliseconds / static_cast<double>(runs.rows))});
    }
    return table;
  }

 private:
  struct Runs {
    std::map<uint64_t, simulate::Row> last;
    double milliseconds = 0.0;
    int64_t rows = 0;
  };
  std::vector<std::pair<std::string, std::string>> order_;
  std::map<std::pair<std::string, std::string>, Runs> last_;
};

// Simulates trainings, with --resource: one line a run, or medians over the seeds.
absl::StatusOr<int> SimulateTrainings(Context& context, const std::vector<simulate::SimulateOptions>& plans) {
  const Options& options = context.options();
  std::optional<study::StoppingRule> stopping;
  if (!options.stopping.empty()) {
    LUTHIER_ASSIGN_OR_RETURN(stopping, wire::ParseStopping(options.stopping));
  }
  Json list = Json::array();
  Table runs({"algorithm", "function", "seed", "settings", "complete", "stopped", "training", "elapsed", "idle", "best",
              "regret"});
  Table medians({"algorithm", "function", "seeds", "settings", "complete", "stopped", "median_training",
                 "median_elapsed", "median_best", "median_regret"});
  const auto cell = [](const std::optional<double>& value) { return value ? Cell::Number(*value) : Cell::Empty(); };
  for (const simulate::SimulateOptions& plan : plans) {
    simulate::TrainingOptions training;
    training.problem = simulate::WithCurves(plan.problem, options.resource);
    training.algorithm = plan.algorithm;
    training.stopping = stopping;
    training.resource = {.min = options.resource_min, .max = options.resource, .unit = ""};
    training.trials = plan.evaluations;
    training.workers = plan.parallel;
    std::vector<double> complete, stopped, units, elapsed, best, regrets;
    for (int64_t k = 0; k < plan.seeds; ++k) {
      training.seed = plan.first_seed + static_cast<uint64_t>(k);
      LUTHIER_ASSIGN_OR_RETURN(const simulate::TrainingSummary run, simulate::SimulateTraining(training));
      std::optional<double> regret;
      if (run.best && plan.problem.optimum) regret = std::abs(*run.best - *plan.problem.optimum);
      complete.push_back(static_cast<double>(run.complete));
      stopped.push_back(static_cast<double>(run.stopped));
      units.push_back(run.training);
      elapsed.push_back(run.elapsed);
      if (run.best) best.push_back(*run.best);
      if (regret) regrets.push_back(*regret);
      const auto seed = static_cast<int64_t>(training.seed);
      runs.Add({Cell::Text(plan.label), Cell::Text(plan.problem.name), Cell::Integer(seed), Cell::Integer(run.settings),
                Cell::Integer(run.complete), Cell::Integer(run.stopped), Cell::Number(run.training),
                Cell::Number(run.elapsed), Cell::Number(run.idle), cell(run.best), cell(regret)});
      list.push_back({{"algorithm", plan.label},
                      {"function", plan.problem.name},
                      {"seed", training.seed},
                      {"settings", run.settings},
                      {"complete", run.complete},
                      {"stopped", run.stopped},
                      {"training", run.training},
                      {"elapsed", run.elapsed},
                      {"idle", run.idle},
                      {"best", NumberOrNull(run.best)},
                      {"regret", NumberOrNull(regret)}});
    }
    const auto median = [&](const std::vector<double>& values) {
      return cell(values.empty() ? std::nullopt : std::optional(Median(values)));
    };
    medians.Add({Cell::Text(plan.label), Cell::Text(plan.problem.name), Cell::Integer(plan.seeds),
                 Cell::Integer(plan.evaluations), median(complete), median(stopped), median(units), median(elapsed),
                 median(best), median(regrets)});
  }
  if (context.structured())
    context.Print(list);
  else
    context.Print(options.format == OutputFormat::kCsv ? runs : medians);
  return kExitDone;
}

}  // namespace

absl::StatusOr<int> Simulate(Context& context) {
  const Options& options = context.options();
  std::vector<simulate::SimulateOptions> plans;
  for (const std::string& function : options.functions) {
    const absl::StatusOr<simulate::Problem> problem = simulate::TestProblem(function);
    if (!problem.ok()) return UsageError("--function", std::string(problem.status().message()));
    for (const std::string& algorithm : options.algorithms) {
      simulate::SimulateOptions plan;
      LUTHIER_ASSIGN_OR_RETURN(plan.algorithm, ParseAlgorithm(algorithm));
      plan.label = algorithm;
      plan.problem = *problem;
      plan.evaluations = options.evaluations;
      plan.seeds = options.seeds;
      plan.first_seed = options.first_seed;
      plan.parallel = options.parallel;
      plan.noise = options.noise;
      plans.push_back(std::move(plan));
    }
  }
  if (options.resource > 0) return SimulateTrainings(context, plans);
  SimulationSummary summary;
  bool first = true;
  if (options.format == OutputFormat::kCsv) context.out() << simulate::CsvHeader() << "\n";
  for (const simulate::SimulateOptions& plan : plans) {
    LUTHIER_RETURN_IF_ERROR(simulate::Simulate(plan, simulate::ThreadCpuTime, [&](const simulate::Row& row) {
      switch (options.format) {
        case OutputFormat::kCsv:
          context.out() << simulate::CsvLine(row) << "\n";
          break;
        case OutputFormat::kJson:
        case OutputFormat::kYaml:
          context.PrintElement(RowJson(row), first);
          break;
        case OutputFormat::kTable:
        case OutputFormat::kWide:
        case OutputFormat::kName:
          summary.Add(row);
          break;
      }
      first = false;
      return context.out().good();
    }));
  }
  if (context.structured()) context.ClosePrintedList(first);
  if (context.shown()) context.Print(summary.ToTable());
  return kExitDone;
}

namespace {

const char* GoalName(study::Goal goal) {
  return goal == study::Goal::kMinimize ? "MINIMIZE" : "MAXIMIZE";
}

bool IsNumber(const catalogue::ParameterInfo& p) {
  return p.kind == catalogue::ParameterKind::kFloat || p.kind == catalogue::ParameterKind::kInt;
}

Json ValueJson(const std::optional<study::ParameterValue>& value) {
  if (!value) return nullptr;
  return std::visit([](const auto& v) { return Json(v); }, *value);
}

Json ObjectiveJson(const catalogue::ObjectiveInfo& info) {
  Json parameters = Json::array();
  for (const catalogue::ParameterInfo& p : info.parameters) {
    Json json = {{"name", p.name},
                 {"kind", catalogue::ParameterKindName(p.kind)},
                 {"tunable", p.tunable},
                 {"required", p.required()},
                 {"default", ValueJson(p.default_value)},
                 {"differentiable", p.differentiable},
                 {"units", p.units},
                 {"description", p.description}};
    if (IsNumber(p)) {
      json["min"] = p.min;
      json["max"] = p.max;
      if (p.tunable) {
        json["search"] = {{"min", p.suggested_min},
                          {"max", p.suggested_max},
                          {"scale", p.suggested_scale == study::Scale::kLog ? "LOG" : "LINEAR"}};
      }
    }
    if (!p.labels.empty()) json["labels"] = p.labels;
    parameters.push_back(std::move(json));
  }
  Json metrics = Json::array();
  for (const catalogue::MetricInfo& m : info.metrics) {
    metrics.push_back(
        {{"name", m.name}, {"goal", GoalName(m.goal)}, {"gradient", m.gradient}, {"description", m.description}});
  }
  return {{"model", info.model},           {"description", info.description}, {"details", info.details},
          {"needs_data", info.needs_data}, {"parameters", parameters},        {"metrics", metrics}};
}

// Returns a table with a row for each parameter, option and metric.
Table ObjectiveTable(const catalogue::ObjectiveInfo& info) {
  Table table({"role", "name", "kind", "required", "default", "min", "max", "labels", "goal", "gradient", "units",
               "description"});
  const auto flag = [](bool value) { return Cell::Text(value ? "true" : "false"); };
  for (const catalogue::ParameterInfo& p : info.parameters) {
    table.Add({Cell::Text(p.tunable ? "parameter" : "option"), Cell::Text(p.name),
               Cell::Text(catalogue::ParameterKindName(p.kind)), flag(p.required()),
               p.default_value ? Cell::Value(*p.default_value) : Cell::Empty(),
               IsNumber(p) ? Cell::Number(p.min) : Cell::Empty(), IsNumber(p) ? Cell::Number(p.max) : Cell::Empty(),
               Cell::Text(absl::StrJoin(p.labels, "|")), Cell::Empty(), flag(p.differentiable), Cell::Text(p.units),
               Cell::Text(p.description)});
  }
  for (const catalogue::MetricInfo& m : info.metrics) {
    table.Add({Cell::Text("metric"), Cell::Text(m.name), Cell::Empty(), Cell::Empty(), Cell::Empty(), Cell::Empty(),
               Cell::Empty(), Cell::Empty(), Cell::Text(GoalName(m.goal)), flag(m.gradient), Cell::Empty(),
               Cell::Text(m.description)});
  }
  return table;
}

}  // namespace

absl::StatusOr<int> Objectives(Context& context) {
  if (context.structured()) {
    Json list = Json::array();
    for (const catalogue::ObjectiveInfo& info : catalogue::Objectives()) {
      Json metrics = Json::array();
      for (const catalogue::MetricInfo& m : info.metrics) metrics.push_back(m.name);
      Json parameters = Json::array();
      for (const catalogue::ParameterInfo& p : info.parameters) parameters.push_back(p.name);
      list.push_back({{"model", info.model},
                      {"description", info.description},
                      {"needs_data", info.needs_data},
                      {"parameters", parameters},
                      {"metrics", metrics}});
    }
    context.Print(list);
    return kExitDone;
  }
  Table table({"model", "data", "description"});
  for (const catalogue::ObjectiveInfo& info : catalogue::Objectives()) {
    table.Add({Cell::Text(info.model), Cell::Text(info.needs_data ? "yes" : "no"), Cell::Text(info.description)});
  }
  context.Print(table);
  context.err() << "details: luthier objectives describe MODEL\n";
  return kExitDone;
}

absl::StatusOr<int> ObjectivesDescribe(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const catalogue::ObjectiveInfo* info, catalogue::FindObjective(context.options().objective));
  switch (context.options().format) {
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      context.out() << catalogue::Describe(*info);
      break;
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      context.Print(ObjectiveJson(*info));
      break;
    case OutputFormat::kCsv:
      ObjectiveTable(*info).PrintCsv(context.out());
      break;
    case OutputFormat::kName:
      context.out() << info->model << "\n";
      break;
  }
  return kExitDone;
}

absl::StatusOr<int> Algorithms(Context& context) {
  if (context.structured()) {
    Json list = Json::array();
    for (const search::AlgorithmInfo& info : search::Algorithms()) {
      Json options = Json::object();
      for (const auto& [name, what] : info.options) options[name] = what;
      list.push_back(
          {{"name", info.name}, {"version", info.version}, {"description", info.description}, {"options", options}});
    }
    context.Print(list);
    return kExitDone;
  }
  Table table({"algorithm", "version", "description"});
  for (const search::AlgorithmInfo& info : search::Algorithms()) {
    table.Add({Cell::Text(info.name), Cell::Integer(info.version), Cell::Text(info.description)});
    if (!context.shown()) continue;
    for (const auto& [name, what] : info.options) {
      table.Add({Cell::Text("  " + name), Cell::Empty(), Cell::Text("  " + what)});
    }
  }
  context.Print(table);
  return kExitDone;
}

absl::StatusOr<int> VerifyReplayVerb(Context& context) {
  const Options& options = context.options();
  if (options.db.empty()) return UsageError("--db", "is required: the data directory to check");
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<ReplayResult> results,
                           VerifyReplay(DataDirectory(options.db), options.study));
  bool good = true;
  Json list = Json::array();
  Table table({"study", "checked", "other_version", "mismatches"});
  for (const ReplayResult& r : results) {
    good = good && r.mismatches.empty();
    for (const std::string& mismatch : r.mismatches) context.err() << r.study << ": " << Printable(mismatch) << "\n";
    list.push_back(
        {{"study", r.study}, {"checked", r.checked}, {"other_version", r.other_version}, {"mismatches", r.mismatches}});
    table.Add({Cell::Text(r.study), Cell::Integer(r.checked), Cell::Integer(r.other_version),
               Cell::Integer(static_cast<int64_t>(r.mismatches.size()))});
  }
  if (context.structured())
    context.Print(list);
  else
    context.Print(table);
  if (good) return kExitDone;
  context.err() << "luthier: suggestions differ; was the study made by another build or on another kind of CPU?\n";
  return kExitFailed;
}

absl::StatusOr<int> Version(Context& context) {
  if (context.structured())
    context.Print(Json{{"version", base::kVersion}, {"commit", base::BuildCommit()}, {"level", base::BuildLevel()}});
  else if (context.options().format == OutputFormat::kCsv)
    context.out() << "version,commit,level\n"
                  << base::kVersion << "," << base::BuildCommit() << "," << base::BuildLevel() << "\n";
  else
    context.out() << "luthier " << base::VersionText() << "\n";
  return kExitDone;
}

}  // namespace luthier::cli
