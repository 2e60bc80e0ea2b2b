#include "lib/kernels/stationary.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/kernels/packets.h"

namespace luthier::kernels {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::RowVectorXd;
using Eigen::VectorXd;
using packets::Packet;

namespace {

// Squared distance from z of the rows row … of a, over the given columns; kPackets registers of it.
template <int kPackets, bool kOne>
EIGEN_ALWAYS_INLINE void Distances(const double* a, Index stride, Index row, const double* z, const Index* begin,
                                   const Index* end, Packet* r2) {
  for (int p = 0; p < kPackets; ++p) r2[p] = packets::Set(0.0);
  for (const Index* j = begin; j != end; ++j) {
    const double* column = a + *j * stride + row;
    const Packet centre = packets::Set(z[*j]);
    for (int p = 0; p < kPackets; ++p) {
      const Packet difference = Eigen::internal::psub(packets::Load<kOne>(column + p * packets::kLanes), centre);
      r2[p] = packets::MulAdd(difference, difference, r2[p]);
    }
  }
}

// A block of a matrix without storage has no address to add to.
const double* RowAddress(const MatrixXd& z, Index row) {
  return z.cols() == 0 ? nullptr : z.data() + row;
}

}  // namespace

KernelShape ArdShape(Family family, int columns, Structure structure) {
  std::vector<int> groups;
  for (int j = 0; j < columns; ++j) groups.push_back(j);
  return GroupedShape(family, std::move(groups), structure);
}

KernelShape GroupedShape(Family family, std::vector<int> column_group, Structure structure) {
  KernelShape shape;
  shape.family = family;
  shape.structure = structure;
  shape.column_group = std::move(column_group);
  for (int group : shape.column_group) {
    LUTHIER_CHECK(group >= 0);
    if (group >= shape.groups) shape.groups = group + 1;
  }
  std::vector<bool> used(static_cast<size_t>(shape.groups), false);
  for (int group : shape.column_group) used[static_cast<size_t>(group)] = true;
  for (bool u : used) LUTHIER_CHECK(u);
  LUTHIER_CHECK(structure == Structure::kJoint || shape.groups >= 1);
  LUTHIER_CHECK(structure != Structure::kPairwise || shape.groups >= 2);
  return shape;
}

std::string ShapeName(const KernelShape& shape) {
  const char* prefix = shape.structure == Structure::kAdditive   ? "additive-"
                       : shape.structure == Structure::kPairwise ? "pairwise-"
                                                                 : "";
  return absl::StrCat(prefix, FamilyName(shape.family));
}

StationaryKernel::StationaryKernel(KernelShape shape, const Eigen::Ref<const VectorXd>& lengthscales,
                                   double signal_variance, double shape_parameter)
    : shape_(std::move(shape)),
      signal_variance_(signal_variance),
      shape_parameter_(shape_parameter),
      inverse_(shape_.columns()) {
  LUTHIER_CHECK(lengthscales.size() == shape_.groups);
  LUTHIER_CHECK(signal_variance > 0.0 && shape_parameter > 0.0);
  for (int j = 0; j < shape_.columns(); ++j) {
    const double lengthscale = lengthscales(shape_.column_group[static_cast<size_t>(j)]);
    LUTHIER_CHECK(lengthscale > 0.0);
    inverse_(j) = 1.0 / lengthscale;
  }
  begin_.push_back(0);
  for (int group = 0; group < shape_.groups; ++group) {
    for (int j = 0; j < shape_.columns(); ++j) {
      if (shape_.column_group[static_cast<size_t>(j)] == group) columns_.push_back(j);
    }
    begin_.push_back(static_cast<Index>(columns_.size()));
  }
  const double groups = shape_.groups;
  if (shape_.structure == Structure::kAdditive) single_ = 1.0 / groups;
  if (shape_.structure == Structure::kPairwise) {
    single_ = 1.0 / (groups * (1.0 + shape_parameter_));
    pair_ = 2.0 / (groups * (groups - 1.0)) * (shape_parameter_ / (1.0 + shape_parameter_));
  }
}

MatrixXd StationaryKernel::Scale(const Eigen::Ref<const MatrixXd>& x) const {
  LUTHIER_CHECK(x.cols() == inverse_.size());
  return x.array().rowwise() * inverse_.array();
}

void StationaryKernel::Column(const double* a, Index stride, Index m, const double* z, double* k, double* slope) const {
  using Eigen::internal::padd;
  using Eigen::internal::pmul;
  using Eigen::internal::psub;
  const Packet variance = packets::Set(signal_variance_);
  packets::WithFamily(shape_.family, [&]<Family kFamily>() {
    if (shape_.structure == Structure::kJoint) {
      const Index* end = columns_.data() + columns_.size();
      packets::OverRows(m, [&]<int kPackets, bool kOne>(Index i, Index) {
        Packet r2[kPackets];
        Distances<kPackets, kOne>(a, stride, i, z, columns_.data(), end, r2);
        for (int p = 0; p < kPackets; ++p) {
          const packets::Profile profile = packets::ProfileOf<kFamily>(r2[p]);
          packets::Store<kOne>(k + i + p * packets::kLanes, pmul(variance, profile.value));
          if (slope != nullptr) {
            packets::Store<kOne>(slope + i + p * packets::kLanes, pmul(variance, profile.slope));
          }
        }
      });
      return;
    }
    // s (single sum_g f_g + pair ((sum_g f_g)^2 - sum_g f_g^2)/2).
    const Packet single = packets::Set(signal_variance_ * single_), pair = packets::Set(0.5 * signal_variance_ * pair_);
    packets::OverRows(m, [&]<int kPackets, bool kOne>(Index i, Index) {
      Packet sum[kPackets], square[kPackets], r2[kPackets];
      for (int p = 0; p < kPackets; ++p) sum[p] = square[p] = packets::Set(0.0);
      for (size_t g = 0; g + 1 < begin_.size(); ++g) {
        Distances<kPackets, kOne>(a, stride, i, z, columns_.data() + begin_[g], columns_.data() + begin_[g + 1], r2);
        for (int p = 0; p < kPackets; ++p) {
          const Packet f = packets::ProfileOf<kFamily>(r2[p]).value;
          sum[p] = padd(sum[p], f);
          square[p] = packets::MulAdd(f, f, square[p]);
        }
      }
      for (int p = 0; p < kPackets; ++p) {
        const Packet pairs = psub(pmul(sum[p], sum[p]), square[p]);
        packets::Store<kOne>(k + i + p * packets::kLanes, packets::MulAdd(pair, pairs, pmul(single, sum[p])));
      }
    });
  });
}

int64_t StationaryKernel::CostOf(Index rows) const {
  constexpr int64_t kDistanceCost = 20;
  return rows * (shape_.columns() + kDistanceCost * (shape_.structure == Structure::kJoint ? 1 : shape_.groups));
}

absl::Status StationaryKernel::GramLower(const MatrixXd& z, MatrixXd* k, MatrixXd* slope,
                                         const base::StopToken& stop) const {
  const Index n = z.rows();
  LUTHIER_CHECK(z.cols() == inverse_.size());
  k->resize(n, n);
  const bool joint = shape_.structure == Structure::kJoint;
  if (slope != nullptr) slope->resize(joint ? n : 0, joint ? n : 0);
  RowVectorXd point(z.cols());
  base::Pace pace(stop);
  for (Index b = 0; b < n; ++b) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(CostOf(n - b)));
    if (z.cols() > 0) point = z.row(b);
    const Index at = b * n + b;
    Column(RowAddress(z, b), n, n - b, point.data(), k->data() + at,
           joint && slope != nullptr ? slope->data() + at : nullptr);
  }
  return absl::OkStatus();
}

