#include "client/cli/commands/follow.h"

#include <signal.h>
#include <time.h>

#include <algorithm>

#include "client/cli/progress.h"
#include "client/cli/show.h"
#include "lib/base/clock.h"
#include "lib/base/retry_advice.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {

namespace {

constexpr absl::Duration kWaitsInSilence = absl::Seconds(2);

}  // namespace

struct SignalScope::State {
  sigset_t taken;
  sigset_t before;
};

SignalScope::SignalScope() : state_(new State) {
  sigemptyset(&state_->taken);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&state_->taken, number);
  pthread_sigmask(SIG_BLOCK, &state_->taken, &state_->before);
}

SignalScope::~SignalScope() {
  pthread_sigmask(SIG_SETMASK, &state_->before, nullptr);
  delete state_;
}

bool SignalScope::Wait(absl::Duration duration) {
  const timespec time = absl::ToTimespec(std::max(duration, absl::ZeroDuration()));
  return sigtimedwait(&state_->taken, nullptr, &time) > 0;
}

absl::StatusOr<Followed> Follow(Context& context, client::Client& client, const std::string& study,
                                const FollowOptions& options, SignalScope& signals) {
  const base::SystemClock clock;
  Progress progress(&context.err(), context.environment().terminal_width);
  const absl::Duration begin = clock.Monotonic();
  absl::Duration heard = begin;
  absl::Duration interval = std::min(options.interval, absl::Milliseconds(20));
  Followed followed;
  bool known = false;
  bool away = false;
  bool paused_before = false;
  std::string waits;  // Last reason why nothing runs.
  absl::Duration waits_since = begin;
  bool waits_said = false;
  while (true) {
    if (options.tick) LUTHIER_RETURN_IF_ERROR(options.tick());
    const absl::StatusOr<v1::Study> seen = client.GetStudy(study);
    const absl::Duration now = clock.Monotonic();
    if (seen.ok()) {
      known = true;
      away = false;
      heard = now;
      followed.study = *seen;
      const bool over = IsOver(*seen);
      const bool paused = seen->state() == v1::Study::PAUSED && options.stop_when_paused;
      progress.Show(*seen, now);
      if (over || paused) {
        followed.ending = over ? Ending::kOver : Ending::kPaused;
        return followed;
      }
      const bool paused_now = seen->state() == v1::Study::PAUSED;
      if (paused_now && !paused_before) {
        progress.End();
        context.err() << "the study is paused (" << Printable(seen->state_reason())
                      << "); to go on: luthier study resume " << study << std::endl;
      }
      paused_before = paused_now;
      // The reason is not shown in the moment between two trials, or before workers have started.
      const std::string reason = seen->state() == v1::Study::ACTIVE ? seen->state_reason() : "";
      if (reason.empty() || waits.empty()) {
        waits_since = now;
        waits_said = false;
      }
      waits = reason;
      if (!waits.empty() && !waits_said && now - waits_since >= kWaitsInSilence) {
        progress.End();
        context.err() << Printable(waits) << std::endl;
        waits_said = true;
      }
    } else {
      // A restart of the server does not end it, unless the server was never there.
      if (!known || !base::MayRepeat(base::AdviceFor(seen.status()))) return seen.status();
      if (now - heard > options.patience) return seen.status();
      if (!away) {
        progress.End();
        context.err() << "the server does not answer; waiting for it" << std::endl;
      }
      away = true;
    }
    if (now - begin >= options.timeout) {
      followed.ending = Ending::kTimedOut;
      return followed;
    }
    if (signals.Wait(std::min(interval, options.timeout - (now - begin)))) {
      followed.ending = Ending::kInterrupted;
      return followed;
    }
    interval = std::min(2 * interval, options.interval);
  }
}

}  // namespace luthier::cli
