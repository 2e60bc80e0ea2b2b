#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "client/cli/commands/commands.h"
#include "client/cli/show.h"
#include "lib/base/status_macros.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "lib/wire/resource_name.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

// Returns how long ago it was, "12s", in the largest two units.
std::string Ago(const google::protobuf::Timestamp& time) {
  const absl::StatusOr<absl::Time> then = wire::FromProto(time);
  if (!then.ok()) return "";
  const absl::Duration ago = absl::Now() - *then;
  const absl::Duration unit = ago < absl::Hours(1) ? absl::Seconds(1) : absl::Minutes(1);
  return absl::FormatDuration(std::max(absl::ZeroDuration(), absl::Trunc(ago, unit)));
}

// Returns the reason of a failure, and the last line of its message: "EXIT_CODE: no module named torch".
std::string Cause(const std::string& failure) {
  const size_t reason = failure.find(": "), line = failure.find_last_of('\n');
  if (reason == std::string::npos || line == std::string::npos) return failure;
  return failure.substr(0, reason + 2) + failure.substr(line + 1);
}

// Returns the studies of which the worker gets no trials for a while: "demo for 9m58s (EXIT_CODE: no module named
// torch)".
std::string Rests(const v1::Worker& worker) {
  std::vector<std::string> rests;
  for (const v1::Worker::Rest& rest : worker.rests()) {
    const absl::StatusOr<std::string> study = wire::ParseStudyName("study", rest.study());
    const absl::StatusOr<absl::Time> until = wire::FromProto(rest.until());
    const absl::Duration left = until.ok() ? *until - absl::Now() : absl::ZeroDuration();
    rests.push_back(
        absl::StrCat(study.value_or(rest.study()), " for ",
                     absl::FormatDuration(std::max(absl::ZeroDuration(), absl::Trunc(left, absl::Seconds(1)))), " (",
                     Cause(rest.failure()), ")"));
  }
  return absl::StrJoin(rests, ", ");
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
  std::vector<Column> headings = {"name",   "seen",   "leases",   "granted", "completed", "pruned",
                                  "paused", "failed", "released", "expired", "cancelled"};
  const bool any_rests = std::any_of(workers.begin(), workers.end(), [](const auto& w) { return w.rests_size() > 0; });
  if (any_rests) headings.push_back("rests from");
  Table table(headings);
  for (const v1::Worker& worker : workers) {
    std::vector<Cell> row = {Cell::Text(worker.name()), Cell::Text(absl::StrCat(Ago(worker.last_seen()), " ago"))};
    for (const int64_t number :
         {int64_t{worker.leases()}, worker.granted(), worker.completed(), worker.pruned(), worker.paused(),
          worker.failed(), worker.released(), worker.expired(), worker.cancelled()}) {
      row.push_back(Cell::Integer(number));
    }
    if (any_rests) row.push_back(Cell::Text(Rests(worker)));
    table.Add(std::move(row));
  }
  context.Print(table);
  if (workers.empty()) context.err() << "no worker has asked since the coordinator started\n";
  return kExitDone;
}

}  // namespace luthier::cli
