#ifndef LUTHIER_TESTS_TESTING_PYTHON_H_
#define LUTHIER_TESTS_TESTING_PYTHON_H_

#include <unistd.h>

namespace luthier::testing {

// What some tests let workers run; a test that needs it is skipped where there is none.
inline constexpr char kPython[] = "/usr/bin/python3";
inline bool HavePython() {
  return access(kPython, X_OK) == 0;
}

}  // namespace luthier::testing

#define LUTHIER_NEEDS_PYTHON() \
  if (!::luthier::testing::HavePython()) GTEST_SKIP() << "needs " << ::luthier::testing::kPython

#endif  // LUTHIER_TESTS_TESTING_PYTHON_H_
