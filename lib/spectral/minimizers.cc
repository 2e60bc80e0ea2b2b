#include "lib/spectral/minimizers.h"

#include <algorithm>

#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"

namespace luthier::spectral {

int LimitVariables(Polynomial* polynomial) {
  int dropped = 0;
  while (static_cast<int>(Variables(*polynomial).size()) > kMaxEnumeratedBits) {
    polynomial->terms.pop_back();
    ++dropped;
  }
  return dropped;
}

absl::StatusOr<std::vector<Assignment>> Minimizers(const Polynomial& polynomial, int count,
                                                   const base::StopToken& stop) {
  const std::vector<int> variables = Variables(polynomial);
  LUTHIER_CHECK(variables.size() <= kMaxEnumeratedBits && count >= 1);
  std::vector<double> signed_weights;
  std::vector<std::vector<size_t>> terms_of(variables.size());
  for (size_t k = 0; k < polynomial.terms.size(); ++k) {
    signed_weights.push_back(polynomial.terms[k].weight);
    for (const int bit : polynomial.terms[k].bits) {
      terms_of[static_cast<size_t>(std::lower_bound(variables.begin(), variables.end(), bit) - variables.begin())]
          .push_back(k);
    }
  }
  const auto before = [](const Assignment& a, const Assignment& b) {
    return a.value != b.value ? a.value < b.value : a.code < b.code;
  };
  std::vector<Assignment> best;  // Ascending.
  const uint32_t all = uint32_t{1} << variables.size();
  uint32_t code = 0;
  base::Pace pace(stop);
  for (uint32_t step = 0; step < all; ++step) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess + static_cast<int64_t>(signed_weights.size())));
    if (step > 0) {
      const int flip = __builtin_ctz(step);
      code ^= uint32_t{1} << flip;
      for (const size_t k : terms_of[static_cast<size_t>(flip)]) signed_weights[k] = -signed_weights[k];
    }
    // Summed anew and in one order, so that equal assignments tie exactly and nothing drifts.
    Assignment now{code, polynomial.intercept};
    for (const double weight : signed_weights) now.value += weight;
    if (static_cast<int>(best.size()) == count && !before(now, best.back())) continue;
    best.insert(std::upper_bound(best.begin(), best.end(), now, before), now);
    if (static_cast<int>(best.size()) > count) best.pop_back();
  }
  return best;
}

}  // namespace luthier::spectral
