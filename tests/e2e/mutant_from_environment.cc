// Which fault luthierd_mutants has: LUTHIER_MUTANT is its number, M1 is 1.
#include <cstdlib>

#include "tests/server/coordinator/mutants.h"

namespace luthier::coordinator {
namespace {

Mutant FromEnvironment() {
  const char* number = std::getenv("LUTHIER_MUTANT");
  return static_cast<Mutant>(number == nullptr ? 0 : std::atoi(number));
}

}  // namespace

Mutant active_mutant = FromEnvironment();

}  // namespace luthier::coordinator
