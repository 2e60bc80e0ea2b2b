#include "worker/objectives/command_results.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/gradients.h"
#include "worker/run/stop_signal.h"

namespace luthier::worker {
namespace {

constexpr size_t kMaxResultLine = 8 << 20;  // A gradient of 100,000 numbers takes about 2 MB.
constexpr size_t kShownLine = 200;  // Bytes of the last line that the message of a program without a result shows.
constexpr size_t kMaxNotes = 10;
constexpr double kRounding = 1e-3;  // Relative tolerance: a value that is printed twice may be rounded once.
constexpr char kAfterFinal[] = "lines after the final one are ignored";

std::string TooLong() {
  return absl::StrCat("is longer than the ", kMaxResultLine >> 20, " MiB (", kMaxResultLine,
                      " bytes) that a result may have");
}

}  // namespace

CommandResults::CommandResults(const RunRequest& request, RunSink* sink)
    : request_(request),
      command_(std::get<study::CommandObjective>(request.spec.objective)),
      metric_(request.spec.metric.name),
      sink_(sink),
      result_lines_(kMaxResultLine, [this](const TextLine& line) { OnResultLine(line); }),
      stdout_lines_(kMaxResultLine, [this](const TextLine& line) { OnStdoutLine(line); }),
      finder_(metric_) {}

absl::Status CommandResults::PreparePatterns() {
  LUTHIER_ASSIGN_OR_RETURN(PatternMatcher matcher, PatternMatcher::Create(command_.stdout_patterns, metric_));
  patterns_.emplace(std::move(matcher));
  return absl::OkStatus();
}

void CommandResults::Finish() {
  result_lines_.Finish();
  stdout_lines_.Finish();
  if (interrupted_) return;  // The output of the step in which it was stopped may cover a part of it.
  if (command_.stdout_patterns.empty()) {
    const std::string last = last_line_;
    OnContent({last, stdout_line_, false, false, true}, finder_.End(), false);
  }
  if (const std::optional<PatternMatcher::Point> point = patterns_->End()) AcceptPoint(*point);
}

absl::Duration CommandResults::held_since() const {
  return held_ && !held_emitted_ ? held_since_ : absl::InfiniteDuration();
}

void CommandResults::Note(const std::string& text) {
  if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), text) == notes_.end()) {
    notes_.push_back(text);
  }
}

void CommandResults::OnResultLine(const TextLine& line) {
  if (absl::StripAsciiWhitespace(line.text).empty() || !bad_line_.empty()) return;
  descriptor_used_ = true;
  absl::StatusOr<ResultLine> parsed =
      line.cut ? absl::InvalidArgumentError(TooLong()) : ParseResultLine(line.text, metric_);
  if (parsed.ok()) {
    OnResult(*std::move(parsed));
  } else {
    bad_line_ = absl::StrCat("line ", line.number, " of the results, ", base::Quote(line.text), ": ",
                             std::string(parsed.status().message()));
  }
}

void CommandResults::OnStdoutLine(const TextLine& line) {
  if (const absl::string_view text = absl::StripAsciiWhitespace(line.text); !text.empty()) {
    last_line_ = std::string(text.substr(0, kShownLine));
  }
  // A program that was stopped may have been in the middle of a line.
  const bool torn = !line.ended && interrupted_;
  if (!command_.stdout_patterns.empty()) {
    if (torn) return;
    if (const std::optional<PatternMatcher::Point> point = patterns_->AddLine(line)) AcceptPoint(*point);
    return;
  }
  stdout_line_ = line.number;
  OnContent(line, finder_.Add(line), torn);
}

void CommandResults::OnContent(const TextLine& line, LineContent found, bool torn) {
  switch (found.kind) {
    case LineContent::Kind::kText:
      break;
    case LineContent::Kind::kResult:
      if (descriptor_used_) {
        Note("results on standard output are left out, as results come on descriptor 3");
        break;
      }
      OnResult(std::move(found.line));
      break;
    case LineContent::Kind::kMalformed:
    case LineContent::Kind::kAside:
      if (!torn) OnUnreadable(line, found);
      break;
    case LineContent::Kind::kOther:
      // Programs print all sorts of JSON, so only a program without any result is told of this line.
      doubtful_line_ =
          absl::StrCat("line ", line.number, " of standard output, ", base::Quote(line.text), ": ", found.why);
      break;
  }
}

void CommandResults::OnUnreadable(const TextLine& line, const LineContent& found) {
  if (final_seen_ || unreadable_final_) {
    Note(kAfterFinal);
    return;
  }
  if (found.kind == LineContent::Kind::kAside && held_) {
    // Logs may repeat the result, perhaps rounded.
    const double value = held_->measurement.metrics[metric_];
    const bool same = std::isfinite(found.value) ? std::abs(found.value - value) <= kRounding * std::abs(value)
                                                 : !std::isfinite(value);
    if (same) return;
  }
  const std::string text = absl::StrCat("line ", line.number, " of standard output, ", base::Quote(line.text), ": ",
                                        line.cut ? TooLong() : found.why);
  if (descriptor_used_) {
    Note(absl::StrCat(text, "; it is left out, as results come on descriptor 3"));
    return;
  }
  EmitHeld();
  unreadable_ = text;
  unreadable_final_ = found.final;
}

void CommandResults::OnResult(ResultLine line) {
  if (unreadable_final_) {
    Note(kAfterFinal);
    return;
  }
  if (!unreadable_.empty()) Note(absl::StrCat(unreadable_, "; it is left out, as a result follows"));
  unreadable_.clear();
  Accept(std::move(line));
}

void CommandResults::AcceptPoint(const PatternMatcher::Point& point) {
  ResultLine line;
  line.measurement.step = point.step;
  line.measurement.metrics = point.values;
  line.has_step = true;
  Accept(std::move(line));
}

