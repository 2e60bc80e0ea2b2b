#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/show.h"
#include "client/cli/show_text.h"
#include "lib/base/printable.h"
#include "lib/wire/convert.h"

namespace luthier::cli {
namespace {

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

// Prints the learning curve, and the result as its last line unless it is a point of the curve.
void PrintCurve(std::ostream& out, const v1::StudySpec& spec, const v1::Trial& trial) {
  const std::vector<std::string> metrics = MetricNames(spec);
  std::vector<Column> heads = {"step"};
  heads.insert(heads.end(), metrics.begin(), metrics.end());
  heads.push_back("elapsed_seconds");
  Table table(std::move(heads));
  const auto add = [&](Cell step, const v1::Measurement& m) {
    std::vector<Cell> row = {std::move(step)};
    for (const std::string& metric : metrics) {
      const auto found = m.metrics().find(metric);
      row.push_back(found == m.metrics().end() ? Cell::Empty() : Cell::Number(found->second));
    }
    row.push_back(m.has_elapsed_seconds() ? Cell::Number(m.elapsed_seconds()) : Cell::Empty());
    table.Add(std::move(row));
  };
  for (const v1::Measurement& m : trial.measurements()) add(Cell::Integer(m.step()), m);
  const v1::Measurement& last = *trial.measurements().rbegin();
  const v1::Measurement& result = trial.final_measurement();
  const auto differs = [&](const std::string& metric) {
    const auto mine = result.metrics().find(metric), at_last = last.metrics().find(metric);
    return mine != result.metrics().end() && (at_last == last.metrics().end() || at_last->second != mine->second);
  };
  if (trial.has_final_measurement() && result.step() > last.step()) {
    add(Cell::Integer(result.step()), result);
  } else if (trial.has_final_measurement() && std::any_of(metrics.begin(), metrics.end(), differs)) {
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

// Returns "no", and which bounds of the study's metrics the result misses.
std::string MissedBounds(const v1::StudySpec& spec, const v1::Trial& trial) {
  std::string text = "no";
  for (const v1::MetricSpec& metric : spec.metrics()) {
    const auto value = trial.final_measurement().metrics().find(metric.name());
    if (value == trial.final_measurement().metrics().end()) continue;
    const bool above = metric.has_at_most() && value->second > metric.at_most();
    const bool below = metric.has_at_least() && value->second < metric.at_least();
    if (!above && !below) continue;
    absl::StrAppend(&text, ", ", Printable(metric.name()), above ? " is above " : " is below ",
                    ShortNumber(above ? metric.at_most() : metric.at_least()));
  }
  return text;
}

}  // namespace

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
  if (trial.has_feasible()) out << "feasible: " << (trial.feasible() ? "yes" : MissedBounds(spec, trial)) << "\n";
  PrintEnding(out, trial.final_measurement());
  if (trial.final_measurement().has_gradient())
    PrintGradient(out, trial.final_measurement().gradient(), detail.verbose);
  const auto& others = trial.final_measurement().gradients();
  for (const auto& [metric, gradient] : std::map<std::string, v1::Gradient>(others.begin(), others.end())) {
    out << Printable(metric) << ": ";
    PrintGradient(out, gradient, detail.verbose);
  }
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
