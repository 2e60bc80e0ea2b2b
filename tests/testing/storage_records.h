#ifndef LUTHIER_TESTS_TESTING_STORAGE_RECORDS_H_
#define LUTHIER_TESTS_TESTING_STORAGE_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "server/storage/storage.h"

// Records for storage tests: as text, and at random.
namespace luthier::testing {

// Every field; doubles by their bits, so that NaN equals itself and -0.0 differs from 0.0; bytes escaped.
std::string Text(const study::Measurement& measurement);
std::string Text(const storage::StudyRecord& record);
std::string Text(const storage::TrialRecord& record);
std::string Text(const storage::TrialSketch& sketch);
std::string Text(const storage::Event& event);
std::string Text(const storage::FormerSpec& former);
std::string Text(const storage::SetAside& set_aside);
std::string Text(const study::Trial& trial);
std::string Text(const storage::RequestRecord& record);
std::string Text(const storage::Storage::Summary& summary);
// One line each.
template <typename T>
std::string Text(const std::vector<T>& items) {
  std::string text;
  for (const T& item : items) text += Text(item) + "\n";
  return text;
}
template <typename T>
std::string Text(const std::optional<T>& item) {
  return item ? Text(*item) : "none";
}

// A valid spec with one parameter and metric "loss".
study::StudySpec SmallSpec(study::Goal goal = study::Goal::kMinimize);
storage::StudyRecord Study(storage::StudyKey key, const std::string& id, study::Goal goal = study::Goal::kMinimize);
storage::TrialRecord Trial(int64_t number, study::TrialState state = study::TrialState::kPending);
// COMPLETE with this value of "loss".
storage::TrialRecord Completed(int64_t number, double loss);
storage::MeasurementRecord Point(storage::StudyKey study, int64_t trial, int32_t attempt, int64_t step, double loss);
storage::Event EventAt(uint64_t seq, storage::StudyKey study);
storage::RequestRecord Request(const std::string& id, int64_t seconds);

// Arbitrary contents: non-finite and denormal numbers, bytes that are no UTF-8, empty and long text.
double RandomDouble(base::RandomStream& random);
std::string RandomText(base::RandomStream& random);
study::Measurement RandomMeasurement(base::RandomStream& random, int64_t step);
storage::TrialRecord RandomTrial(base::RandomStream& random, int64_t number, study::TrialState state);
storage::Event RandomEvent(base::RandomStream& random, uint64_t seq, storage::StudyKey study);

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_STORAGE_RECORDS_H_
