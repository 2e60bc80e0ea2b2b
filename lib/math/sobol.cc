#include "lib/math/sobol.h"

#include <bit>

#include "lib/base/check.h"
#include "lib/base/random.h"

namespace luthier::math {
namespace {

// Primitive polynomial (its inner coefficients as bits, with leading and trailing 1) and initial numbers m_1 … m_s of
// each column after the first, flattened: polynomial, m_1, …, m_s where s is the degree of the polynomial.
constexpr uint16_t kJoeKuo[] = {
#include "lib/math/sobol_joe_kuo.inc"
};

constexpr int kBits = SobolSequence::kDepth;

// Direction numbers v_1 … v_32 of every column, v_k = m_k 2^(kDepth-k).
std::vector<uint64_t> UnscrambledDirections(int dimension) {
  constexpr int kColumns = SobolSequence::kIndexBits;
  std::vector<uint64_t> directions(static_cast<size_t>(dimension) * kColumns);
  const uint16_t* entry = kJoeKuo;
  for (int column = 0; column < dimension; ++column) {
    uint64_t* v = &directions[static_cast<size_t>(column) * kColumns];
    if (column == 0) {  // Van der Corput's sequence: all m_k = 1.
      for (int k = 0; k < kColumns; ++k) v[k] = uint64_t{1} << (kBits - 1 - k);
      continue;
    }
    const uint32_t polynomial = *entry++;
    const int degree = std::bit_width(polynomial) - 1;
    for (int k = 0; k < degree; ++k) v[k] = static_cast<uint64_t>(*entry++) << (kBits - 1 - k);
    for (int k = degree; k < kColumns; ++k) {
      // m_k = 2 a_1 m_{k-1} xor … xor 2^s m_{k-s} xor m_{k-s}, in the shifted form.
      v[k] = v[k - degree] ^ (v[k - degree] >> degree);
      for (int j = 1; j < degree; ++j) {
        if ((polynomial >> (degree - j)) & 1) v[k] ^= v[k - j];
      }
    }
  }
  return directions;
}

uint64_t GrayCode(uint64_t index) {
  return index ^ (index >> 1);
}

}  // namespace

SobolSequence::SobolSequence(int dimension)
    : dimension_(dimension),
      table_dimension_(dimension < kMaxSobolDimension ? dimension : kMaxSobolDimension),
      scrambled_(false),
      beyond_purpose_("sobol/beyond") {
  LUTHIER_CHECK(dimension >= 0);
  directions_ = UnscrambledDirections(table_dimension_);
  shift_.assign(static_cast<size_t>(table_dimension_), 0);
}

SobolSequence::SobolSequence(int dimension, uint64_t seed, absl::string_view purpose) : SobolSequence(dimension) {
  scrambled_ = true;
  seed_ = seed;
  beyond_purpose_ = std::string(purpose) + "/beyond";
  for (int column = 0; column < table_dimension_; ++column) {
    // A stream per column: a column's scramble does not depend on how many columns there are.
    base::RandomStream stream(seed, purpose, static_cast<uint64_t>(column));
    uint64_t rows[kBits];  // Row r: output bit r (from the top) is the parity of rows[r] & input.
    for (int r = 0; r < kBits; ++r) {
      const uint64_t diagonal = uint64_t{1} << (kBits - 1 - r);
      const uint64_t above = ~(diagonal | (diagonal - 1)) & ((uint64_t{1} << kBits) - 1);
      rows[r] = diagonal | (stream.NextU64() & above);
    }
    shift_[static_cast<size_t>(column)] = stream.NextU64() >> (64 - kBits);
    uint64_t* v = &directions_[static_cast<size_t>(column) * kIndexBits];
    for (int k = 0; k < kIndexBits; ++k) {
      uint64_t mixed = 0;
      for (int r = 0; r < kBits; ++r) mixed = (mixed << 1) | (std::popcount(rows[r] & v[k]) & 1);
      v[k] = mixed;
    }
  }
}

double SobolSequence::ToUnit(uint64_t bits) const {
  const double corner = static_cast<double>(bits) * 0x1p-52;
  return scrambled_ ? corner + 0x1p-53 : corner;
}

double SobolSequence::Beyond(uint64_t index, int column) const {
  base::RandomStream stream(seed_, beyond_purpose_, index, static_cast<uint32_t>(column));
  return stream.UniformOpen();
}

Eigen::VectorXd SobolSequence::Point(uint64_t index) const {
  return Points(index, 1).row(0).transpose();
}

Eigen::MatrixXd SobolSequence::Points(uint64_t first, int count) const {
  LUTHIER_CHECK(count >= 0);
  LUTHIER_CHECK(first + static_cast<uint64_t>(count) <= (uint64_t{1} << kIndexBits));
  Eigen::MatrixXd points(count, dimension_);
  if (count == 0) return points;
  for (int column = 0; column < table_dimension_; ++column) {
    const uint64_t* v = &directions_[static_cast<size_t>(column) * kIndexBits];
    uint64_t bits = shift_[static_cast<size_t>(column)];
    for (uint64_t gray = GrayCode(first); gray != 0; gray &= gray - 1) bits ^= v[std::countr_zero(gray)];
    points(0, column) = ToUnit(bits);
    for (int i = 1; i < count; ++i) {
      // Gray codes of neighbours differ in the lowest set bit of the larger index.
      bits ^= v[std::countr_zero(first + static_cast<uint64_t>(i))];
      points(i, column) = ToUnit(bits);
    }
  }
  for (int column = table_dimension_; column < dimension_; ++column) {
    for (int i = 0; i < count; ++i) points(i, column) = Beyond(first + static_cast<uint64_t>(i), column);
  }
  return points;
}

}  // namespace luthier::math
