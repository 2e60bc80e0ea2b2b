#ifndef LUTHIER_CLIENT_CLI_PKI_H_
#define LUTHIER_CLIENT_CLI_PKI_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// A private certificate authority in a directory: DIR/ca.pem and DIR/ca.key, and certificates that it signs. Keys are
// ECDSA P-256, in files for their owner alone.
namespace luthier::cli {

struct IssuedCertificate {
  std::string cert_file;
  std::string key_file;
  std::string fingerprint;  // SHA-256 as "AB:CD:…".
  std::string not_after;    // "2027-11-23T10:00:00Z".
};

// Makes the directory and an authority that is valid for ten years. FAILED_PRECONDITION: there is one; nothing is
// overwritten.
absl::StatusOr<IssuedCertificate> MakeAuthority(const std::string& directory);

// Issues a certificate of the directory's authority for a server, valid for one year: DIR/server.pem and
// DIR/server.key, replacing those before. `hosts` has the names and IP addresses by which clients reach it, at least
// one.
absl::StatusOr<IssuedCertificate> IssueServer(const std::string& directory, const std::vector<std::string>& hosts);

// Issues one for a client or a worker: DIR/NAME.pem and DIR/NAME.key. `name` is an id.
absl::StatusOr<IssuedCertificate> IssueClient(const std::string& directory, const std::string& name);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_PKI_H_
