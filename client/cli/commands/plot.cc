// Figures of studies (client/plot), read from the server and written to a file or the terminal.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "client/plot/figures.h"
#include "client/plot/gnuplot.h"
#include "client/plot/html.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/wire/resource_name.h"

namespace luthier::cli {
namespace {

constexpr std::size_t kMostAsked = std::size_t{2} << 20;  // Bytes of the settings of one question to the model.
constexpr std::size_t kMostAxes = 12;
constexpr std::size_t kMostCompared = 7;
constexpr std::size_t kMostPoints = 5000;  // In a layer of a picture, whose file stays below a megabyte.
constexpr std::size_t kBestCurves = 20, kOtherCurves = 60;
constexpr std::size_t kMostGradients = 60;
constexpr std::size_t kMostSeveral = 1000;  // Trials of several attempts whose attempts are drawn.
constexpr int kUsualWidth = 79;

enum class Output { kPicture, kScript, kHtml, kJson, kTerminal };

struct Target {
  Output output = Output::kTerminal;
  plot::Drawing drawing;
};

absl::StatusOr<Target> TargetOf(const Context& context) {
  using Format = plot::Drawing::Format;
  const std::string& out = context.options().out;
  Target target;
  if (out == "-") {
    const std::size_t width = context.room().width;
    target.drawing = {.format = Format::kText, .columns = width > 0 ? static_cast<int>(width) - 1 : kUsualWidth};
    return target;
  }
  target.output = Output::kPicture;
  if (absl::EndsWith(out, ".png")) {
    target.drawing.format = Format::kPng;
  } else if (absl::EndsWith(out, ".pdf")) {
    target.drawing.format = Format::kPdf;
  } else if (absl::EndsWith(out, ".gp")) {
    target.output = Output::kScript;
  } else if (absl::EndsWith(out, ".html")) {
    target.output = Output::kHtml;
  } else if (absl::EndsWith(out, ".json")) {
    target.output = Output::kJson;
  } else if (!absl::EndsWith(out, ".svg")) {
    return UsageError(
        "--out", absl::StrCat(base::Quote(out), " does not end in .svg, .png, .pdf, .html, .gp or .json, nor is it -"));
  }
  return target;
}

// Writes a figure where --out says, and its words to `err`.
absl::StatusOr<int> Draw(Context& context, const Target& target, const plot::Figure& figure) {
  std::string text;
  if (target.output == Output::kJson) {
    text = absl::StrCat(JsonText(plot::ToJson(figure)), "\n");
  } else if (target.output == Output::kHtml) {
    text = plot::HtmlPage(figure);
  } else {
    text = plot::GnuplotScript(plot::Thinned(figure, kMostPoints), target.drawing);
    if (target.output != Output::kScript) {
      LUTHIER_ASSIGN_OR_RETURN(text, plot::RunGnuplot(text));
    }
  }
  if (target.output == Output::kTerminal) {
    context.out() << text;
  } else {
    const std::string& path = context.options().out;
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return absl::FailedPreconditionError(absl::StrCat(path, ": can't be written"));
  }
  context.err() << figure.caption << "\n";
  return kExitDone;
}

// Reads a study and the named columns of its trials; METRIC stands for the metric's.
absl::StatusOr<plot::Subject> Read(Context& context, const std::string& id, std::vector<std::string> columns) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  plot::Subject subject;
  subject.id = id;
  LUTHIER_ASSIGN_OR_RETURN(subject.study, client->GetStudy(id));
  const std::string& metric = context.options().metric;
  subject.metric = metric.empty() ? subject.study.spec().metric().name() : metric;
  columns.insert(columns.end(), {"number", "state"});
  const auto& metrics = subject.study.spec().metrics();
  if (std::any_of(metrics.begin(), metrics.end(),
                  [](const v1::MetricSpec& one) { return one.has_at_least() || one.has_at_most(); })) {
    columns.emplace_back("feasible");
  }
  for (std::string& column : columns) {
    if (column == "METRIC") column = absl::StrCat("metrics.", subject.metric);
  }
  LUTHIER_RETURN_IF_ERROR(client->GetTrialTable(
      id, columns, [&](const v1::GetTrialTableResponse& page) { return subject.trials.Add(page); }));
  if (context.options().last > 0) subject.trials.KeepLast(static_cast<std::size_t>(context.options().last));
  return subject;
}

// Reads the study of the command line with its parameters.
absl::StatusOr<plot::Subject> ReadParameters(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study));
  std::vector<std::string> columns = {"METRIC"};
  for (const v1::ParameterSpec& parameter : study.spec().space()) {
    const std::string name = absl::StrCat("params.", parameter.name());
    if (parameter.has_count()) {
      for (const char* part : {".min", ".median", ".max"}) columns.push_back(name + part);
    } else {
      columns.push_back(name);
    }
  }
  return Read(context, context.options().study, std::move(columns));
}

