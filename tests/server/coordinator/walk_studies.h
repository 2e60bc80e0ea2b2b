#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_WALK_STUDIES_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_WALK_STUDIES_H_

#include <cstdint>
#include <memory>

#include "lib/search/designer.h"
#include "lib/stopping/stopper.h"
#include "lib/study/study_spec.h"

// The studies of random walks.
namespace luthier::coordinator::testing {

inline constexpr uint32_t kWalkSpecs = 12;
inline constexpr double kStopAbove = 7.5;  // Losses of trials in parts that a rule stops.

// One of kWalkSpecs kinds of study, with budgets and limits that a walk meets. `late`: some whose designer looks at
// history.
study::StudySpec WalkSpec(uint32_t variant, bool late);

// Its designer. Suggestions have directions and gradients set aside: those of every fourth trial, whether there are
// such or not, as designers are not told.
std::unique_ptr<search::Designer> MakeWalkDesigner(const study::StudySpec& spec);
// Null: nothing stops trials.
std::unique_ptr<stopping::Stopper> MakeWalkStopper(const study::StudySpec& spec);

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_WALK_STUDIES_H_
