#ifndef LUTHIER_LIB_BASE_STATUS_MACROS_H_
#define LUTHIER_LIB_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

// Debian's Abseil ships no such macros. Both return from the enclosing function on an error.
#define LUTHIER_RETURN_IF_ERROR(expr)                                                         \
  do {                                                                                        \
    if (absl::Status luthier_status_ = (expr); !luthier_status_.ok()) return luthier_status_; \
  } while (false)

#define LUTHIER_ASSIGN_OR_RETURN(lhs, expr) \
  LUTHIER_ASSIGN_OR_RETURN_IMPL_(LUTHIER_CONCAT_(luthier_statusor_, __LINE__), lhs, expr)
#define LUTHIER_CONCAT_INNER_(a, b) a##b
#define LUTHIER_CONCAT_(a, b) LUTHIER_CONCAT_INNER_(a, b)
#define LUTHIER_ASSIGN_OR_RETURN_IMPL_(var, lhs, expr) \
  auto var = (expr);                                   \
  if (!var.ok()) return std::move(var).status();       \
  lhs = std::move(var).value()

#endif  // LUTHIER_LIB_BASE_STATUS_MACROS_H_
