#include "lib/spectral/parity_lasso.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::spectral {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::MatrixXf;
using Eigen::VectorXd;
using Eigen::VectorXf;

constexpr int kFieldBits = 12;
constexpr int kMaxPasses = 60;
constexpr size_t kAddPerPass = 60;
constexpr double kViolation = 1e-4;  // As a share of lambda.
// Features whose |c| reaches this share of lambda are taken in with the violators: they often are the next ones.
constexpr double kNear = 0.8;
constexpr double kStep = 1e-9;  // Coordinate descent ends when no weight moves by more (outputs are of unit scale).
constexpr int kMaxSweeps = 20000;

// A tile of inner products, whose sums stay in registers: Eigen's own products copy their operands first, which costs
// as much as multiplying them where both are this small.
using Packet = Eigen::internal::packet_traits<float>::type;
constexpr Index kLanes = Eigen::internal::packet_traits<float>::size;
constexpr Index kLeft = 4;
constexpr Index kRight = 3;

// sums(k, j) = left column j . right column k; columns of `rows` numbers, a multiple of kLanes.
void Tile(const float* left, const float* right, Index rows, float (&sums)[kRight][kLeft]) {
  using namespace Eigen::internal;
  Packet sum[kRight][kLeft];
  for (auto& row : sum) {
    for (Packet& packet : row) packet = pset1<Packet>(0.0f);
  }
  for (Index t = 0; t < rows; t += kLanes) {
    Packet r[kRight];
    for (Index k = 0; k < kRight; ++k) r[k] = ploadu<Packet>(right + k * rows + t);
    for (Index j = 0; j < kLeft; ++j) {
      const Packet l = ploadu<Packet>(left + j * rows + t);
      for (Index k = 0; k < kRight; ++k) sum[k][j] = pmadd(l, r[k], sum[k][j]);
    }
  }
  for (Index k = 0; k < kRight; ++k) {
    for (Index j = 0; j < kLeft; ++j) sums[k][j] = predux(sum[k][j]);
  }
}

FeatureKey Field(int bit, int place) {
  return static_cast<FeatureKey>(bit + 1) << (kFieldBits * (kMaxDegree - 1 - place));
}

int Degree(FeatureKey key) {
  int degree = 0;
  for (; key != 0; key = (key << kFieldBits) & ((FeatureKey{1} << (kFieldBits * kMaxDegree)) - 1)) ++degree;
  return degree;
}

double SoftThreshold(double x, double lambda) {
  if (x > lambda) return x - lambda;
  if (x < -lambda) return x + lambda;
  return 0.0;
}

// The features in use, their columns and Gram matrix, and the solution on them.
class WorkingSet {
 public:
  WorkingSet(const ParityLasso& lasso, const VectorXd& y) : lasso_(lasso), y_(y) {}

  bool Has(FeatureKey key) const { return std::binary_search(sorted_.begin(), sorted_.end(), key); }
  Index size() const { return static_cast<Index>(keys_.size()); }
  const std::vector<FeatureKey>& keys() const { return keys_; }
  double weight(Index k) const { return weight_[k]; }

  void Add(const std::vector<FeatureKey>& keys) {
    if (keys.empty()) return;
    const Index old = size();
    const Index now = old + static_cast<Index>(keys.size());
    const double samples = static_cast<double>(lasso_.samples());
    columns_.conservativeResize(lasso_.samples(), now);
    for (Index k = old; k < now; ++k) columns_.col(k) = lasso_.Column(keys[static_cast<size_t>(k - old)]);
    // Sums of +-1: whole numbers below 2^24, exact in single precision.
    const MatrixXf products = columns_.transpose() * columns_.rightCols(now - old);
    gram_.conservativeResize(now, now);
    gram_.rightCols(now - old) = products.cast<double>() / samples;
    gram_.bottomLeftCorner(now - old, old) = gram_.topRightCorner(old, now - old).transpose();
    correlation_.conservativeResize(now);
    weight_.conservativeResize(now);
    for (Index k = old; k < now; ++k) {
      correlation_[k] = columns_.col(k).cast<double>().dot(y_) / samples;
      weight_[k] = 0.0;
    }
    keys_.insert(keys_.end(), keys.begin(), keys.end());
    sorted_.insert(sorted_.end(), keys.begin(), keys.end());
    std::sort(sorted_.begin(), sorted_.end());
  }

  // Keeps the features of non-zero weight only.
  void DropZeros() {
    std::vector<FeatureKey> kept;
    std::vector<double> weights;
    for (Index k = 0; k < size(); ++k) {
      if (weight_[k] == 0.0) continue;
      kept.push_back(keys_[static_cast<size_t>(k)]);
      weights.push_back(weight_[k]);
    }
    keys_.clear();
    sorted_.clear();
    columns_.resize(lasso_.samples(), 0);
    gram_.resize(0, 0);
    correlation_.resize(0);
    weight_.resize(0);
    Add(kept);
    for (Index k = 0; k < size(); ++k) weight_[k] = weights[static_cast<size_t>(k)];
  }

