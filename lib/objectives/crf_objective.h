#ifndef LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/crf/features.h"
#include "lib/crf/trainer.h"
#include "lib/learn/data_cache.h"
#include "lib/learn/data_root.h"
#include "lib/learn/text_source.h"
#include "lib/objectives/objective.h"
#include "lib/objectives/settings.h"

namespace luthier::objectives {

// `crf`: a linear-chain conditional random field on labelled sequences (lib/crf); tunes its penalty, its features and
// how it is trained by the quality on held-out sequences.
ObjectiveInfo CrfInfo();

// Lines of a file below `root`, or of generated data (lib/crf/synth_chains.h) in option `format`: columns ("" too),
// letters; not attributes. A null root: generated data only (FAILED_PRECONDITION otherwise).
absl::Status CheckSynthChains(const std::string& uri, absl::string_view format);
absl::StatusOr<learn::LineReader> OpenChains(const std::string& name, absl::string_view format,
                                             const learn::DataRoot* root);

// `info` is CrfInfo() and must outlive the result. `objective` must have passed Validate. INVALID_ARGUMENT
// for templates that are none; errors of the readers.
absl::StatusOr<std::unique_ptr<Objective>> CreateCrfObjective(const ObjectiveInfo& info,
                                                              const study::BuiltinObjective& objective,
                                                              const learn::DataRoot* root,
                                                              const learn::DataCache* cache);

// What the settings of a trial mean for attributes and training. Templates that the trial's switches drop are left out.
absl::StatusOr<std::vector<crf::Template>> ChainTemplates(const std::string& templates, const std::string& columns);
crf::FeatureOptions ChainFeatureOptions(const Settings& settings, const std::vector<crf::Template>& templates);
absl::StatusOr<crf::ChainTrainerOptions> ChainTrainingOptions(const Settings& settings, uint64_t seed);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_CRF_OBJECTIVE_H_
