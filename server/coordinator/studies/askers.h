#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_ASKERS_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_ASKERS_H_

#include <string>
#include <utility>

#include "absl/time/time.h"

namespace luthier::coordinator {

// The workers that asked last for one thing: a study, or any study of a pool.
class Askers {
 public:
  void Note(const std::string& worker, absl::Duration now) {
    if (worker != newest_.worker) second_ = std::exchange(newest_, {worker, now});
    newest_.asked = now;
  }
  // Tells when a worker other than this one last asked; -InfiniteDuration if none ever did. That needs the two newest
  // askers and no other.
  absl::Duration LastBeside(const std::string& worker) const {
    return worker == newest_.worker ? second_.asked : newest_.asked;
  }

 private:
  struct Asker {
    std::string worker;
    absl::Duration asked = -absl::InfiniteDuration();
  };
  Asker newest_, second_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_ASKERS_H_
