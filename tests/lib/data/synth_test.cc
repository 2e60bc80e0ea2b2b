#include "lib/data/synth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>

#include "lib/notation/synth_specs.h"

namespace luthier::data {
namespace {

// 2 * 10^10 cells, of which a draw each would take minutes.
TEST(SynthTest, TablesOfManyCellsAreDrawnByTheirEntries) {
  notation::SynthSpec spec;
  spec.rows = 20'000;
  spec.cols = 1'000'000;
  spec.density = 1e-5;
  const Dataset dataset = Synthesize(spec).value();
  ASSERT_EQ(dataset.x.rows, spec.rows);
  const double expected = 2e5, entries = static_cast<double>(dataset.x.nonzeros());
  EXPECT_NEAR(entries, expected, 5.0 * std::sqrt(expected));
  double squares = 0.0, columns = 0.0, positive = 0.0;
  for (int64_t i = 0; i < spec.rows; ++i) {
    for (int64_t e = dataset.x.row_start[static_cast<size_t>(i)]; e < dataset.x.row_start[static_cast<size_t>(i) + 1];
         ++e) {
      const auto at = static_cast<size_t>(e);
      ASSERT_TRUE(dataset.x.column[at] >= 0 && dataset.x.column[at] < spec.cols);
      if (e > dataset.x.row_start[static_cast<size_t>(i)]) {
        ASSERT_LT(dataset.x.column[at - 1], dataset.x.column[at]);
      }
      squares += dataset.x.value[at] * dataset.x.value[at] * spec.density / entries;
      columns += dataset.x.column[at] / entries;
    }
    positive += dataset.label[static_cast<size_t>(i)];
  }
  EXPECT_NEAR(squares, 1.0, 5.0 * std::sqrt(2.0 / entries));
  EXPECT_NEAR(columns / spec.cols, 0.5, 5.0 / std::sqrt(12.0 * entries));
  EXPECT_NEAR(positive / static_cast<double>(spec.rows), 0.5, 0.1);
}

}  // namespace
}  // namespace luthier::data
