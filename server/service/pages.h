#ifndef LUTHIER_SERVER_SERVICE_PAGES_H_
#define LUTHIER_SERVER_SERVICE_PAGES_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"

// Pages of lists.
namespace luthier::service {

inline constexpr int kDefaultPage = 100;
inline constexpr int kMaxPage = 1000;

// Returns the number of rows of a page, kDefaultPage for 0. INVALID_ARGUMENT beyond kMaxPage.
absl::StatusOr<int> PageSize(int requested);

// Returns a token for the page at `position`. It is valid only for the query it came from.
std::string MakePageToken(const std::string& query, const std::string& position);
// Returns the position; "" for no token. INVALID_ARGUMENT for a token of another query.
absl::StatusOr<std::string> ParsePageToken(const std::string& query, const std::string& token);

// Counts what a page holds so far. The first row always fits, since no row is as large as a message.
class PageFill {
 public:
  static constexpr size_t kMaxBytes = size_t{3} << 20;  // A message may have 4 MiB.

  explicit PageFill(int rows) : rows_(rows) {}
  bool Takes(const google::protobuf::Message& row) {
    const size_t bytes = row.ByteSizeLong();
    if (taken_ == rows_ || (taken_ > 0 && bytes_ + bytes > kMaxBytes)) return false;
    ++taken_;
    bytes_ += bytes;
    return true;
  }

 private:
  const int rows_;
  int taken_ = 0;
  size_t bytes_ = 0;
};

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_PAGES_H_
