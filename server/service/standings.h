#ifndef LUTHIER_SERVER_SERVICE_STANDINGS_H_
#define LUTHIER_SERVER_SERVICE_STANDINGS_H_

#include <cstdint>
#include <vector>

#include "lib/study/study_spec.h"
#include "luthier/v1/study.pb.h"

namespace luthier::service {

// The values of a COMPLETE trial, one for each metric of the study (study::MetricsOf).
struct TrialValues {
  int64_t number = 0;
  std::vector<double> values;
};

// Fills in how the results of a study with StudySpec::metrics stand: how many are beyond bounds and which of them
// least, the front, its hypervolume. `results` are in order of number. O(results * front).
void FillStandings(const study::StudySpec& spec, const std::vector<TrialValues>& results, v1::Study* study);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_STANDINGS_H_
