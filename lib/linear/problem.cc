#include "lib/linear/problem.h"

#include <Eigen/Cholesky>
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/linear/blocked_sum.h"
#include "lib/linear/panel_cholesky.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int64_t kLongRow = 256;  // Number of entries above which a row of a Hessian is summed in pieces.
// Mean curvature over rows, as a share of the largest, below which a free bias gets a ridge.
constexpr double kLeastCurvature = 1e-14, kLeastStraightCurvature = 1e-3;
// Number of multiplications in a dense factorisation that take as long as one with a sparse entry.
constexpr double kVectorized = 8.0;
constexpr double kLeastRidge = 1e-16;  // As a share of the first ridge.
constexpr double kRidgeBesidePenalty = 0.1;
// A column whose mean square after centring is below this share of that before is constant up to rounding.
constexpr double kRoundingShare = 1e-12;

// Calls work(part, begin, end) for each part of the data's rows, shared by `team` unless it is null. Returns the first
// part's error.
template <typename F>
absl::Status InParts(const LinearData& data, base::Team* team, F&& work) {
  const int64_t parts = data.parts();
  const auto one = [&](int64_t k) -> absl::Status { return work(k, data.PartBegin(k), data.PartBegin(k + 1)); };
  if (team == nullptr || parts == 1) {
    for (int64_t k = 0; k < parts; ++k) LUTHIER_RETURN_IF_ERROR(one(k));
    return absl::OkStatus();
  }
  std::vector<absl::Status> ends(static_cast<size_t>(parts));
  team->Run(parts, [&](int64_t k, int) { ends[static_cast<size_t>(k)] = one(k); });
  for (const absl::Status& end : ends) LUTHIER_RETURN_IF_ERROR(end);
  return absl::OkStatus();
}

// Works on the columns of an n x n matrix in pieces.
template <typename F>
absl::Status ColumnsInPieces(Index n, const base::StopToken& stop, F&& work) {
  return base::InPieces(n, std::max<Index>(1, n), stop, work);
}

}  // namespace

namespace {

// Returns the constant that, added to all scores, minimises the sum of losses; +-kFarthest if the minimum is at
// infinity.
double MinimizeBias(const LinearData& data, const MarginLoss& loss, const VectorXd& scores) {
  constexpr double kFarthest = 1e3;
  constexpr int kMost = 200;
  double low = -INFINITY, high = INFINITY, shift = 0.0;
  for (int k = 0; k < kMost; ++k) {
    BlockedSum slope, bend;
    for (Index i = 0; i < scores.size(); ++i) {
      const double s = data.sign(i);
      const double t = s * (scores[i] + shift);
      slope.Add(s * loss.Slope(t));
      bend.Add(loss.Curvature(t));
    }
    const double g = slope.Total(), c = bend.Total();
    if (g == 0.0 || !std::isfinite(g)) break;
    (g < 0.0 ? low : high) = shift;
    double next = shift - g / c;
    if (!(next > low && next < high)) {
      next = std::isinf(low)    ? shift - (1.0 + std::abs(shift))
             : std::isinf(high) ? shift + (1.0 + std::abs(shift))
                                : 0.5 * (low + high);
    }
    if (std::abs(next) > kFarthest || next == shift || std::abs(next - shift) <= 1e-16 * std::abs(shift)) break;
    shift = next;
  }
  return shift;
}

}  // namespace

absl::StatusOr<LinearData> LinearData::Create(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                              const data::Standardization& standardization, Bias bias,
                                              const base::StopToken& stop, int64_t viewed) {
  LUTHIER_CHECK(dataset.num_classes() == 2);
  LinearData data(dataset.x.cols, bias);
  LUTHIER_RETURN_IF_ERROR(data.SetRows(dataset, rows, standardization, viewed, stop));
  LUTHIER_RETURN_IF_ERROR(data.SetNorms(stop));
  LUTHIER_RETURN_IF_ERROR(data.SetColumnScale(stop));
  return data;
}

