#ifndef LUTHIER_LIB_DATA_DATASET_H_
#define LUTHIER_LIB_DATA_DATASET_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/stop_token.h"

namespace luthier::data {

// Compressed sparse rows. Entries of row i are [row_start[i], row_start[i+1]); columns ascend within a row, each at
// most once; explicit zeros are not stored. So equal matrices have equal bytes.
struct SparseMatrix {
  int64_t rows = 0;
  int32_t cols = 0;
  std::vector<int64_t> row_start = {0};  // Has rows + 1 entries.
  std::vector<int32_t> column;
  std::vector<double> value;

  int64_t nonzeros() const { return static_cast<int64_t>(value.size()); }
  friend bool operator==(const SparseMatrix&, const SparseMatrix&) = default;
};

// A data set as read: finite features, and for each row the label of a class (at least two classes) or, for regression,
// a finite target. Immutable once made.
struct Dataset {
  std::string name;  // For messages: the path or URI it came from.
  SparseMatrix x;
  std::vector<int32_t> label;         // Index into classes; empty for regression.
  std::vector<std::string> classes;   // Numeric labels in numeric order, else in byte order. With two classes, the
                                      // second one is the "positive" class.
  std::vector<std::string> features;  // Names, or empty when the file has none.
  std::string label_name;             // Name of the label's column; empty when the file has none.
  std::vector<double> target;         // Regression: one number a row. Else empty.
  // Rank of each row's value in ReadOptions::key_column, from 0, equal values sharing one. Empty without such a column.
  std::vector<int32_t> key;
  bool open_columns = false;  // LIBSVM: columns beyond `cols` are those in which every row is 0.
  int64_t appended = 0;       // Number of rows at the end that Concatenate added.

  int num_classes() const { return static_cast<int>(classes.size()); }
  bool regression() const { return !target.empty(); }
};

inline constexpr int64_t kMaxRows = int64_t{1} << 31;
inline constexpr int32_t kMaxColumns = 1 << 25;
inline constexpr int kMaxClasses = 1000;

// Turns label texts into classes: if all are numbers they are compared as numbers ("1" and "1.0" are one class) and
// named by their shortest form; otherwise as text. INVALID_ARGUMENT ("name: ...") for no rows, one class, or more than
// kMaxClasses; CANCELLED when stopped.
absl::Status AssignClasses(const std::vector<std::string>& label_texts, Dataset* dataset,
                           const base::StopToken& stop = {});

// Sets `target`. INVALID_ARGUMENT ("name: ...") for no rows, and for a text that is not a finite number; CANCELLED when
// stopped.
absl::Status AssignTargets(const std::vector<std::string>& texts, Dataset* dataset, const base::StopToken& stop = {});

// Sets `key` to the ranks of `texts`, one a row: in numeric order if all are finite numbers, else in byte order.
// Returns CANCELLED when stopped.
absl::Status AssignKeys(const std::vector<std::string>& texts, Dataset* dataset, const base::StopToken& stop = {});

// Adds the rows of `second`, which `appended` counts, behind those of `first`. Columns are matched by name if both have
// names, else by position. The keys of `first` go. Returns INVALID_ARGUMENT for other columns, other classes than
// `first` has, or classes beside targets; CANCELLED when stopped.
absl::StatusOr<Dataset> Concatenate(Dataset first, const Dataset& second, const base::StopToken& stop = {});

// SHA-256 (hexadecimal) over shape, entries, labels or targets, class names and keys: equal data sets have equal
// fingerprints, whatever their format, compression or name. Returns CANCELLED when stopped.
absl::StatusOr<std::string> Fingerprint(const Dataset& dataset, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_DATASET_H_
