#include "worker/objectives/command.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "lib/base/clock.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/command_template.h"
#include "worker/objectives/environment.h"
#include "worker/objectives/output.h"
#include "worker/objectives/patterns.h"
#include "worker/objectives/result_line.h"

namespace luthier::worker {
namespace {

constexpr size_t kMaxResultLine = 8 << 20;  // A gradient of 100,000 numbers takes about 2 MB.
constexpr size_t kShownLine = 200;  // Bytes of the last line that the message of a program without a result shows.
constexpr size_t kChunk = 1 << 16;
constexpr int kTempFail = 75;  // EX_TEMPFAIL of sysexits.h
constexpr size_t kMaxNotes = 10;
constexpr double kRounding = 1e-3;  // Relative tolerance: a value that is printed twice may be rounded once.
constexpr char kAfterFinal[] = "lines after the final one are ignored";
constexpr size_t kMaxVariable = 64 << 10;  // Bytes of a parameter's environment variable; Linux allows 128 KiB.

// A directory that only this user can read, removed with its contents at the end.
class PrivateDirectory {
 public:
  static absl::StatusOr<PrivateDirectory> Create(const std::string& root) {
    std::string base = root;
    if (base.empty()) {
      const char* tmpdir = std::getenv("TMPDIR");
      base = tmpdir != nullptr && tmpdir[0] != '\0' ? tmpdir : "/tmp";
    }
    std::string path = base + "/luthier-run-XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat("cannot make a directory in ", base, ": ", std::strerror(errno)));
    }
    return PrivateDirectory(std::move(path));
  }
  PrivateDirectory(PrivateDirectory&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  PrivateDirectory& operator=(PrivateDirectory&&) = delete;
  ~PrivateDirectory() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }
  // Gives the directory and the files in it to the account, the directory last: until then nobody else can put anything
  // there.
  absl::Status HandTo(const Account& account) const {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(path_, error)) {
      if (lchown(entry.path().c_str(), account.uid, account.gid) != 0) return CannotHandOver(account);
    }
    if (error || lchown(path_.c_str(), account.uid, account.gid) != 0) return CannotHandOver(account);
    return absl::OkStatus();
  }

 private:
  absl::Status CannotHandOver(const Account& account) const {
    return absl::UnavailableError(absl::StrCat("cannot hand ", path_, " to ", account.name));
  }

  explicit PrivateDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

bool SpeaksOfMemory(absl::string_view text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word : {"memoryerror", "bad_alloc", "cannot allocate memory", "out of memory", "outofmemory",
                           "unable to allocate", "memory exhausted"}) {
    if (absl::StrContains(lower, word)) return true;
  }
  return false;
}

