#ifndef LUTHIER_LIB_DATA_COLUMN_TEXT_H_
#define LUTHIER_LIB_DATA_COLUMN_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/interner.h"
#include "lib/data/text_source.h"

namespace luthier::data {

// Longer sequences are refused: the Gram matrix of the tokens of a sequence needs memory proportional to its length
// squared, and a "sentence" of thousands of tokens is a file without blank lines.
inline constexpr int64_t kMaxSequenceTokens = 16384;
inline constexpr int kMaxLabels = 1000;

// Labelled sequences of tokens as read: a table of text cells, the label in the last column. Immutable once made.
struct ColumnText {
  std::string name;                           // For messages.
  int columns = 0;                            // Number of columns without the label's.
  Interner strings;                           // Texts of the cells.
  Interner label_names;                       // Texts of the labels, by first occurrence.
  std::vector<int64_t> sequence_start = {0};  // Sequence i has tokens [sequence_start[i], sequence_start[i+1]).
  std::vector<int32_t> cell;                  // tokens x columns, indices into strings.
  std::vector<int32_t> label;                 // tokens, indices into label_names.
  std::vector<int32_t> line;                  // tokens: line number in the file.

  int64_t sequences() const { return static_cast<int64_t>(sequence_start.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(label.size()); }
};

// CoNLL columns: a line a token, fields separated by blanks or tabs (and nothing else: Latin-1 text has no-break spaces
// within words), the last one the label; blank lines end sequences. -DOCSTART- lines are tokens like any other, so
// counts agree with those published for CoNLL-2002.
//
// Errors are INVALID_ARGUMENT "name:line: ..." or "name: ...": no tokens, ragged rows, fewer than two columns, one
// label only or more than kMaxLabels, a sequence above kMaxSequenceTokens, lines beyond the reader's limit, control
// characters. DATA_LOSS for damaged or cut-off compressed data.
enum class LabelColumn {
  kLast,
  kNone,  // All columns are texts, one may be enough; every label is "".
};
absl::StatusOr<ColumnText> ReadColumnText(LineReader& lines, LabelColumn labels = LabelColumn::kLast);

// Returns the number of fields of the first line that has any; 0 if there is none. Returns the reader's errors.
absl::StatusOr<int> CountFields(LineReader& lines);

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_COLUMN_TEXT_H_
