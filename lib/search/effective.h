#ifndef LUTHIER_LIB_SEARCH_EFFECTIVE_H_
#define LUTHIER_LIB_SEARCH_EFFECTIVE_H_

#include "lib/study/study_spec.h"

namespace luthier::search {

// Returns the spec that a study with this one runs by: where `auto` came to an algorithm that trains in parts, that one
// takes its place, since targets and rules that stop trials go by it. Other choices are left to the designer.
study::StudySpec Effective(study::StudySpec spec);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_EFFECTIVE_H_