absl::Status LinearData::SetRows(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                 const data::Standardization& standardization, int64_t viewed,
                                 const base::StopToken& stop) {
  const data::SparseMatrix& x = dataset.x;
  const bool plain = standardization.identity();
  std::vector<bool> dropped(static_cast<size_t>(features_), false);
  if (!plain) {
    if (!standardization.constant.empty()) dropped = standardization.constant;
    center_ = standardization.mean.cwiseQuotient(standardization.deviation);
    for (int64_t j = 0; j < features_; ++j) {
      if (dropped[j]) center_[j] = 0.0;
    }
    if (center_.cwiseAbs().sum() == 0.0) center_.resize(0);
  }
  base::Pace pace(stop);
  int64_t all = 0;
  bool only_ones = plain;
  for (const int32_t row : rows) {
    const int64_t begin = x.row_start[row], end = x.row_start[row + 1];
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kRowWork));
    all += end - begin;
    for (int64_t e = begin; e < end && only_ones; ++e) only_ones = x.value[e] == 1.0;
  }
  if (all >= viewed && !only_ones) return ViewRows(dataset, rows, standardization, stop);
  bool ones = true;
  for (const int32_t row : rows) {
    const int64_t entries = x.row_start[row + 1] - x.row_start[row];
    LUTHIER_RETURN_IF_ERROR(pace.Poll(entries + kRowWork));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(static_cast<size_t>(entries), stop, &column_));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(static_cast<size_t>(entries), stop, &value_));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &row_start_));
    LUTHIER_RETURN_IF_ERROR(base::MakeRoom(1, stop, &sign_));
    for (int64_t e = x.row_start[row]; e < x.row_start[row + 1]; ++e) {
      const int32_t j = x.column[e];
      if (dropped[j]) continue;
      column_.push_back(j);
      value_.push_back(plain ? x.value[e] : x.value[e] / standardization.deviation[j]);
      ones = ones && value_.back() == 1.0;
    }
    row_start_.push_back(static_cast<int64_t>(column_.size()));
    sign_.push_back(dataset.label[row] == 1 ? 1.0 : -1.0);
  }
  if (ones) {
    value_.clear();
    value_.shrink_to_fit();
  }
  return absl::OkStatus();
}

absl::Status LinearData::ViewRows(const data::Dataset& dataset, const std::vector<int32_t>& rows,
                                  const data::Standardization& standardization, const base::StopToken& stop) {
  view_ = &dataset.x;
  if (!standardization.identity()) {
    inverse_ = standardization.deviation.cwiseInverse();
    for (size_t j = 0; j < standardization.constant.size(); ++j) {
      if (standardization.constant[j]) inverse_[static_cast<Index>(j)] = 0.0;
    }
  }
  begin_.reserve(rows.size());
  row_start_.reserve(rows.size() + 1);
  sign_.reserve(rows.size());
  base::Pace pace(stop);
  for (const int32_t row : rows) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kRowWork));
    begin_.push_back(view_->row_start[row]);
    row_start_.push_back(row_start_.back() + view_->row_start[row + 1] - view_->row_start[row]);
    sign_.push_back(dataset.label[row] == 1 ? 1.0 : -1.0);
  }
  return absl::OkStatus();
}

absl::Status LinearData::SetNorms(const base::StopToken& stop) {
  if (centered()) {
    center_norm2_ = center_.squaredNorm();
    center_dot_.reserve(sign_.size());
  }
  norm2_.reserve(sign_.size());
  BlockedSum total;
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * work(i)));
    double square = 0.0;
    ForEach(i, [&](int32_t, double a) { square += a * a; });
    if (centered()) {
      center_dot_.push_back(Dot(i, center_.data()));
      square = std::max(0.0, square - 2.0 * center_dot_[i] + center_norm2_);
    }
    if (bias_ != Bias::kNone) square += 1.0;
    norm2_.push_back(square);
    total.Add(square);
    // An overflow must not get lost: max(x, NaN) is x.
    if (!(square <= max_norm2_)) max_norm2_ = square;
  }
  mean_norm2_ = rows() == 0 ? 0.0 : total.Total() / static_cast<double>(rows());
  return absl::OkStatus();
}

absl::Status LinearData::SetColumnScale(const base::StopToken& stop) {
  column_scale_ = VectorXd::Zero(dim());
  VectorXd firsts = VectorXd::Zero(centered() ? static_cast<Index>(features_) : 0);
  base::Pace pace(stop);
  for (int64_t i = 0; i < rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(2 * work(i)));
    ForEach(i, [&](int32_t j, double a) { column_scale_[j] += a * a; });
    if (centered()) AddTo(i, 1.0, firsts.data());
  }
  if (bias_ != Bias::kNone) column_scale_[features_] = static_cast<double>(rows());
  const double n = static_cast<double>(std::max<int64_t>(1, rows()));
  for (Index j = 0; j < dim(); ++j) {
    double square = column_scale_[j] / n;
    if (j < firsts.size()) {
      const double raw = square;
      square += center_[j] * (center_[j] - 2.0 * firsts[j] / n);
      if (square <= kRoundingShare * raw) square = 0.0;  // The column is constant but for rounding.
    }
    column_scale_[j] = square > 0.0 && std::isfinite(square) ? std::sqrt(square) : 1.0;
  }
  return absl::OkStatus();
}

