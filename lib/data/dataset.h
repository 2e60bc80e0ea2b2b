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
  std::vector<int64_t> row_start = {0};  // rows + 1
  std::vector<int32_t> column;
  std::vector<double> value;

  int64_t nonzeros() const { return static_cast<int64_t>(value.size()); }
  friend bool operator==(const SparseMatrix&, const SparseMatrix&) = default;
};

// A classification data set as read: finite features, one label a row, at least two classes. Immutable once made.
struct Dataset {
  std::string name;  // For messages: the path or URI it came from.
  SparseMatrix x;
  std::vector<int32_t> label;         // Index into classes.
  std::vector<std::string> classes;   // Numeric labels in numeric order, else in byte order. With two classes, the
                                      // second one is the "positive" class.
  std::vector<std::string> features;  // Names, or empty when the file has none.
  std::string label_name;             // Name of the label's column; empty when the file has none.

  int num_classes() const { return static_cast<int>(classes.size()); }
};

inline constexpr int64_t kMaxRows = int64_t{1} << 31;
inline constexpr int32_t kMaxColumns = 1 << 25;
inline constexpr int kMaxClasses = 1000;

// Turns label texts into classes: if all are numbers they are compared as numbers ("1" and "1.0" are one class) and
// named by their shortest form; otherwise as text. INVALID_ARGUMENT ("name: ...") for no rows, one class, or more than
// kMaxClasses; CANCELLED when stopped.
absl::Status AssignClasses(const std::vector<std::string>& label_texts, Dataset* dataset,
                           const base::StopToken& stop = {});

// SHA-256 (hexadecimal) over shape, entries, labels and class names: equal data sets have equal fingerprints, whatever
// their format, compression or name. CANCELLED when stopped.
absl::StatusOr<std::string> Fingerprint(const Dataset& dataset, const base::StopToken& stop = {});

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_DATASET_H_