std::string SignalText(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

int PollMilliseconds(absl::Duration wait) {
  const double ms = std::ceil(absl::ToDoubleMilliseconds(wait));
  return static_cast<int>(std::clamp(ms, 0.0, 60000.0));
}

std::string TooLong() {
  return absl::StrCat("is longer than the ", kMaxResultLine >> 20, " MiB (", kMaxResultLine,
                      " bytes) that a result may have");
}

// One run from start to outcome, on one thread.
class CommandRun {
 public:
  CommandRun(const CommandOptions& options, const RunRequest& request, RunSink* sink)
      : options_(options),
        request_(request),
        command_(std::get<study::CommandObjective>(request.spec.objective)),
        metric_(request.spec.metric.name),
        sink_(sink),
        result_lines_(kMaxResultLine, [this](const TextLine& line) { OnResultLine(line); }),
        stdout_lines_(kMaxResultLine, [this](const TextLine& line) { OnStdoutLine(line); }),
        finder_(metric_) {}

  // Returns the specification of the process. The directory must outlive it.
  absl::StatusOr<ProcessSpec> Prepare(const PrivateDirectory& directory);
  absl::Status PreparePatterns() {
    LUTHIER_ASSIGN_OR_RETURN(PatternMatcher matcher, PatternMatcher::Create(command_.stdout_patterns, metric_));
    patterns_.emplace(std::move(matcher));
    return absl::OkStatus();
  }
  // Returns when the program has ended; then Finish.
  void Watch(Process* process);
  RunOutcome Finish(Process* process, int wait_status);

 private:
  enum class Ending { kNatural, kPause, kFinish, kStop, kTimeout, kBadLine };

  absl::Duration Now() const { return clock_.Monotonic(); }
  void OnResultLine(const TextLine& line);
  void OnStdoutLine(const TextLine& line);
  void OnContent(const TextLine& line, LineContent found, bool torn);
  // A line of standard output that has the metric and is no result. It counts unless a result follows.
  void OnUnreadable(const TextLine& line, const LineContent& found);
  // Handles a result of either descriptor.
  void OnResult(ResultLine line);
  void Accept(ResultLine line);
  void AcceptPoint(const PatternMatcher::Point& point);
  void EmitHeld();
  void Note(const std::string& text);
  // Notes which variables the message of a failed program mentions that were kept from it.
  void NoteWithheld(absl::string_view failure);
  // Reads what is available, at most `chunks` times; closed descriptors become -1.
  void Read(int* fd, int chunks, LineSplitter* lines, bool standard_error);
  void Terminate(Process* process, Ending why);
  RunOutcome Judge(int wait_status);
  // Returns the outcome of a program whose supervisor was killed.
  RunOutcome Lost();
  RunOutcome Result();
  RunOutcome Fail(const char* reason, absl::string_view what, study::FailureKind kind = study::FailureKind::kConfig);

  const CommandOptions& options_;
  const RunRequest& request_;
  const study::CommandObjective& command_;
  const std::string metric_;
  RunSink* const sink_;
  const base::SystemClock clock_;

  LineSplitter result_lines_, stdout_lines_;
  Tail all_tail_{kTailBytes}, error_tail_{kTailBytes};
  std::optional<PatternMatcher> patterns_;
  std::optional<ResultLine> held_;  // The newest line, which is the final result unless another follows.
  bool held_emitted_ = false;
  bool final_seen_ = false;
  absl::Duration held_since_;
  int64_t next_step_ = 0;
  std::string checkpoint_;
  ResultFinder finder_;
  int64_t stdout_line_ = 0;       // The number of the newest one.
  bool descriptor_used_ = false;  // The one of results.
  std::string bad_line_;          // The first malformed line on the result descriptor.
  std::string unreadable_;        // The newest line of standard output, if it has the metric and is no result.
  bool unreadable_final_ = false;
  std::string doubtful_line_;  // The newest line of standard output that was almost a result.
  std::string last_line_;      // The newest line that is not blank, or its beginning.
  std::vector<std::string> notes_;
  std::vector<std::string> withheld_;  // Names of variables that the program did not get.
  bool reached_ = false;               // True once the target was reached.
  Ending ending_ = Ending::kNatural;
  absl::Duration kill_at_ = absl::InfiniteDuration();
};

absl::StatusOr<ProcessSpec> CommandRun::Prepare(const PrivateDirectory& directory) {
  const std::string parameters_file = directory.path() + "/parameters.json";
  std::ofstream out(parameters_file);
  out << ParametersJson(request_);
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", parameters_file));
  const std::string direction_file = directory.path() + "/direction.json";
  if (!request_.direction.empty()) {
    std::ofstream direction(direction_file);
    direction << nlohmann::json(request_.direction).dump() << "\n";
    direction.close();
    if (!direction) return absl::UnavailableError(absl::StrCat("cannot write ", direction_file));
  }

  const CommandInputs inputs = InputsOf(request_, parameters_file, direction_file);
  ProcessSpec spec;
  for (const std::string& argument : command_.argv) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<std::string> expanded, study::ExpandTemplate(argument, inputs.values));
    if (expanded) spec.argv.push_back(*std::move(expanded));
  }
  if (spec.argv.empty()) return absl::InvalidArgumentError("argv: nothing is left of the program and its arguments");
  std::map<std::string, std::string> environment;
  InheritedVariables inherited = SortEnvironment(OwnEnvironment(), options_.environment_allowed);
  withheld_ = std::move(inherited.withheld);
  if (options_.account) SetAccountVariables(*options_.account, &inherited.passed);
  for (const std::string& entry : inherited.passed) {
    const size_t equals = entry.find('=');
    environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  for (const auto& [name, value] : command_.environment) {
    LUTHIER_ASSIGN_OR_RETURN(std::optional<std::string> expanded, study::ExpandTemplate(value, inputs.values));
    if (expanded) environment[name] = *std::move(expanded);
  }
  for (const auto& [name, value] : inputs.variables) environment[name] = value;
  if (static_cast<size_t>(request_.slot) < options_.gpus.size()) {
    environment["CUDA_VISIBLE_DEVICES"] = options_.gpus[static_cast<size_t>(request_.slot)];
    // GPUs numbered by the driver have nvidia-smi's numbers; those of the worker's own variable keep their meaning.
    if (std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) environment.emplace("CUDA_DEVICE_ORDER", "PCI_BUS_ID");
  }
  for (const auto& [name, value] : environment) spec.environment.push_back(absl::StrCat(name, "=", value));
  for (const std::vector<std::string>* list : {&spec.argv, &spec.environment}) {
    for (const std::string& text : *list) {
      if (text.find('\0') == std::string::npos) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(base::Quote(text), " contains a zero byte, which no program can be given"));
    }
  }
  spec.memory_limit_bytes = command_.memory_limit_bytes;
  if (options_.account) {
    spec.account = &*options_.account;
    LUTHIER_RETURN_IF_ERROR(directory.HandTo(*options_.account));
  }
  return spec;
}