void CommandResults::SettleGradient(ResultLine* line) {
  if (line->along_asked && request_.direction.empty()) {
    Note("a slope without a direction is left out: none was asked for in this trial");
    line->measurement.gradient.reset();
  } else if (line->along_asked) {
    line->measurement.gradient->direction = request_.direction;
  }
  if (line->measurement.gradient && !line->measurement.gradient->by_name.empty()) {
    absl::StatusOr<study::Gradient> known =
        study::FromNames(request_.spec.space, request_.parameters, *line->measurement.gradient);
    if (known.ok()) {
      line->measurement.gradient = *std::move(known);
    } else {
      Note(absl::StrCat("the gradient is left out: ", std::string(known.status().message())));
      line->measurement.gradient.reset();
    }
  }
  const absl::Status others = study::TakeGradients(request_.spec, request_.parameters, &line->measurement);
  if (!others.ok()) Note(absl::StrCat("some gradients are left out: ", std::string(others.message())));
}

void CommandResults::Accept(ResultLine line) {
  if (final_seen_) {
    Note(kAfterFinal);
    return;
  }
  for (const std::string& note : line.notes) Note(note);
  SettleGradient(&line);
  if (!line.checkpoint.empty()) checkpoint_ = line.checkpoint;
  if (line.start_step) {
    sink_->Started(*line.start_step, *line.start_step == 0 ? "the program says that it began afresh" : "");
  }
  if (line.measurement.metrics.empty()) {
    sink_->Checkpoint(line.checkpoint);
    return;
  }
  if (!line.has_step) line.measurement.step = next_step_;
  next_step_ = line.measurement.step + 1;
  if (request_.target_step > 0 && line.measurement.step >= request_.target_step) reached_ = true;
  EmitHeld();
  final_seen_ = line.final;
  held_ = std::move(line);
  held_emitted_ = final_seen_;  // Declared final, so it is never an intermediate point.
  held_since_ = clock_.Monotonic();
}

void CommandResults::EmitHeld() {
  if (!held_ || held_emitted_) return;
  held_emitted_ = true;
  sink_->Report(held_->measurement, held_->checkpoint);
}

RunOutcome CommandResults::Outcome() {
  if (!unreadable_.empty()) return Failed(study::FailureKind::kConfig, study::failure::kBadOutput, unreadable_);
  RunOutcome outcome;
  outcome.result = RunResult::kComplete;
  if (held_) {
    outcome.measurement = held_->measurement;
    if (held_->pruned) outcome.result = RunResult::kPruned;
  }
  const bool told_to = sink_->stop().reason() == StopReason::kPause;
  const bool finishing = sink_->stop().reason() == StopReason::kFinish;
  if (finishing && outcome.result == RunResult::kComplete) outcome.result = RunResult::kPruned;
  if ((request_.target_step > 0 || told_to) && outcome.result == RunResult::kComplete && !(held_ && held_->complete)) {
    outcome.result = RunResult::kPaused;
    if (outcome.measurement.step < request_.target_step) {
      Note(absl::StrCat("its result, of step ", outcome.measurement.step, ", is taken as that of the target, step ",
                        request_.target_step, "; if training is over before, say \"complete\": true"));
      outcome.measurement.step = request_.target_step;
    }
  }
  const absl::StatusOr<PatternMatcher::Found> matched = patterns_->Values();
  if (!matched.ok()) {
    return Failed(study::FailureKind::kConfig, study::failure::kBadOutput, matched.status().message());
  }
  for (const std::string& note : matched->notes) Note(note);
  // A program that was stopped has the values of the last complete step.
  const bool whole_steps = interrupted_ && study::HasStepPattern(command_, request_.spec) && held_;
  for (const auto& [name, value] : matched->values) {
    if (!whole_steps || !outcome.measurement.metrics.contains(name)) outcome.measurement.metrics[name] = value;
  }
  if (outcome.measurement.metrics.count(metric_) != 0) {
    // The coordinator refuses a result without one of the study's metrics; why it is not there is known here alone.
    for (const study::MetricSpec& one : request_.spec.metrics) {
      if (outcome.result != RunResult::kComplete || outcome.measurement.metrics.contains(one.name)) continue;
      if (!held_ || !held_->no_numbers.contains(one.name)) continue;
      return Failed(study::FailureKind::kConfig, study::failure::kBadOutput,
                    absl::StrCat(base::Quote(one.name), ", a metric of the study, is not a number in the result"));
    }
    return outcome;
  }
  if (finishing) {
    outcome.result = RunResult::kStopped;
    return outcome;
  }
  return NoResult();
}

RunOutcome CommandResults::NoResult() const {
  const std::string last =
      last_line_.empty() ? "; it printed nothing" : absl::StrCat("; its last line was ", base::Quote(last_line_));
  if (!command_.stdout_patterns.empty()) {
    return Failed(study::FailureKind::kConfig, study::failure::kNoResult,
                  absl::StrCat("exit code 0, but no line of standard output matches the pattern for ",
                               base::Quote(metric_), last));
  }
  std::vector<std::string> names = {metric_};
  for (const study::MetricSpec& one : request_.spec.metrics) {
    if (one.name != metric_) names.push_back(one.name);
  }
  const auto quoted = [](std::string* out, const std::string& name) { absl::StrAppend(out, "\"", name, "\": 0.5"); };
  return Failed(study::FailureKind::kConfig, study::failure::kNoResult,
                absl::StrCat("exit code 0, but no result line such as {", absl::StrJoin(names, ", ", quoted), "}",
                             doubtful_line_.empty() ? last : "; " + doubtful_line_));
}

}  // namespace luthier::worker