MatrixXd StationaryKernel::Gram(const Eigen::Ref<const MatrixXd>& x) const {
  MatrixXd k;
  LUTHIER_CHECK(GramLower(Scale(x), &k, nullptr, base::StopToken()).ok());
  k.triangularView<Eigen::StrictlyUpper>() = k.transpose();
  return k;
}

absl::StatusOr<KernelGradient> StationaryKernel::Contract(const MatrixXd& z, const MatrixXd& slope,
                                                          const MatrixXd& weights, const base::StopToken& stop) const {
  base::Pace pace(stop);
  using Eigen::internal::pmul;
  using Eigen::internal::psub;
  const Index n = z.rows();
  KernelGradient gradient;
  gradient.log_lengthscales = VectorXd::Zero(shape_.groups);
  const size_t groups = static_cast<size_t>(shape_.groups);
  // The diagonal is flat. Sums over the rest of the lower triangle; twice, for both triangles.
  std::vector<double> sums(groups * packets::kLanes, 0.0);
  RowVectorXd point(z.cols());
  const auto add = [&](size_t g, Packet term) {
    double* sum = &sums[g * packets::kLanes];
    packets::Store<false>(sum, Eigen::internal::padd(packets::Load<false>(sum), term));
  };
  if (shape_.structure == Structure::kJoint) {
    // With S = M o k': dK/d ln l_g gives -2 S r_g^2. A pass per group over differences that are in the first-level
    // cache: fewer operations than the full matrix products of S with the coordinates, and nothing cancels.
    VectorXd scaled(n);
    for (Index b = 0; b + 1 < n; ++b) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(CostOf(n - b)));
      const Index m = n - b - 1;
      const double* a = RowAddress(z, b + 1);
      const double *w = weights.data() + b * n + b + 1, *s = slope.data() + b * n + b + 1;
      if (z.cols() > 0) point = z.row(b);
      packets::OverRows(m, [&]<int kPackets, bool kOne>(Index i, Index) {
        for (int p = 0; p < kPackets; ++p) {
          const Index row = i + p * packets::kLanes;
          packets::Store<kOne>(scaled.data() + row, pmul(packets::Load<kOne>(w + row), packets::Load<kOne>(s + row)));
        }
      });
      for (size_t g = 0; g < groups; ++g) {
        Packet sum[4] = {packets::Set(0.0), packets::Set(0.0), packets::Set(0.0), packets::Set(0.0)};
        packets::OverRows(m, [&]<int kPackets, bool kOne>(Index i, Index skip) {
          Packet r2[kPackets];
          Distances<kPackets, kOne>(a, n, i, point.data(), columns_.data() + begin_[g], columns_.data() + begin_[g + 1],
                                    r2);
          for (int p = 0; p < kPackets; ++p) {
            const Packet own = packets::LoadFrom<kOne>(scaled.data() + i + p * packets::kLanes, skip);
            sum[p] = packets::MulAdd(own, r2[p], sum[p]);
          }
        });
        add(g, Eigen::internal::padd(Eigen::internal::padd(sum[0], sum[1]), Eigen::internal::padd(sum[2], sum[3])));
      }
    }
    for (size_t g = 0; g < groups; ++g) {
      gradient.log_lengthscales(static_cast<Index>(g)) =
          -4.0 * Eigen::internal::predux(packets::Load<false>(&sums[g * packets::kLanes]));
    }
    return gradient;
  }
  // dK/d ln l_g = s (single + pair (sum_h f_h - f_g)) (-2 r_g^2 f'_g).
  const double count = shape_.groups, rho = shape_parameter_;
  const Packet single = packets::Set(pair_ == 0.0 ? 1.0 : single_), pair = packets::Set(pair_);
  const Packet by_pairs = packets::Set(1.0 / (count * (count - 1.0))), by_singles = packets::Set(1.0 / count);
  Packet ratio = packets::Set(0.0);
  std::vector<double> values(groups * 4 * packets::kLanes), slopes(groups * 4 * packets::kLanes);
  absl::Status status;
  packets::WithFamily(shape_.family, [&]<Family kFamily>() {
    for (Index b = 0; b + 1 < n; ++b) {
      status = pace.Poll(CostOf(n - b));
      if (!status.ok()) return;
      const double* a = RowAddress(z, b + 1);
      const double* w = weights.data() + b * n + b + 1;
      if (z.cols() > 0) point = z.row(b);
      packets::OverRows(n - b - 1, [&]<int kPackets, bool kOne>(Index i, Index skip) {
        Packet own[kPackets], r2[kPackets], sum[kPackets], square[kPackets];
        for (int p = 0; p < kPackets; ++p) {
          own[p] = packets::LoadFrom<kOne>(w + i + p * packets::kLanes, skip);
          sum[p] = square[p] = packets::Set(0.0);
        }
        for (size_t g = 0; g < groups; ++g) {
          Distances<kPackets, kOne>(a, n, i, point.data(), columns_.data() + begin_[g], columns_.data() + begin_[g + 1],
                                    r2);
          for (int p = 0; p < kPackets; ++p) {
            const packets::Profile profile = packets::ProfileOf<kFamily>(r2[p]);
            const Packet term = pmul(own[p], pmul(r2[p], profile.slope));
            if (pair_ == 0.0) {
              add(g, term);
              continue;
            }
            const size_t at = (g * 4 + static_cast<size_t>(p)) * packets::kLanes;
            packets::Store<false>(&values[at], profile.value);
            packets::Store<false>(&slopes[at], term);
            sum[p] = Eigen::internal::padd(sum[p], profile.value);
            square[p] = packets::MulAdd(profile.value, profile.value, square[p]);
          }
        }
        if (pair_ == 0.0) return;
        for (int p = 0; p < kPackets; ++p) {
          for (size_t g = 0; g < groups; ++g) {
            const size_t at = (g * 4 + static_cast<size_t>(p)) * packets::kLanes;
            const Packet others = psub(sum[p], packets::Load<false>(&values[at]));
            add(g, pmul(packets::Load<false>(&slopes[at]), packets::MulAdd(pair, others, single)));
          }
          const Packet pairs = pmul(psub(pmul(sum[p], sum[p]), square[p]), by_pairs);
          ratio = packets::MulAdd(own[p], psub(pairs, pmul(sum[p], by_singles)), ratio);
        }
      });
    }
  });
  LUTHIER_RETURN_IF_ERROR(status);
  const double unit = -4.0 * signal_variance_ * (pair_ == 0.0 ? single_ : 1.0);
  for (size_t g = 0; g < groups; ++g) {
    gradient.log_lengthscales(static_cast<Index>(g)) =
        unit * Eigen::internal::predux(packets::Load<false>(&sums[g * packets::kLanes]));
  }
  if (pair_ != 0.0) {
    gradient.log_shape_parameter =
        2.0 * signal_variance_ * rho / ((1.0 + rho) * (1.0 + rho)) * Eigen::internal::predux(ratio);
  }
  return gradient;
}