absl::StatusOr<int> PlotCompared(Context& context,
                                 plot::Figure (*figure)(const plot::Subject&, const std::vector<plot::Subject>&)) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  if (context.options().compared.size() > kMostCompared) {
    return UsageError("--compare", absl::StrCat("more than ", kMostCompared, " other studies"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const plot::Subject subject, Read(context, context.options().study, {"METRIC", "origin"}));
  std::vector<plot::Subject> others;
  for (const std::string& id : context.options().compared) {
    LUTHIER_ASSIGN_OR_RETURN(plot::Subject other, Read(context, id, {"METRIC", "origin"}));
    if (other.maximize() != subject.maximize()) {
      return absl::InvalidArgumentError(
          absl::StrCat("study ", id, " has the other goal: what is better in one is worse in the other"));
    }
    others.push_back(std::move(other));
  }
  return Draw(context, target, figure(subject, others));
}

// Asks the study's model; a study without one is drawn without it.
absl::StatusOr<plot::Expectation> Ask(Context& context, const v1::PredictRequest& request) {
  plot::Expectation model;
  if (request.settings().empty()) return model;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  v1::PredictResponse all;
  for (int next = 0; next < request.settings_size();) {
    v1::PredictRequest part;
    part.set_name(wire::StudyName(context.options().study));
    part.set_at_seq(all.seq());  // All parts ask the same model.
    std::size_t bytes = 0;
    do {
      bytes += request.settings(next).ByteSizeLong();
      *part.add_settings() = request.settings(next++);
    } while (next < request.settings_size() && bytes + request.settings(next).ByteSizeLong() < kMostAsked);
    const absl::StatusOr<v1::PredictResponse> response = client->Predict(std::move(part));
    if (!response.ok()) {
      model.why_not = std::string(response.status().message());
      return model;
    }
    all.MergeFrom(*response);
  }
  model.response = std::move(all);
  return model;
}

// Returns the best trials that reported a gradient.
absl::StatusOr<std::vector<v1::Trial>> WithGradients(Context& context, const plot::Subject& subject) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  std::vector<v1::Trial> trials;
  client::Client::WhichTrials which;
  which.states = {v1::Trial::COMPLETE};
  which.order_by = absl::StrCat("metrics.", subject.metric, subject.maximize() ? " desc" : "");
  std::size_t seen = 0;
  LUTHIER_RETURN_IF_ERROR(client->FindTrials(context.options().study, which, [&](const v1::Trial& trial) {
    if (trial.final_measurement().gradient().has_full()) trials.push_back(trial);
    return ++seen < 10 * kMostGradients && trials.size() < kMostGradients;
  }));
  return trials;
}

