#include "lib/search/nsga2/variation.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;
using study::CompactColumn;

namespace {

constexpr double kCrossoverIndex = 20.0, kMutationIndex = 20.0;
constexpr double kCrossover = 0.9, kCrossoverOfColumn = 0.5;
constexpr double kSame = 1e-14;  // Distance below which two coordinates are the same.

// Returns the factor by which the distance of two children is that of their parents. `room`: distance from the nearer
// parent to the end of the range in which the child is to stay; `p`: uniform in [0, 1).
double SpreadFactor(double room, double distance, double p) {
  const double beta = 1.0 + 2.0 * room / distance;
  const double alpha = 2.0 - std::pow(beta, -(kCrossoverIndex + 1.0));
  const double power = 1.0 / (kCrossoverIndex + 1.0);
  return p <= 1.0 / alpha ? std::pow(p * alpha, power) : std::pow(1.0 / (2.0 - p * alpha), power);
}

}  // namespace

double SimulatedBinaryChild(double a, double b, base::RandomStream* random) {
  const double p = random->Uniform(), lower = random->Uniform();
  const double low = std::min(a, b), high = std::max(a, b), distance = high - low;
  if (distance < kSame) return a;
  const double middle = 0.5 * (low + high);
  const double child = lower < 0.5 ? middle - 0.5 * distance * SpreadFactor(low, distance, p)
                                   : middle + 0.5 * distance * SpreadFactor(1.0 - high, distance, p);
  return std::clamp(child, 0.0, 1.0);
}

double PolynomialMutation(double u, base::RandomStream* random) {
  const double r = random->Uniform(), power = 1.0 / (kMutationIndex + 1.0);
  double step = 0.0;
  if (r < 0.5) {
    step = std::pow(2.0 * r + (1.0 - 2.0 * r) * std::pow(1.0 - u, kMutationIndex + 1.0), power) - 1.0;
  } else {
    step = 1.0 - std::pow(2.0 * (1.0 - r) + (2.0 * r - 1.0) * std::pow(u, kMutationIndex + 1.0), power);
  }
  return std::clamp(u + step, 0.0, 1.0);
}

Nsga2Variation::Nsga2Variation(const study::Encoding& encoding) : encoding_(encoding) {
  for (int c = 0; c < encoding_.compact_dim(); ++c) columns_.emplace_back(encoding_, c);
}

std::vector<bool> Nsga2Variation::Has(const study::Parameters& setting) const {
  std::vector<bool> has(columns_.size());
  for (size_t c = 0; c < columns_.size(); ++c) {
    const auto parameter = static_cast<size_t>(encoding_.compact_parameter(static_cast<int>(c)));
    has[c] = setting.contains(encoding_.space().parameters()[parameter].name);
  }
  return has;
}

void Nsga2Variation::Mutate(size_t c, VectorXd* u, base::RandomStream* random) const {
  const CompactColumn& column = columns_[c];
  double& x = (*u)(static_cast<Index>(c));
  if (column.kind() == CompactColumn::Kind::kUnordered) {
    const auto others = static_cast<uint64_t>(column.levels()) - 1;
    if (others == 0) return;
    auto label = static_cast<double>(random->UniformInt(others));
    if (label >= column.LabelOf(x)) label += 1.0;
    x = (label + 0.5) / column.levels();
    return;
  }
  const double moved = PolynomialMutation(x, random);
  if (column.kind() == CompactColumn::Kind::kOrdered) {
    const CompactColumn::Cell cell = column.CellOf(x);
    if (column.Canonical(moved) == column.Canonical(x)) {
      const bool up = cell.high < 1.0 && (moved >= x || cell.low <= 0.0);
      if (!up && cell.low <= 0.0) return;  // It has one level.
      x = up ? std::nextafter(cell.high, 2.0) : std::nextafter(cell.low, -1.0);
      return;
    }
  }
  x = moved;
}

study::Parameters Nsga2Variation::Child(const study::Parameters& first, const study::Parameters& second,
                                        base::RandomStream* random) const {
  const VectorXd a = encoding_.ToCompact(first), b = encoding_.ToCompact(second);
  const std::vector<bool> in_a = Has(first), in_b = Has(second);
  VectorXd u = a;
  const bool crosses = random->Uniform() < kCrossover;
  for (size_t c = 0; c < columns_.size(); ++c) {
    double& x = u(static_cast<Index>(c));
    const double other = b(static_cast<Index>(c));
    if (!in_a[c]) {
      x = in_b[c] ? other : random->Uniform();
    } else if (in_b[c] && crosses && random->Uniform() < kCrossoverOfColumn) {
      x = columns_[c].kind() == CompactColumn::Kind::kUnordered ? other : SimulatedBinaryChild(x, other, random);
    }
  }
  const std::vector<bool> in_child = Has(encoding_.FromCompact(u));
  const auto d = static_cast<double>(std::count(in_child.begin(), in_child.end(), true));
  for (size_t c = 0; c < columns_.size(); ++c) {
    if (in_child[c] && random->Uniform() * d < 1.0) Mutate(c, &u, random);
  }
  return encoding_.FromCompact(u);
}

}  // namespace luthier::search
