#include "server/coordinator/batch/bytes.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "server/coordinator/messages/limits.h"
#include "server/coordinator/state/counts.h"

namespace luthier::coordinator {

void AddBytes(Context& c, StudyState& s, size_t bytes) {
  s.record.bytes += static_cast<int64_t>(bytes);
  AddUse(c.state, study::ProjectOf(s.record.id), &ProjectUse::bytes, static_cast<int64_t>(bytes));
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