// Returns trials of more than one attempt, the newest ones.
absl::StatusOr<std::vector<v1::Trial>> OfSeveralAttempts(Context& context, const plot::Subject& subject) {
  std::vector<v1::Trial> trials;
  const std::vector<double>& attempts = subject.trials.Numbers("attempts");
  const auto first = std::find_if(attempts.begin(), attempts.end(), [](double count) { return count > 1.0; });
  if (first == attempts.end()) return trials;
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  client::Client::WhichTrials which;
  const double number = subject.trials.Numbers("number")[static_cast<std::size_t>(first - attempts.begin())];
  which.filter = absl::StrCat("number >= ", static_cast<std::int64_t>(number));
  which.order_by = "number desc";
  LUTHIER_RETURN_IF_ERROR(client->FindTrials(context.options().study, which, [&](const v1::Trial& trial) {
    if (trial.attempts_size() > 1) trials.push_back(trial);
    return trials.size() < kMostSeveral;
  }));
  return trials;
}

// Returns the names of the two parameters that matter most; empty if nothing says which.
std::vector<std::string> MostImportant(Context& context, const plot::Subject& subject) {
  const absl::StatusOr<client::Client*> client = context.client();
  if (!client.ok()) return {};
  v1::GetImportanceRequest request;
  request.set_metric(context.options().metric);
  const auto importance = (*client)->GetImportance(context.options().study, request);
  if (!importance.ok()) return {};
  std::vector<std::string> names;
  for (const auto& entry : importance->parameters()) {
    const bool single = plot::ParameterAxis::Of(subject, {entry.parameters(0)}, 1).ok();  // Not an entry of a vector.
    if (single && names.size() < 2) names.push_back(entry.parameters(0));
  }
  return names.size() == 2 ? names : std::vector<std::string>();
}

}  // namespace

absl::StatusOr<int> PlotHistory(Context& context) {
  return PlotCompared(context, plot::History);
}

absl::StatusOr<int> PlotFront(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const v1::Study study, client->GetStudy(context.options().study));
  std::vector<std::string> objectives;
  for (const v1::MetricSpec& one : study.spec().metrics()) {
    if (one.goal() != v1::GOAL_UNSPECIFIED) objectives.push_back(one.name());
  }
  if (objectives.size() < 2) {
    return absl::FailedPreconditionError(
        "the study has one objective, so that there is no front; see luthier plot history");
  }
  std::vector<std::string> names = context.options().metrics;
  if (names.empty()) names = {objectives[0], objectives[1]};
  if (names.size() != 2 || names[0] == names[1]) {
    return UsageError("--metrics", "a front needs two objectives: --metrics a,b");
  }
  for (const std::string& name : names) {
    if (std::find(objectives.begin(), objectives.end(), name) != objectives.end()) continue;
    return UsageError("--metrics", absl::StrCat(base::Quote(name), " is no objective of the study; it has ",
                                                absl::StrJoin(objectives, ", ")));
  }
  LUTHIER_ASSIGN_OR_RETURN(
      const plot::Subject subject,
      Read(context, context.options().study, {absl::StrCat("metrics.", names[0]), absl::StrCat("metrics.", names[1])}));
  return Draw(context, target, plot::Front(subject, names[0], names[1]));
}

absl::StatusOr<int> PlotEdf(Context& context) {
  return PlotCompared(context, plot::Edf);
}

absl::StatusOr<int> PlotTimeline(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(plot::Subject subject, Read(context, context.options().study,
                                                       {"start_time", "end_time", "seconds", "attempts", "worker"}));
  subject.now = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> several, OfSeveralAttempts(context, subject));
  return Draw(context, target, plot::Timeline(subject, several));
}

absl::StatusOr<int> PlotParallel(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const plot::Subject subject, ReadParameters(context));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<plot::ParameterAxis> axes,
                           plot::ParameterAxis::Of(subject, context.options().parameters, kMostAxes));
  return Draw(context, target, plot::Parallel(subject, axes));
}

absl::StatusOr<int> PlotSlice(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const plot::Subject subject, ReadParameters(context));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<plot::ParameterAxis> axes,
                           plot::ParameterAxis::Of(subject, context.options().parameters, kMostAxes));
  LUTHIER_ASSIGN_OR_RETURN(const plot::Expectation model, Ask(context, plot::SliceSettings(subject, axes)));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Trial> gradients, WithGradients(context, subject));
  return Draw(context, target, plot::Slice(subject, axes, model, gradients));
}

