#include "server/tls.h"

#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/log.h"
#include "lib/base/regular_file.h"
#include "lib/base/status_macros.h"
#include "lib/wire/certificate.h"

namespace luthier::server {
namespace {

using X509Ptr = std::unique_ptr<X509, void (*)(X509*)>;
using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using Bio = std::unique_ptr<BIO, void (*)(BIO*)>;

constexpr size_t kMaxFileBytes = size_t{1} << 20;
constexpr absl::Duration kReadAnyway = absl::Hours(1);

absl::StatusOr<std::string> ReadFile(const char* option, const std::string& path, bool secret) {
  absl::StatusOr<base::FileText> file = base::ReadRegularFile(path, kMaxFileBytes);
  if (!file.ok()) {
    const bool other = file.status().code() == absl::StatusCode::kInvalidArgument;
    return base::BadField(option,
                          absl::StrCat(file.status().message(), other ? "; name a file of at most 1 MiB in PEM" : ""));
  }
  if (secret && (file->mode & S_IRWXO) != 0) {
    return base::BadField(option, absl::StrCat(path, " can be read by everybody; chmod 600 ", path));
  }
  return std::move(file->text);
}

Bio Reader(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), [](BIO* bio) { BIO_free(bio); });
}

// Refuses to ask for a password.
int NoPassword(char*, int, int, void*) {
  return -1;
}

// Returns all certificates of a text, in their order. A text that begins like a certificate and is not one is an error.
absl::StatusOr<std::vector<X509Ptr>> Certificates(const char* option, const std::string& path,
                                                  const std::string& text) {
  std::vector<X509Ptr> certificates;
  const Bio bio = Reader(text);
  ERR_clear_error();
  while (X509* certificate = PEM_read_bio_X509(bio.get(), nullptr, NoPassword, nullptr)) {
    certificates.emplace_back(certificate, X509_free);
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (certificates.empty() || !at_end) {
    return base::BadField(option, absl::StrCat(path, certificates.empty() ? " has no certificate in PEM"
                                                                          : " has a certificate that is cut or "
                                                                            "damaged"));
  }
  return certificates;
}

absl::Time TimeOf(const ASN1_TIME* time) {
  std::tm parts = {};
  if (ASN1_TIME_to_tm(time, &parts) != 1) return absl::InfinitePast();
  return absl::FromTM(parts, absl::UTCTimeZone());
}

absl::Status CheckChain(const TlsFiles& files, const std::vector<X509Ptr>& chain) {
  for (size_t i = 0; i + 1 < chain.size(); ++i) {
    EVP_PKEY* const signer = X509_get0_pubkey(chain[i + 1].get());
    const bool signed_by_next = X509_check_issued(chain[i + 1].get(), chain[i].get()) == X509_V_OK &&
                                signer != nullptr && X509_verify(chain[i].get(), signer) == 1;
    ERR_clear_error();
    if (signed_by_next) continue;
    return base::BadField("tls-cert",
                          absl::StrCat(files.cert, ": its certificate ", i + 2, " did not sign its certificate ", i + 1,
                                       "; put the server's first, then the one that signed it, and so on"));
  }
  return absl::OkStatus();
}

absl::Status CheckKey(const TlsFiles& files, const std::string& text, const X509* certificate) {
  const Bio bio = Reader(text);
  const Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassword, nullptr), EVP_PKEY_free);
  const bool fits = key && X509_check_private_key(certificate, key.get()) == 1;
  ERR_clear_error();
  if (fits) return absl::OkStatus();
  return base::BadField("tls-key", absl::StrCat(files.key, " is not the private key of the certificate in ", files.cert,
                                                ", in PEM and without a password"));
}

std::string Text(absl::Time time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", time, absl::UTCTimeZone());
}

// Returns a text that changes when a file was written or replaced.
std::string StampsOf(const TlsFiles& files) {
  std::string stamps;
  for (const std::string& path : {files.cert, files.key, files.client_ca}) {
    struct stat info = {};
    if (!path.empty() && stat(path.c_str(), &info) != 0) info = {};
    for (const int64_t part : {static_cast<int64_t>(info.st_dev), static_cast<int64_t>(info.st_ino),
                               static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mode),
                               static_cast<int64_t>(info.st_mtim.tv_sec), static_cast<int64_t>(info.st_mtim.tv_nsec),
                               static_cast<int64_t>(info.st_ctim.tv_sec), static_cast<int64_t>(info.st_ctim.tv_nsec)}) {
      absl::StrAppend(&stamps, part, ",");
    }
  }
  return stamps;
}

}  // namespace

