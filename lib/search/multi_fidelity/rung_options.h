#ifndef LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_OPTIONS_H_
#define LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_OPTIONS_H_

#include "absl/status/status.h"
#include "lib/search/designer.h"
#include "lib/study/study_spec.h"

// Checks the options of the algorithms that train in rungs (lib/study/rung_schedule.h) against their study.
// INVALID_ARGUMENT with fields "resource…", "reproducible", "algorithm.NAME.…". `nested` checks the sampler.
namespace luthier::search {

absl::Status ValidateSuccessiveHalving(const study::StudySpec& spec, const study::SuccessiveHalvingOptions& options,
                                       const NestedAlgorithms& nested);
absl::Status ValidateHyperband(const study::StudySpec& spec, const study::HyperbandOptions& options,
                               const NestedAlgorithms& nested);
absl::Status ValidateAsha(const study::StudySpec& spec, const study::AshaOptions& options,
                          const NestedAlgorithms& nested);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_MULTI_FIDELITY_RUNG_OPTIONS_H_
