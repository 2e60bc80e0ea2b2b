#ifndef LUTHIER_LIB_SEARCH_LEGAL_LEGAL_WALK_H_
#define LUTHIER_LIB_SEARCH_LEGAL_LEGAL_WALK_H_

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::search {

// Numbers the legal points of a sequence, of which point i is a function of i alone: illegal ones are skipped, index by
// index. The object remembers where it stands, so that asks in order cost a few points each; what it answers does not
// depend on that. One thread at a time.
class LegalWalk {
 public:
  // Returns the index in the sequence of legal point number `number` (from 0); std::nullopt if there are fewer among
  // the first `end` points. Returns CANCELLED once `stop` is raised.
  absl::StatusOr<std::optional<uint64_t>> Find(uint64_t number, uint64_t end,
                                               absl::FunctionRef<bool(uint64_t)> is_legal, const base::StopToken& stop);

 private:
  uint64_t found_ = 0;  // Legal points before next_.
  uint64_t next_ = 0;
  uint64_t last_ = 0;  // Index of the newest of them.
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_LEGAL_LEGAL_WALK_H_
