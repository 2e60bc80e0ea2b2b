#ifndef LUTHIER_BENCH_SEARCH_GRADIENT_PROBLEMS_H_
#define LUTHIER_BENCH_SEARCH_GRADIENT_PROBLEMS_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier {

// Problems with gradients on which a check of gradients is tried: those of wide_functions.h (BenchProblem), which get
// central differences where they have no gradient, and some whose right gradients are odd:
//   idle3        Branin's function and a third parameter without any effect
//   ramp3        a bowl in two parameters, and a third that acts above 0.6 of its range only: 0 below
//   kinks4       sum of w_i |x_i - c_i| and a smooth coupling: its slopes jump
//   valley_kink3 a curved valley whose floor is a kink, where searches end
//   ridge3       the validation loss of ridge regression by the logarithms of the penalties of three groups of columns
//   rates4       a bowl in four rates over six decades (scale LOG), the first all but without effect
//   branches     label b opens two parameters of its own; one number is shared
// NOT_FOUND for any other name.
absl::StatusOr<simulate::Problem> GradientProblem(absl::string_view name, std::optional<uint64_t> shift = std::nullopt);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_GRADIENT_PROBLEMS_H_
