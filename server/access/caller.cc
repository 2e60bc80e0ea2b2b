#include "server/access/caller.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "lib/base/hash.h"

namespace luthier::access {

absl::string_view ToString(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kUser:
      return "user";
    case Role::kWorker:
      return "worker";
    case Role::kAdmin:
      return "admin";
    case Role::kMaintainer:
      return "maintainer";
  }
  return "";
}

bool Caller::may(Right right) const {
  const auto any = [&](std::initializer_list<Role> allowed) {
    return std::any_of(allowed.begin(), allowed.end(), [&](Role role) { return roles.count(role) > 0; });
  };
  switch (right) {
    case Right::kSee:
      return any({Role::kViewer, Role::kUser, Role::kMaintainer, Role::kWorker, Role::kAdmin});
    case Right::kRead:
      return any({Role::kViewer, Role::kUser, Role::kMaintainer, Role::kAdmin});
    case Right::kWork:
      return any({Role::kUser, Role::kMaintainer, Role::kWorker, Role::kAdmin});
    case Right::kWrite:
      return any({Role::kUser, Role::kMaintainer, Role::kAdmin});
    case Right::kAdmin:
      return any({Role::kAdmin});
  }
  return false;
}

std::string Caller::Owner(const std::string& of) const {
  if (token.empty() || page) return "";
  return study::IdWithin(has(of) ? of : project, name);
}

std::string Caller::Worker(const std::string& worker, absl::string_view of) const {
  if (token.empty()) return worker;
  return absl::StrCat(study::IdWithin(has(of) ? std::string(of) : project, name), "/", worker);
}

std::string Caller::RequestId(const std::string& request_id) const {
  if (token.empty() || request_id.empty()) return request_id;
  return absl::StrCat(token, "/", request_id);
}

std::string Caller::Lease(std::string lease) const {
  if (token.empty()) return lease;
  const std::string mask = absl::HexStringToBytes(base::Sha256Hex(absl::StrCat("lease ", token)));
  for (size_t i = 0; i < lease.size(); ++i) lease[i] = static_cast<char>(lease[i] ^ mask[i % mask.size()]);
  return lease;
}

}  // namespace luthier::access
