#ifndef LUTHIER_TESTS_TESTING_STORAGE_MODEL_H_
#define LUTHIER_TESTS_TESTING_STORAGE_MODEL_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lib/base/random.h"
#include "server/storage/storage.h"

namespace luthier::testing {

// What storage.h and rules.h promise, as plainly as it can be written: whole-state copies, linear searches.
class StorageModel {
 public:
  // False, without any change, when the batch breaks a rule.
  bool Commit(const storage::WriteBatch& batch);

  uint64_t seq() const { return state_.events.empty() ? 0 : state_.events.back().seq; }
  uint64_t fence() const { return state_.fence; }
  storage::StudyKey last_key() const { return state_.last_key; }
  const std::map<storage::StudyKey, storage::StudyRecord>& studies() const { return state_.studies; }

  // Compares every read of `storage` with the model; "" when all agree, else what differs.
  std::string Difference(storage::Storage& storage) const;

  // One to eight mutations, mostly legal, over few keys so that they collide.
  storage::WriteBatch RandomBatch(base::RandomStream& random) const;

 private:
  using TrialKey = std::pair<storage::StudyKey, int64_t>;
  using PointKey = std::tuple<storage::StudyKey, int64_t, int32_t, int64_t>;
  struct State {
    std::map<storage::StudyKey, storage::StudyRecord> studies;
    std::map<storage::StudyKey, std::vector<storage::FormerSpec>> former_specs;
    std::map<TrialKey, storage::TrialRecord> trials;
    std::map<PointKey, study::Measurement> points;
    std::vector<storage::Event> events;
    std::map<std::string, storage::RequestRecord> requests;
    absl::Duration uptime = absl::ZeroDuration();
    uint64_t fence = 0;
    storage::StudyKey last_key = 0;
  };

  static bool Apply(const storage::Mutation& mutation, storage::StudyKey keys_before, State& state);
  storage::Mutation RandomMutation(base::RandomStream& random, State& state) const;
  storage::Storage::Summary Summarize(const storage::StudyRecord& study) const;
  std::string StudyDifference(storage::Storage& storage, storage::StudyKey key) const;

  State state_;
};

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_STORAGE_MODEL_H_