absl::StatusOr<TlsContents> ReadTlsFiles(const TlsFiles& files, absl::Time now) {
  if (files.cert.empty()) return base::BadField("tls-cert", "is missing; --tls-key and --tls-client-ca go with it");
  if (files.key.empty()) return base::BadField("tls-key", "is missing; it goes with --tls-cert");
  TlsContents contents;
  LUTHIER_ASSIGN_OR_RETURN(contents.cert, ReadFile("tls-cert", files.cert, false));
  LUTHIER_ASSIGN_OR_RETURN(contents.key, ReadFile("tls-key", files.key, true));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<X509Ptr> chain, Certificates("tls-cert", files.cert, contents.cert));
  LUTHIER_RETURN_IF_ERROR(CheckKey(files, contents.key, chain[0].get()));
  LUTHIER_RETURN_IF_ERROR(CheckChain(files, chain));
  contents.fingerprint = wire::CertificateSha256(contents.cert).value_or("");
  for (const X509Ptr& certificate : chain) {
    contents.begin = std::max(contents.begin, TimeOf(X509_get0_notBefore(certificate.get())));
    contents.end = std::min(contents.end, TimeOf(X509_get0_notAfter(certificate.get())));
  }
  if (files.client_ca.empty()) return contents;
  LUTHIER_ASSIGN_OR_RETURN(contents.client_ca, ReadFile("tls-client-ca", files.client_ca, false));
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<X509Ptr> authorities,
                           Certificates("tls-client-ca", files.client_ca, contents.client_ca));
  absl::Time last = absl::InfinitePast();
  for (const X509Ptr& authority : authorities) {
    const absl::Time end = TimeOf(X509_get0_notAfter(authority.get()));
    last = std::max(last, end);
    if (end > now) contents.client_ca_end = std::min(contents.client_ca_end, end);
  }
  if (last <= now) contents.client_ca_end = last;
  return contents;
}

// gRPC asks at each handshake whether there is something new. Its own watcher of files would use key and certificate
// even if they do not fit.
class TlsKeeper::Credentialed final : public grpc::ServerCredentials {
 public:
  explicit Credentialed(TlsKeeper* keeper)
      : credentials_(grpc_ssl_server_credentials_create_with_options(
            grpc_ssl_server_credentials_create_options_using_config_fetcher(
                keeper->files_.client_ca.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                 : GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY,
                &Fetch, keeper))) {}
  ~Credentialed() override { grpc_server_credentials_release(credentials_); }

  void SetAuthMetadataProcessor(const std::shared_ptr<grpc::AuthMetadataProcessor>&) override {}  // Access does that.

 private:
  static grpc_ssl_certificate_config_reload_status Fetch(void* keeper, grpc_ssl_server_certificate_config** config) {
    TlsContents contents;
    if (!static_cast<TlsKeeper*>(keeper)->Fetch(&contents)) return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_UNCHANGED;
    const grpc_ssl_pem_key_cert_pair pair{contents.key.c_str(), contents.cert.c_str()};
    // gRPC 1.51 ends the process if there are no authorities of clients, even if it asks them for no certificate. It
    // then does not use this text.
    const std::string& authorities = contents.client_ca.empty() ? contents.cert : contents.client_ca;
    *config = grpc_ssl_server_certificate_config_create(authorities.c_str(), &pair, 1);
    return GRPC_SSL_CERTIFICATE_CONFIG_RELOAD_NEW;
  }
  int AddPortToServer(const std::string& address, grpc_server* server) override {
    return grpc_server_add_http2_port(server, address.c_str(), credentials_);
  }

  grpc_server_credentials* const credentials_;
};

class TlsKeeper::Teller final : public grpc::experimental::Interceptor {
 public:
  explicit Teller(TlsKeeper* keeper) : keeper_(keeper) {}
  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(grpc::experimental::InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      const TlsContents contents = keeper_->InUse();
      auto* const metadata = methods->GetSendInitialMetadata();
      metadata->emplace(wire::kCertificateEnds, absl::StrCat("server=", Text(contents.end)));
      if (!contents.client_ca.empty()) {
        metadata->emplace(wire::kCertificateEnds, absl::StrCat("client_ca=", Text(contents.client_ca_end)));
      }
    }
    methods->Proceed();
  }

 private:
  TlsKeeper* const keeper_;
};

class TlsKeeper::Tellers final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  explicit Tellers(TlsKeeper* keeper) : keeper_(keeper) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return absl::string_view(info->method()) == "/grpc.health.v1.Health/Check" ? new Teller(keeper_) : nullptr;
  }

 private:
  TlsKeeper* const keeper_;
};

std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> TlsKeeper::Interceptors() {
  return std::make_unique<Tellers>(this);
}

TlsKeeper::TlsKeeper(TlsFiles files, const base::Clock* clock, absl::Duration look_every, TlsContents contents)
    : files_(std::move(files)), clock_(clock), look_every_(look_every), contents_(std::move(contents)), thread_([this] {
        Loop();
      }) {}

