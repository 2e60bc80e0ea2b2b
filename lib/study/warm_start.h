#ifndef LUTHIER_LIB_STUDY_WARM_START_H_
#define LUTHIER_LIB_STUDY_WARM_START_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"

// Trials that start from the model of an earlier one. Which one is a function of the log: the service names it with the
// first grant of a trial, stores it with the trial, and every attempt gets the same name.
namespace luthier::study {

inline constexpr char kWarmStartOption[] = "warm_start";

// Returns true if the study asks for warm starts: a builtin objective with the option `warm_start`.
bool WarmStarts(const StudySpec& spec);

// A COMPLETE trial: its number and setting.
using WarmSource = std::pair<int64_t, Parameters>;

// Returns the number of the source nearest to `parameters`: among those that differ in penalties alone (l2, l1,
// l2.NAME, l1.NAME, numbers above 0), the one with the smallest sum of |ln ratio|, of equally near ones the newest.
// Returns 0 if there is none.
int64_t NearestSource(const std::vector<WarmSource>& sources, const Parameters& parameters);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_WARM_START_H_
