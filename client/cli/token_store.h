#ifndef LUTHIER_CLIENT_CLI_TOKEN_STORE_H_
#define LUTHIER_CLIENT_CLI_TOKEN_STORE_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/client.h"

namespace luthier::cli {

// Keeps lease tokens from `ask` to `tell`, which are two processes: DIR/tokens.json, mode 0600. Several processes may
// use it at once. The newest kMaxTokens are kept, even after their `tell`, so that it can be repeated.
class TokenStore {
 public:
  static constexpr size_t kMaxTokens = 10'000;

  // The directory is made (0700) at the first Put.
  explicit TokenStore(std::string directory) : directory_(std::move(directory)) {}

  // Stores the tokens of one answer. `server` identifies the server: its address, or "db:" and the data directory.
  absl::Status Put(const std::string& server, const std::vector<client::LeaseRef>& leases) const;
  // Returns std::nullopt if the study was not asked for here. A damaged file counts as empty.
  absl::StatusOr<std::optional<std::string>> Find(const std::string& server, const std::string& study,
                                                  int64_t trial) const;

  std::string path() const { return directory_ + "/tokens.json"; }

 private:
  const std::string directory_;
};

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_TOKEN_STORE_H_
