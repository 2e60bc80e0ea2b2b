#include "lib/data/synthetic_glyph.h"

#include <algorithm>
#include <cmath>

namespace luthier::data {

namespace {
constexpr int kPoints = 5;
}

SyntheticGlyph::SyntheticGlyph(int height, int width, base::RandomStream& random)
    : pen_(std::max(1.0, std::min(height, width) / 10.0)) {
  // The strokes have a margin around them, where there is room for one.
  for (int k = 0; k < kPoints; ++k) {
    const double y = (0.15 + 0.7 * random.Uniform()) * height;
    const double x = (0.15 + 0.7 * random.Uniform()) * width;
    points_.push_back({y, x});
  }
}

double SyntheticGlyph::Ink(int row, int column, double down, double right) const {
  const double y = row + 0.5 - down, x = column + 0.5 - right;
  double nearest = INFINITY;
  for (size_t k = 1; k < points_.size(); ++k) {
    const Point a = points_[k - 1];
    const double dy = points_[k].y - a.y, dx = points_[k].x - a.x;
    const double along = ((y - a.y) * dy + (x - a.x) * dx) / std::max(dy * dy + dx * dx, 1e-12);
    const double t = std::clamp(along, 0.0, 1.0);
    nearest = std::min(nearest, std::hypot(y - a.y - t * dy, x - a.x - t * dx));
  }
  return std::clamp(1.5 - nearest / pen_, 0.0, 1.0);
}

}  // namespace luthier::data
