#ifndef LUTHIER_CLIENT_CLI_FLEET_FLEET_H_
#define LUTHIER_CLIENT_CLI_FLEET_FLEET_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "lib/wire/channel.h"

// Workers that an engine (Slurm, Kubernetes, Ray, or this machine) is asked to keep running.
namespace luthier::cli {

// The workers of one pool, project or study on one engine. All names in it are valid ids.
struct Fleet {
  int workers = 1;
  std::string server;
  wire::ChannelSecurity security;  // The files' names are absolute.
  std::string pool, project, study;
  int slots = 1;
  int gpus = 0;  // GPUs of each worker, one for each trial at once; 0: none are handed out.
  std::string image;
  absl::Duration exit_when_idle = absl::InfiniteDuration();
  absl::Duration drain_timeout, stop_grace;
  std::vector<std::string> worker_flags;  // Further flags of luthier-worker, as given.
  std::string worker_program;             // The path of luthier-worker on this machine.
  std::string directory;                  // Folder on this machine for logs, and for a token that is in no file.

  // Returns what the fleet works for: "pool default", "study demo in pool default".
  std::string WorksFor() const;
  // Returns the name by which engines know the fleet: that of what it works for, and nothing else. A label of DNS with
  // at most 47 characters.
  std::string Name() const;
  // Returns a fingerprint of all that makes two fleets of one name differ, but for the number of workers and the token.
  std::string Settings() const;
  // Returns the time from the first wish that a worker ends until it has: the engine's time before it kills.
  absl::Duration EndsWithin() const { return drain_timeout + stop_grace + absl::Seconds(15); }
  // Returns the trials that each worker runs at once.
  int TrialsAtOnce() const { return gpus > 0 ? gpus : slots; }
};

// Names of files as workers see them; empty: not used.
struct AccessFiles {
  std::string token, tls_ca, tls_cert, tls_key;
};

// Returns the flags of luthier-worker, without its name: what it works for, how it ends, and with `gpus` as the value
// of
// --gpus.
std::vector<std::string> WorkerFlags(const Fleet& fleet, const AccessFiles& files, absl::string_view gpus);

// Returns the text as one word of a POSIX shell.
std::string ShellWord(absl::string_view text);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_FLEET_FLEET_H_
