#ifndef LUTHIER_LIB_SEARCH_CONSTRAINTS_TAKEN_H_
#define LUTHIER_LIB_SEARCH_CONSTRAINTS_TAKEN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Returns the names of the algorithms that take constraints on parameters, in order. docs/guide/legal_settings.md shows
// the list. `auto` is that which it chooses.
const std::vector<std::string>& AlgorithmsWithConstraints();

// Returns INVALID_ARGUMENT for a study with constraints whose algorithm, or that which `auto` chooses, can't keep them,
// and for one of whose space too few settings are legal (study::LegalShareOf). `chosen`: the study's algorithm, or what
// `auto` chose.
absl::Status CheckConstraints(const study::StudySpec& spec, const study::AlgorithmSpec& chosen);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_CONSTRAINTS_TAKEN_H_
