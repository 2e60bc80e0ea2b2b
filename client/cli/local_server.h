#ifndef LUTHIER_CLIENT_CLI_LOCAL_SERVER_H_
#define LUTHIER_CLIENT_CLI_LOCAL_SERVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace luthier::cli {

// `--db PATH` as the data directory it means: PATH, or the directory of PATH when it names the file luthier.db.
// Absolute.
std::string DataDirectory(const std::string& path);

// A coordinator for the studies of one data directory, in this process, on a private Unix socket. Only the owner of the
// directory can connect.
class LocalServer {
 public:
  enum class Use {
    kRun,    // Make the directory when missing; fail when another process has it.
    kLook,   // NOT_FOUND when there is no database; use the coordinator that has it, when one does.
    kAdmin,  // As kLook; tokens and projects can be made.
  };
  static absl::StatusOr<std::unique_ptr<LocalServer>> Start(const std::string& directory, Use use);
  virtual ~LocalServer() = default;
  virtual const std::string& address() const = 0;
};

// The newest leases of running trials whose worker's name begins with `prefix`, read from the database without locking
// it. With a coordinator that died, its local workers died: their trials need not wait for the leases to run out.
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