  // Runs coordinate descent. Returns false if it did not settle.
  absl::StatusOr<bool> Solve(double lambda, const base::StopToken& stop) {
    base::Pace pace(stop);
    const auto poll = [&] { return pace.Poll(base::kRandomAccess + size()); };
    VectorXd slope = correlation_ - gram_ * weight_;  // Psi'r/T on the set.
    const auto update = [&](Index k) {
      const double before = weight_[k];
      const double after = SoftThreshold(before + slope[k], lambda);
      if (after == before) return 0.0;
      weight_[k] = after;
      slope -= (after - before) * gram_.col(k);
      return std::abs(after - before);
    };
    std::vector<Index> active;
    for (int sweep = 0; sweep < kMaxSweeps; ++sweep) {
      double moved = 0.0;
      for (Index k = 0; k < size(); ++k) {
        LUTHIER_RETURN_IF_ERROR(poll());
        moved = std::max(moved, update(k));
      }
      if (moved < kStep) return true;
      active.clear();
      for (Index k = 0; k < size(); ++k) {
        if (weight_[k] != 0.0) active.push_back(k);
      }
      while (moved >= kStep && ++sweep < kMaxSweeps) {
        moved = 0.0;
        for (const Index k : active) {
          LUTHIER_RETURN_IF_ERROR(poll());
          moved = std::max(moved, update(k));
        }
      }
    }
    return false;
  }

  VectorXd Residual() const {
    VectorXd residual = y_;
    for (Index k = 0; k < size(); ++k) {
      if (weight_[k] != 0.0) residual -= weight_[k] * columns_.col(k).cast<double>();
    }
    return residual;
  }

 private:
  const ParityLasso& lasso_;
  const VectorXd& y_;
  std::vector<FeatureKey> keys_;
  std::vector<FeatureKey> sorted_;
  MatrixXf columns_;  // T x w.
  MatrixXd gram_;     // w x w, divided by T.
  VectorXd correlation_;
  VectorXd weight_;
};

}  // namespace

FeatureKey KeyOf(const std::vector<int>& bits) {
  LUTHIER_CHECK(bits.size() <= kMaxDegree);
  FeatureKey key = 0;
  for (size_t place = 0; place < bits.size(); ++place) key |= Field(bits[place], static_cast<int>(place));
  return key;
}

std::vector<int> BitsOf(FeatureKey key) {
  std::vector<int> bits;
  for (int place = 0; place < kMaxDegree; ++place) {
    const auto field = static_cast<int>((key >> (kFieldBits * (kMaxDegree - 1 - place))) & ((1 << kFieldBits) - 1));
    if (field == 0) break;
    bits.push_back(field - 1);
  }
  return bits;
}

bool KeyBefore(FeatureKey a, FeatureKey b) {
  const int degree_a = Degree(a);
  const int degree_b = Degree(b);
  return degree_a != degree_b ? degree_a < degree_b : a < b;
}

ParityLasso::ParityLasso(const BitMatrix& x, const std::vector<int>& free, int degree)
    : samples_(x.rows()), free_(free), degree_(degree) {
  LUTHIER_CHECK(x.rows() >= 1 && degree >= 1 && degree <= kMaxDegree && x.cols() <= kMaxLassoBits);
  LUTHIER_CHECK(std::is_sorted(free.begin(), free.end()));
  const Index rows = (samples_ + kLanes - 1) / kLanes * kLanes;
  x_ = BitMatrix::Zero(rows, static_cast<Index>(free.size()) + kRight - 1);
  for (size_t k = 0; k < free.size(); ++k) x_.col(static_cast<Index>(k)).head(samples_) = x.col(free[k]);
}

VectorXf ParityLasso::Scaled(const VectorXd& r) const {
  VectorXf w = VectorXf::Zero(x_.rows());
  w.head(samples_) = (r / static_cast<double>(samples_)).cast<float>();
  return w;
}

// Visits all features that begin with `prefix` (`length` bits) and go on with columns >= next; w = prefix's parity
// times r/T.
template <typename F>
absl::Status ParityLasso::Visit(const VectorXf& w, FeatureKey prefix, int length, Index next, base::Pace& pace,
                                F& visit) const {
  const auto columns = static_cast<Index>(free_.size());
  const Index rest = columns - next;
  if (rest <= 0) return absl::OkStatus();
  LUTHIER_RETURN_IF_ERROR(pace.Poll(rest * x_.rows()));
  const VectorXf single = x_.middleCols(next, rest).transpose() * w;
  for (Index j = 0; j < rest; ++j) visit(prefix | Field(free_[static_cast<size_t>(next + j)], length), single[j]);
  if (degree_ - length < 2) return absl::OkStatus();
  if (degree_ - length > 2) {
    for (Index j = next; j < columns; ++j) {
      const VectorXf product = w.cwiseProduct(x_.col(j));
      LUTHIER_RETURN_IF_ERROR(
          Visit(product, prefix | Field(free_[static_cast<size_t>(j)], length), length + 1, j + 1, pace, visit));
    }
    return absl::OkStatus();
  }
  MatrixXf left = MatrixXf::Zero(x_.rows(), kLeft);
  float sums[kRight][kLeft];
  for (Index begin = next; begin < columns; begin += kLeft) {
    const Index block = std::min(kLeft, columns - begin);
    for (Index j = 0; j < block; ++j) left.col(j) = w.cwiseProduct(x_.col(begin + j));
    for (Index k = begin + 1; k < columns; k += kRight) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(kRight * kLeft * x_.rows()));
      Tile(left.data(), x_.col(k).data(), x_.rows(), sums);
      for (Index i = 0; i < std::min(kRight, columns - k); ++i) {
        const FeatureKey last = Field(free_[static_cast<size_t>(k + i)], length + 1);
        for (Index j = 0; j < std::min(block, k + i - begin); ++j) {
          visit(prefix | Field(free_[static_cast<size_t>(begin + j)], length) | last, sums[i][j]);
        }
      }
    }
  }
  return absl::OkStatus();
}

