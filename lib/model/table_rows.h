#ifndef LUTHIER_LIB_MODEL_TABLE_ROWS_H_
#define LUTHIER_LIB_MODEL_TABLE_ROWS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/readers.h"
#include "lib/model/model.h"

namespace luthier::model {

// Reads the rows of a table that a model is applied to by data::ReadRowsFor, and adds a note for people about
// everything that is left out.
absl::StatusOr<data::RawRows> ReadTable(const DataFile& data, const data::WantedColumns& wanted,
                                        std::vector<std::string>* notes);

}  // namespace luthier::model

#endif  // LUTHIER_LIB_MODEL_TABLE_ROWS_H_
