#include "lib/stopping/stopper.h"

#include "absl/strings/str_cat.h"

namespace luthier::stopping {

Decision AtTarget(const study::Resource& resource, int64_t target, int64_t step) {
  if (target == 0 || target >= resource.max || step < target) return {};
  return {Verdict::kPause, absl::StrCat("reached ", target, resource.unit.empty() ? "" : " ", resource.unit)};
}

std::unique_ptr<Stopper> CreateStopper(const study::StudySpec&) {
  return nullptr;
}

}  // namespace luthier::stopping
