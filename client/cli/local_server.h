#ifndef LUTHIER_CLIENT_CLI_LOCAL_SERVER_H_
#define LUTHIER_CLIENT_CLI_LOCAL_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace luthier::cli {

// The directory that `luthier run` and Python use where none is named.
inline constexpr char kDefaultDirectory[] = "luthier.db.d";

// Refuses that directory if other users could write to its database, or replace its socket: they would decide what the
// workers run.
absl::Status CheckDefaultDirectory();

// Returns the data directory that `--db PATH` means: PATH, or the directory of PATH if it names the file luthier.db.
// Absolute.
std::string DataDirectory(const std::string& path);

// A coordinator for the studies of one data directory, in this process, on a private Unix socket. Only the owner of the
// directory can connect.
class LocalServer {
 public:
  enum class Use {
    kRun,    // Makes the directory if it is missing; fails if another process has it.
    kLook,   // NOT_FOUND if there is no database; uses the coordinator that has it, if one does.
    kAdmin,  // As kLook; tokens and projects can be made.
  };
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const std::string& directory, Use use);
  virtual ~LocalServer() = default;
  virtual const std::string& address() const = 0;
  // False if another process has it.
  virtual bool own() const = 0;
};

// Reads from the database, without locking it, the newest leases of running trials whose worker's name begins with
// `prefix`. When a coordinator died, so did its local workers, and their trials need not wait for the leases to run
// out.
absl::StatusOr<std::vector<client::LeaseRef>> LeasesOfWorkers(const std::string& directory, const std::string& study,
                                                              const std::string& prefix);

struct ReplayResult {
  std::string study;
  int64_t checked = 0;
  int64_t other_version = 0;
  std::vector<std::string> mismatches;
};
// Computes the stored suggestions of all studies (or of one) again. NOT_FOUND.
absl::StatusOr<std::vector<ReplayResult>> VerifyReplay(const std::string& directory, const std::string& study);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_LOCAL_SERVER_H_