double LinearData::Offset(const VectorXd& w) const {
  double offset = bias_ == Bias::kNone ? 0.0 : w[features_];
  if (centered()) offset -= center_.dot(w.head(features_));
  return offset;
}

int64_t LinearData::BlockEnd(int64_t begin, int64_t* operations) const {
  const auto work_to = [&](int64_t i) { return row_start_[i] - row_start_[begin] + kRowWork * (i - begin); };
  int64_t end = begin + 1, beyond = rows() + 1;
  while (beyond - end > 1) {
    const int64_t middle = end + (beyond - end) / 2;
    (work_to(middle) <= base::Pace::kOperations ? end : beyond) = middle;
  }
  *operations = work_to(end);
  return end;
}

int64_t LinearData::parts() const {
  constexpr int64_t kMostParts = 16, kPartEntries = int64_t{1} << 18;
  // Adding up the parts costs as many additions as there are weights.
  return std::clamp<int64_t>(nonzeros() / std::max<int64_t>(kPartEntries, 16 * static_cast<int64_t>(dim())), 1,
                             kMostParts);
}

int64_t LinearData::PartBegin(int64_t part) const {
  const int64_t parts = this->parts();
  if (part >= parts) return rows();
  const int64_t before = nonzeros() / parts * part;
  return std::lower_bound(row_start_.begin(), row_start_.end() - 1, before) - row_start_.begin();
}

absl::StatusOr<VectorXd> LinearData::Scores(const VectorXd& w, const base::StopToken& stop, base::Team* team) const {
  LUTHIER_CHECK(w.size() == dim());
  const double offset = Offset(w);
  VectorXd scores(rows());
  const auto score = [&](int64_t, int64_t i, int64_t last) -> absl::Status {
    for (int64_t operations = 0; i < last;) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(operations));
      const int64_t end = std::min(last, BlockEnd(i, &operations));
      for (; i < end; ++i) scores[i] = Dot(i, w.data()) + offset;
    }
    return absl::OkStatus();
  };
  LUTHIER_RETURN_IF_ERROR(InParts(*this, team, score));
  return scores;
}

absl::StatusOr<VectorXd> LinearData::Combine(const VectorXd& r, const base::StopToken& stop, base::Team* team) const {
  std::vector<VectorXd> sums(static_cast<size_t>(parts()));
  const auto add_up = [&](int64_t part, int64_t i, int64_t last) -> absl::Status {
    VectorXd out = VectorXd::Zero(dim());
    for (int64_t operations = 0; i < last;) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(operations));
      const int64_t end = std::min(last, BlockEnd(i, &operations));
      for (; i < end; ++i) {
        if (r[i] != 0.0) AddTo(i, r[i], out.data());
      }
    }
    sums[static_cast<size_t>(part)] = std::move(out);
    return absl::OkStatus();
  };
  LUTHIER_RETURN_IF_ERROR(InParts(*this, team, add_up));
  VectorXd out = std::move(sums.front());
  for (size_t k = 1; k < sums.size(); ++k) {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(dim()));
    out += sums[k];
  }
  if (!centered() && bias_ == Bias::kNone) return out;
  BlockedSum total;
  LUTHIER_RETURN_IF_ERROR(base::InPieces(rows(), 1, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) total.Add(r[i]);
  }));
  if (centered()) out.head(features_) -= total.Total() * center_;
  if (bias_ != Bias::kNone) out[features_] = total.Total();
  return out;
}

absl::StatusOr<int64_t> LinearData::CountCorrect(const VectorXd& w, const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd scores, Scores(w, stop));
  int64_t correct = 0;
  LUTHIER_RETURN_IF_ERROR(base::InPieces(rows(), 1, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) correct += (scores[i] > 0.0) == (sign_[i] > 0.0) ? 1 : 0;
  }));
  return correct;
}

LinearProblem::LinearProblem(const LinearData* data, const MarginLoss& loss, double l2)
    : data_(data), loss_(loss), l2_(l2) {
  LUTHIER_CHECK(std::isfinite(l2) && l2 >= 0.0 && loss.epsilon > 0.0);
}

LinearProblem::LinearProblem(const LinearData* data, const MarginLoss& loss, VectorXd l2)
    : data_(data), loss_(loss), penalties_(std::move(l2)), l2_(penalties_.size() == 0 ? 0.0 : penalties_.minCoeff()) {
  LUTHIER_CHECK(penalties_.size() == penalized() && penalties_.allFinite() && l2_ >= 0.0 && loss.epsilon > 0.0);
}

