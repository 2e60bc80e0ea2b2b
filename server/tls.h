#ifndef LUTHIER_SERVER_TLS_H_
#define LUTHIER_SERVER_TLS_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/support/server_interceptor.h>

#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "lib/base/clock.h"
#include "lib/base/mutex.h"

namespace luthier::server {

// Files in PEM. All empty: no TLS.
struct TlsFiles {
  std::string cert;       // The server's certificate, then those that signed it.
  std::string key;        // Its private key.
  std::string client_ca;  // Clients need a certificate signed by one of these; empty: they need none.

  bool any() const { return !cert.empty() || !key.empty() || !client_ca.empty(); }
};

// Contents that the files had together at one moment.
struct TlsContents {
  std::string cert, key, client_ca;  // PEM.
  std::string fingerprint;           // SHA-256 of the first certificate in `cert`.
  // The time in which all certificates of `cert` are valid.
  absl::Time begin = absl::InfinitePast(), end = absl::InfiniteFuture();
  // When the next certificate of `client_ca` ends; if all have ended, when the last one did.
  absl::Time client_ca_end = absl::InfiniteFuture();
};

// Reads the files and checks that they fit: each parses, the key is that of the certificate, the second certificate
// signed the first, and so on. `now` tells which authorities have ended. INVALID_ARGUMENT naming the option: a file is
// missing, is not PEM, others may read the key, or the files do not fit. Certificates that have ended, or are not valid
// yet, are no errors.
absl::StatusOr<TlsContents> ReadTlsFiles(const TlsFiles& files, absl::Time now);

// Keeps a pair of key and certificate that fit, and follows the files: new files are used for new connections within a
// second or two, without a restart, as soon as they fit and the certificate is valid. Until then the former pair stays
// in use, and the log says which file is in the way. Existing connections go on.
// A certificate that has ended, or is not valid yet, is served all the same if there is no other: callers on Unix
// sockets need none, and those of the port are warned by their own library. The log says so at the start and every day,
// from 14 days before the end on. Thread-safe.
class TlsKeeper {
 public:
  static constexpr absl::Duration kLookEvery = absl::Seconds(1);
  static constexpr absl::Duration kWarnBefore = absl::Hours(14 * 24);
  static constexpr absl::Duration kWarnEvery = absl::Hours(24);

  // Errors as ReadTlsFiles. The clock must outlive the result.
  static absl::StatusOr<std::unique_ptr<TlsKeeper>> Open(TlsFiles files, const base::Clock* clock,
                                                         absl::Duration look_every = kLookEvery);
  ~TlsKeeper();
  TlsKeeper(const TlsKeeper&) = delete;
  TlsKeeper& operator=(const TlsKeeper&) = delete;

  // Credentials for TLS 1.2 and 1.3, for one listener. The keeper must outlive the server that has them.
  std::shared_ptr<grpc::ServerCredentials> Credentials();
  // Looks at the files and at the time. Its own thread does this every `look_every` of real time.
  void Tick();
  // Returns the contents that new connections get.
  TlsContents InUse();
  // Days until a certificate ends, negative afterwards: "server", and "client_ca" where there is one.
  std::map<std::string, double> DaysLeft();
  // Tells callers of gRPC's health service, who need no token, in the initial metadata of the answer: kCertificateEnds,
  // once for each certificate, "server=2027-11-26T10:00:00Z". The keeper must outlive the server that has it.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> Interceptors();

 private:
  class Credentialed;
  class Teller;
  class Tellers;

  TlsKeeper(TlsFiles files, const base::Clock* clock, absl::Duration look_every, TlsContents contents);
  void Loop();
  // Takes the contents of the files, unless something is wrong with them, which is returned.
  std::string Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_);
  void Warn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(looking_);
  // Gives its only caller the contents in use. False: the caller has them.
  bool Fetch(TlsContents* contents);

  const TlsFiles files_;
  const base::Clock* const clock_;
  const absl::Duration look_every_;
  base::Mutex looking_;                           // Held while the files are looked at.
  std::string stamps_ ABSL_GUARDED_BY(looking_);  // They change with the files.
  absl::Duration next_reading_ ABSL_GUARDED_BY(looking_) = -absl::InfiniteDuration();  // Even if no stamp changed.
  std::string refused_ ABSL_GUARDED_BY(looking_);  // The reason why the files are not used; empty: they are.
  absl::Duration next_warning_ ABSL_GUARDED_BY(looking_) = -absl::InfiniteDuration();
  base::Mutex mutex_;
  TlsContents contents_ ABSL_GUARDED_BY(mutex_);
  bool fetched_ ABSL_GUARDED_BY(mutex_) = false;
  base::CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace luthier::server

#endif  // LUTHIER_SERVER_TLS_H_
