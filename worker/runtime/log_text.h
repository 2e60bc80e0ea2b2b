#ifndef LUTHIER_WORKER_RUNTIME_LOG_TEXT_H_
#define LUTHIER_WORKER_RUNTIME_LOG_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

// These texts stand for a trial and for an error in the runtime's logs.
namespace luthier::worker {

inline std::string TrialText(const std::string& study, int64_t trial) {
  return absl::StrCat(study, "/", trial);
}
inline std::string ErrorText(const absl::Status& status) {
  return std::string(status.message());
}

}  // namespace luthier::worker

#endif  // LUTHIER_WORKER_RUNTIME_LOG_TEXT_H_