VectorXd LinearProblem::Penalize(const VectorXd& w) const {
  return one_penalty() ? VectorXd(l2_ * w.head(penalized())) : VectorXd(penalties_.cwiseProduct(w.head(penalized())));
}

namespace {

constexpr int64_t kChunk = 256;  // Number of rows whose values stay in the nearest cache.

// Returns the sum of the logistic losses of `count` <= kChunk rows with scores r. Replaces the scores by s_i
// loss'(t_i), and fills in the curvatures unless null. One exponential serves all three, for several rows at once.
double LogisticChunk(const double* signs, int64_t count, double* scores, double* curvature) {
  using Chunk = Eigen::Array<double, Eigen::Dynamic, 1, Eigen::ColMajor, kChunk, 1>;
  const Eigen::Map<const Eigen::ArrayXd> s(signs, count);
  Eigen::Map<Eigen::ArrayXd> r(scores, count);
  const Chunk t = s * r;
  const Chunk e = (-t.abs()).exp();
  const Chunk share = 1.0 / (1.0 + e);
  // Eigen's log1p is not vectorised, so this takes the logarithm of u = 1 + e and corrects it for the rounding of u.
  const Chunk u = 1.0 + e;
  const Chunk v = u - 1.0;
  const Chunk loss = (v == 0.0).select(e, u.log() * (e / v)) - t.min(0.0);
  if (curvature != nullptr) Eigen::Map<Eigen::ArrayXd>(curvature, count) = e * share * share;
  r = -s * share * (t > 0.0).select(e, 1.0);
  double sum = 0.0;
  for (int64_t k = 0; k < count; ++k) sum += loss[k];
  return sum;
}

// The same for any loss.
double Chunk(const MarginLoss& loss, const double* signs, int64_t count, double* scores, double* curvature) {
  if (loss.kind == MarginLoss::Kind::kLogistic) return LogisticChunk(signs, count, scores, curvature);
  double sum = 0.0;
  for (int64_t k = 0; k < count; ++k) {
    const double t = signs[k] * scores[k];
    sum += loss.Value(t);
    if (curvature != nullptr) curvature[k] = loss.Curvature(t);
    scores[k] = signs[k] * loss.Slope(t);
  }
  return sum;
}

}  // namespace

absl::StatusOr<double> LinearProblem::Value(const VectorXd& w, VectorXd* gradient, VectorXd* curvature,
                                            const base::StopToken& stop, VectorXd* scores) const {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd r, data_->Scores(w, stop, team_));
  if (scores != nullptr) *scores = r;
  if (curvature != nullptr) curvature->resize(r.size());
  // A chunk is a block of the sum, so that it does not matter who adds it up.
  static_assert(kChunk == BlockedSum::kBlock);
  constexpr int64_t kRowsAtOnce = base::Pace::kOperations / LinearData::kRowWork;
  static_assert(kRowsAtOnce % kChunk == 0);
  const int64_t rows = data_->rows(), turns = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  std::vector<double> blocks(static_cast<size_t>((rows + kChunk - 1) / kChunk));
  std::vector<absl::Status> ends(static_cast<size_t>(turns));
  const auto work = [&](int64_t turn) -> absl::Status {
    LUTHIER_RETURN_IF_ERROR(stop.Poll(base::Pace::kOperations));
    const int64_t end = std::min(rows, (turn + 1) * kRowsAtOnce);
    for (int64_t i = turn * kRowsAtOnce; i < end; i += kChunk) {
      blocks[static_cast<size_t>(i / kChunk)] =
          Chunk(loss_, data_->signs() + i, std::min(end - i, kChunk), r.data() + i,
                curvature == nullptr ? nullptr : curvature->data() + i);
    }
    return absl::OkStatus();
  };
  if (team_ != nullptr && turns > 1) {
    team_->Run(turns, [&](int64_t turn, int) { ends[static_cast<size_t>(turn)] = work(turn); });
  } else {
    for (int64_t turn = 0; turn < turns; ++turn) LUTHIER_RETURN_IF_ERROR(work(turn));
  }
  for (const absl::Status& end : ends) LUTHIER_RETURN_IF_ERROR(end);
  BlockedSum total;
  for (const double block : blocks) total.AddBlock(block);
  const Index p = penalized();
  if (gradient != nullptr) {
    LUTHIER_ASSIGN_OR_RETURN(*gradient, data_->Combine(r, stop, team_));
    gradient->head(p) += Penalize(w);
  }
  return total.Total() + (one_penalty() ? 0.5 * l2_ * w.head(p).squaredNorm() : 0.5 * Penalize(w).dot(w.head(p)));
}

