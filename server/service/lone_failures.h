#ifndef LUTHIER_SERVER_SERVICE_LONE_FAILURES_H_
#define LUTHIER_SERVER_SERVICE_LONE_FAILURES_H_

#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "lib/study/trial.h"
#include "server/storage/storage.h"

namespace luthier::service {

// Finds workers that fail alone. A machine without the data, the module or the device that a study needs ends one trial
// after the other at once, and would soon use up the budget of a study that others evaluate without failures. Such a
// worker rests from the study: the first time for kFirstRest, and for twice as long after each further failure that is
// alike, if others succeeded meanwhile. Settings may fail at once as well. So a cause that another worker has met which
// also succeeded is attributed to settings, and a worker that has succeeded itself rests only after kAlikeAfterSuccess
// failures. Nothing is stored. The kMaxWorkers pairs of worker and study that were heard of last are remembered. A call
// costs the logarithm of that, a failure kMaxCauses comparisons. Not thread-safe.
class LoneFailures {
 public:
  static constexpr int kAlikeToRest = 3, kAlikeAfterSuccess = 10;
  static constexpr absl::Duration kFirstRest = absl::Minutes(10);
  static constexpr absl::Duration kLongestRest = absl::Hours(24);
  static constexpr size_t kMaxWorkers = 1000;
  static constexpr size_t kMaxCauses = 16;  // Most causes that are remembered of each study.

  struct Rest {
    storage::StudyKey study = 0;
    std::string study_id;
    absl::Duration until;  // Clock::Monotonic().
    std::string failure;   // The newest failure, as its event has it.
  };

  // Counts a failed attempt of `worker`, as `event` says. `at_once`: it failed before it did work that could depend on
  // its setting. `now` is Clock::Monotonic(). Returns true if the worker rests from now on.
  bool Failed(const std::string& worker, const storage::Event& event, bool at_once, absl::Duration now);
  void Succeeded(const std::string& worker, storage::StudyKey study);
  // Ends the worker's rests: it was started anew, perhaps on a machine that was mended.
  void Forget(const std::string& worker);
  void ForgetStudy(storage::StudyKey study);
  // Returns the studies that the worker rests from, by key.
  std::vector<Rest> RestsOf(const std::string& worker, absl::Duration now) const;

 private:
  using Key = std::pair<std::string, storage::StudyKey>;
  struct Entry {
    bool succeeded = false;  // True if an attempt of the worker ever succeeded.
    int alike = 0;           // Number of alike failures in a row.
    study::Failure newest;   // The newest of them; `text` is its event's.
    std::string study_id, text;
    int64_t successes = 0;  // Study::successes when the row began or the worker last rested.
    absl::Duration until = -absl::InfiniteDuration();
    absl::Duration next_rest = kFirstRest;
    std::list<Key>::iterator place;  // In `order_`.
  };
  struct Study {
    int64_t entries = 0;
    int64_t successes = 0;  // Since an entry was made. During a row of failures none is of its own worker.
    std::deque<std::pair<std::string, study::Failure>> causes;  // Newest last, with workers that have succeeded.
  };
  using Entries = std::map<Key, Entry>;
  Entry& Touch(const Key& key);
  void Erase(Entries::iterator entry);
  static void AddCause(Study* study, const std::string& worker, const study::Failure& failure);

  Entries entries_;
  std::list<Key> order_;  // The pair that was heard of last comes first.
  std::map<storage::StudyKey, Study> studies_;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_LONE_FAILURES_H_
