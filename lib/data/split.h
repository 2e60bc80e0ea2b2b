#ifndef LUTHIER_LIB_DATA_SPLIT_H_
#define LUTHIER_LIB_DATA_SPLIT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/dataset.h"

namespace luthier::data {

// Row numbers, each part ascending; together they are all rows, and they are disjoint.
struct Partition {
  std::vector<int32_t> train;
  std::vector<int32_t> validation;
  std::vector<int32_t> third = {};  // Rows that are only measured.
};

// Splits are stratified (class shares in the parts differ from those of the whole by less than one row a class and
// part), a function of the labels and `seed` alone, and leave every class in every training part. `label` holds 0 …
// num_classes - 1. INVALID_ARGUMENT when a class has fewer than two rows; CANCELLED when stopped.

// Holds out round(fraction * rows) rows, fraction in (0, 1): at least one, and so few that each class keeps a row to
// train on.
absl::StatusOr<Partition> SplitValidation(const std::vector<int32_t>& label, int num_classes, double fraction,
                                          uint64_t seed, const base::StopToken& stop = {});

// Returns `folds` >= 2 partitions whose validation parts are disjoint, cover all rows and differ in size by at most
// one. Returns INVALID_ARGUMENT with fewer rows than folds.
absl::StatusOr<std::vector<Partition>> SplitFolds(const std::vector<int32_t>& label, int num_classes, int folds,
                                                  uint64_t seed, const base::StopToken& stop = {});

// Meaning of Dataset::key for a split.
enum class KeyUse {
  kNone,   // No meaning.
  kGroup,  // Rows of one key stay together: all of them train, or none.
  kTime,   // Rows of a later key are held out, those of an earlier one train.
};

struct SplitOptions {
  double validation = 0.25;  // Share of all rows. Unused with folds.
  int folds = 0;             // 0: one split.
  double third = 0.0;        // Share of all rows that is set apart first, in [0, 1); 0: none.
  uint64_t seed = 0;
  bool stratify = true;  // True if each part has the classes in the same shares. Only without a key.
  KeyUse key = KeyUse::kNone;
};

// Returns one partition, or one for each fold, of the rows that the third set leaves. The third set is the same in all.
// Rows that Concatenate appended are held out, and no others are validated on; `validation` and `folds` have no effect.
//   kNone   SplitValidation and SplitFolds. Without `stratify`, and for regression, classes are ignored.
//   kGroup  Groups in random order are held out until the share is reached. Folds: the largest group first goes to the
//           fold with the fewest rows.
//   kTime   The last share of rows is held out, cut between two keys. Folds: the rows are cut into folds + 1 stretches;
//           fold k trains on the first k of them and is held out on the next. The third set is the last share.
// Returns INVALID_ARGUMENT if a class or the share cannot be split so (with a third set a class needs three rows), for
// fewer groups or times than parts, and if a training part lacks one of the classes; CANCELLED when stopped.
absl::StatusOr<std::vector<Partition>> MakeSplit(const Dataset& dataset, const SplitOptions& options,
                                                 const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_SPLIT_H_
