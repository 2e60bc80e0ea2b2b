#ifndef LUTHIER_CLIENT_CLI_FLEET_ENGINE_H_
#define LUTHIER_CLIENT_CLI_FLEET_ENGINE_H_

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/cli/environment.h"
#include "client/cli/fleet/fleet.h"

namespace luthier::cli {

// A fleet as its engine knows it.
struct FleetState {
  std::string name;
  std::string id;         // The engine's own, such as a job's number.
  std::string works_for;  // Fleet::WorksFor
  std::string settings;   // Fleet::Settings
  int workers = 0;        // The number that there is to be.
  int running = 0;
  int waiting = 0;    // Not yet running.
  bool over = false;  // The engine starts no more of them.
  std::string note;   // The reason why workers wait or none are started, in the engine's words; may be empty.
};

// An engine starts workers and starts them again. It is a program of others, reached by its own command-line client.
// Names and labels in it are the only state. Errors: FAILED_PRECONDITION where a client is missing, refuses or can't
// reach its engine, in its words.
class Engine {
 public:
  virtual ~Engine() = default;
  // An error says what of the fleet this engine can't carry out. Starts nothing.
  virtual absl::Status Check(const Fleet& fleet) const = 0;
  // Returns what Start hands to the engine, without secrets.
  virtual std::string Manifest(const Fleet& fleet) const = 0;
  // Returns this user's fleets.
  virtual absl::StatusOr<std::vector<FleetState>> List() const = 0;
  // Starts a fleet that is not there. Returns the engine's own name of it, as "job 17".
  virtual absl::StatusOr<std::string> Start(const Fleet& fleet) const = 0;
  // Gives a fleet that is there the number of workers and the token of `fleet`.
  virtual absl::Status Resize(const Fleet& fleet, const FleetState& there) const = 0;
  // Writes the ends of the workers' logs.
  virtual absl::Status Logs(const Fleet& fleet, const FleetState& there, int lines, std::ostream& out) const = 0;
  // Ends the workers and removes all that Start made. Waits until they are gone; DEADLINE_EXCEEDED if they are not
  // within `patience`.
  virtual absl::Status Stop(const Fleet& fleet, const FleetState& there, absl::Duration patience) const = 0;
  // False if this engine does not tell when workers have ended, so that Stop returns while they still do.
  virtual bool TellsEnd() const { return true; }
};

// Returns the engine of --on, one of kEngineNames.
std::unique_ptr<Engine> MakeEngine(const std::string& name, const Environment& environment);
inline constexpr const char* kEngineNames[] = {"local", "slurm", "k8s", "ray"};

// The engines, each in a file of its own.
std::unique_ptr<Engine> MakeLocalEngine(const Environment& environment);
std::unique_ptr<Engine> MakeSlurmEngine(const Environment& environment);
std::unique_ptr<Engine> MakeKubernetesEngine(const Environment& environment);
std::unique_ptr<Engine> MakeRayEngine(const Environment& environment);

// Returns the name of a file with the fleet's token for workers on machines that see this one's files: that of
// --token-file, else one in the fleet's folder, which this writes for the user alone. Empty: there is no token.
absl::StatusOr<std::string> TokenFileFor(const Fleet& fleet);
// Makes the fleet's folder, for its user alone.
absl::Status MakeFleetDirectory(const Fleet& fleet);
// Writes the last lines of each file of the fleet's folder that ends in ".log", newest workers last.
absl::Status PrintLogFiles(const Fleet& fleet, int lines, std::ostream& out);

// Calls `gone` until it returns true, at most for `patience`. DEADLINE_EXCEEDED.
absl::Status AwaitGone(absl::Duration patience, const std::function<absl::StatusOr<bool>()>& gone);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_FLEET_ENGINE_H_
