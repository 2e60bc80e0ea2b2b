#include "server/coordinator/proposals/late.h"

#include "lib/base/random.h"
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
  const study::Encoding encoding(spec.space, spec.constraints);
  const math::SobolSequence points(encoding.compact_dim(), spec.seed, "late");
  const Eigen::VectorXd point = points.Point(static_cast<uint64_t>(number));
  if (encoding.IsLegalAt(point)) return encoding.FromCompact(point);
  base::RandomStream random(spec.seed, "late/legal", static_cast<uint64_t>(number));
  return encoding.Sample(random);
}

}  // namespace luthier::coordinator
