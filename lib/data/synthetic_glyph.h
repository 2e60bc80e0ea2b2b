#ifndef LUTHIER_LIB_DATA_SYNTHETIC_GLYPH_H_
#define LUTHIER_LIB_DATA_SYNTHETIC_GLYPH_H_

#include <vector>

#include "lib/base/random.h"

namespace luthier::data {

// A made-up character: a few pen strokes (straight ones, each from where the last one ended) between random points of
// a field of height x width cells.
class SyntheticGlyph {
 public:
  SyntheticGlyph(int height, int width, base::RandomStream& random);

  // Ink at a cell, moved by (down, right) cells: 1 on a stroke, falling to 0 within a pen's width beside it.
  double Ink(int row, int column, double down = 0.0, double right = 0.0) const;

 private:
  struct Point {
    double y, x;
  };
  std::vector<Point> points_;
  double pen_;  // Cells.
};

}  // namespace luthier::data

#endif  // LUTHIER_LIB_DATA_SYNTHETIC_GLYPH_H_
