#ifndef LUTHIER_LIB_SEARCH_EFFECTIVE_H_
#define LUTHIER_LIB_SEARCH_EFFECTIVE_H_

#include "lib/study/study_spec.h"

namespace luthier::search {

// Returns the spec by which a study with this one runs. If `auto` resolves to a multi-fidelity algorithm, that
// algorithm replaces it, because targets and stopping rules depend on it. Other choices are left to the designer.
study::StudySpec Effective(study::StudySpec spec);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_EFFECTIVE_H_
