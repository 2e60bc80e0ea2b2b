#include "lib/math/slice_sampler.h"

#include <cmath>
#include <limits>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::math {
namespace {

using Eigen::VectorXd;

// The log density along the line x + t direction.
class Line {
 public:
  Line(LogDensity density, const VectorXd& x, const VectorXd& direction, SliceCounts* counts)
      : density_(density), x_(x), direction_(direction), counts_(counts) {}

  VectorXd Point(double t) const { return x_ + t * direction_; }
  absl::StatusOr<double> operator()(double t) {
    ++counts_->evaluations;
    LUTHIER_ASSIGN_OR_RETURN(const double value, density_(Point(t)));
    return std::isnan(value) ? -std::numeric_limits<double>::infinity() : value;
  }

 private:
  LogDensity density_;
  const VectorXd& x_;
  const VectorXd direction_;
  SliceCounts* counts_;
};

// Returns true if doubling started around `t` would have led to the interval (left, right), had the same random choices
// been made (Neal 2003, fig. 6, with the old point at 0). Intervals halved back to `width` need no test.
absl::StatusOr<bool> Acceptable(Line& line, double t, double level, double width, double left, double right) {
  bool split = false;  // 0 and t lie in different halves from here on.
  double left_value = 0.0, right_value = 0.0;
  bool left_known = false, right_known = false;
  while (right - left > 1.1 * width) {
    const double middle = 0.5 * (left + right);
    if ((0.0 < middle) != (t < middle)) split = true;
    if (t < middle) {
      right = middle;
      right_known = false;
    } else {
      left = middle;
      left_known = false;
    }
    if (!split) continue;
    if (!left_known) {
      LUTHIER_ASSIGN_OR_RETURN(left_value, line(left));
    }
    left_known = true;
    if (left_value > level) continue;
    if (!right_known) {
      LUTHIER_ASSIGN_OR_RETURN(right_value, line(right));
    }
    right_known = true;
    if (right_value <= level) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<bool> StartSlice(LogDensity density, const VectorXd& x, SliceState* state, SliceCounts* counts) {
  ++counts->evaluations;
  LUTHIER_ASSIGN_OR_RETURN(const double log_density, density(x));
  state->x = x;
  state->log_density = log_density;
  return std::isfinite(state->log_density);
}

absl::Status SliceAlong(LogDensity density, const VectorXd& direction, const SliceOptions& options,
                        base::RandomStream& stream, SliceState* state, SliceCounts* counts) {
  LUTHIER_CHECK(std::isfinite(state->log_density) && options.width > 0.0 && options.max_shrinks >= 1);
  LUTHIER_CHECK(options.max_doublings <= 1000);
  const double norm = direction.norm();
  LUTHIER_CHECK(norm > 0.0 && direction.size() == state->x.size());
  Line line(density, state->x, direction / norm, counts);
  const double level = state->log_density + std::log(stream.UniformOpen());

  double right = options.width * stream.Uniform();
  double left = right - options.width;
  const bool doubling = options.expansion == SliceExpansion::kDoubling;
  if (doubling) {
    LUTHIER_ASSIGN_OR_RETURN(double left_value, line(left));
    LUTHIER_ASSIGN_OR_RETURN(double right_value, line(right));
    for (int k = 0; k < options.max_doublings && (left_value > level || right_value > level); ++k) {
      const double length = right - left;
      if (stream.Uniform() < 0.5) {
        LUTHIER_ASSIGN_OR_RETURN(left_value, line(left -= length));
      } else {
        LUTHIER_ASSIGN_OR_RETURN(right_value, line(right += length));
      }
    }
  } else {
    const int max_left = static_cast<int>(stream.UniformInt(static_cast<uint64_t>(options.max_steps) + 1));
    for (int k = 0; k < max_left; ++k) {
      LUTHIER_ASSIGN_OR_RETURN(const double value, line(left));
      if (!(value > level)) break;
      left -= options.width;
    }
    for (int k = max_left; k < options.max_steps; ++k) {
      LUTHIER_ASSIGN_OR_RETURN(const double value, line(right));
      if (!(value > level)) break;
      right += options.width;
    }
  }

  double low = left, high = right;
  for (int k = 0; k < options.max_shrinks; ++k) {
    const double t = low + stream.Uniform() * (high - low);
    LUTHIER_ASSIGN_OR_RETURN(const double value, line(t));
    bool accepted = value > level && std::isfinite(value);
    if (accepted && doubling) {
      LUTHIER_ASSIGN_OR_RETURN(accepted, Acceptable(line, t, level, options.width, left, right));
    }
    if (accepted) {
      state->x = line.Point(t);
      state->log_density = value;
      return absl::OkStatus();
    }
    (t < 0.0 ? low : high) = t;
  }
  ++counts->kept;
  return absl::OkStatus();
}

absl::Status SliceRandomDirection(LogDensity density, const std::vector<int>& block, const SliceOptions& options,
                                  base::RandomStream& stream, SliceState* state, SliceCounts* counts) {
  VectorXd direction = VectorXd::Zero(state->x.size());
  do {
    for (int j : block) direction(j) = stream.Normal();
  } while (!(direction.squaredNorm() > 0.0));
  return SliceAlong(density, direction, options, stream, state, counts);
}

absl::Status SliceCoordinates(LogDensity density, const std::vector<int>& block, const SliceOptions& options,
                              base::RandomStream& stream, SliceState* state, SliceCounts* counts) {
  std::vector<int> order = block;
  stream.Shuffle(order);
  for (int j : order) {
    LUTHIER_RETURN_IF_ERROR(SliceAlong(density, VectorXd::Unit(state->x.size(), j), options, stream, state, counts));
  }
  return absl::OkStatus();
}

}  // namespace luthier::math
