#ifndef LUTHIER_SERVER_SERVICE_EXPLANATION_H_
#define LUTHIER_SERVER_SERVICE_EXPLANATION_H_

#include <string>

#include "luthier/v1/study_service.pb.h"

namespace luthier::service {

// Returns why the trial was tried and what came of it, from what is stored with it. `metric` is the name of the study's.
v1::ExplainTrialResponse Explain(const std::string& metric, v1::Trial trial);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_EXPLANATION_H_