void CommandRun::Note(const std::string& text) {
  if (notes_.size() < kMaxNotes && std::find(notes_.begin(), notes_.end(), text) == notes_.end()) {
    notes_.push_back(text);
  }
}

void CommandRun::NoteWithheld(absl::string_view failure) {
  for (const std::string& name : withheld_) {
    if (command_.environment.contains(name) || !SpeaksOf(failure, name)) continue;
    Note(absl::StrCat("the variable ", name,
                      " of the worker is not passed on to commands; start the worker with --env-allow ", name,
                      " to do so"));
  }
}

void CommandRun::OnResultLine(const TextLine& line) {
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

void CommandRun::OnStdoutLine(const TextLine& line) {
  if (const absl::string_view text = absl::StripAsciiWhitespace(line.text); !text.empty()) {
    last_line_ = std::string(text.substr(0, kShownLine));
  }
  // A program that was stopped may have been in the middle of a line.
  const bool torn = !line.ended && ending_ != Ending::kNatural;
  if (!command_.stdout_patterns.empty()) {
    if (torn) return;
    if (const std::optional<PatternMatcher::Point> point = patterns_->AddLine(line)) AcceptPoint(*point);
    return;
  }
  stdout_line_ = line.number;
  OnContent(line, finder_.Add(line), torn);
}

void CommandRun::OnContent(const TextLine& line, LineContent found, bool torn) {
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

void CommandRun::OnUnreadable(const TextLine& line, const LineContent& found) {
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

void CommandRun::OnResult(ResultLine line) {
  if (unreadable_final_) {
    Note(kAfterFinal);
    return;
  }
  if (!unreadable_.empty()) Note(absl::StrCat(unreadable_, "; it is left out, as a result follows"));
  unreadable_.clear();
  Accept(std::move(line));
}

void CommandRun::AcceptPoint(const PatternMatcher::Point& point) {
  ResultLine line;
  line.measurement.step = point.step;
  line.measurement.metrics = point.values;
  line.has_step = true;
  Accept(std::move(line));
}

void CommandRun::Accept(ResultLine line) {
  if (final_seen_) {
    Note(kAfterFinal);
    return;
  }
  for (const std::string& note : line.notes) Note(note);
  if (line.along_asked && request_.direction.empty()) {
    Note("a slope without a direction is left out: none was asked for in this trial");
    line.measurement.gradient.reset();
  } else if (line.along_asked) {
    line.measurement.gradient->direction = request_.direction;
  }
  if (line.measurement.gradient && !line.measurement.gradient->by_name.empty()) {
    absl::StatusOr<study::Gradient> known =
        study::FromNames(request_.spec.space, request_.parameters, *line.measurement.gradient);
    if (known.ok()) {
      line.measurement.gradient = *std::move(known);
    } else {
      Note(absl::StrCat("the gradient is left out: ", std::string(known.status().message())));
      line.measurement.gradient.reset();
    }
  }
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
  held_since_ = Now();
}

void CommandRun::EmitHeld() {
  if (!held_ || held_emitted_) return;
  held_emitted_ = true;
  sink_->Report(held_->measurement, held_->checkpoint);
}

void CommandRun::Read(int* fd, int chunks, LineSplitter* lines, bool standard_error) {
  std::array<char, kChunk> buffer;
  while (*fd >= 0 && chunks-- > 0) {
    const ssize_t got = read(*fd, buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      *fd = -1;
      return;
    }
    const absl::string_view bytes(buffer.data(), static_cast<size_t>(got));
    if (lines != &result_lines_) all_tail_.Add(bytes);
    if (standard_error) error_tail_.Add(bytes);
    if (lines != nullptr) lines->Add(bytes);
  }
}

void CommandRun::Terminate(Process* process, Ending why) {
  ending_ = why;
  kill_at_ = Now() + options_.grace;
  process->SignalGroup(SIGTERM);
  process->SignalGroup(SIGCONT);  // A stopped process would not see it.
}

void CommandRun::Watch(Process* process) {
  const absl::Duration deadline = Now() + command_.timeout;
  int out = process->stdout_fd(), err = process->stderr_fd(), result = process->result_fd();
  bool stop_seen = false;    // The descriptor is then no longer waited for.
  bool finish_sent = false;  // The program was asked to finish.
  bool pause_sent = false;   // The program was asked to pause; it has until `pause_until`.
  absl::Duration pause_until = absl::InfiniteDuration();
  while (!process->HasEnded()) {
    const absl::Duration now = Now();
    const StopReason reason = sink_->stop().reason();
    stop_seen = reason != StopReason::kNone;
    const bool going = ending_ == Ending::kNatural || ending_ == Ending::kPause || ending_ == Ending::kFinish;
    const bool ends_well = reason == StopReason::kPause || reason == StopReason::kFinish;
    if (stop_seen && !ends_well && going) {
      process->SendLine(absl::StrCat("{\"directive\": \"stop\", \"reason\": \"", StopReasonName(reason), "\"}"));
      Terminate(process, Ending::kStop);
    } else if (!finish_sent && ending_ == Ending::kNatural && reason == StopReason::kFinish) {
      process->SendLine("{\"directive\": \"finish\"}");
      finish_sent = pause_sent = true;
      pause_until = std::min(pause_until, now + options_.grace);
    } else if (!pause_sent && ending_ == Ending::kNatural && (reached_ || stop_seen)) {
      process->SendLine("{\"directive\": \"pause\"}");
      pause_sent = true;
      pause_until = now + options_.grace;
    } else if (ending_ == Ending::kNatural && now >= pause_until) {
      Terminate(process, finish_sent ? Ending::kFinish : Ending::kPause);
    } else if (ending_ == Ending::kNatural && now >= deadline) {
      Terminate(process, Ending::kTimeout);
    } else if (ending_ == Ending::kNatural && !bad_line_.empty()) {
      Terminate(process, Ending::kBadLine);
    }
    if (now >= kill_at_) {
      process->KillAll();
      kill_at_ = absl::InfiniteDuration();
    }
    const absl::Duration hold_until = held_ && !held_emitted_ ? held_since_ + options_.hold : absl::InfiniteDuration();
    if (now >= hold_until) {
      EmitHeld();
      continue;
    }
    absl::Duration next = std::min(hold_until, kill_at_);
    if (ending_ == Ending::kNatural) next = std::min({next, deadline, pause_until});
    int wait = next == absl::InfiniteDuration() ? 60000 : PollMilliseconds(next - now);
    const bool may_change = sink_->stop().fd() < 0 ? !stop_seen : ends_well;
    if (may_change) wait = std::min(wait, 200);
    std::array<pollfd, 5> fds = {pollfd{out, POLLIN, 0}, pollfd{err, POLLIN, 0}, pollfd{result, POLLIN, 0},
                                 pollfd{process->exit_fd(), POLLIN, 0},
                                 pollfd{stop_seen ? -1 : sink_->stop().fd(), POLLIN, 0}};
    if (poll(fds.data(), fds.size(), wait) < 0) continue;  // EINTR
    if (fds[0].revents != 0) Read(&out, 1, &stdout_lines_, false);
    if (fds[1].revents != 0) Read(&err, 1, nullptr, true);
    if (fds[2].revents != 0) Read(&result, 1, &result_lines_, false);
  }
}

RunOutcome CommandRun::Finish(Process* process, int wait_status) {
  // Everything that was written is in the pipes now. The number of chunks is bounded, since a process that another
  // daemon started may write for ever.
  constexpr int kMaxChunks = 256;
  int out = process->stdout_fd(), err = process->stderr_fd(), result = process->result_fd();
  Read(&result, kMaxChunks, &result_lines_, false);
  Read(&out, kMaxChunks, &stdout_lines_, false);
  Read(&err, kMaxChunks, nullptr, true);
  result_lines_.Finish();
  stdout_lines_.Finish();
  if (ending_ == Ending::kNatural && command_.stdout_patterns.empty()) {
    const std::string last = last_line_;
    OnContent({last, stdout_line_, false, false, true}, finder_.End(), false);
  }
  // What a program printed of a step in which it was stopped may be of a part of it.
  if (ending_ == Ending::kNatural) {
    if (const std::optional<PatternMatcher::Point> point = patterns_->End()) AcceptPoint(*point);
  }
  RunOutcome outcome = process->lost() ? Lost() : Judge(wait_status);
  if (outcome.result == RunResult::kFailed || outcome.result == RunResult::kStopped) EmitHeld();
  if (outcome.result == RunResult::kFailed) NoteWithheld(outcome.failure.message);
  outcome.checkpoint = checkpoint_;
  std::string tail(all_tail_.bytes());
  for (const std::string& note : notes_) absl::StrAppend(&tail, "\n[luthier-worker] ", note);
  outcome.output_tail = PrintableTail(tail, kTailBytes);
  return outcome;
}

RunOutcome CommandRun::Lost() {
  if (ending_ != Ending::kStop) {
    return Fail(kWorkerError, "the process that looked after the program was killed, and the program with it",
                study::FailureKind::kInfra);
  }
  RunOutcome stopped;
  stopped.result = RunResult::kStopped;
  return stopped;
}

RunOutcome CommandRun::Judge(int wait_status) {
  switch (ending_) {
    case Ending::kStop: {
      RunOutcome stopped;
      stopped.result = RunResult::kStopped;
      return stopped;
    }
    case Ending::kPause:
      Note("it did not end at its target by itself and was stopped");
      return Result();
    case Ending::kFinish:
      Note("it did not end when it was asked to and was stopped");
      return Result();
    case Ending::kTimeout:
      return Fail(study::failure::kTimeout, absl::StrCat("no result after ", absl::FormatDuration(command_.timeout)));
    case Ending::kBadLine:
      return Fail(study::failure::kBadOutput, bad_line_);
    case Ending::kNatural:
      break;
  }
  const bool limited = command_.memory_limit_bytes > 0;
  const bool memory_words = limited && SpeaksOfMemory(error_tail_.bytes());
  const std::string limit_text = absl::StrCat(", with a memory limit of ", command_.memory_limit_bytes >> 20, " MiB");
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    const std::string what = absl::StrCat("killed by ", SignalText(signal));
    if (memory_words || (limited && (signal == SIGKILL || signal == SIGABRT))) {
      return Fail(study::failure::kMemoryLimit, absl::StrCat(what, limit_text));
    }
    if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP) {
      return Fail(study::failure::kSignal, absl::StrCat(what, ", which this worker did not send"),
                  study::FailureKind::kInfra);
    }
    const char* hint = signal == SIGKILL ? ", perhaps because the machine ran out of memory" : "";
    return Fail(study::failure::kSignal, absl::StrCat(what, hint));
  }
  const int code = WEXITSTATUS(wait_status);
  if (code == kTempFail) {
    return Fail(study::failure::kExitCode, "exit code 75 (temporary failure)", study::FailureKind::kInfra);
  }
  // A program may end at its own line that can't be read before it is stopped for it.
  if (!bad_line_.empty()) return Fail(study::failure::kBadOutput, bad_line_);
  if (code != 0) {
    const std::string what = absl::StrCat("exit code ", code);
    if (memory_words) return Fail(study::failure::kMemoryLimit, absl::StrCat(what, limit_text));
    return Fail(study::failure::kExitCode, what);
  }
  return Result();
}

RunOutcome CommandRun::Result() {
  if (!unreadable_.empty()) return Fail(study::failure::kBadOutput, unreadable_);
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
  if (!matched.ok()) return Fail(study::failure::kBadOutput, std::string(matched.status().message()));
  for (const std::string& note : matched->notes) Note(note);
  // A program that was stopped has the values of the last complete step.
  const bool whole_steps =
      ending_ != Ending::kNatural && study::HasStepPattern(command_, request_.spec.metric) && held_;
  for (const auto& [name, value] : matched->values) {
    if (!whole_steps || !outcome.measurement.metrics.contains(name)) outcome.measurement.metrics[name] = value;
  }
  if (outcome.measurement.metrics.count(metric_) != 0) return outcome;
  if (finishing) {
    outcome.result = RunResult::kStopped;
    return outcome;
  }
  const std::string last =
      last_line_.empty() ? "; it printed nothing" : absl::StrCat("; its last line was ", base::Quote(last_line_));
  if (!command_.stdout_patterns.empty()) {
    return Fail(study::failure::kNoResult,
                absl::StrCat("exit code 0, but no line of standard output matches the pattern for ",
                             base::Quote(metric_), last));
  }
  return Fail(study::failure::kNoResult,
              absl::StrCat("exit code 0, but no result line such as {\"", metric_, "\": 0.5}",
                           doubtful_line_.empty() ? last : "; " + doubtful_line_));
}

RunOutcome CommandRun::Fail(const char* reason, absl::string_view what, study::FailureKind kind) {
  std::string message(what);
  const absl::string_view errors = absl::StripTrailingAsciiWhitespace(error_tail_.bytes());
  if (!errors.empty() && message.size() + 1 < kTailBytes) {
    absl::StrAppend(&message, "\n", PrintableTail(errors, kTailBytes - message.size() - 1));
  }
  return Failed(kind, reason, message);
}

// Returns the outcome for an error before the program runs.
RunOutcome StartFailure(const absl::Status& status) {
  const std::string message(status.message());
  if (absl::IsUnavailable(status)) return Failed(study::FailureKind::kInfra, kWorkerError, message);
  if (absl::IsResourceExhausted(status)) {
    return Failed(study::FailureKind::kConfig, study::failure::kMemoryLimit, message);
  }
  return Failed(study::FailureKind::kConfig, study::failure::kBadObjective, message);
}

}  // namespace

