#include "lib/wire/addresses.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "lib/base/error.h"

namespace luthier::wire {

absl::StatusOr<std::vector<std::string>> SplitAddresses(absl::string_view servers) {
  std::vector<std::string> addresses;
  for (absl::string_view left = servers;;) {
    const size_t comma = absl::StartsWith(left, "unix:") ? absl::string_view::npos : left.find(',');
    const absl::string_view address = left.substr(0, comma);
    if (address.empty() && (comma != absl::string_view::npos || !addresses.empty())) {
      return base::BadField("server",
                            absl::StrCat(base::Quote(servers), " has an empty address; write host:port,host:port"));
    }
    addresses.emplace_back(address);
    if (addresses.size() > kMostAddresses) {
      return base::BadField("server", absl::StrCat("names more than ", kMostAddresses,
                                                   " addresses; a name that has several "
                                                   "can be given as dns:///name:port"));
    }
    if (comma == absl::string_view::npos) return addresses;
    left.remove_prefix(comma + 1);
  }
}

bool MayDoBetterElsewhere(const absl::Status& status) {
  if (!absl::IsUnavailable(status)) return false;
  const std::string reason = base::GetReason(status);
  return reason.empty() || reason == base::reason::kDraining || reason == base::reason::kStarting;
}

void Turns::PassOn(size_t failed) {
  size_t turn = turn_.load();
  if (turn % addresses_.size() == failed) turn_.compare_exchange_strong(turn, turn + 1);
}

absl::Status Turns::Try(const std::function<absl::Status(size_t)>& call) {
  std::string errors;
  absl::Status status;
  for (size_t tried = 0; tried < addresses_.size(); ++tried) {
    const size_t index = now();
    status = call(index);
    if (!MayDoBetterElsewhere(status)) return status;
    absl::StrAppend(&errors, errors.empty() ? "" : "; ", addresses_[index], ": ", status.message());
    PassOn(index);
  }
  if (addresses_.size() == 1 || !base::GetReason(status).empty()) return status;
  return absl::UnavailableError(
      absl::StrCat("no coordinator answers at any of ", addresses_.size(), " addresses: ", errors));
}

}  // namespace luthier::wire
