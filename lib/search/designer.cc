#include "lib/search/designer.h"

#include "lib/base/error.h"

namespace luthier::search {

absl::StatusOr<std::vector<Prediction>> Designer::Predict(const study::History& /*history*/,
                                                          const std::vector<study::Parameters>& /*settings*/,
                                                          const base::StopToken& /*stop*/) {
  return base::MakeError(
      absl::StatusCode::kFailedPrecondition, base::reason::kNoModel,
      "the study's algorithm has no model of the metric; bo, hbo, lbo, fobo and most choices of auto "
      "have one");
}

absl::StatusOr<std::optional<Recommendation>> Designer::Recommend(const study::History& /*history*/,
                                                                  const base::StopToken& /*stop*/) {
  return std::nullopt;
}

}  // namespace luthier::search