void StationaryKernel::Cross(const Eigen::Ref<const MatrixXd>& a, const Eigen::Ref<const MatrixXd>& b,
                             MatrixXd* k) const {
  const Index n = a.rows();
  const Index q = b.rows();
  LUTHIER_CHECK(a.cols() == inverse_.size() && b.cols() == a.cols());
  k->resize(n, q);
  RowVectorXd point(b.cols());
  for (Index c = 0; c < q; ++c) {
    point = b.row(c);
    Column(a.data(), a.outerStride(), n, point.data(), k->data() + c * n, nullptr);
  }
}

void StationaryKernel::PointCross(const Eigen::Ref<const MatrixXd>& a, const RowVectorXd& z, VectorXd* k,
                                  MatrixXd* jacobian) const {
  using Eigen::internal::padd;
  using Eigen::internal::pmul;
  using Eigen::internal::psub;
  const Index n = a.rows();
  const Index d = a.cols();
  const Index stride = a.outerStride();
  LUTHIER_CHECK(d == inverse_.size() && z.size() == d);
  k->resize(n);
  jacobian->resize(n, d);
  const Packet variance = packets::Set(signal_variance_);
  // Writes the part of the derivative by z_j that the profile's slope gives: 2 s dk/d(r^2) (z_j - a_j)/l_j.
  const auto differences = [&]<int kPackets, bool kOne>(Index i, Index j, const Packet* by_square) {
    const Packet centre = packets::Set(z(j)), factor = packets::Set(2.0 * signal_variance_ * inverse_(j));
    for (int p = 0; p < kPackets; ++p) {
      const Index row = i + p * packets::kLanes;
      const Packet difference = psub(centre, packets::Load<kOne>(a.data() + j * stride + row));
      packets::Store<kOne>(jacobian->data() + j * n + row, pmul(pmul(factor, by_square[p]), difference));
    }
  };
  if (shape_.structure == Structure::kJoint) {
    packets::WithFamily(shape_.family, [&]<Family kFamily>() {
      packets::OverRows(n, [&]<int kPackets, bool kOne>(Index i, Index) {
        Packet r2[kPackets], slope[kPackets];
        Distances<kPackets, kOne>(a.data(), stride, i, z.data(), columns_.data(), columns_.data() + columns_.size(),
                                  r2);
        for (int p = 0; p < kPackets; ++p) {
          const packets::Profile profile = packets::ProfileOf<kFamily>(r2[p]);
          packets::Store<kOne>(k->data() + i + p * packets::kLanes, pmul(variance, profile.value));
          slope[p] = profile.slope;
        }
        for (Index j = 0; j < d; ++j) differences.template operator()<kPackets, kOne>(i, j, slope);
      });
    });
    return;
  }
  const size_t groups = static_cast<size_t>(shape_.groups);
  const Packet single = packets::Set(single_), pair = packets::Set(pair_);
  const Packet all_single = packets::Set(signal_variance_ * single_),
               all_pair = packets::Set(0.5 * signal_variance_ * pair_);
  std::vector<double> values(groups * 4 * packets::kLanes), slopes(groups * 4 * packets::kLanes);
  packets::WithFamily(shape_.family, [&]<Family kFamily>() {
    packets::OverRows(n, [&]<int kPackets, bool kOne>(Index i, Index) {
      Packet sum[kPackets], square[kPackets], r2[kPackets];
      for (int p = 0; p < kPackets; ++p) sum[p] = square[p] = packets::Set(0.0);
      for (size_t g = 0; g < groups; ++g) {
        Distances<kPackets, kOne>(a.data(), stride, i, z.data(), columns_.data() + begin_[g],
                                  columns_.data() + begin_[g + 1], r2);
        for (int p = 0; p < kPackets; ++p) {
          const packets::Profile profile = packets::ProfileOf<kFamily>(r2[p]);
          const size_t at = (g * 4 + static_cast<size_t>(p)) * packets::kLanes;
          packets::Store<false>(&values[at], profile.value);
          packets::Store<false>(&slopes[at], profile.slope);
          sum[p] = padd(sum[p], profile.value);
          square[p] = packets::MulAdd(profile.value, profile.value, square[p]);
        }
      }
      for (int p = 0; p < kPackets; ++p) {
        const Packet pairs = psub(pmul(sum[p], sum[p]), square[p]);
        packets::Store<kOne>(k->data() + i + p * packets::kLanes,
                             packets::MulAdd(all_pair, pairs, pmul(all_single, sum[p])));
      }
      for (size_t g = 0; g < groups; ++g) {
        Packet by_square[kPackets];
        for (int p = 0; p < kPackets; ++p) {
          const size_t at = (g * 4 + static_cast<size_t>(p)) * packets::kLanes;
          const Packet others = psub(sum[p], packets::Load<false>(&values[at]));
          by_square[p] = pmul(packets::Load<false>(&slopes[at]), packets::MulAdd(pair, others, single));
        }
        for (Index c = begin_[g]; c < begin_[g + 1]; ++c) {
          differences.template operator()<kPackets, kOne>(i, columns_[static_cast<size_t>(c)], by_square);
        }
      }
    });
  });
}

}  // namespace luthier::kernels
