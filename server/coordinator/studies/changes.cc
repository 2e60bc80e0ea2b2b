#include "server/coordinator/studies/changes.h"

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "server/coordinator/messages/limits.h"

namespace luthier::coordinator {

storage::Event& AddEvent(Context& c, storage::StudyKey key, const std::string& id, storage::EventType type) {
  storage::Event event;
  event.seq = ++c.state.counters.seq;
  event.time = c.batch.wall;
  event.study = key;
  event.study_id = id;
  event.type = type;
  c.batch.touched.try_emplace(key, id);
  c.batch.events.push_back(std::move(event));
  return c.batch.events.back();
}

absl::Status CheckBytes(const Context& c, absl::string_view project) {
  if (c.options.quotas == nullptr) return absl::OkStatus();
  const int64_t quota = c.options.quotas->Of(project).bytes;
  const auto used = c.state.projects.find(std::string(project));
  if (quota == 0 || used == c.state.projects.end() || used->second.bytes < quota) return absl::OkStatus();
  return LimitExceeded("project_bytes", quota,
                       absl::StrCat("project ", base::Quote(project), " keeps about ", used->second.bytes,
                                    " bytes, and its quota allows ", quota,
                                    "; delete studies that are no longer needed (`luthier study delete`), or ask an "
                                    "admin for more"));
}

}  // namespace luthier::coordinator
