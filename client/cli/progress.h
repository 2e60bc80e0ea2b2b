#ifndef LUTHIER_CLIENT_CLI_PROGRESS_H_
#define LUTHIER_CLIENT_CLI_PROGRESS_H_

#include <optional>
#include <ostream>
#include <string>

#include "absl/time/time.h"
#include "luthier/v1/study.pb.h"

namespace luthier::cli {

// Returns "[######········] 23/40  best 0.123 (trial 17)  2 running  1 failed  1.3/s  ETA 0:13", at most `width`
// characters. `rate` is the number of finished trials a second; 0: unknown.
std::string ProgressLine(const v1::Study& study, double rate, int width);

// Shows the progress of a study. A terminal gets one line that is overwritten. A pipe gets a line every five seconds in
// which something changed, and otherwise one a minute, so that a log shows life.
class Progress {
 public:
  // `width` 0: not a terminal. `out` must outlive the object.
  Progress(std::ostream* out, int width) : out_(out), width_(width) {}
  ~Progress() { End(); }

  void Show(const v1::Study& study, absl::Duration now);
  // Ends the line, so that what follows is printed below it.
  void End();

 private:
  std::ostream* const out_;
  const int width_;
  std::optional<absl::Duration> begin_;
  int64_t done_at_begin_ = 0;
  std::optional<absl::Duration> shown_;
  std::string last_;
  bool open_ = false;
};

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_PROGRESS_H_
