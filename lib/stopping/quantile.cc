#include "lib/stopping/quantile.h"

#include <cmath>
#include <limits>

#include "lib/base/check.h"

namespace luthier::stopping {

void RunningQuantile::Add(double value) {
  if (!low_.empty() && value < low_.top())
    low_.push(value);
  else
    high_.push(value);
}

double RunningQuantile::Value(size_t beyond) {
  LUTHIER_CHECK(size() > 0);
  const double h = static_cast<double>(size() + beyond - 1) * share_;
  const double part = h - std::floor(h);
  const auto wanted = static_cast<size_t>(std::floor(h)) + 1;  // low_: v_0 … v_⌊h⌋.
  if (wanted > size() || (part > 0.0 && wanted == size())) return std::numeric_limits<double>::infinity();
  while (low_.size() > wanted) {
    high_.push(low_.top());
    low_.pop();
  }
  while (low_.size() < wanted) {
    low_.push(high_.top());
    high_.pop();
  }
  const double lower = low_.top();
  // Not lower + part * (upper - lower), which overflows for the largest doubles.
  return part == 0.0 ? lower : (1.0 - part) * lower + part * high_.top();
}

}  // namespace luthier::stopping
