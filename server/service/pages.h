#ifndef LUTHIER_SERVER_SERVICE_PAGES_H_
#define LUTHIER_SERVER_SERVICE_PAGES_H_

#include <string>

#include "absl/status/statusor.h"

// Pages of lists.
namespace luthier::service {

inline constexpr int kDefaultPage = 100;
inline constexpr int kMaxPage = 1000;

// Returns the rows of a page, kDefaultPage for 0. INVALID_ARGUMENT beyond kMaxPage.
absl::StatusOr<int> PageSize(int requested);

// Returns a token for the page at `position`. It is good for the query it came from only.
std::string MakePageToken(const std::string& query, const std::string& position);
// Returns the position; "" for no token. INVALID_ARGUMENT for a token of another query.
absl::StatusOr<std::string> ParsePageToken(const std::string& query, const std::string& token);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_PAGES_H_
