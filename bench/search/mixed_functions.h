#ifndef LUTHIER_BENCH_SEARCH_MIXED_FUNCTIONS_H_
#define LUTHIER_BENCH_SEARCH_MIXED_FUNCTIONS_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"
#include "lib/simulate/simulate.h"

namespace luthier {

// Functions of categorical, bool, integer and real parameters together, as tuning mostly has them. The least value is
// 0; where it is and what labels cost is drawn from seed 1, or from `shift`: the problem's name then ends in "+shift".
//   mixed_additive     every label costs something by itself; no parameter matters to another
//   mixed_interacting  each label has its own best integers, reals and switch
//   mixed_conditional  each of four models has two parameters of its own, active with it only
//   mixed_switches     each of four switches moves the best value of one of four numbers; prices depend on two switches
//   mixed_integers     two labels, whose pair has its price, move the best values of four integers
//   mixed_valleys      each label has its own curved valley in two numbers and ripples in a third
//   mixed_labels       four labels with prices for each and each pair of neighbours; two of them move two numbers
//   mixed_table        each of 120 combinations of three labels has a price that says nothing about any other's
// Absent for any other name.
std::optional<simulate::Problem> MixedProblem(absl::string_view name, std::optional<uint64_t> shift = std::nullopt);

}  // namespace luthier

#endif  // LUTHIER_BENCH_SEARCH_MIXED_FUNCTIONS_H_
