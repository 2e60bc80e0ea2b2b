#include "lib/wire/certificate.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"

namespace luthier::wire {
namespace {

TEST(Certificate, FingerprintIsOfTheFirst) {
  // "QUJD" is "ABC"; what is a certificate to OpenSSL is not looked at.
  const std::string first = "-----BEGIN CERTIFICATE-----\nQU\nJD\n-----END CERTIFICATE-----\n";
  const std::string second = "-----BEGIN CERTIFICATE-----\nREVG\n-----END CERTIFICATE-----\n";
  for (const std::string& pem : {first, first + second, "Subject: x\n" + first}) {
    const auto fingerprint = CertificateSha256(pem);
    ASSERT_TRUE(fingerprint.ok()) << fingerprint.status();
    EXPECT_EQ(*fingerprint, base::Sha256Hex("ABC"));
  }
  for (const char* bad : {"", "QUJD", "-----BEGIN CERTIFICATE-----\nQUJD\n",
                          "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n",
                          "-----BEGIN CERTIFICATE----------END CERTIFICATE-----",
                          "-----BEGIN PRIVATE KEY-----\nQUJD\n-----END PRIVATE KEY-----\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(CertificateSha256(bad).status())) << bad;
  }
}

TEST(Certificate, FingerprintsAreReadAsPeopleWriteThem) {
  std::string plain, colons;
  for (int i = 0; i < 32; ++i) {
    absl::StrAppend(&plain, "0a");
    absl::StrAppend(&colons, i == 0 ? "" : ":", "0A");
  }
  EXPECT_EQ(*ParseFingerprint(plain), plain);
  EXPECT_EQ(*ParseFingerprint(colons), plain);
  std::string misplaced = colons;
  std::swap(misplaced[2], misplaced[3]);
  for (const std::string& bad : {std::string(), plain + "0", plain.substr(2) + "0g", colons + ":", misplaced}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseFingerprint(bad).status())) << bad;
  }
}

}  // namespace
}  // namespace luthier::wire