absl::StatusOr<double> LinearProblem::DualityGap(const VectorXd& w, const base::StopToken& stop) const {
  const Index p = penalized();
  if (!(l2_ > 0.0) && p > 0) return INFINITY;
  VectorXd at = w;
  double above = 0.0;  // h(w, b) - h(w, b*).
  if (data_->bias() == Bias::kFree) {
    VectorXd scores;
    LUTHIER_ASSIGN_OR_RETURN(above, Value(w, nullptr, nullptr, stop, &scores));
    at[p] += MinimizeBias(*data_, loss_, scores);
  }
  VectorXd gradient;
  LUTHIER_ASSIGN_OR_RETURN(const double best, Value(at, &gradient, nullptr, stop));
  above = data_->bias() == Bias::kFree ? std::max(0.0, above - best) : 0.0;
  const VectorXd g = gradient.head(p);
  const double squares = one_penalty() ? g.squaredNorm() / std::max(l2_, std::numeric_limits<double>::min())
                                       : g.cwiseAbs2().cwiseQuotient(penalties_).sum();
  return above + 0.5 * squares;
}

absl::StatusOr<double> LinearProblem::LineMinimum(const VectorXd& w, const VectorXd& scores, const VectorXd& d,
                                                  const VectorXd& ridge, const base::StopToken& stop,
                                                  double* passes) const {
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd z, data_->Scores(d, stop, team_));
  const double n = static_cast<double>(data_->rows());
  const double row_sums =
      LinearData::kRowWork * n / std::max(1.0, LinearData::kRowWork * n + 2.0 * static_cast<double>(data_->nonzeros()));
  *passes = 1.0 - row_sums;
  const Index p = penalized();
  const VectorXd penalty = Penalize(d);
  double first = penalty.dot(w.head(p)), second = penalty.dot(d.head(p));
  if (ridge.size() > 0) {
    first += ridge.cwiseProduct(d).dot(w);
    second += ridge.dot(d.cwiseAbs2());
  }
  // Returns the slope of h along d, and sets its curvature.
  const auto derivatives = [&](double a, double* curvature) {
    *passes += row_sums;
    BlockedSum slope, bend;
    for (Index i = 0; i < z.size(); ++i) {
      const double s = data_->sign(i);
      const double t = s * (scores[i] + a * z[i]);
      slope.Add(s * loss_.Slope(t) * z[i]);
      bend.Add(loss_.Curvature(t) * z[i] * z[i]);
    }
    *curvature = bend.Total() + second;
    return slope.Total() + first + a * second;
  };
  return FindLineMinimum(derivatives, stop);
}

VectorXd LinearProblem::BoundDiagonal() const {
  VectorXd diagonal =
      static_cast<double>(std::max<int64_t>(1, data_->rows())) * loss_.smoothness() * data_->column_scale().cwiseAbs2();
  diagonal.head(penalized()) += Penalize(VectorXd::Ones(dim()));
  return diagonal;
}

absl::StatusOr<VectorXd> LinearProblem::BoundVector(const VectorXd& v, const base::StopToken& stop) const {
  return HessianVector(VectorXd::Constant(static_cast<Index>(data_->rows()), loss_.smoothness()), v, stop);
}

std::unique_ptr<SecondOrderFunction> LinearProblem::MakeFunction(bool direct) const {
  return std::make_unique<LinearFunction>(this, direct);
}

std::string LinearProblem::Describe() const {
  const double per_row =
      static_cast<double>(data_->nonzeros()) / static_cast<double>(std::max<int64_t>(1, data_->rows()));
  return absl::StrCat(data_->rows(), " rows, ", data_->features(), " columns, ", std::llround(per_row),
                      " entries a row, l2 ", absl::StrFormat("%.3g", l2_));
}

absl::StatusOr<VectorXd> LinearProblem::HessianVector(const VectorXd& curvature, const VectorXd& v,
                                                      const base::StopToken& stop) const {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd r, data_->Scores(v, stop, team_));
  LUTHIER_RETURN_IF_ERROR(base::InPieces(data_->rows(), 1, stop, [&](int64_t begin, int64_t end) {
    r.segment(begin, end - begin).array() *= curvature.segment(begin, end - begin).array();
  }));
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, data_->Combine(r, stop, team_));
  out.head(penalized()) += Penalize(v);
  return out;
}

