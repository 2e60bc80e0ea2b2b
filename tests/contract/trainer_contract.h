#ifndef LUTHIER_TESTS_CONTRACT_TRAINER_CONTRACT_H_
#define LUTHIER_TESTS_CONTRACT_TRAINER_CONTRACT_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/checkpoint.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"

// What the trainers of every model promise, whatever their solver:
//   INSTANTIATE_TEST_SUITE_P(Mine, TrainerContract, ::testing::ValuesIn(cases), TrainerContract::Name);
namespace luthier::contract {

enum class TrainingState { kRunning, kConverged, kPrecision, kLimit, kDiverged };

// A trainer behind one face.
class TrainerUnderTest {
 public:
  virtual ~TrainerUnderTest() = default;
  // Goes on a little. CANCELLED once `stop` is requested.
  virtual absl::StatusOr<TrainingState> Advance(const base::StopToken& stop) = 0;
  virtual Eigen::VectorXd Weights() const = 0;
  virtual double passes() const = 0;
  // Looks at all that can be looked at.
  virtual void Look() { Weights(); }
  virtual void Save(base::CheckpointWriter* writer, absl::string_view identity) const = 0;
  virtual absl::Status Load(base::CheckpointReader* reader, absl::string_view identity) = 0;
};

// A trainer of the house, which all have the same names.
template <typename Trainer>
class TrainerOf : public TrainerUnderTest {
 public:
  explicit TrainerOf(Trainer trainer) : trainer_(std::move(trainer)) {}
  absl::StatusOr<TrainingState> Advance(const base::StopToken& stop) override {
    LUTHIER_ASSIGN_OR_RETURN(const auto outcome, trainer_.Advance(stop));
    using Outcome = std::remove_const_t<decltype(outcome)>;
    return outcome == Outcome::kRunning     ? TrainingState::kRunning
           : outcome == Outcome::kConverged ? TrainingState::kConverged
           : outcome == Outcome::kPrecision ? TrainingState::kPrecision
           : outcome == Outcome::kDiverged  ? TrainingState::kDiverged
                                            : TrainingState::kLimit;
  }
  Eigen::VectorXd Weights() const override { return trainer_.Weights(); }
  double passes() const override { return trainer_.passes(); }
  void Save(base::CheckpointWriter* writer, absl::string_view identity) const override {
    trainer_.Save(writer, identity);
  }
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity) override {
    return trainer_.Load(reader, identity);
  }

 protected:
  Trainer trainer_;
};

// When a training is over.
struct TrainingEnd {
  double tolerance = 0.0;  // Of the relative gradient; 0: none is small enough.
  int limit = 12;          // Of iterations or passes, in the trainer's unit.
};

struct TrainerCase {
  std::string name;
  // A new trainer of the problem, or of one with another number of weights.
  std::function<std::unique_ptr<TrainerUnderTest>(bool other_problem, const TrainingEnd& end)> make;
  // Set for trainers that know their gradient: the end by which they converge, what they then compare with its
  // tolerance, computed by other means at any weights, and the weights where it vanishes.
  TrainingEnd convergence;
  std::function<double(const Eigen::VectorXd&)> relative_gradient;
  Eigen::VectorXd optimum;
};

inline void PrintTo(const TrainerCase& c, std::ostream* out) {
  *out << c.name;
}

class TrainerContract : public ::testing::TestWithParam<TrainerCase> {
 public:
  static std::string Name(const ::testing::TestParamInfo<TrainerCase>& info) { return info.param.name; }

 protected:
  static constexpr char kFormat[] = "contract/1";

