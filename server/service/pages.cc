#include "server/service/pages.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/hash.h"

namespace luthier::service {

absl::StatusOr<int> PageSize(int requested) {
  if (requested == 0) return kDefaultPage;
  if (requested < 0 || requested > kMaxPage) {
    return base::BadField("page_size",
                          absl::StrCat(requested, " is not between 1 and ", kMaxPage, " (0: ", kDefaultPage, ")"));
  }
  return requested;
}

// A token is "query hash.position".
std::string MakePageToken(const std::string& query, const std::string& position) {
  return absl::StrCat(absl::Hex(base::Hash64(query), absl::kZeroPad16), ".", position);
}

absl::StatusOr<std::string> ParsePageToken(const std::string& query, const std::string& token) {
  if (token.empty()) return std::string();
  const std::string prefix = MakePageToken(query, "");
  if (token.rfind(prefix, 0) != 0) {
    return base::BadField("page_token", absl::StrCat(base::Quote(token),
                                                     " is not from a reply to this same request; "
                                                     "begin again without it"));
  }
  return token.substr(prefix.size());
}

}  // namespace luthier::service
