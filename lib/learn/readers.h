#ifndef LUTHIER_LIB_LEARN_READERS_H_
#define LUTHIER_LIB_LEARN_READERS_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "lib/learn/data_root.h"
#include "lib/learn/dataset.h"
#include "lib/learn/text_source.h"

namespace luthier::learn {

enum class Format { kAuto, kLibsvm, kCsv };
enum class Header { kAuto, kYes, kNo };

struct ReadOptions {
  // kAuto: by extension (.csv .tsv: CSV; .svm .libsvm .svmlight: LIBSVM; before any .gz or .xz), else by content:
  // LIBSVM when the first line's second word looks like "number:number" (or there is no second word).
  Format format = Format::kAuto;
  // CSV only. kAuto: the first line is a header when one of its fields other than the label is not a number.
  Header header = Header::kAuto;
  // CSV only: name of the label's column in the header; empty: the last column.
  std::string label;
  TextLimits limits;
};

// LIBSVM / SVMlight: `label index:value index:value … # comment`; indices from 1. Blank and comment lines are skipped.
// Indices out of order are sorted; the same index twice in a line is refused (summing would hide a damaged file).
//
// CSV: fields separated by comma, semicolon or tab (the most frequent one in the first line), optionally in double
// quotes
// ("" is a quote; line ends may be quoted); blanks around a field do not count. All columns but the label are numbers.
//
// Errors are INVALID_ARGUMENT "name:line: …" or "name:line:column: …" (column: byte of the line, from 1): ragged rows,
// text where a number belongs, missing values, NaN or infinity, an index below 1 or above kMaxColumns, no rows, no
// features, one class only. DATA_LOSS for damaged compressed data.
absl::StatusOr<Dataset> ReadLibsvm(LineReader& lines);
absl::StatusOr<Dataset> ReadCsv(LineReader& lines, const ReadOptions& options);

// Reads `fd` in whichever format. `name` is used for messages and for its extension.
absl::StatusOr<Dataset> ReadDataset(UniqueFd fd, const std::string& name, const ReadOptions& options);

// `data` is a URI `synth:…` (synth.h) or a path below `root`. With a null `root` only synth: works
// (FAILED_PRECONDITION otherwise).
absl::StatusOr<Dataset> LoadDataset(const std::string& data, const ReadOptions& options, const DataRoot* root);

}  // namespace luthier::learn

#endif  // LUTHIER_LIB_LEARN_READERS_H_
