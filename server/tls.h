#ifndef LUTHIER_SERVER_TLS_H_
#define LUTHIER_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace luthier::server {

// Files in PEM. All empty: no TLS.
struct TlsFiles {
  std::string cert;       // The server's certificate, then those that signed it.
  std::string key;        // Its private key.
  std::string client_ca;  // Clients need a certificate signed by one of these; empty: they need none.

  bool any() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// Credentials for TLS 1.2 and 1.3 that follow the files: a new certificate is used within a second or two, without a
// restart; connections that exist go on. INVALID_ARGUMENT naming the option: a file is missing, is no PEM, others may
// read the key, or key and certificate are no pair.
absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(const TlsFiles& files);

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_TLS_H_
