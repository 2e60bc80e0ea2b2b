#ifndef LUTHIER_LIB_DATA_SPLIT_H_
#define LUTHIER_LIB_DATA_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::data {

// Row numbers, each part ascending; together they are all rows, and they are disjoint.
struct Partition {
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
  std::vector<int32_t> third = {};  // Measured only.
};

// Splits are stratified (class shares in the parts differ from those of the whole by less than one row a class and
// part), a function of the labels and `seed` alone, and leave every class in every training part. `label` holds 0 …
// num_classes - 1. INVALID_ARGUMENT when a class has fewer than two rows; CANCELLED when stopped.

// Holds out round(fraction * rows) rows, fraction in (0, 1); at least one, at most as many as leave each class a row to
// train on.
absl::StatusOr<Partition> SplitValidation(const std::vector<int32_t>& label, int num_classes, double fraction,
                                          uint64_t seed, const base::StopToken& stop = {});

// `folds` >= 2 partitions whose validation parts are disjoint, cover all rows and differ in size by at most one.
// INVALID_ARGUMENT with fewer rows than folds.
absl::StatusOr<std::vector<Partition>> SplitFolds(const std::vector<int32_t>& label, int num_classes, int folds,
                                                  uint64_t seed, const base::StopToken& stop = {});

struct SplitOptions {
  double validation = 0.25;  // Share of all rows. Unused with folds.
  int folds = 0;             // 0: one split.
  double third = 0.0;        // Share of all rows that is set apart first, in [0, 1); 0: none.
  uint64_t seed = 0;
};

// One partition, or one a fold, as the two above make them of the rows that the third set leaves. The third set, the
// same in all of them, is round(third * rows) rows. Errors of the two; with a third set a class needs three rows.
absl::StatusOr<std::vector<Partition>> MakeSplit(const std::vector<int32_t>& label, int num_classes,
                                                 const SplitOptions& options, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_SPLIT_H_