absl::Status ParityLasso::Correlations(const VectorXd& r, absl::FunctionRef<void(FeatureKey, float)> visit,
                                       const base::StopToken& stop) const {
  const VectorXf w = Scaled(r);
  base::Pace pace(stop);
  return Visit(w, 0, 0, 0, pace, visit);
}

absl::StatusOr<std::vector<FeatureKey>> ParityLasso::Above(const VectorXd& r, double threshold,
                                                           const base::StopToken& stop) const {
  std::vector<FeatureKey> above;
  const VectorXf w = Scaled(r);
  const auto limit = static_cast<float>(threshold);
  auto visit = [&](FeatureKey key, float c) {
    if (std::abs(c) > limit) above.push_back(key);
  };
  base::Pace pace(stop);
  LUTHIER_RETURN_IF_ERROR(Visit(w, 0, 0, 0, pace, visit));
  return above;
}

absl::StatusOr<double> ParityLasso::LargestCorrelation(const VectorXd& y, const base::StopToken& stop) const {
  const VectorXf w = Scaled(y);
  float largest = 0.0f;
  auto visit = [&](FeatureKey, float c) { largest = std::max(largest, std::abs(c)); };
  base::Pace pace(stop);
  LUTHIER_RETURN_IF_ERROR(Visit(w, 0, 0, 0, pace, visit));
  return static_cast<double>(largest);
}

VectorXf ParityLasso::Column(FeatureKey key) const {
  VectorXf column = VectorXf::Ones(samples_);
  for (const int bit : BitsOf(key)) {
    const auto at = std::lower_bound(free_.begin(), free_.end(), bit) - free_.begin();
    column.array() *= x_.col(at).head(samples_).array();
  }
  return column;
}

absl::StatusOr<LassoFit> ParityLasso::Fit(const VectorXd& y, double lambda, const std::vector<FeatureKey>& start,
                                          const base::StopToken& stop) const {
  LUTHIER_CHECK(y.size() == samples() && lambda > 0.0);
  LassoFit fit;
  WorkingSet set(*this, y);
  set.Add(start);
  LUTHIER_ASSIGN_OR_RETURN(bool settled, set.Solve(lambda, stop));
  const Index most = 2 * samples() + 200;
  struct Candidate {
    float size;
    FeatureKey key;
  };
  std::vector<Candidate> candidates;
  base::Pace pace(stop);
  while (true) {
    const VectorXf w = Scaled(set.Residual());
    candidates.clear();
    const auto near = static_cast<float>(kNear * lambda);
    auto visit = [&](FeatureKey key, float c) {
      if (std::abs(c) > near) candidates.push_back({std::abs(c), key});
    };
    LUTHIER_RETURN_IF_ERROR(Visit(w, 0, 0, 0, pace, visit));
    ++fit.passes;
    std::erase_if(candidates, [&](const Candidate& c) { return set.Has(c.key); });
    const auto larger = [](const Candidate& a, const Candidate& b) {
      return a.size != b.size ? a.size > b.size : KeyBefore(a.key, b.key);
    };
    if (candidates.size() > kAddPerPass) {
      std::nth_element(candidates.begin(), candidates.begin() + kAddPerPass, candidates.end(), larger);
      candidates.resize(kAddPerPass);
    }
    std::sort(candidates.begin(), candidates.end(), larger);
    if (candidates.empty() || static_cast<double>(candidates.front().size) <= lambda * (1.0 + kViolation)) break;
    if (fit.passes == kMaxPasses) {
      settled = false;
      break;
    }
    if (set.size() + static_cast<Index>(candidates.size()) > most) set.DropZeros();
    std::vector<FeatureKey> keys;
    for (const Candidate& c : candidates) keys.push_back(c.key);
    set.Add(keys);
    LUTHIER_ASSIGN_OR_RETURN(settled, set.Solve(lambda, stop));
  }
  fit.converged = settled;
  for (Index k = 0; k < set.size(); ++k) {
    if (set.weight(k) != 0.0) fit.terms.push_back({BitsOf(set.keys()[static_cast<size_t>(k)]), set.weight(k)});
  }
  std::sort(fit.terms.begin(), fit.terms.end(),
            [](const Term& a, const Term& b) { return KeyBefore(KeyOf(a.bits), KeyOf(b.bits)); });
  return fit;
}

}  // namespace luthier::spectral
