#ifndef LUTHIER_TESTS_LIB_LINEAR_LINEAR_TESTING_H_
#define LUTHIER_TESTS_LIB_LINEAR_LINEAR_TESTING_H_

#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include "lib/base/check.h"
#include "lib/data/dataset.h"
#include "lib/data/synth.h"
#include "lib/notation/synth_specs.h"

namespace luthier::linear {

// Two overlapping classes; the first column has a mean far from 0, so that centring matters.
inline data::Dataset MakeData(int64_t rows, int32_t cols, double density, uint64_t seed) {
  notation::SynthSpec spec;
  spec.rows = rows;
  spec.cols = cols;
  spec.density = density;
  spec.seed = seed;
  spec.noise = 0.1;
  absl::StatusOr<data::Dataset> made = data::Synthesize(spec);
  LUTHIER_CHECK(made.ok());
  for (size_t e = 0; e < made->x.value.size(); ++e) {
    if (made->x.column[e] == 0) made->x.value[e] += 3.0;
  }
  return *std::move(made);
}

// The numbers of all rows.
inline std::vector<int32_t> AllRows(const data::Dataset& dataset) {
  std::vector<int32_t> rows(static_cast<size_t>(dataset.x.rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace luthier::linear

#endif  // LUTHIER_TESTS_LIB_LINEAR_LINEAR_TESTING_H_
