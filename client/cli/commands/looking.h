#ifndef LUTHIER_CLIENT_CLI_COMMANDS_LOOKING_H_
#define LUTHIER_CLIENT_CLI_COMMANDS_LOOKING_H_

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "client/cli/commands/follow.h"
#include "client/cli/context.h"

// Parts of --watch that the lists and gets share.
namespace luthier::cli {

// Prints things as they are now, and again as they change. Tables and CSV have rows below one line of column names,
// whose widths stay; JSON has an object a line, YAML a document each, and names have a line each.
class ChangeWriter {
 public:
  explicit ChangeWriter(Context& context) : context_(context) {}
  // Writes the rows of `table`. `values` has their JSON form if that is wanted. All tables have the same columns.
  void Write(const Table& table, const std::vector<nlohmann::ordered_json>& values);

 private:
  Context& context_;
  std::optional<TableShape> shape_;
};

// Calls `look` each second until it returns true (exit code 0), a signal comes (130), or nobody reads the output.
// Errors: those of `look`.
absl::StatusOr<int> LookAgain(Context& context, SignalScope& signals, absl::FunctionRef<absl::StatusOr<bool>()> look);

}  // namespace luthier::cli

#endif  // LUTHIER_CLIENT_CLI_COMMANDS_LOOKING_H_
