#include "client/cli/pki.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "lib/base/descriptor.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/study_spec.h"

namespace luthier::cli {
namespace {

namespace fs = std::filesystem;

using Key = std::unique_ptr<EVP_PKEY, void (*)(EVP_PKEY*)>;
using X509Ptr = std::unique_ptr<X509, void (*)(X509*)>;
using Bio = std::unique_ptr<BIO, void (*)(BIO*)>;

constexpr absl::Duration kAuthorityLife = absl::Hours(3653 * 24);
constexpr absl::Duration kCertificateLife = absl::Hours(365 * 24);
// Certificates begin earlier by this, since clocks of other machines may be slow.
constexpr absl::Duration kSlack = absl::Minutes(5);
constexpr int kSerialBytes = 16;

Bio MemoryBio() {
  return Bio(BIO_new(BIO_s_mem()), [](BIO* bio) { BIO_free(bio); });
}

std::string ContentsOf(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  return std::string(data, static_cast<size_t>(size));
}

absl::Status Failed(absl::string_view what) {
  return absl::InternalError(absl::StrCat("OpenSSL can't make ", what));
}

Key NewKey() {
  return Key(EVP_EC_gen("P-256"), EVP_PKEY_free);
}

// Writes a file beside its path and renames it, so that readers never see a part.
absl::Status WriteFile(const fs::path& path, const std::string& text, mode_t mode) {
  const std::string made = path.string() + ".new";
  unlink(made.c_str());
  const base::Descriptor file(open(made.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (file.get() < 0 || write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
      fchmod(file.get(), mode) != 0 || fsync(file.get()) != 0 || rename(made.c_str(), path.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("can't write ", path.string(), ": ", std::strerror(errno)));
  }
  return absl::OkStatus();
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, void (*)(X509_EXTENSION*)> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()), X509_EXTENSION_free);
  return extension && X509_add_ext(certificate, extension.get(), -1) == 1;
}

struct Wish {
  std::string name;
  absl::Duration life;
  std::vector<std::pair<int, std::string>> extensions;
};

// Signs with `authority` and `authority_key`; null: signs itself.
absl::StatusOr<X509Ptr> Sign(const Wish& wish, EVP_PKEY* key, X509* authority, EVP_PKEY* authority_key) {
  X509Ptr certificate(X509_new(), X509_free);
  std::array<unsigned char, kSerialBytes> serial;
  if (!certificate || RAND_bytes(serial.data(), kSerialBytes) != 1) return Failed("a certificate");
  serial[0] &= 0x7F;  // Makes the number positive.
  const std::unique_ptr<BIGNUM, void (*)(BIGNUM*)> number(BN_bin2bn(serial.data(), kSerialBytes, nullptr), BN_free);
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get()));
  X509_set_version(certificate.get(), X509_VERSION_3);
  const absl::Time now = absl::Now();
  ASN1_TIME_set(X509_getm_notBefore(certificate.get()), absl::ToTimeT(now - kSlack));
  ASN1_TIME_set(X509_getm_notAfter(certificate.get()), absl::ToTimeT(now + wish.life));
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, reinterpret_cast<const unsigned char*>(wish.name.c_str()),
                             -1, -1, 0);
  X509* const issuer = authority == nullptr ? certificate.get() : authority;
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer));
  if (X509_set_pubkey(certificate.get(), key) != 1) return Failed("a certificate");
  for (const auto& [kind, value] : wish.extensions) {
    if (!AddExtension(certificate.get(), issuer, kind, value)) return Failed(absl::StrCat("the extension ", value));
  }
  if (X509_sign(certificate.get(), authority == nullptr ? key : authority_key, EVP_sha256()) == 0) {
    return Failed("a signature");
  }
  return certificate;
}

std::string FingerprintOf(X509* certificate) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  X509_digest(certificate, EVP_sha256(), digest.data(), &size);
  return absl::StrJoin(digest.begin(), digest.begin() + size, ":",
                       [](std::string* out, unsigned char byte) { absl::StrAppendFormat(out, "%02X", byte); });
}

// Writes the key first: programs that watch both files take a new certificate as the sign that the pair is complete.
absl::StatusOr<IssuedCertificate> Write(const fs::path& directory, const std::string& name, X509* certificate,
                                        EVP_PKEY* key, X509* authority) {
  const Bio key_text = MemoryBio(), cert_text = MemoryBio();
  if (PEM_write_bio_PrivateKey(key_text.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1 ||
      PEM_write_bio_X509(cert_text.get(), certificate) != 1 ||
      (authority != nullptr && PEM_write_bio_X509(cert_text.get(), authority) != 1)) {
    return Failed("PEM");
  }
  IssuedCertificate written;
  written.cert_file = (directory / (name + ".pem")).string();
  written.key_file = (directory / (name + ".key")).string();
  written.fingerprint = FingerprintOf(certificate);
  tm end = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end);
  written.not_after =
      absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", absl::FromTM(end, absl::UTCTimeZone()), absl::UTCTimeZone());
  LUTHIER_RETURN_IF_ERROR(WriteFile(written.key_file, ContentsOf(key_text.get()), 0600));
  LUTHIER_RETURN_IF_ERROR(WriteFile(written.cert_file, ContentsOf(cert_text.get()), 0644));
  return written;
}

