#ifndef LUTHIER_CLIENT_CLI_COMMANDS_FOLLOW_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_FOLLOW_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/context.h"

namespace luthier::cli {

// Blocks SIGINT, SIGTERM and SIGHUP in this thread and in those that start while it lives: the program asks for them,
// and is not ended by them. Make it before any thread starts.
class SignalScope {
 public:
  SignalScope();
  ~SignalScope();
  SignalScope(const SignalScope&) = delete;
  SignalScope& operator=(const SignalScope&) = delete;
  // Waits until a signal comes (true) or `duration` is over (false).
  bool Wait(absl::Duration duration);

 private:
  struct State;
  State* const state_;
};

enum class Ending { kOver, kPaused, kTimedOut, kInterrupted };

struct FollowOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  absl::Duration interval = absl::Seconds(1);  // Time between looks at the study.
  absl::Duration patience = absl::Minutes(5);  // The time a server may be away.
  bool stop_when_paused = false;
  std::function<absl::Status()> tick;  // Called at each look; an error ends the following.
};

struct Followed {
  Ending ending = Ending::kOver;
  v1::Study study;  // As last seen.
};

// Shows progress on `err` until the study is finished and no trial is open. Errors: the server's, NOT_FOUND included.
absl::StatusOr<Followed> Follow(Context& context, client::Client& client, const std::string& study,
                                const FollowOptions& options, SignalScope& signals);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_FOLLOW_H_
