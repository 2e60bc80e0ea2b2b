#ifndef LUTHIER_SERVER_COORDINATOR_STATE_ASKERS_H_
#define LUTHIER_SERVER_COORDINATOR_STATE_ASKERS_H_

#include <string>
#include <utility>

#include "absl/time/time.h"

namespace luthier::coordinator {

// Tells when a worker other than a given one last asked. That needs the two newest askers and no other.
class Askers {
 public:
  void Note(const std::string& worker, absl::Duration now) {
    if (worker != newest_.worker) second_ = std::exchange(newest_, {worker, now});
    newest_.asked = now;
  }
  // Returns -InfiniteDuration if no other worker ever asked.
  absl::Duration LastBeside(const std::string& worker) const {
    return worker == newest_.worker ? second_.asked : newest_.asked;
  }

 private:
  struct Asker {
    std::string worker;
    absl::Duration asked = -absl::InfiniteDuration();
  };
  Asker newest_;
  Asker second_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STATE_ASKERS_H_
