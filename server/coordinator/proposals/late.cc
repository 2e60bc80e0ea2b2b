#include "server/coordinator/proposals/late.h"

#include "lib/math/sobol.h"
#include "lib/study/encoding.h"

namespace luthier::coordinator {
namespace {

constexpr int64_t kManySettings = 1'000'000;

}  // namespace

bool MayBeLate(const study::StudySpec& spec) {
  return !spec.reproducible && !spec.resource && spec.space.Cardinality().value_or(kManySettings) >= kManySettings;
}

study::Parameters LatePoint(const study::StudySpec& spec, int64_t number) {
  const study::Encoding encoding(spec.space);
  const math::SobolSequence points(encoding.compact_dim(), spec.seed, "late");
  return encoding.FromCompact(points.Point(static_cast<uint64_t>(number)));
}

}  // namespace luthier::coordinator
