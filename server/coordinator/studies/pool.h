#ifndef LUTHIER_SERVER_COORDINATOR_STUDIES_POOL_H_
#define LUTHIER_SERVER_COORDINATOR_STUDIES_POOL_H_

#include <set>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "server/coordinator/studies/study.h"

namespace luthier::coordinator {

// Studies that share workers, and the workers that asked last. An ask for any study is an ask for any study of one
// pool.
class Pool {
 public:
  // Studies of which one more ask may get a trial, now or once their designer answers.
  const std::set<Rank>& open() const { return open_; }
  // Part of open(): studies that changed since asks were looked at.
  const std::set<Rank>& fresh() const { return fresh_; }

  void Put(const Rank& rank, bool fresh) {
    open_.insert(rank);
    if (fresh) fresh_.insert(rank);
  }
  // Returns true if the study was fresh.
  bool Take(const Rank& rank) {
    open_.erase(rank);
    return fresh_.erase(rank) > 0;
  }
  // All asks were looked at.
  void ForgetFresh() { fresh_.clear(); }

  void NoteAsker(const std::string& worker, absl::Duration now) {
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
  std::set<Rank> open_, fresh_;
  Asker newest_, second_;
};

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_STUDIES_POOL_H_