absl::StatusOr<VectorXd> LinearProblem::HessianDiagonal(const VectorXd& curvature, const base::StopToken& stop) const {
  VectorXd squares = VectorXd::Zero(dim());
  VectorXd firsts = VectorXd::Zero(data_->centered() ? dim() : 0);
  base::Pace pace(stop);
  for (int64_t i = 0; i < data_->rows(); ++i) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(data_->work(i)));
    const double d = curvature[i];
    if (d == 0.0) continue;
    data_->ForEach(i, [&](int32_t j, double a) { squares[j] += d * a * a; });
    if (data_->centered()) data_->AddTo(i, d, firsts.data());
  }
  const double total = curvature.sum();
  const Index p = static_cast<Index>(data_->features());
  if (data_->centered()) {
    const VectorXd& m = data_->center();
    squares.head(p) += m.cwiseProduct(total * m - 2.0 * firsts.head(p));
    squares = squares.cwiseMax(0.0);
  }
  if (dim() > p) squares[p] = total;
  squares.head(penalized()) += Penalize(VectorXd::Ones(dim()));
  return squares;
}

absl::StatusOr<MatrixXd> LinearProblem::Hessian(const VectorXd& curvature, const base::StopToken& stop,
                                                int64_t every) const {
  const Index p = static_cast<Index>(data_->features());
  const auto add = [&](int64_t begin, int64_t end, HessianSums* sums) -> absl::Status {
    sums->matrix.resize(dim(), dim());
    LUTHIER_RETURN_IF_ERROR(ColumnsInPieces(
        dim(), stop, [&](Index from, Index to) { sums->matrix.middleCols(from, to - from).setZero(); }));
    sums->firsts = VectorXd::Zero(dim());
    return data_->dense() ? AddDenseRows(curvature, every, begin, end, stop, sums)
                          : AddSparseRows(curvature, every, begin, end, stop, sums);
  };
  // In parts only if these are few next to the data.
  const int64_t parts = data_->parts();
  HessianSums all;
  if (parts * static_cast<int64_t>(dim()) * static_cast<int64_t>(dim()) > data_->nonzeros()) {
    LUTHIER_RETURN_IF_ERROR(add(0, data_->rows(), &all));
  } else {
    std::vector<HessianSums> sums(static_cast<size_t>(parts));
    LUTHIER_RETURN_IF_ERROR(InParts(*data_, team_, [&](int64_t part, int64_t begin, int64_t end) {
      return add(begin, end, &sums[static_cast<size_t>(part)]);
    }));
    all = std::move(sums.front());
    for (size_t k = 1; k < sums.size(); ++k) {
      LUTHIER_RETURN_IF_ERROR(ColumnsInPieces(dim(), stop, [&](Index begin, Index end) {
        all.matrix.middleCols(begin, end - begin) += sums[k].matrix.middleCols(begin, end - begin);
      }));
      all.firsts += sums[k].firsts;
      all.total += sums[k].total;
    }
  }
  MatrixXd& hessian = all.matrix;
  VectorXd& firsts = all.firsts;
  const double total = all.total;
  if (data_->centered()) {
    // sum d (a - m)(a - m)' = sum d a a' - k m' - m k' + (sum d) m m', k = sum d a
    const VectorXd& m = data_->center();
    const VectorXd half = 0.5 * total * m - firsts.head(p);
    // Adds as Eigen's rank-2 update does.
    LUTHIER_RETURN_IF_ERROR(ColumnsInPieces(p, stop, [&](Index begin, Index end) {
      for (Index j = begin; j < end; ++j) {
        hessian.col(j).segment(j, p - j) += half[j] * m.tail(p - j) + m[j] * half.tail(p - j);
      }
    }));
    firsts.head(p) -= total * m;
  }
  if (dim() > p) {
    hessian.row(p).head(p) = firsts.head(p).transpose();
    hessian(p, p) = total;
  }
  hessian.diagonal().head(penalized()) += Penalize(VectorXd::Ones(dim()));
  return std::move(hessian);
}

