#ifndef LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_
#define LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/batch/context.h"

// Counts what studies keep on disk, and holds projects to their quota of it. StudyRecord::bytes is an estimate, which
// grows with each trial that ends and each point of a curve.
namespace luthier::coordinator {

// Adds `bytes` to the estimate of the study. An event of the same batch must write its row.
void AddBytes(Context& c, StudyState& s, size_t bytes);

// RESOURCE_EXHAUSTED LIMIT_EXCEEDED if the project keeps at least as many bytes as its quota allows. It then gets no
// new studies, trials and leases; results of running trials are accepted.
absl::Status CheckBytes(const Context& c, absl::string_view project);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_
