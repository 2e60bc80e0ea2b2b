#ifndef LUTHIER_LIB_DATA_ATTRIBUTE_TEXT_H_
#define LUTHIER_LIB_DATA_ATTRIBUTE_TEXT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/data/interner.h"
#include "lib/data/text_source.h"

namespace luthier::data {

// Labelled sequences whose tokens come with their attributes and values, as read. Immutable once made.
struct AttributeText {
  std::string name;                           // For messages.
  Interner attributes;                        // By first occurrence.
  Interner label_names;                       // By first occurrence.
  std::vector<int64_t> sequence_start = {0};  // Indices of tokens.
  std::vector<int64_t> token_start = {0};     // Indices into `attribute`.
  std::vector<int32_t> attribute;             // Each at most once a token.
  std::vector<double> value;                  // Finite.
  std::vector<int32_t> label;                 // tokens, indices into label_names.
  std::vector<int32_t> line;                  // tokens: line number in the file.

  int64_t sequences() const { return static_cast<int64_t>(sequence_start.size()) - 1; }
  int64_t tokens() const { return static_cast<int64_t>(label.size()); }
};

// CRFsuite's format: a line a token, fields separated by tabs: the label, then attributes `name` or `name:value`
// (without a value: 1; `\:` and `\\` in names stand for : and \); blank lines end sequences. An attribute that a token
// has twice gets the sum of its values. Nothing is added: bias and ends are there if the file has them.
//
// Errors are INVALID_ARGUMENT "name:line: ..." or "name: ...": no tokens, a label or name that is empty, values that
// are no finite numbers, more than kMaxLabels labels, a sequence above kMaxSequenceTokens. DATA_LOSS as ReadColumnText.
absl::StatusOr<AttributeText> ReadAttributeText(LineReader& lines);

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_ATTRIBUTE_TEXT_H_
