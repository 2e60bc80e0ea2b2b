#ifndef LUTHIER_LIB_STUDY_COMPACT_COLUMN_H_
#define LUTHIER_LIB_STUDY_COMPACT_COLUMN_H_

#include "lib/study/encoding.h"

namespace luthier::study {

// One coordinate of the compact encoding, for algorithms that draw numbers and need to know which of them decode to the
// same value.
class CompactColumn {
 public:
  enum class Kind {
    kContinuous,
    kOrdered,    // Cells of [0, 1] in order, one a level.
    kUnordered,  // Labels: label i of k at (i + 1/2)/k. Bools too.
  };

  // Compact coordinate c of the encoding.
  CompactColumn(const Encoding& encoding, int c);

  Kind kind() const { return kind_; }
  // Returns the number of levels of an ordered or unordered column.
  double levels() const { return levels_; }
  // The coordinate that the encoding gives to the value which u decodes to.
  double Canonical(double u) const;
  struct Cell {
    double low, high;
  };
  // The cell of an ordered column that holds u.
  Cell CellOf(double u) const;
  // Returns the label of an unordered column that u decodes to.
  int LabelOf(double u) const;

 private:
  double LevelOf(double u) const;

  Kind kind_ = Kind::kContinuous;
  double levels_ = 0.0;
  // Whole numbers on a log scale: u = (ln x - low_)/width_; min_ and max_ are in user units. Others: width_ is 0.
  double min_ = 0.0, max_ = 0.0, low_ = 0.0, width_ = 0.0;
};

// Returns true if any coordinate is unordered: labels or switches make many landscapes of a space.
bool AnyUnordered(const Encoding& encoding);

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_COMPACT_COLUMN_H_
