#include "server/coordinator/messages/operations.h"

#include <type_traits>

namespace luthier::coordinator {

void Refuse(Operation& operation, const absl::Status& status) {
  std::visit(
      [&](auto& op) {
        if constexpr (!std::is_same_v<std::decay_t<decltype(op)>, ProposalsOp>) {
          if (op.done) op.done(status);
        }
      },
      operation);
}

}  // namespace luthier::coordinator
