#include "server/coordinator/messages/study_checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StudyChecks, EverythingThatIsWrongIsSaidAtOnce) {
  study::StudySpec spec = MakeSpec();
  EXPECT_TRUE(CheckNew(spec).ok()) << CheckNew(spec);
  spec.budget.max_trials = 0;
  spec.algorithm = study::AshaOptions();
  spec.objective = study::BuiltinObjective{"no such model", "", {}, {}};
  EXPECT_THAT(std::string(CheckNew(spec).message()),
              AllOf(HasSubstr("budget.max_trials: 0 is not between"), HasSubstr("resource: is required by asha"),
                    HasSubstr("objective.builtin.model: ")));
}

TEST(StudyChecks, AnObjectiveThatStaysMayHaveWhatANewOneMayNot) {
  study::StudySpec spec = MakeSpec();
  std::get<study::CommandObjective>(spec.objective).argv = {"python3 train.py"};
  EXPECT_THAT(std::string(CheckNew(spec).message()), HasSubstr("objective.command.argv[0]: "));
  study::StudySpec next = spec;
  next.budget.max_trials = 9;
  EXPECT_TRUE(CheckChanged(spec, next).ok()) << CheckChanged(spec, next);
  std::get<study::CommandObjective>(next.objective).argv = {"python3 other.py"};
  EXPECT_THAT(std::string(CheckChanged(spec, next).message()), HasSubstr("objective.command.argv[0]: "));
}

}  // namespace
}  // namespace luthier::coordinator::testing
