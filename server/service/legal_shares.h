#ifndef LUTHIER_SERVER_SERVICE_LEGAL_SHARES_H_
#define LUTHIER_SERVER_SERVICE_LEGAL_SHARES_H_

#include <list>
#include <vector>

#include "lib/base/mutex.h"
#include "lib/study/parameter_constraints.h"
#include "lib/study/search_space.h"
#include "lib/study/study_spec.h"

namespace luthier::service {

// The shares of legal settings (study::LegalShareOf) of studies with constraints. It follows from space and constraints
// alone; the newest answers are kept, since each takes some ten thousand draws. Thread-safe.
class LegalShares {
 public:
  double Of(const study::StudySpec& spec);

 private:
  struct Answer {
    study::SearchSpace space;
    std::vector<study::ParameterConstraint> constraints;
    double share = 0.0;
  };

  base::Mutex mutex_;
  std::list<Answer> answers_ ABSL_GUARDED_BY(mutex_);  // Used last comes first.
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_LEGAL_SHARES_H_