absl::Status LinearProblem::AddSparseRows(const VectorXd& curvature, int64_t every, int64_t begin, int64_t end,
                                          const base::StopToken& stop, HessianSums* sums) const {
  std::vector<int32_t> columns;
  std::vector<double> values;
  base::Pace pace(stop);
  for (int64_t i = (begin + every - 1) / every * every; i < end; i += every) {
    // The sums go to entries all over a matrix that may exceed every cache.
    const int64_t entries = data_->entries(i);
    const bool divided = entries > kLongRow;
    LUTHIER_RETURN_IF_ERROR(
        pace.Poll(data_->work(i) + (divided ? 0 : base::kRandomAccess * (entries * (entries + 1) / 2))));
    const double d = static_cast<double>(every) * curvature[i];
    if (d == 0.0) continue;
    sums->total += d;
    columns.clear();
    values.clear();
    data_->ForEach(i, [&](int32_t j, double a) {
      columns.push_back(j);
      values.push_back(a);
    });
    const int32_t* c = columns.data();
    const double* a = values.data();
    const size_t count = columns.size();
    const auto add_column = [&](size_t f) {
      const double scale = d * a[f];
      sums->firsts[c[f]] += scale;
      double* out = sums->matrix.data() + int64_t{c[f]} * dim();
      for (size_t e = f; e < count; ++e) out[c[e]] += scale * a[e];
    };
    if (!divided) {
      for (size_t f = 0; f < count; ++f) add_column(f);
      continue;
    }
    for (size_t f = 0; f < count; ++f) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * static_cast<int64_t>(count - f)));
      add_column(f);
    }
  }
  return absl::OkStatus();
}

absl::Status LinearProblem::AddDenseRows(const VectorXd& curvature, int64_t every, int64_t begin, int64_t end,
                                         const base::StopToken& stop, HessianSums* sums) const {
  constexpr Index kStrip = 128;
  const Index p = static_cast<Index>(data_->features());
  MatrixXd strip(p, kStrip);
  VectorXd scale(kStrip);
  for (int64_t i = (begin + every - 1) / every * every; i < end;) {
    Index count = 0;
    for (; count < kStrip && i < end; i += every) {
      const double d = static_cast<double>(every) * curvature[i];
      if (d == 0.0) continue;
      sums->total += d;
      strip.col(count).setZero();
      data_->ForEach(i, [&](int32_t j, double a) { strip(j, count) = a; });
      sums->firsts.head(p) += d * strip.col(count);
      scale[count++] = d;
    }
    if (count == 0) continue;
    // A block of columns at a time, so that the stop is heard.
    for (Index from = 0; from < p; from += kStrip) {
      const Index width = std::min(kStrip, p - from);
      LUTHIER_RETURN_IF_ERROR(stop.Poll(2 * count * width * (p - from) / 8));  // Eight at once.
      sums->matrix.block(from, from, p - from, width).noalias() +=
          strip.block(from, 0, p - from, count) *
          (strip.block(from, 0, width, count) * scale.head(count).asDiagonal()).transpose();
    }
  }
  return absl::OkStatus();
}

double FactorPasses(const LinearData& data) {
  const double d = static_cast<double>(data.dim());
  return d * d * d / 6.0 / kVectorized / std::max(1.0, 2.0 * static_cast<double>(data.nonzeros()));
}

LinearFunction::LinearFunction(const LinearProblem* problem, bool direct)
    : problem_(problem), direct_(direct), sample_every_(SampleEvery(problem->data())) {}

absl::Status LinearFunction::CountFactor(const base::StopToken& stop) {
  const LinearData& data = problem_->data();
  const int64_t every = direct_ ? 1 : sample_every_;
  double products = 0.0;
  if (every > 0 && data.nonzeros() > 0) {
    LUTHIER_RETURN_IF_ERROR(base::InPieces((data.rows() + every - 1) / every, 1, stop, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        const double entries = static_cast<double>(data.entries(k * every));
        products += 0.5 * entries * (entries + 1.0);
      }
    }));
    products = products / (2.0 * static_cast<double>(data.nonzeros())) + FactorPasses(data);
  }
  factor_passes_ = products;
  return absl::OkStatus();
}

absl::StatusOr<double> LinearFunction::Value(const VectorXd& x, VectorXd* gradient, const base::StopToken& stop) {
  x_.resize(0);
  LUTHIER_ASSIGN_OR_RETURN(const double value, problem_->Value(x, gradient, &losses_, stop, &scores_));
  x_ = x;
  return value;
}

absl::StatusOr<double> LinearFunction::LineMinimum(const VectorXd& x, const VectorXd& d, const base::StopToken& stop,
                                                   double* passes) {
  return problem_->LineMinimum(x, point_scores_, d, ridge_, stop, passes);
}

absl::Status LinearFunction::SetPoint(const VectorXd& x, const base::StopToken& stop) {
  if (factor_passes_ < 0.0) {
    LUTHIER_RETURN_IF_ERROR(CountFactor(stop));
  }
  // The point is usually the one that was evaluated last.
  if (!(x_.size() == x.size() && x_ == x)) {
    LUTHIER_RETURN_IF_ERROR(Value(x, nullptr, stop).status());
  }
  curvature_ = losses_.cwiseMax(floor_ * problem_->loss().smoothness());
  point_scores_ = scores_;
  return absl::OkStatus();
}

