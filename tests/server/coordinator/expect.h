#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_EXPECT_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_EXPECT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/error.h"
#include "server/coordinator/messages/operations.h"
#include "server/storage/storage.h"

namespace luthier::coordinator::testing {

// Names that nearly every test of the core uses.
using storage::EventType;
using study::Directive;
using study::FailureKind;
using study::StudyState;
using study::TrialState;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
namespace reason = base::reason;

// `text`: part of the message.
template <typename Reply>
void ExpectRefused(const absl::StatusOr<Reply>& reply, absl::StatusCode code, const std::string& why,
                   const std::string& text) {
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), code);
  EXPECT_EQ(base::GetReason(reply.status()), why);
  EXPECT_THAT(std::string(reply.status().message()), HasSubstr(text));
}

inline std::vector<int64_t> Numbers(const SuggestReply& reply) {
  std::vector<int64_t> numbers;
  for (const Grant& grant : reply.grants) numbers.push_back(grant.trial.number);
  return numbers;
}

// To be enqueued, of MakeSpec's space.
inline std::vector<NewTrial> Settings(int count) {
  std::vector<NewTrial> trials(static_cast<size_t>(count));
  for (NewTrial& trial : trials) trial.parameters["x"] = 0.25;
  return trials;
}

}  // namespace luthier::coordinator::testing

#endif  // LUTHIER_TESTS_SERVER_COORDINATOR_EXPECT_H_
