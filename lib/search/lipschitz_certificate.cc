#include "lib/search/lipschitz_certificate.h"

#include <algorithm>
#include <cmath>
#include <variant>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/math/sobol.h"
#include "lib/search/bo/acquisition/bounded_acquisition.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr Index kPoints = 4096;

absl::Status Validate(const CertificateOptions& options) {
  base::Violations violations;
  if (!(options.epsilon >= 0.0) || std::isinf(options.epsilon)) {
    violations.Add("epsilon", absl::StrCat(options.epsilon, " is not a finite number of at least 0"));
  }
  if (options.lipschitz && !(*options.lipschitz > 0.0 && std::isfinite(*options.lipschitz))) {
    violations.Add("lipschitz", absl::StrCat(*options.lipschitz, " is not a finite number above 0"));
  }
  return violations.ToStatus();
}

// A rule by which the constant in use comes about.
struct Rule {
  std::optional<double> known;  // The user's constant. Absent: it follows from the steepest slope.
};

// Returns the rule; std::nullopt without bounds.
std::optional<Rule> RuleFor(const study::StudySpec& spec, const CertificateOptions& options) {
  if (options.lipschitz) return Rule{options.lipschitz};
  const study::AlgorithmSpec algorithm = Resolve(spec).algorithm;
  const auto* bo = std::get_if<study::BoOptions>(&algorithm);
  if (bo == nullptr || bo->lipschitz == study::BoLipschitz::kOff) return std::nullopt;
  return Rule{KnownConstant(*bo, /*unit=*/1.0)};
}

}  // namespace

void KeepForCertificate(study::Goal goal, CertificateResults* results) {
  if (static_cast<int64_t>(results->size()) <= kCertificateResults) return;
  const auto newest = results->end() - kCertificateResults;
  const auto best = std::max_element(results->begin(), results->end(), [&](const auto& a, const auto& b) {
    return study::Score(goal, a.second) < study::Score(goal, b.second);
  });
  if (best < newest) std::swap(*best, *newest);
  results->erase(results->begin(), newest);
}

bool HasLipschitzBounds(const study::StudySpec& spec) {
  return RuleFor(spec, {}).has_value();
}

absl::StatusOr<std::optional<Certificate>> Certify(const study::StudySpec& spec, CertificateResults results,
                                                   const CertificateOptions& options) {
  LUTHIER_RETURN_IF_ERROR(Validate(options));
  const study::Encoding encoding(spec.space);
  const std::optional<Rule> rule = RuleFor(spec, options);
  if (!rule || results.empty() || encoding.compact_dim() == 0) return std::nullopt;
  const study::Goal goal = spec.metric.goal;
  KeepForCertificate(goal, &results);
  const auto n = static_cast<Index>(results.size());
  MatrixXd u(n, encoding.model_dim());
  VectorXd scores(n);
  for (Index i = 0; i < n; ++i) {
    u.row(i) = encoding.ToModel(results[static_cast<size_t>(i)].first);
    scores(i) = study::Score(goal, results[static_cast<size_t>(i)].second);
  }
  const double record = scores.maxCoeff();
  Certificate certificate;
  certificate.best = study::Score(goal, record);  // Score is its own inverse.
  certificate.epsilon = options.epsilon;
  certificate.results = n;
  certificate.steepest_slope = SteepestSlope(u, scores);
  certificate.lipschitz = LipschitzConstant(rule->known, certificate.steepest_slope, n);
  if (!std::isfinite(certificate.lipschitz)) return std::nullopt;
  MatrixXd sample(kPoints, encoding.model_dim());
  const math::SobolSequence sobol(encoding.compact_dim(), spec.seed, "bo/certificate");
  for (Index i = 0; i < kPoints; ++i) {
    sample.row(i) = encoding.CompactToModel(sobol.Point(static_cast<uint64_t>(i)));
  }
  const LipschitzBounds bounds(u, scores, certificate.lipschitz);
  LUTHIER_ASSIGN_OR_RETURN(const ExclusionShare share,
                           ExcludedShare(bounds, sample, record, options.epsilon, base::StopToken()));
  certificate.share = share.share;
  certificate.standard_error = share.standard_error;
  certificate.points = share.points;
  return certificate;
}

}  // namespace luthier::search
