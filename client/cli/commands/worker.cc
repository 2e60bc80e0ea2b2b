#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// "12s": how long ago, in the largest two units.
std::string Ago(const google::protobuf::Timestamp& time) {
  const absl::StatusOr<absl::Time> then = wire::FromProto(time);
  if (!then.ok()) return "";
  const absl::Duration ago = absl::Now() - *then;
  const absl::Duration unit = ago < absl::Hours(1) ? absl::Seconds(1) : absl::Minutes(1);
  return absl::FormatDuration(std::max(absl::ZeroDuration(), absl::Trunc(ago, unit)));
}

}  // namespace

absl::StatusOr<int> WorkerList(Context& context) {
  LUTHIER_ASSIGN_OR_RETURN(client::Client * client, context.client());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<v1::Worker> workers, client->ListWorkers(context.options().project));
  if (context.structured()) {
    Json list = Json::array();
    for (const v1::Worker& worker : workers) list.push_back(wire::ToJson(worker));
    context.Print(list);
    return kExitDone;
  }
  Table table({"name", "seen", "leases", "granted", "completed", "pruned", "paused", "failed", "released", "expired",
               "cancelled"});
  for (const v1::Worker& worker : workers) {
    std::vector<Cell> row = {Cell::Text(worker.name()), Cell::Text(absl::StrCat(Ago(worker.last_seen()), " ago"))};
    for (const int64_t number :
         {int64_t{worker.leases()}, worker.granted(), worker.completed(), worker.pruned(), worker.paused(),
          worker.failed(), worker.released(), worker.expired(), worker.cancelled()}) {
      row.push_back(Cell::Integer(number));
    }
    table.Add(std::move(row));
  }
  context.Print(table);
  if (workers.empty()) context.err() << "no worker has asked since the coordinator started\n";
  return kExitDone;
}

}  // namespace luthier::cli
