#include "lib/search/legal/legal_walk.h"

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::search {

absl::StatusOr<std::optional<uint64_t>> LegalWalk::Find(uint64_t number, uint64_t end,
                                                        absl::FunctionRef<bool(uint64_t)> is_legal,
                                                        const base::StopToken& stop) {
  constexpr int64_t kPoint = 1000;  // Operations.
  if (number + 1 < found_) *this = LegalWalk();
  base::Pace pace(stop);
  for (; found_ <= number; ++next_) {
    if (next_ >= end) return std::nullopt;
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kPoint));
    if (!is_legal(next_)) continue;
    ++found_;
    last_ = next_;
  }
  return last_;
}

}  // namespace luthier::search
