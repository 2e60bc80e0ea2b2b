#ifndef LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_
#define LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_

#include <cstdint>
#include <vector>

#include "lib/catalogue/settings.h"
#include "lib/crf/features/features.h"
#include "lib/crf/training/trainer.h"
#include "lib/notation/templates.h"
#include "lib/objectives/objective.h"

namespace luthier::objectives {

// Meaning of the settings of a trial for attributes and training. Templates that the trial's switches drop are left
// out. Penalties are those of chain_penalty.h.
crf::FeatureOptions ChainFeatureOptions(const catalogue::Settings& settings,
                                        const std::vector<notation::Template>& templates);
crf::ChainTrainerOptions ChainTrainingOptions(const catalogue::Settings& settings, uint64_t seed);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CRF_SETTINGS_H_
