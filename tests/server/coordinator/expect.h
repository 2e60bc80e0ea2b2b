#ifndef LUTHIER_TESTS_SERVER_COORDINATOR_EXPECT_H_
#define LUTHIER_TESTS_SERVER_COORDINATOR_EXPECT_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/error.h"
#include "server/coordinator/messages/operations.h"

namespace luthier::coordinator::testing {

// `text`: part of the message.
template <typename Reply>
void ExpectRefused(const absl::StatusOr<Reply>& reply, absl::StatusCode code, const std::string& why,
                   const std::string& text) {
  ASSERT_FALSE(reply.ok());
  EXPECT_EQ(reply.status().code(), code);
  EXPECT_EQ(base::GetReason(reply.status()), why);
  EXPECT_THAT(std::string(reply.status().message()), ::testing::HasSubstr(text));
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
