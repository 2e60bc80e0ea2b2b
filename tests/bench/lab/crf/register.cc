// Makes the tests of lib/crf that run over all methods run over those of the lab.
#include "bench/lab/crf/methods.h"

namespace luthier::crf::lab {
namespace {

const bool registered = [] {
  RegisterMethods();
  return true;
}();

}  // namespace
}  // namespace luthier::crf::lab
