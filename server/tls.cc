#include "server/tls.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"

namespace luthier::server {
namespace {

constexpr unsigned kRefreshSeconds = 1;

absl::Status CheckFile(const char* option, const std::string& path, bool secret) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return base::BadField(option, absl::StrCat(base::Quote(path), ": ", std::strerror(errno)));
  }
  if (secret && (info.st_mode & S_IRWXO) != 0) {
    return base::BadField(option, absl::StrCat(base::Quote(path), " can be read by everybody; chmod 600 ", path));
  }
  return absl::OkStatus();
}

absl::Status CheckPair(const TlsFiles& files) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_server_method()), SSL_CTX_free);
  if (!context) return absl::InternalError("OpenSSL makes no context");
  if (SSL_CTX_use_certificate_chain_file(context.get(), files.cert.c_str()) != 1) {
    return base::BadField("tls-cert", absl::StrCat(base::Quote(files.cert), " has no certificate in PEM"));
  }
  if (SSL_CTX_use_PrivateKey_file(context.get(), files.key.c_str(), SSL_FILETYPE_PEM) != 1 ||
      SSL_CTX_check_private_key(context.get()) != 1) {
    return base::BadField(
        "tls-key", absl::StrCat(base::Quote(files.key), " is not the private key of the certificate in ", files.cert,
                                ", in PEM and without a password"));
  }
  if (!files.client_ca.empty() && SSL_CTX_load_verify_locations(context.get(), files.client_ca.c_str(), nullptr) != 1) {
    return base::BadField("tls-client-ca", absl::StrCat(base::Quote(files.client_ca), " has no certificates in PEM"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> TlsCredentials(const TlsFiles& files) {
  if (files.cert.empty()) return base::BadField("tls-cert", "is missing; --tls-key and --tls-client-ca go with it");
  if (files.key.empty()) return base::BadField("tls-key", "is missing; it goes with --tls-cert");
  LUTHIER_RETURN_IF_ERROR(CheckFile("tls-cert", files.cert, false));
  LUTHIER_RETURN_IF_ERROR(CheckFile("tls-key", files.key, true));
  if (!files.client_ca.empty()) LUTHIER_RETURN_IF_ERROR(CheckFile("tls-client-ca", files.client_ca, false));
  LUTHIER_RETURN_IF_ERROR(CheckPair(files));
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(files.key, files.cert, files.client_ca,
                                                                           kRefreshSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files.client_ca.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace luthier::server