TlsKeeper::~TlsKeeper() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Signal();
  thread_.join();
}

absl::StatusOr<std::unique_ptr<TlsKeeper>> TlsKeeper::Open(TlsFiles files, const base::Clock* clock,
                                                           absl::Duration look_every) {
  LUTHIER_ASSIGN_OR_RETURN(TlsContents contents, ReadTlsFiles(files, clock->Wall()));
  std::unique_ptr<TlsKeeper> keeper(new TlsKeeper(std::move(files), clock, look_every, std::move(contents)));
  keeper->Tick();
  return keeper;
}

std::shared_ptr<grpc::ServerCredentials> TlsKeeper::Credentials() {
  return std::make_shared<Credentialed>(this);
}

TlsContents TlsKeeper::InUse() {
  base::MutexLock lock(&mutex_);
  return contents_;
}

bool TlsKeeper::Fetch(TlsContents* contents) {
  base::MutexLock lock(&mutex_);
  if (fetched_) return false;
  fetched_ = true;
  *contents = contents_;
  return true;
}

std::map<std::string, double> TlsKeeper::DaysLeft() {
  const TlsContents contents = InUse();
  const absl::Time now = clock_->Wall();
  const auto days = [&](absl::Time end) { return absl::FDivDuration(end - now, absl::Hours(24)); };
  std::map<std::string, double> left = {{"server", days(contents.end)}};
  if (!contents.client_ca.empty()) left["client_ca"] = days(contents.client_ca_end);
  return left;
}

void TlsKeeper::Tick() {
  base::MutexLock looking(&looking_);
  const absl::Duration monotonic = clock_->Monotonic();
  const std::string stamps = StampsOf(files_);
  // The reason why the files were refused may pass with time.
  if (stamps != stamps_ || !refused_.empty() || monotonic >= next_reading_) {
    stamps_ = stamps;
    next_reading_ = monotonic + kReadAnyway;
    const std::string refused = Take();
    if (refused != refused_ && !refused.empty()) {
      const TlsContents in_use = InUse();
      base::LogWarning("certificate_not_taken",
                       {{"reason", refused}, {"in_use", in_use.fingerprint}, {"until", Text(in_use.end)}});
    }
    refused_ = refused;
  }
  if (monotonic >= next_warning_) Warn();
}

std::string TlsKeeper::Take() {
  const absl::Time now = clock_->Wall();
  const TlsContents before = InUse();
  const absl::StatusOr<TlsContents> there = ReadTlsFiles(files_, now);
  if (!there.ok()) return std::string(there.status().message());
  const bool same_pair = there->cert == before.cert && there->key == before.key;
  if (!same_pair && there->end <= now) {
    return absl::StrCat(files_.cert, ": the certificate ended on ", Text(there->end));
  }
  if (!same_pair && there->begin > now) {
    return absl::StrCat(files_.cert, ": the certificate holds from ", Text(there->begin), " on");
  }
  const bool same = same_pair && there->client_ca == before.client_ca;
  {
    base::MutexLock lock(&mutex_);
    contents_ = *there;
    if (!same) fetched_ = false;
  }
  if (same) return "";
  next_warning_ = -absl::InfiniteDuration();
  base::LogInfo("certificate_taken",
                {{"file", files_.cert}, {"sha256", there->fingerprint}, {"until", Text(there->end)}});
  return "";
}

void TlsKeeper::Warn() {
  const TlsContents contents = InUse();
  const absl::Time now = clock_->Wall();
  bool warned = false;
  const auto warn = [&](const std::string& file, absl::Time end) {
    if (end - now > kWarnBefore) return;
    warned = true;
    const bool ended = end <= now;
    base::Log(
        ended ? base::LogLevel::kError : base::LogLevel::kWarning, ended ? "certificate_ended" : "certificate_ends",
        {{"file", file},
         {"until", Text(end)},
         {"days", absl::StrCat((end - now) / absl::Hours(24))},
         {"warning", ended ? "it is refused at the other end; put a new one there, which is taken without a restart"
                           : "put a new one there in time, which is taken without a restart"}});
  };
  if (contents.begin > now) {
    warned = true;
    base::LogError("certificate_not_yet",
                   {{"file", files_.cert},
                    {"from", Text(contents.begin)},
                    {"warning", "clients refuse it until then; is this machine's clock right?"}});
  }
  warn(files_.cert, contents.end);
  if (!contents.client_ca.empty()) warn(files_.client_ca, contents.client_ca_end);
  if (warned) next_warning_ = clock_->Monotonic() + kWarnEvery;
}

void TlsKeeper::Loop() {
  while (true) {
    {
      base::MutexLock lock(&mutex_);
      while (!stopping_ && !changed_.WaitFor(&mutex_, look_every_)) {
      }
      if (stopping_) return;
    }
    Tick();
  }
}

}  // namespace luthier::server
