#include "bench/reproduce/run.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "bench/reproduce/problems.h"
#include "lib/base/status_macros.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/history.h"
#include "lib/wire/yaml_spec.h"

namespace luthier::reproduce {
namespace {

constexpr char kHeader[] = "evaluation,value,best,origin,bind_rate,excluded_share,suggest_ms";

absl::StatusOr<study::StudySpec> SpecOf(const Case& run, const Problem& problem) {
  study::StudySpec spec;
  spec.space = problem.base.space;
  spec.metric = {"value", problem.base.goal};
  spec.budget.max_trials = run.evaluations;
  spec.seed = run.seed;
  if (!run.setting->textbook.has_value()) {
    const std::string text =
        absl::StrReplaceAll(run.setting->algorithm, {{"{L}", study::FormatDouble(problem.lipschitz)}});
    LUTHIER_ASSIGN_OR_RETURN(spec.algorithm, wire::ParseAlgorithm(text));
    // The functions repeat exactly, as builtin objectives do: no trial has to find that out.
    if (auto* bo = std::get_if<study::BoOptions>(&spec.algorithm); bo != nullptr && !bo->noisy.has_value()) {
      bo->noisy = false;
    }
    LUTHIER_RETURN_IF_ERROR(search::Validate(spec));
  }
  return spec;
}

// What the objective reports beside its value.
std::optional<study::Gradient> GradientAt(const Case& run, const Problem& problem, const study::Parameters& parameters,
                                          const std::vector<double>& direction) {
  if (run.setting->slopes == Slopes::kNone || !problem.gradient) return std::nullopt;
  study::Gradient gradient;
  gradient.values = problem.gradient(parameters);
  if (run.setting->slopes == Slopes::kFull) return gradient;
  if (direction.empty()) return std::nullopt;
  for (size_t j = 0; j < direction.size(); ++j) gradient.slope += gradient.values[j] * direction[j];
  gradient.direction = direction;
  gradient.values.clear();
  return gradient;
}

std::string Number(double value) {
  return std::isfinite(value) ? study::FormatDouble(value) : "";
}

std::string Detail(const search::Suggestion& suggestion, const char* name) {
  const auto found = suggestion.details.find(name);
  return found == suggestion.details.end() ? "" : absl::StrFormat("%.4g", found->second);
}

absl::Status WriteFile(const std::string& path, const std::string& text) {
  std::ofstream out(path + ".part");
  out << text;
  out.close();
  std::error_code error;
  if (out) std::filesystem::rename(path + ".part", path, error);
  if (!out || error) return absl::UnavailableError(absl::StrCat("cannot write ", path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Case> ParseCase(absl::string_view line) {
  const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
  Case run;
  if (words.size() != 4 || !absl::SimpleAtoi(words[2], &run.seed) || !absl::SimpleAtoi(words[3], &run.evaluations)) {
    return absl::InvalidArgumentError(absl::StrCat("'", line, "' is not PROBLEM SETTING SEED EVALUATIONS"));
  }
  run.problem = words[0];
  for (const Setting& setting : Settings()) {
    if (setting.name == words[1]) run.setting = &setting;
  }
  if (run.setting == nullptr) return absl::InvalidArgumentError(absl::StrCat("there is no setting '", words[1], "'"));
  return run;
}

std::string PathOf(const std::string& folder, const Case& run) {
  return absl::StrCat(folder, "/", run.problem, "/", run.setting->name, "/", run.seed, ".csv");
}

bool IsDone(const std::string& folder, const Case& run) {
  std::ifstream in(PathOf(folder, run));
  int rows = -1;
  for (std::string line; std::getline(in, line);) ++rows;
  return rows >= run.evaluations;
}

absl::Status Execute(const std::string& folder, const Case& run) {
  LUTHIER_ASSIGN_OR_RETURN(const Problem problem, MakeProblem(run.problem, run.seed));
  LUTHIER_ASSIGN_OR_RETURN(const study::StudySpec spec, SpecOf(run, problem));
  const std::unique_ptr<search::Designer> designer =
      run.setting->textbook.has_value() ? std::make_unique<TextbookDesigner>(spec, *run.setting->textbook)
                                        : search::CreateDesigner(spec);
  study::History history;
  std::string rows = absl::StrCat(kHeader, "\n");
  double best = std::nan("");
  for (int i = 0; i < run.evaluations; ++i) {
    const absl::Duration start = simulate::ThreadCpuTime();
    LUTHIER_ASSIGN_OR_RETURN(const search::Suggestion suggestion,
                             designer->Suggest(history, static_cast<uint64_t>(i), base::StopToken()));
    const double suggest_ms = absl::ToDoubleMilliseconds(simulate::ThreadCpuTime() - start);
    const double value = problem.base.evaluate(suggestion.parameters);
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = suggestion.parameters;
    trial.designer_state = suggestion.designer_state;
    history.AddStored(std::move(trial));
    if (std::isfinite(value)) {
      if (!(best <= value)) best = value;
      history.Finish(i + 1, study::TrialState::kComplete, value,
                     GradientAt(run, problem, suggestion.parameters, suggestion.direction), std::nullopt);
    } else {
      history.Finish(i + 1, study::TrialState::kFailed, std::nullopt, std::nullopt, study::FailureKind::kConfig);
    }
    absl::StrAppend(&rows, i + 1, ",", Number(value), ",", Number(best), ",", suggestion.origin, ",",
                    Detail(suggestion, "bind_rate"), ",", Detail(suggestion, "excluded_share"), ",",
                    absl::StrFormat("%.3f", suggest_ms), "\n");
  }
  const std::string path = PathOf(folder, run);
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  return WriteFile(path, rows);
}

absl::StatusOr<std::string> ProblemTable() {
  std::string text = "problem,dimension,optimum\n";
  std::vector<std::string> names = TestFunctionNames();
  for (const std::string& task : TaskNames()) names.push_back(task);
  for (const std::string& name : names) {
    LUTHIER_ASSIGN_OR_RETURN(const Problem problem, MakeProblem(name, 0));
    absl::StrAppend(&text, name, ",", problem.base.space.size(), ",",
                    problem.base.optimum ? study::FormatDouble(*problem.base.optimum) : "", "\n");
  }
  return text;
}

}  // namespace luthier::reproduce
