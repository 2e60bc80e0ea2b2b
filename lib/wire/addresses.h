#ifndef LUTHIER_LIB_WIRE_ADDRESSES_H_
#define LUTHIER_LIB_WIRE_ADDRESSES_H_

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

// Several addresses of one coordinator, of which a caller uses the one that answers.
namespace luthier::wire {

// Longest time that is spent on one of several addresses before the next one is tried.
inline constexpr absl::Duration kAddressPatience = absl::Seconds(1);
inline constexpr size_t kMostAddresses = 16;

// Returns the addresses in "a:1,b:1". What begins with "unix:" is one address to its end, since paths may have commas:
// a socket comes last. INVALID_ARGUMENT about "server" for an empty one, and for more than 16. It does not check the
// addresses themselves (ServerTarget).
absl::StatusOr<std::vector<std::string>> SplitAddresses(absl::string_view servers);

// Says whether the failure of a call means that another address may do better: nobody answered, or a coordinator that
// is about to end or to begin did.
bool MayDoBetterElsewhere(const absl::Status& status);

// Whose turn it is among several addresses. The one that answered last stays in use until a call to it fails; then it
// is the next one's turn. Thread-safe.
class Turns {
 public:
  explicit Turns(std::vector<std::string> addresses) : addresses_(std::move(addresses)) {}

  size_t size() const { return addresses_.size(); }
  size_t now() const { return turn_.load() % addresses_.size(); }
  // A call to address `failed` failed so that another one may do better. Of several callers that say so, the first
  // counts.
  void PassOn(size_t failed);

  // Calls `call` with the index of an address until it does not fail so that another one may do better, for each
  // address once at most. Returns the last call's status; if nobody answered at any of several addresses, one that
  // names each with its error.
  absl::Status Try(const std::function<absl::Status(size_t)>& call);

 private:
  const std::vector<std::string> addresses_;
  std::atomic<size_t> turn_{0};
};

}  // namespace luthier::wire

#endif  // LUTHIER_LIB_WIRE_ADDRESSES_H_
