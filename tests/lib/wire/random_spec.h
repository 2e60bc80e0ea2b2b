#ifndef LUTHIER_TESTS_LIB_WIRE_RANDOM_SPEC_H_
#define LUTHIER_TESTS_LIB_WIRE_RANDOM_SPEC_H_

#include "lib/base/random.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"

namespace luthier::testing {

// Legal specs and trials that use every field and every arm now and then.
study::StudySpec RandomSpec(base::RandomStream& random);
study::Trial RandomTrial(base::RandomStream& random);

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_LIB_WIRE_RANDOM_SPEC_H_
