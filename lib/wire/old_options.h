#ifndef LUTHIER_LIB_WIRE_OLD_OPTIONS_H_
#define LUTHIER_LIB_WIRE_OLD_OPTIONS_H_

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "luthier/v1/study.pb.h"

// Options of algorithms as programs of the past wrote them: with other places, and with options that are no more.
namespace luthier::wire {

struct RemovedOption {
  std::string field;  // "algorithm.asha.sampler.bo.expert.kernel".
  std::string value;  // "MATERN32"; a number for fields that are no more themselves.
  std::string hint;   // Advice on what to write: "use one of AUTO, SE", "leave it out".
};

// Moves options that stand beside `expert`, where they were once, into it: of `algorithm` and of the algorithms inside
// it. Takes out options that are no more, and returns those of them that do not have their former default. `path` names
// the algorithm in RemovedOption::field.
std::vector<RemovedOption> MoveOldOptions(const std::string& path, v1::Algorithm* algorithm);

// Returns the names of the values that may be chosen, without the UNSPECIFIED one: "AUTO, SE".
std::string ValueNames(const google::protobuf::EnumDescriptor& type);

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_OLD_OPTIONS_H_
