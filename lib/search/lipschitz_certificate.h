#ifndef LUTHIER_LIB_SEARCH_LIPSCHITZ_CERTIFICATE_H_
#define LUTHIER_LIB_SEARCH_LIPSCHITZ_CERTIFICATE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Statement about the part of the space that results rule out. IF no two settings have metrics that differ by more than
// `lipschitz` times their distance in model coordinates (the unit cube of lib/study/encoding.h), THEN about `share` of
// the cube cannot hold a value better than `best` by more than `epsilon`. Results cannot confirm the premise. All
// numbers are in the metric's own units, unlike a designer's bounds, which are about its model's outputs.
struct Certificate {
  double best = 0.0;
  double epsilon = 0.0;
  double lipschitz = 0.0;       // Per side of the unit cube.
  double steepest_slope = 0.0;  // Between two of the results.
  double share = 0.0;
  double standard_error = 0.0;  // For independent points. Quasi-random ones have less.
  int64_t points = 0;
  int64_t results = 0;  // Number of results used, at most kCertificateResults.
};

struct CertificateOptions {
  double epsilon = 0.0;             // >= 0.
  std::optional<double> lipschitz;  // > 0; raised to the steepest slope seen, which contradicts a smaller one.
};

// Settings, valid for the space, with their finite values, in the order of their numbers.
using CertificateResults = std::vector<std::pair<study::Parameters, double>>;

// Largest number of results that a certificate uses. More would cost time and add little; the best and the newest are
// taken.
inline constexpr int64_t kCertificateResults = 2000;
// Drops the results that Certify would not use. It serves callers that collect many.
void KeepForCertificate(study::Goal goal, CertificateResults* results);

// Returns true if the study's algorithm works with Lipschitz bounds of one constant.
bool HasLipschitzBounds(const study::StudySpec& spec);

// Computes the certificate of `results`. Without options.lipschitz the constant is the one that the study's algorithm
// derives from these results; the algorithm must then have Lipschitz bounds. Returns std::nullopt if there is no
// constant (no bounds, fewer than two different results), no result, or nothing to tune. Returns INVALID_ARGUMENT for
// options out of range. O(n^2 d).
absl::StatusOr<std::optional<Certificate>> Certify(const study::StudySpec& spec, CertificateResults results,
                                                   const CertificateOptions& options);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_LIPSCHITZ_CERTIFICATE_H_
