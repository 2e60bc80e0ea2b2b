#ifndef LUTHIER_LIB_WIRE_CERTIFICATE_H_
#define LUTHIER_LIB_WIRE_CERTIFICATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// The fingerprint of a certificate is the SHA-256 of its DER form, here always as 64 lower-case hexadecimal digits.
namespace luthier::wire {

// The key of metadata by which a coordinator tells with gRPC's health service when its certificates end.
inline constexpr char kCertificateEnds[] = "luthier-certificate-ends";

// Returns the fingerprint of the first certificate in a text of PEM, or INVALID_ARGUMENT if there is none.
absl::StatusOr<std::string> CertificateSha256(absl::string_view pem);

// Reads a fingerprint that people wrote: hexadecimal digits in any case, with or without a colon after each pair.
// Returns INVALID_ARGUMENT when it is none.
absl::StatusOr<std::string> ParseFingerprint(absl::string_view text);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_CERTIFICATE_H_
