#include "client/cli/progress.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/show.h"

namespace luthier::cli {
namespace {

constexpr absl::Duration kTerminalInterval = absl::Milliseconds(100);
constexpr absl::Duration kPipeInterval = absl::Seconds(5);
constexpr absl::Duration kQuietInterval = absl::Minutes(1);

std::string Clock(double seconds) {
  const auto whole = static_cast<int64_t>(seconds + 0.5);
  if (whole >= 3600) return absl::StrFormat("%d:%02d:%02d", whole / 3600, whole / 60 % 60, whole % 60);
  return absl::StrFormat("%d:%02d", whole / 60, whole % 60);
}

}  // namespace

std::string ProgressLine(const v1::Study& study, double rate, int width) {
  const v1::TrialCounts& counts = study.trials();
  const int64_t total = std::max<int64_t>(1, study.spec().budget().max_trials());
  const int64_t done = DoneTrials(counts);
  std::string text = absl::StrCat(done, "/", total);
  if (study.has_best_value()) {
    absl::StrAppend(&text, "  best ", ShortNumber(study.best_value()), " (trial ", study.best_trial(), ")");
  }
  if (counts.running() > 0) absl::StrAppend(&text, "  ", counts.running(), " running");
  if (counts.failed() > 0) absl::StrAppend(&text, "  ", counts.failed(), " failed");
  if (study.state() == v1::Study::PAUSED) absl::StrAppend(&text, "  PAUSED");
  if (rate > 0.0 && done < total) {
    absl::StrAppend(&text, rate >= 0.1 ? absl::StrFormat("  %.1f/s", rate) : absl::StrFormat("  %.1f/min", 60 * rate));
    absl::StrAppend(&text, "  ETA ", Clock(static_cast<double>(total - done) / rate));
  }
  constexpr int kMaxBar = 30;
  constexpr int kMinBar = 10;
  const int bar = std::min(kMaxBar, width - static_cast<int>(text.size()) - 3);
  if (bar < kMinBar) return text.substr(0, static_cast<size_t>(std::max(0, width)));
  const int filled = static_cast<int>(std::min(done, total) * bar / total);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(bar - filled), '.'), "] ", text);
}

void Progress::Show(const v1::Study& study, absl::Duration now) {
  const int64_t done = DoneTrials(study.trials());
  if (!begin_) {
    begin_ = now;
    done_at_begin_ = done;
  }
  if (shown_ && now - *shown_ < (width_ > 0 ? kTerminalInterval : kPipeInterval)) return;
  const double seconds = absl::ToDoubleSeconds(now - *begin_);
  const double rate = seconds > 0.0 ? static_cast<double>(done - done_at_begin_) / seconds : 0.0;
  if (width_ > 0) {
    *out_ << "\r\033[K" << ProgressLine(study, rate, width_ - 1) << std::flush;
    open_ = true;
  } else {
    const std::string summary = Summary(study);
    if (summary == last_ && now - *shown_ < kQuietInterval) return;
    last_ = summary;
    *out_ << summary << std::endl;
  }
  shown_ = now;
}

void Progress::End() {
  if (open_) *out_ << "\n" << std::flush;
  open_ = false;
}

}  // namespace luthier::cli