std::string ParametersJson(const RunRequest& request) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const study::ParameterSpec& spec : request.spec.space.parameters()) {
    const auto it = request.parameters.find(spec.name);
    if (it == request.parameters.end()) continue;
    if (const double* number = std::get_if<double>(&it->second)) {
      // An int is written without a point, a float always with one, so that readers get the expected type.
      if (std::holds_alternative<study::IntRange>(spec.domain))
        json[spec.name] = static_cast<int64_t>(*number);
      else
        json[spec.name] = *number;
    } else if (const bool* flag = std::get_if<bool>(&it->second)) {
      json[spec.name] = *flag;
    } else if (const auto* vector = std::get_if<std::vector<double>>(&it->second)) {
      json[spec.name] = *vector;
    } else {
      json[spec.name] = std::get<std::string>(it->second);
    }
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

CommandInputs InputsOf(const RunRequest& request, const std::string& parameters_file,
                       const std::string& direction_file) {
  CommandInputs inputs;
  std::map<std::string, std::string>& values = inputs.values;
  std::map<std::string, std::string>& own = inputs.variables;
  std::map<std::string, int> users;  // Number of parameters for each variable: two names may map to one.
  for (const study::ParameterSpec& spec : request.spec.space.parameters()) ++users[ParameterVariable(spec.name)];
  for (const auto& [name, value] : request.parameters) {
    values[name] = study::FormatValue(value);
    // A vector may be longer than a variable can be; it is then in the parameters' file only.
    const bool fits = values[name].size() <= kMaxVariable;
    if (fits && users[ParameterVariable(name)] == 1) own[ParameterVariable(name)] = values[name];
  }
  own["LUTHIER_TRIAL"] = values["luthier.trial"] = absl::StrCat(request.trial);
  own["LUTHIER_STUDY"] = values["luthier.study"] = request.study;
  own["LUTHIER_ATTEMPT"] = values["luthier.attempt"] = absl::StrCat(request.attempt);
  own["LUTHIER_SEED"] = values["luthier.seed"] = absl::StrCat(request.seed);
  own["LUTHIER_METRIC"] = request.spec.metric.name;
  own["LUTHIER_PARAMETERS_FILE"] = values["luthier.parameters_file"] = parameters_file;
  own["LUTHIER_RESULT_FD"] = "3";
  own["LUTHIER_REPLY_FD"] = "4";
  if (request.target_step > 0) {
    own["LUTHIER_TARGET_STEP"] = values["luthier.target_step"] = absl::StrCat(request.target_step);
  }
  own["LUTHIER_GRADIENT"] = values["luthier.gradient"] = std::string(study::GradientUseName(request.gradient));
  if (!request.direction.empty()) {
    own["LUTHIER_DIRECTION_FILE"] = values["luthier.direction_file"] = direction_file;
  }
  if (request.tolerance) {
    own["LUTHIER_TOLERANCE"] = values["luthier.tolerance"] = study::FormatDouble(*request.tolerance);
  }
  if (!request.resume_checkpoint.empty()) {
    own["LUTHIER_CHECKPOINT"] = values["luthier.checkpoint"] = request.resume_checkpoint;
    own["LUTHIER_CHECKPOINT_STEP"] = values["luthier.checkpoint_step"] = absl::StrCat(request.resume_step);
  }
  return inputs;
}

std::string ParameterVariable(const std::string& name) {
  return "LUTHIER_PARAM_" + absl::StrReplaceAll(absl::AsciiStrToUpper(name), {{".", "_"}});
}

absl::Status CommandRunner::Open(const study::StudySpec& spec) {
  const auto& command = std::get<study::CommandObjective>(spec.objective);
  const bool fixed = !command.argv.empty() && !absl::StrContains(command.argv[0], "{") &&
                     !absl::StrContains(command.argv[0], "}") && command.environment.count("PATH") == 0;
  if (!fixed) return absl::OkStatus();
  const char* path = std::getenv("PATH");
  const absl::Status found = FindProgram(command.argv[0], path != nullptr ? path : "").status();
  if (found.ok()) return found;
  return absl::Status(found.code(), absl::StrCat("objective.command.argv[0]: ", std::string(found.message())));
}

RunOutcome CommandRunner::Run(const RunRequest& request, RunSink* sink) {
  if (sink->stop().requested()) {
    RunOutcome stopped;
    stopped.result = RunResult::kStopped;
    return stopped;
  }
  const absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Create(options_.temporary_root);
  if (!directory.ok()) return StartFailure(directory.status());
  CommandRun run(options_, request, sink);
  const absl::StatusOr<ProcessSpec> spec = run.Prepare(*directory);
  if (!spec.ok()) return StartFailure(spec.status());
  if (const absl::Status patterns = run.PreparePatterns(); !patterns.ok()) return StartFailure(patterns);

  absl::StatusOr<std::unique_ptr<Process>> process = Process::Start(keeper_, *spec);
  if (!process.ok()) return StartFailure(process.status());
  {
    const base::MutexLock lock(&mutex_);
    running_.insert(process->get());
    if (aborted_) (*process)->KillAll();
  }
  run.Watch(process->get());
  const int status = (*process)->Reap();
  {
    const base::MutexLock lock(&mutex_);
    running_.erase(process->get());
  }
  return run.Finish(process->get(), status);
}

void CommandRunner::Abort() {
  const base::MutexLock lock(&mutex_);
  aborted_ = true;
  for (Process* const process : running_) process->KillAll();
}

}  // namespace luthier::worker
