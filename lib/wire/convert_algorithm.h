#ifndef LUTHIER_LIB_WIRE_CONVERT_ALGORITHM_H_
#define LUTHIER_LIB_WIRE_CONVERT_ALGORITHM_H_

#include "lib/base/error.h"
#include "lib/study/study_spec.h"
#include "luthier/v1/study.pb.h"

// The algorithm's part of a study spec; convert.h has the rules. For the other files of this library.
namespace luthier::wire {

v1::Algorithm AlgorithmToProto(const study::AlgorithmSpec& algorithm);
// Violations have paths that begin with "algorithm.".
study::AlgorithmSpec AlgorithmFromProto(const v1::Algorithm& proto, base::Violations* violations);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_CONVERT_ALGORITHM_H_
