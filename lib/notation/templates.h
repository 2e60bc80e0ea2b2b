#ifndef LUTHIER_LIB_NOTATION_TEMPLATES_H_
#define LUTHIER_LIB_NOTATION_TEMPLATES_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace luthier::notation {

// One cell relative to a token.
struct Position {
  int offset = 0;  // In tokens.
  int column = 0;
  friend bool operator==(const Position&, const Position&) = default;
};

// An attribute of a token for each combination of the texts at these positions. Templates of the same `space` share
// their attributes (CRF++: those of the same prefix).
struct Template {
  std::string space;
  std::vector<Position> positions;
  bool optional = false;  // True: it is left out where the data lack one of its columns.
};

inline constexpr int kMaxTemplates = 256;
inline constexpr int kMaxOffset = 100;

// Templates separated by line ends, commas or semicolons; "#" begins a comment that ends with the line. Two notations:
//   CRF++:     U05:%x[-1,0]/%x[0,0]    row offset, column; the text before the first % is the space. "B" lines, the
//              transitions, are accepted and change nothing: the model always has them.
//   CRFsuite:  w[-1]|w[0]              column name, offset. Each its own space.
// Or the name of a set: "chunking", the 19 of CoNLL-2000 (Sha & Pereira 2003 as CRF++ and CRFsuite have them): words at
// -2 ... 2, two word pairs, part-of-speech tags at -2 ... 2, four pairs and three triples of tags. They are optional:
// for data without a column of tags only the seven templates of words remain. `column_names`: w, pos, c2, c3, ... when
// empty. Returns INVALID_ARGUMENT naming the template and the problem.
absl::StatusOr<std::vector<Template>> ParseTemplates(absl::string_view text,
                                                     const std::vector<std::string>& column_names = {});

}  // namespace luthier::notation

#endif  // LUTHIER_LIB_NOTATION_TEMPLATES_H_
