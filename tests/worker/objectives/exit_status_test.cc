#include "worker/objectives/exit_status.h"

#include <gmock/gmock.h>

#include "tests/testing/python.h"
#include "tests/worker/command_fixture.h"

namespace luthier::worker {
namespace {

using ::testing::AllOf;
using ::testing::StartsWith;

TEST_F(CommandTest, AFailingProgramIsReportedWithTheTailOfItsErrors) {
  Shell(
      R"(echo '{"loss": 1}'; i=0; while [ $i -lt 400 ]; do echo "line $i of stderr é" >&2; i=$((i+1)); done; exit 3)");
  const RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "EXIT_CODE");
  EXPECT_THAT(outcome.failure.message, StartsWith("exit code 3\n"));
  EXPECT_THAT(outcome.failure.message, HasSubstr("line 399 of stderr é"));
  EXPECT_LE(outcome.failure.message.size(), 4096u);
  EXPECT_GT(outcome.failure.message.size(), 4000u);
  EXPECT_LE(outcome.output_tail.size(), 4096u);
  EXPECT_THAT(sink_.reports, SizeIs(1)) << "its curve is kept";
}

TEST_F(CommandTest, ExitCode75MeansTryAgain) {
  Shell("exit 75");
  ExpectFailure(Run(), kInfra, "EXIT_CODE");
}

TEST_F(CommandTest, SignalsAreTold) {
  Shell("kill -SEGV $$");
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "SIGNAL");
  EXPECT_EQ(outcome.failure.message, "killed by SIGSEGV");
  Shell("kill -KILL $$");
  outcome = Run();
  ExpectFailure(outcome, kConfig, "SIGNAL");
  EXPECT_THAT(outcome.failure.message, HasSubstr("ran out of memory"));
  Shell("kill -TERM $$");
  ExpectFailure(Run(), kInfra, "SIGNAL");
}

TEST_F(CommandTest, MemoryBeyondTheLimitIsAFailure) {
  LUTHIER_NEEDS_PYTHON();
  Python("x = bytearray(1 << 30)\n").memory_limit_bytes = 256 << 20;
  RunOutcome outcome = Run();
  ExpectFailure(outcome, kConfig, "MEMORY_LIMIT");
  EXPECT_THAT(outcome.failure.message, AllOf(HasSubstr("MemoryError"), HasSubstr("memory limit of 256 MiB")));
  Shell("kill -ABRT $$").memory_limit_bytes = 256 << 20;
  ExpectFailure(Run(), kConfig, "MEMORY_LIMIT");
  Shell("exit 1").memory_limit_bytes = 256 << 20;
  ExpectFailure(Run(), kConfig, "EXIT_CODE");
}

}  // namespace
}  // namespace luthier::worker