struct Authority {
  X509Ptr certificate{nullptr, X509_free};
  Key key{nullptr, EVP_PKEY_free};
};

absl::StatusOr<Authority> ReadAuthority(const fs::path& directory) {
  const auto open = [&](const char* name) {
    return Bio(BIO_new_file((directory / name).c_str(), "r"), [](BIO* bio) { BIO_free(bio); });
  };
  const Bio certificate = open("ca.pem"), key = open("ca.key");
  Authority authority;
  if (certificate) authority.certificate.reset(PEM_read_bio_X509(certificate.get(), nullptr, nullptr, nullptr));
  if (key) authority.key.reset(PEM_read_bio_PrivateKey(key.get(), nullptr, nullptr, nullptr));
  if (authority.certificate && authority.key) return authority;
  return absl::FailedPreconditionError(absl::StrCat("there is no authority in ", base::Quote(directory.string()),
                                                    "; luthier admin pki init --out ", directory.string(),
                                                    " makes one"));
}

absl::StatusOr<IssuedCertificate> Issue(const fs::path& directory, const std::string& file, Wish wish) {
  LUTHIER_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(directory));
  wish.life = kCertificateLife;
  wish.extensions.insert(wish.extensions.begin(), {{NID_basic_constraints, "critical,CA:FALSE"},
                                                   {NID_key_usage, "critical,digitalSignature"},
                                                   {NID_subject_key_identifier, "hash"},
                                                   {NID_authority_key_identifier, "keyid:always"}});
  const Key key = NewKey();
  if (!key) return Failed("a key");
  LUTHIER_ASSIGN_OR_RETURN(const X509Ptr certificate,
                           Sign(wish, key.get(), authority.certificate.get(), authority.key.get()));
  return Write(directory, file, certificate.get(), key.get(), nullptr);
}

// Returns "DNS:db1.example" or "IP:10.0.0.1". A comma in it would begin another extension.
absl::StatusOr<std::string> AlternativeName(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> address;
  if (inet_pton(AF_INET, host.c_str(), address.data()) == 1 || inet_pton(AF_INET6, host.c_str(), address.data()) == 1) {
    return absl::StrCat("IP:", host);
  }
  bool good = !host.empty() && host.size() <= 253 && host[0] != '-' && host[0] != '.';
  for (const char c : host) good = good && (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.');
  if (good) return absl::StrCat("DNS:", host);
  return base::BadField("server", absl::StrCat(base::Quote(host),
                                               " is neither a host's name nor an IP address; give it "
                                               "as clients do, without a port"));
}

}  // namespace

absl::StatusOr<IssuedCertificate> MakeAuthority(const std::string& directory) {
  std::error_code error;
  fs::create_directories(directory, error);
  if (!fs::is_directory(directory)) {
    return absl::FailedPreconditionError(absl::StrCat("can't make the directory ", directory));
  }
  for (const char* name : {"ca.pem", "ca.key"}) {
    if (fs::exists(fs::path(directory) / name)) {
      return absl::FailedPreconditionError(
          absl::StrCat(directory, "/", name,
                       " exists: certificates that it signed would not be trusted any more; use another --out"));
    }
  }
  const Key key = NewKey();
  if (!key) return Failed("a key");
  Wish wish{"Luthier private authority", kAuthorityLife, {}};
  wish.extensions = {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                     {NID_key_usage, "critical,keyCertSign,cRLSign"},
                     {NID_subject_key_identifier, "hash"}};
  LUTHIER_ASSIGN_OR_RETURN(const X509Ptr certificate, Sign(wish, key.get(), nullptr, nullptr));
  return Write(directory, "ca", certificate.get(), key.get(), nullptr);
}

absl::StatusOr<IssuedCertificate> IssueServer(const std::string& directory, const std::vector<std::string>& hosts) {
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    LUTHIER_ASSIGN_OR_RETURN(std::string name, AlternativeName(host));
    names.push_back(std::move(name));
  }
  if (names.empty()) return base::BadField("server", "is missing: the name by which clients reach the server");
  constexpr size_t kMaxCommonName = 64;
  return Issue(directory, "server",
               {hosts[0].substr(0, kMaxCommonName),
                {},
                {{NID_ext_key_usage, "serverAuth"}, {NID_subject_alt_name, absl::StrJoin(names, ",")}}});
}

absl::StatusOr<IssuedCertificate> IssueClient(const std::string& directory, const std::string& name) {
  LUTHIER_RETURN_IF_ERROR(study::ValidateId("client", name));
  if (name == "ca" || name == "server") return base::BadField("client", absl::StrCat(base::Quote(name), " is taken"));
  return Issue(directory, name, {name, {}, {{NID_ext_key_usage, "clientAuth"}, {NID_subject_alt_name, "DNS:" + name}}});
}

}  // namespace luthier::cli
