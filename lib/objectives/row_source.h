#ifndef LUTHIER_LIB_OBJECTIVES_ROW_SOURCE_H_
#define LUTHIER_LIB_OBJECTIVES_ROW_SOURCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/data/data_cache.h"
#include "lib/data/data_root.h"
#include "lib/data/dataset.h"
#include "lib/data/readers.h"
#include "lib/data/split.h"
#include "lib/study/study_spec.h"

// The rows that an objective trains on, and how they are split.
namespace luthier::objectives {

struct RowSource {
  data::Dataset dataset;
  // Option `targets`: further targets, which are then no features; one number a row each. Else empty.
  std::vector<std::vector<double>> more_targets;
  std::vector<data::Partition> folds;  // One, or one for each fold.
  std::string identity;                // Fingerprint and split: equal texts stand for equal rows and folds.
};

// Returns the options of an objective that say how its data file is read: format, header, label, labels_file.
data::ReadOptions ParseReadOptions(const study::Parameters& options);

// Returns the column of the data file that is no feature, since it groups or orders the rows; empty: none.
std::string KeyColumn(const study::Split& split);

// Loads the data of `objective`, that of split.validation_data included, and splits them. `cache` may be null. Returns
// the errors of data::LoadDataset, data::Concatenate and data::MakeSplit, and for targets that are no columns;
// CANCELLED when stopped.
absl::StatusOr<RowSource> LoadRows(const study::BuiltinObjective& objective, data::Task task,
                                   const data::DataRoot* root, const data::DataCache* cache,
                                   const base::StopToken& stop);

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_ROW_SOURCE_H_
