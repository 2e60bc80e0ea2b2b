#ifndef LUTHIER_SERVER_SERVICE_SPEC_MEMORY_H_
#define LUTHIER_SERVER_SERVICE_SPEC_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "luthier/v1/study.pb.h"

namespace luthier::service {

// Bytes of memory that the copies of a study's spec may take. Two copies are messages, the request and a reply; four
// are the core's, its designer's, and those on the way to and from the database.
inline constexpr int64_t kMostSpecMemory = int64_t{32} << 20;

// Bytes of a spec in a message. Leases carry the spec: with a trial it must fit a message.
inline constexpr size_t kMostSpecBytes = size_t{2} << 20;

// Checks the spec's bytes, and its copies, which are estimated before any of them is made. INVALID_ARGUMENT beyond
// kMostSpecBytes or kMostSpecMemory, naming the part that takes the most memory. 130,000 short labels fit.
absl::Status CheckSpecSize(const v1::StudySpec& spec);

}  // namespace luthier::service

#endif  // LUTHIER_SERVER_SERVICE_SPEC_MEMORY_H_