absl::StatusOr<int> PlotContour(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  std::vector<std::string> names = context.options().parameters;
  if (!names.empty() && names.size() != 2)
    return UsageError("--params", "a contour needs two parameters: --params a,b");
  LUTHIER_ASSIGN_OR_RETURN(const plot::Subject subject, ReadParameters(context));
  if (names.empty()) names = MostImportant(context, subject);
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<plot::ParameterAxis> axes, plot::ParameterAxis::Of(subject, names, 2));
  if (axes.size() < 2) {
    return absl::FailedPreconditionError("the study has fewer than two parameters that vary; see luthier plot slice");
  }
  LUTHIER_ASSIGN_OR_RETURN(const plot::Expectation model,
                           Ask(context, plot::ContourSettings(subject, axes[0], axes[1])));
  return Draw(context, target, plot::Contour(subject, axes[0], axes[1], model));
}

absl::StatusOr<int> PlotImportance(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  plot::Subject subject;
  subject.id = context.options().study;
  LUTHIER_ASSIGN_OR_RETURN(subject.study, client->GetStudy(subject.id));
  subject.metric = context.options().metric.empty() ? subject.study.spec().metric().name() : context.options().metric;
  v1::GetImportanceRequest request;
  request.set_metric(context.options().metric);
  request.set_pairs(context.options().pairs);
  LUTHIER_ASSIGN_OR_RETURN(const v1::GetImportanceResponse importance, client->GetImportance(subject.id, request));
  return Draw(context, target, plot::Importance(subject, importance));
}

absl::StatusOr<int> PlotCurves(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(const Target target, TargetOf(context));
  LUTHIER_ASSIGN_OR_RETURN(const plot::Subject subject, Read(context, context.options().study, {"METRIC"}));
  const std::vector<double>& values = subject.values();
  std::vector<std::size_t> rows(subject.trials.rows());
  for (std::size_t row = 0; row < rows.size(); ++row) rows[row] = row;
  // The best come first, those without a value behind them, and infeasible ones last.
  const auto rank = [&](std::size_t row) {
    if (!std::isfinite(values[row])) return std::numeric_limits<double>::infinity();
    return subject.maximize() ? -values[row] : values[row];
  };
  std::stable_sort(rows.begin(), rows.end(), [&](std::size_t a, std::size_t b) {
    if (subject.feasible(a) != subject.feasible(b)) return subject.feasible(a);
    return rank(a) < rank(b);
  });
  std::vector<std::size_t> chosen(rows.begin(), rows.begin() + std::min(rows.size(), kBestCurves));
  // Trials that were stopped early may have better values than the best one.
  if (const auto best = subject.best(); best && std::find(chosen.begin(), chosen.end(), *best) == chosen.end()) {
    chosen.back() = *best;
  }
  const std::size_t rest = rows.size() - chosen.size();
  const std::size_t others = std::min(rest, kOtherCurves);
  const std::size_t last = chosen.empty() ? 0 : chosen.back();
  for (std::size_t i = 0; i < others; ++i) {
    const std::size_t row = rows[kBestCurves + i * rest / others];
    if (row != last) chosen.push_back(row);
  }
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  std::vector<v1::Trial> trials;
  for (const std::size_t row : chosen) {
    const auto number = static_cast<int64_t>(subject.trials.Numbers("number")[row]);
    absl::StatusOr<v1::Trial> trial = client->GetTrial(context.options().study, number, /*with_measurements=*/true);
    if (absl::IsNotFound(trial.status())) continue;  // The trial was deleted meanwhile.
    LUTHIER_RETURN_IF_ERROR(trial.status());
    trials.push_back(*std::move(trial));
  }
  return Draw(context, target, plot::Curves(subject, trials));
}

}  // namespace luthier::cli
