#ifndef LUTHIER_LIB_BASE_CHECK_H_
#define LUTHIER_LIB_BASE_CHECK_H_

namespace luthier::base {
// Prints the place and the condition, then aborts. For bugs only: never for user input, never for I/O.
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace luthier::base

#define LUTHIER_CHECK(condition) \
  (static_cast<bool>(condition) ? static_cast<void>(0) : ::luthier::base::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // LUTHIER_LIB_BASE_CHECK_H_
