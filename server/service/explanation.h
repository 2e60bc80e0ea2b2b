#ifndef LUTHIER_SERVER_SERVICE_EXPLANATION_H_
#define LUTHIER_SERVER_SERVICE_EXPLANATION_H_

#include <string>
#include <vector>

#include "lib/study/study_spec.h"
#include "lib/study/trial.h"
#include "luthier/v1/study_service.pb.h"

namespace luthier::service {

// Returns why the trial was tried and what came of it, from what is stored with it. `metric` is the name of the study's
// metric. `unused` has a text for each value that a user wanted and the trial did not get (UnusedOf).
v1::ExplainTrialResponse Explain(const std::string& metric, v1::Trial trial,
                                 const std::vector<std::string>& unused = {});

// Adds what a study with several metrics has to say of a trial: what their models expected of its setting, and of its
// result the other metrics, and the bounds that they miss.
void ExplainMetrics(const study::StudySpec& spec, const study::Trial& trial, v1::ExplainTrialResponse* out);

// Returns the values that a user added to a trial and that it did not get, with the reason: "lr = 0.5, which the
// study's range has not". Empty for trials that no user added.
std::vector<std::string> UnusedOf(const study::StudySpec& spec, const study::Trial& trial);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_EXPLANATION_H_
