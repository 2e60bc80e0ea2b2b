#ifndef LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_
#define LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_

#include <cstddef>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/coordinator/batch/context.h"

// Counts what studies keep on disk, and holds projects to their quota of it. StudyRecord::bytes is the estimate: it
// grows with each trial that ends and each point of a curve, and goes with the study.
namespace luthier::coordinator {

// Counts `bytes` more for the study. An event of the same batch must write its row.
void AddBytes(Context& c, StudyState& s, size_t bytes);

// RESOURCE_EXHAUSTED LIMIT_EXCEEDED where the project keeps as many bytes as its quota allows, or more: it gets no new
// studies, trials and leases then; results of trials that run are taken.
absl::Status CheckBytes(const Context& c, absl::string_view project);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_BATCH_BYTES_H_