  static std::unique_ptr<TrainerUnderTest> New(const TrainingEnd& end = {}) { return GetParam().make(false, end); }
  static TrainingState RunToEnd(TrainerUnderTest& trainer) {
    TrainingState state = TrainingState::kRunning;
    while (state == TrainingState::kRunning) state = trainer.Advance({}).value();
    return state;
  }
  // Asked to stop before it goes on, it says so.
  static void ExpectStopped(TrainerUnderTest& trainer) {
    const base::StopSource source;
    source.RequestStop();
    EXPECT_EQ(trainer.Advance(source.token()).status(), base::StoppedError());
  }
  static std::string Saved(const TrainerUnderTest& trainer) {
    base::CheckpointWriter writer(kFormat);
    trainer.Save(&writer, "id");
    return std::move(writer).Finish();
  }
  static absl::Status Load(const std::string& bytes, absl::string_view identity, TrainerUnderTest* trainer) {
    absl::StatusOr<base::CheckpointReader> reader = base::CheckpointReader::Open(bytes, kFormat);
    EXPECT_TRUE(reader.ok()) << reader.status();
    const absl::Status status = trainer->Load(&*reader, identity);
    EXPECT_TRUE(!status.ok() || reader->Done()) << "bytes are left over";
    return status;
  }
};

TEST_P(TrainerContract, ConvergedMeansThatTheGradientIsSmall) {
  if (!GetParam().relative_gradient) return;
  const std::unique_ptr<TrainerUnderTest> trainer = New(GetParam().convergence);
  ASSERT_EQ(RunToEnd(*trainer), TrainingState::kConverged);
  const Eigen::VectorXd w = trainer->Weights();
  EXPECT_LE(GetParam().relative_gradient(w), (1.0 + 1e-6) * GetParam().convergence.tolerance);
  EXPECT_LT((w - GetParam().optimum).norm(), 1e-3 * (1.0 + GetParam().optimum.norm()));
  // It is over: to go on changes nothing.
  EXPECT_EQ(trainer->Advance({}).value(), TrainingState::kConverged);
  EXPECT_EQ(trainer->Weights(), w);
}

// A new trainer from the checkpoint after each step, looked at, and stopped now and then.
TEST_P(TrainerContract, StoppedLookedAtAndResumedItGoesOnToTheSameBits) {
  const std::unique_ptr<TrainerUnderTest> straight = New();
  const TrainingState end = RunToEnd(*straight);
  base::RandomStream random(7, GetParam().name);
  std::string bytes = Saved(*New());
  TrainingState state = TrainingState::kRunning;
  int steps = 0;
  while (state == TrainingState::kRunning) {
    const std::unique_ptr<TrainerUnderTest> trainer = New();
    ASSERT_TRUE(Load(bytes, "id", trainer.get()).ok());
    if (random.Uniform() < 0.3) ExpectStopped(*trainer);
    trainer->Look();
    state = trainer->Advance({}).value();
    trainer->Look();
    bytes = Saved(*trainer);
    ++steps;
    if (state == TrainingState::kRunning) continue;
    EXPECT_EQ(state, end);
    EXPECT_EQ(trainer->Weights(), straight->Weights());
    EXPECT_EQ(trainer->passes(), straight->passes());
  }
  EXPECT_GT(steps, 3);
}

TEST_P(TrainerContract, AskedToStopItLeavesItsStateAsItWas) {
  for (const int before : {0, 1, 3}) {
    const std::unique_ptr<TrainerUnderTest> trainer = New(), other = New();
    for (int k = 0; k < before; ++k) {
      trainer->Advance({}).value();
      other->Advance({}).value();
    }
    ExpectStopped(*trainer);
    EXPECT_EQ(trainer->Weights(), other->Weights());
    EXPECT_EQ(trainer->passes(), other->passes());
    trainer->Advance({}).value();
    other->Advance({}).value();
    EXPECT_EQ(trainer->Weights(), other->Weights());
    EXPECT_EQ(trainer->passes(), other->passes());
  }
}

TEST_P(TrainerContract, ACheckpointOfAnotherTrainingIsRefused) {
  const std::unique_ptr<TrainerUnderTest> trainer = New();
  for (int k = 0; k < 3; ++k) trainer->Advance({}).value();
  const std::string bytes = Saved(*trainer);
  EXPECT_EQ(Load(bytes, "another", New().get()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Load(bytes, "id", GetParam().make(true, {}).get()).code(), absl::StatusCode::kDataLoss);
  EXPECT_TRUE(Load(bytes, "id", New().get()).ok());
}

}  // namespace luthier::contract

#endif  // LUTHIER_TESTS_CONTRACT_TRAINER_CONTRACT_H_
