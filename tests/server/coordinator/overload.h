#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_OVERLOAD_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_OVERLOAD_H_

#include <string>

#include "server/coordinator/writer/coordinator.h"

namespace luthier::coordinator::testing {

// Sends more than a coordinator with these options may take while its writer is held inside a commit, first many small
// operations, then few large ones. "" or which bound did not hold.
std::string Overload(Coordinator::Options options);

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_OVERLOAD_H_
