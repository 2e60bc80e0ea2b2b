#include "client/cli/commands/looking.h"

#include <nlohmann/json.hpp>

#include "client/cli/show.h"
#include "client/cli/yaml_text.h"
#include "lib/base/status_macros.h"

namespace luthier::cli {

void ChangeWriter::Write(const Table& table, const std::vector<nlohmann::ordered_json>& values) {
  std::ostream& out = context_.out();
  if (context_.structured()) {
    for (const nlohmann::ordered_json& value : values) {
      if (context_.options().format == OutputFormat::kYaml) {
        out << "---\n" << YamlText(value);
      } else {
        out << JsonText(value) << "\n";
      }
    }
  } else if (context_.names()) {
    table.PrintNames(out);
  } else if (context_.options().format == OutputFormat::kCsv) {
    if (shape_) {
      table.PrintCsvRows(out);
    } else {
      table.PrintCsv(out);
    }
    shape_.emplace();
  } else if (!shape_) {
    TableRoom room = context_.room();
    room.keep_empty = true;
    shape_ = table.Fit(room);
    context_.SayLeftOut(*shape_);
    table.PrintAligned(out, *shape_, context_.colour());
  } else {
    table.PrintAlignedRows(out, *shape_, context_.colour());
  }
  out.flush();
}

absl::StatusOr<int> LookAgain(Context& context, SignalScope& signals, absl::FunctionRef<absl::StatusOr<bool>()> look) {
  while (true) {
    LUTHIER_ASSIGN_OR_RETURN(const bool over, look());
    const std::function<bool()>& closed = context.environment().out_closed;
    if (over || !context.out().good() || (closed && closed())) {
      if (!over) context.out().setstate(std::ios::badbit);
      return kExitDone;
    }
    if (signals.Wait(absl::Seconds(1))) return kExitInterrupted;
  }
}

}  // namespace luthier::cli