VectorXd LinearFunction::Ridge(double share) const {
  const MarginLoss& loss = problem_->loss();
  if (loss.kind != MarginLoss::Kind::kHuberizedHinge || share < kLeastRidge) return {};
  const LinearData& data = problem_->data();
  const Index p = problem_->penalized();
  // The first ridge equals the curvature of the losses if all rows are in the quadratic part.
  VectorXd ridge = share * static_cast<double>(data.rows()) * loss.smoothness() * data.column_scale().cwiseAbs2();
  ridge.tail(ridge.size() - p).setZero();
  // A ridge that is small beside the penalty changes next to nothing.
  if ((ridge.head(p).array() <= kRidgeBesidePenalty * problem_->Penalize(VectorXd::Ones(problem_->dim())).array())
          .all()) {
    return {};
  }
  return ridge;
}

double LinearFunction::BiasRidge() const {
  if (problem_->data().bias() != Bias::kFree) return 0.0;
  const double least = problem_->loss().kind == MarginLoss::Kind::kLogistic ? kLeastCurvature : kLeastStraightCurvature;
  const double usual = least * static_cast<double>(curvature_.size()) * problem_->loss().smoothness();
  return std::max(0.0, usual - curvature_.sum());
}

absl::StatusOr<VectorXd> LinearFunction::HessianVector(const VectorXd& v, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, problem_->HessianVector(curvature_, v, stop));
  const double ridge = BiasRidge();
  if (ridge > 0.0) out[out.size() - 1] += ridge * v[v.size() - 1];
  if (ridge_.size() > 0) out += ridge_.cwiseProduct(v);
  return out;
}

absl::StatusOr<VectorXd> LinearFunction::HessianDiagonal(const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(VectorXd out, problem_->HessianDiagonal(curvature_, stop));
  if (out.size() > 0) out[out.size() - 1] += BiasRidge();
  if (ridge_.size() > 0 && out.size() > 0) out += ridge_;
  return out;
}

absl::StatusOr<bool> LinearFunction::Factor(int64_t every, const base::StopToken& stop) {
  factor_point_.resize(0);
  LUTHIER_ASSIGN_OR_RETURN(MatrixXd hessian, problem_->Hessian(curvature_, stop, every));
  if (hessian.size() == 0) return false;
  hessian(hessian.rows() - 1, hessian.rows() - 1) += BiasRidge();
  if (ridge_.size() > 0) hessian.diagonal() += ridge_;
  // Columns without entries or a saturated free bias leave zeros on the diagonal when nothing is penalised.
  double ridge = 0.0;
  const double scale = hessian.diagonal().maxCoeff();
  while (true) {
    factor_.resize(hessian.rows(), hessian.cols());
    LUTHIER_RETURN_IF_ERROR(ColumnsInPieces(hessian.cols(), stop, [&](Index begin, Index end) {
      factor_.middleCols(begin, end - begin) = hessian.middleCols(begin, end - begin);
    }));
    factor_.diagonal().array() += ridge;
    LUTHIER_ASSIGN_OR_RETURN(const bool factored, FactorInPlace(&factor_, stop));
    if (factored) {
      if (every == 1 && floor_ == 0.0 && ridge_.size() == 0) factor_point_ = x_;
      return true;
    }
    if (!(scale > 0.0) || !(ridge < scale)) return false;
    ridge = ridge == 0.0 ? 1e-12 * scale : 100.0 * ridge;
  }
}

VectorXd LinearFunction::Solve(const VectorXd& b) const {
  VectorXd x = b;
  factor_.triangularView<Eigen::Lower>().solveInPlace(x);
  factor_.triangularView<Eigen::Lower>().transpose().solveInPlace(x);
  return x;
}

absl::StatusOr<VectorXd> LinearFunction::SolveHessian(const VectorXd& b, const base::StopToken& stop) {
  LUTHIER_ASSIGN_OR_RETURN(const bool factored, Factor(1, stop));
  return factored ? Solve(b) : VectorXd();
}

absl::StatusOr<bool> LinearFunction::PreparePreconditioner(const base::StopToken& stop) {
  if (direct_) return Factor(1, stop);
  if (sample_every_ == 0) return false;
  return Factor(sample_every_, stop);
}

VectorXd LinearFunction::Precondition(const VectorXd& r) {
  return Solve(r);
}

int64_t SampleEvery(const LinearData& data) {
  if (data.features() > kMaxSampledColumns || data.features() == 0) return 0;
  const int64_t every = data.rows() / (10 * data.features());
  return every >= 4 ? every : 0;
}

}  // namespace luthier::linear
