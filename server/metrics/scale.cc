#include "server/metrics/scale.h"

#include <map>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/study/project.h"
#include "lib/study/study_spec.h"

namespace luthier::metrics {

absl::StatusOr<std::string> ScaleAnswer(const Metrics& metrics, absl::string_view query) {
  std::map<std::string, std::string> given;
  for (const absl::string_view part : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    if (pair.first != "pool" && pair.first != "project") {
      return base::BadField(pair.first.substr(0, 64), "is no parameter of /scale, which has pool and project");
    }
    if (!given.insert(pair).second) return base::BadField(pair.first, "is there twice");
    LUTHIER_RETURN_IF_ERROR(study::ValidateId(pair.first, pair.second));
  }
  const std::string pool = given.count("pool") > 0 ? given["pool"] : study::kDefaultPool;
  const coordinator::PoolSlots slots = metrics.Slots(pool, given.count("project") > 0 ? given["project"] : "");
  nlohmann::ordered_json answer;
  answer["pool"] = pool;
  answer["wanted_slots"] = slots.wanted;
  answer["running_slots"] = slots.running;
  answer["slots"] = slots.wanted + slots.running;
  return absl::StrCat(answer.dump(), "\n");
}

}  // namespace luthier::metrics
