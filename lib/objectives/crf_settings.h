#ifndef LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_
#define LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/crf/features.h"
#include "lib/crf/trainer.h"
#include "lib/notation/templates.h"
#include "lib/objectives/objective.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {

// `crf`: a linear-chain conditional random field on labelled sequences (lib/crf); tunes its penalty, its features and
// how it is trained by the quality on held-out sequences.
ObjectiveInfo CrfInfo();

// What the settings of a trial mean for attributes and training. Templates that the trial's switches drop are left out.
// Penalties are those of chain_groups.h.
absl::StatusOr<std::vector<notation::Template>> ChainTemplates(const std::string& templates,
                                                               const std::string& columns);
crf::FeatureOptions ChainFeatureOptions(const Settings& settings, const std::vector<notation::Template>& templates);
absl::StatusOr<crf::ChainTrainerOptions> ChainTrainingOptions(const Settings& settings, uint64_t seed);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_
