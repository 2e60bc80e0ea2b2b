#ifndef LUTHIER_BENCH_SEARCH_LABEL_FUNCTIONS_H_
#define LUTHIER_BENCH_SEARCH_LABEL_FUNCTIONS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/study/parameters.h"
#include "lib/study/search_space.h"

namespace luthier {

// A function in which one label is the best, and the question is whether a search ends on it. Its least value is 0.
struct LabelProblem {
  study::SearchSpace space;
  std::string parameter, best;  // The parameter that has the label, and the label.
  std::function<double(const study::Parameters&)> value;
  // The value after `step` of kLabelSteps units of training; at the last one it is `value`.
  std::function<double(const study::Parameters&, int64_t step)> curve;
};
inline constexpr int64_t kLabelSteps = 27;

// Returns a problem whose labels, prices and places are drawn from the seed:
//   svm     four kernels, as of a support vector machine: one parameter for all, a second for three of them, a third
//   for
//           two, a whole number for one. Far from a kernel's valley the value is that of guessing. The best kernel's
//           valley is the narrowest.
//   cash    three models with three parameters of their own and one for all; the best one has the smallest good region.
//   bad     five labels, three of which cost more than the numbers can ever win back; the numbers are for all.
//   close   four labels of equally wide valleys, whose best values differ little.
// Curves of the best label fall the most slowly. NOT_FOUND for other names.
absl::StatusOr<LabelProblem> MakeLabelProblem(absl::string_view name, uint64_t seed);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_LABEL_FUNCTIONS_H_
