#include "lib/linear/svrg.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/status/statusor.h"
#include "lib/base/check.h"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"

namespace luthier::linear {
namespace {

using Eigen::Index;
using Eigen::VectorXd;

constexpr int64_t kRowsAtOnce = 512;  // Number of steps of a block, which share a stream of random numbers.
constexpr int64_t kAhead = 6;         // Number of rows that are prefetched.
constexpr double kSmallestBeta = 1e-3;
constexpr double kShortest = 0.25, kLongest = 1.5;  // Limits of steps by the curvature seen, in units of 1/L.
constexpr int kMaxStreak = 18;                      // Longest streak, which skips 2^16 visits.

VectorXd ToVector(const std::vector<double>& v) {
  return Eigen::Map<const VectorXd>(v.data(), static_cast<Index>(v.size()));
}

}  // namespace

Svrg::Svrg(const LinearProblem* problem, const SvrgOptions& options)
    : problem_(problem),
      data_(problem->data()),
      options_(options),
      n_(data_.rows()),
      lambda_(problem->l2() / static_cast<double>(std::max<int64_t>(1, data_.rows()))),
      // Flushes cost at most a quarter of the steps' own work.
      flush_every_(std::max<int64_t>(kRowsAtOnce, 4 * data_.features() * n_ / std::max<int64_t>(1, data_.nonzeros()))),
      snapshot_(VectorXd::Zero(data_.dim())),
      columns_(static_cast<size_t>(data_.features())) {
  LUTHIER_CHECK(problem->l2() > 0.0 && options.step_scale > 0.0);
}

absl::Status Svrg::Allocate(const base::StopToken& stop) {
  const auto n = static_cast<size_t>(n_);
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, uint8_t{0}, stop, &in_batch_));
  LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, 0.0, stop, &slopes_));
  if (options_.skip != SvrgOptions::Skip::kNone) {
    LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, uint8_t{0}, stop, &zero_streak_));
    LUTHIER_RETURN_IF_ERROR(base::FillInPieces(n, 0, stop, &skip_));
  }
  return SetProbabilities(stop);
}

absl::Status Svrg::SetProbabilities(const base::StopToken& stop) {
  double largest = data_.max_norm2();
  if (options_.sampling == SvrgOptions::Sampling::kLipschitz && n_ > 0 && data_.mean_norm2() > 0.0 &&
      std::isfinite(data_.mean_norm2())) {
    largest = 0.0;
    probability_.clear();
    probability_.reserve(static_cast<size_t>(n_));
    alias_.clear();
    alias_.reserve(static_cast<size_t>(n_));
    // Builds Walker's table (1977): slot k yields k with its share, else its alias.
    std::vector<int32_t> small, large;
    LUTHIER_RETURN_IF_ERROR(base::InPieces(n_, base::kRandomAccess, stop, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        probability_.push_back(0.5 + 0.5 * data_.norm2(i) / data_.mean_norm2());
        largest = std::max(largest, data_.norm2(i) / probability_[i]);
        alias_.push_back(static_cast<int32_t>(i));
        (probability_[i] < 1.0 ? small : large).push_back(static_cast<int32_t>(i));
      }
    }));
    LUTHIER_RETURN_IF_ERROR(base::CopyInPieces(reinterpret_cast<const char*>(probability_.data()), probability_.size(),
                                               stop, &alias_share_));
    base::Pace pace(stop);
    while (!small.empty() && !large.empty()) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
      const int32_t s = small.back();
      const int32_t l = large.back();
      small.pop_back();
      alias_[s] = l;
      alias_share_[l] -= 1.0 - alias_share_[s];
      if (alias_share_[l] < 1.0) {
        large.pop_back();
        small.push_back(l);
      }
    }
    for (const int32_t i : small) alias_share_[i] = 1.0;
    for (const int32_t i : large) alias_share_[i] = 1.0;
  }
  // The step is 1/L, with L of the losses plus lambda. If the penalty dominates, it is half of the step that would
  // shrink the weights to 0 at once.
  largest_step_ = options_.step_scale / (problem_->loss().smoothness() * largest + lambda_);
  eta_ = std::min(largest_step_, 0.5 / lambda_);
  return absl::OkStatus();
}

absl::StatusOr<SolveState> Svrg::Start(const VectorXd& x0, bool near, const base::StopToken& stop) {
  LUTHIER_CHECK(x0.size() == data_.dim());
  LUTHIER_RETURN_IF_ERROR(Allocate(stop));
  while (near && BatchSize() < n_) ++epoch_;
  snapshot_ = x0;
  return std::isfinite(data_.max_norm2()) && std::isfinite(lambda_) && x0.allFinite() ? SolveState::kRunning
                                                                                      : SolveState::kNonFinite;
}

int64_t Svrg::BatchSize() const {
  if (options_.batch == SvrgOptions::Batch::kFull || epoch_ >= 62) return n_;
  return std::min(n_, int64_t{1} << epoch_);
}

absl::Status Svrg::DrawBatch(const base::StopToken& stop) {
  const int64_t size = BatchSize();
  LUTHIER_RETURN_IF_ERROR(
      base::FillInPieces(static_cast<size_t>(n_), static_cast<uint8_t>(size == n_ ? 1 : 0), stop, &in_batch_));
  if (size == n_) return absl::OkStatus();
  base::RandomStream random(options_.seed, "svrg batch", epoch_);
  std::vector<int32_t> ids;
  ids.reserve(static_cast<size_t>(n_));
  LUTHIER_RETURN_IF_ERROR(base::InPieces(n_, 1, stop, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) ids.push_back(static_cast<int32_t>(i));
  }));
  base::Pace pace(stop);
  for (int64_t k = 0; k < size; ++k) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess));
    const int64_t other = k + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(n_ - k)));
    std::swap(ids[k], ids[other]);
    in_batch_[ids[k]] = 1;
  }
  return absl::OkStatus();
}

// Draws the rows of steps first ... first + count - 1; `first` is a multiple of kRowsAtOnce.
void Svrg::DrawRows(int64_t first, int64_t count, int32_t* rows) const {
  base::RandomStream random(options_.seed, "svrg row", epoch_, static_cast<uint32_t>(first / kRowsAtOnce));
  for (int64_t k = 0; k < count; ++k) {
    rows[k] = static_cast<int32_t>(random.UniformInt(static_cast<uint64_t>(n_)));
    if (!alias_.empty() && random.Uniform() >= alias_share_[rows[k]]) rows[k] = alias_[rows[k]];
  }
}

void Svrg::DrawPick() {
  pick_ = -1;
  if (!options_.random_iterate) return;
  base::RandomStream random(options_.seed, "svrg pick", epoch_);
  pick_ = 1 + static_cast<int64_t>(random.UniformInt(static_cast<uint64_t>(BatchSize())));
}

// Returns s_i loss'(s_i score), or 0 without evaluating the loss while row `i` is skipped.
double Svrg::SlopeAt(int64_t i, double score) {
  ++work_;
  const double slope = data_.sign(i) * problem_->loss().Slope(data_.sign(i) * score);
  if (skip_.empty()) return slope;
  if (slope != 0.0) {
    zero_streak_[i] = 0;
    return slope;
  }
  if (zero_streak_[i] < kMaxStreak) ++zero_streak_[i];
  const int streak = zero_streak_[i];
  const bool literal = options_.skip == SvrgOptions::Skip::kLiteral;
  if (literal || streak > 2) {
    skip_[i] = static_cast<int32_t>(std::min(int64_t{1} << std::max(0, streak - 2), 8 * n_));
  }
  return slope;
}

absl::Status Svrg::Begin(const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(DrawBatch(stop));
  const int64_t size = BatchSize();
  VectorXd mu = VectorXd::Zero(static_cast<Index>(data_.features()));
  snapshot_offset_ = data_.Offset(snapshot_);
  double rho = 0.0;
  double seen = 0.0,
         squares = 0.0;  // Sums of c_i and of c_i^2 |z_i|^2 / (n P_i) over the batch; see SvrgOptions::Step.
  // Skipping changes counters, which a pass that was stopped must restore.
  const std::vector<uint8_t> streaks = zero_streak_;
  const std::vector<int32_t> skips = skip_;
  const int64_t evaluations = evaluations_;
  const int64_t work = work_;
  base::Pace pace(stop);
  for (int64_t i = 0; i < n_; ++i) {
    if (absl::Status stopped = pace.Poll(in_batch_[i] == 0 ? 1 : 2 * data_.work(i)); !stopped.ok()) {
      zero_streak_ = streaks;
      skip_ = skips;
      evaluations_ = evaluations;
      work_ = work;
      return stopped;
    }
    slopes_[i] = 0.0;
    if (in_batch_[i] == 0) continue;
    if (!skip_.empty() && skip_[i] > 0) {
      --skip_[i];
      continue;
    }
    ++evaluations_;
    slopes_[i] = SlopeAt(i, data_.Dot(i, snapshot_.data()) + snapshot_offset_);
    if (slopes_[i] == 0.0) continue;
    rho += slopes_[i];
    data_.AddTo(i, slopes_[i], mu.data());
    const double p = std::abs(slopes_[i]), curvature = p * (1.0 - p);  // Curvature of the logistic loss.
    seen += curvature;
    squares += curvature * curvature * data_.norm2(i) * Weight(i);
  }
  if (SeesCurvature() && seen > 0.0 && squares > 0.0) {
    eta_ =
        std::min(std::clamp(0.5 * seen / squares, kShortest * largest_step_, kLongest * largest_step_), 0.5 / lambda_);
  }
  const double inverse = 1.0 / static_cast<double>(size);
  rho_ = rho * inverse;
  for (size_t j = 0; j < columns_.size(); ++j) {
    columns_[j].v = snapshot_[static_cast<Index>(j)];
    columns_[j].mu = mu[static_cast<Index>(j)] * inverse;
  }
  center_mu_ = center_x_ = 0.0;
  if (data_.centered()) {
    center_mu_ = data_.center().dot(mu) * inverse;
    center_x_ = data_.center().dot(snapshot_.head(mu.size()));
  }
  bias_ = data_.bias() == Bias::kNone ? 0.0 : snapshot_[mu.size()];
  beta_ = 1.0;
  gamma_ = 0.0;
  progress_ = 0.0;
  step_ = 0;
  DrawPick();
  in_epoch_ = true;
  return absl::OkStatus();
}

// Returns loss'_i(x_s) for a step.
double Svrg::SnapshotSlope(int64_t i) {
  if (in_batch_[i] != 0) {
    // The support list has this zero, so it is not counted.
    if (options_.support_list && slopes_[i] == 0.0) return 0.0;
    if (options_.keep_slopes) {
      ++evaluations_;  // The source counts it, although no evaluation is made.
      return slopes_[i];
    }
  }
  if (!skip_.empty() && skip_[i] > 0) {
    --skip_[i];
    return 0.0;
  }
  ++evaluations_;
  return SlopeAt(i, data_.Dot(i, snapshot_.data()) + snapshot_offset_);
}

bool Svrg::Step(int64_t i) {
  const bool along_mu = options_.batch != SvrgOptions::Batch::kMixed || in_batch_[i] != 0;
  double change = 0.0;
  if (!skip_.empty() && skip_[i] > 0) {
    --skip_[i];
  } else {
    const Eigen::Array2d dots = data_.DotPairs(i, pairs());
    double score = beta_ * (dots[0] - progress_ * dots[1]) + bias_;
    if (data_.centered()) score += gamma_ * data_.center_dot(i) - center_x_;
    ++evaluations_;
    change = SlopeAt(i, score);
  }
  if (along_mu) change -= SnapshotSlope(i);
  change *= Weight(i);
  if (!std::isfinite(change)) return false;
  const double shrink = 1.0 - eta_ * lambda_;
  beta_ *= shrink;
  // The inverse is known before the slope, so no division delays the next row's score.
  const double inverse_beta = 1.0 / beta_;
  const double direct = eta_ * change;
  if (direct != 0.0) data_.AddTo<2>(i, -direct * inverse_beta, pairs());
  const double drift = along_mu ? eta_ * rho_ : 0.0;
  if (data_.centered()) {
    gamma_ = shrink * gamma_ + direct + drift;
    center_x_ = shrink * center_x_ - direct * data_.center_dot(i) + (direct + drift) * data_.center_norm2();
    if (along_mu) center_x_ -= eta_ * center_mu_;
  }
  if (data_.bias() != Bias::kNone) {
    bias_ = (data_.bias() == Bias::kPenalized ? shrink : 1.0) * bias_ - direct - drift;
  }
  if (along_mu) progress_ += eta_ * inverse_beta;
  if (beta_ < kSmallestBeta) Flush();
  return true;
}

void Svrg::PrefetchRow(int64_t i) const {
  data_.Prefetch(i);
  __builtin_prefetch(slopes_.data() + i);
  __builtin_prefetch(in_batch_.data() + i);
}

void Svrg::Flush() {
  for (Column& column : columns_) {
    column.v = beta_ * (column.v - column.mu * progress_);
  }
  beta_ = 1.0;
  progress_ = 0.0;
}

VectorXd Svrg::Weights() const {
  if (!in_epoch_) return snapshot_;
  VectorXd x(data_.dim());
  for (size_t j = 0; j < columns_.size(); ++j) {
    const Column& column = columns_[j];
    x[static_cast<Index>(j)] = beta_ * (column.v - column.mu * progress_);
  }
  const Index p = static_cast<Index>(columns_.size());
  if (data_.centered()) x.head(p) += gamma_ * data_.center();
  if (data_.bias() != Bias::kNone) x[p] = bias_;
  return x;
}

absl::StatusOr<SolveState> Svrg::Advance(const base::StopToken& stop) {
  // Sets a new target, unless a stop left work of the last call: the way to its target, or the rest of the block in
  // which it reached it.
  const auto in_block = [this] { return in_epoch_ && step_ % kRowsAtOnce != 0; };
  if (work_ >= target_ && !in_block()) target_ = work_ + n_;
  SolveState state = SolveState::kRunning;
  while ((work_ < target_ || in_block()) && state == SolveState::kRunning) {
    LUTHIER_ASSIGN_OR_RETURN(state, Run(target_, stop));
  }
  return state;
}

absl::StatusOr<SolveState> Svrg::Run(int64_t until, const base::StopToken& stop) {
  if (!in_epoch_) {
    LUTHIER_RETURN_IF_ERROR(Begin(stop));
  }
  const int64_t steps = BatchSize();
  int32_t rows[kRowsAtOnce];
  base::Pace pace(stop);
  while (step_ < steps) {
    // A block that was stopped in the middle goes on there, whatever was done by then.
    const int64_t begun = step_ % kRowsAtOnce, first = step_ - begun;
    if (begun == 0 && work_ >= until) return SolveState::kRunning;
    const int64_t count = std::min(steps - first, kRowsAtOnce);
    DrawRows(first, count, rows);
    for (int64_t k = begun; k < count; ++k) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(3 * data_.work(rows[k])));
      if (k + kAhead < count) PrefetchRow(rows[k + kAhead]);
      if (!Step(rows[k])) {
        in_epoch_ = false;  // Weights() is the snapshot.
        return SolveState::kNonFinite;
      }
      if (++step_ % flush_every_ == 0) Flush();
      if (step_ == pick_) picked_ = Weights();
    }
    if (!skip_.empty()) work_ += count;  // Skipped rows take time, too.
  }
  VectorXd x = pick_ >= 0 ? std::move(picked_) : Weights();
  in_epoch_ = false;
  if (!x.allFinite()) return SolveState::kNonFinite;
  snapshot_ = std::move(x);
  picked_ = VectorXd();
  ++epoch_;
  return SolveState::kRunning;
}

void Svrg::Awaken() {
  std::fill(zero_streak_.begin(), zero_streak_.end(), uint8_t{0});
  std::fill(skip_.begin(), skip_.end(), 0);
}

void Svrg::Save(base::CheckpointWriter* writer) const {
  writer->U64(epoch_);
  writer->U64(in_epoch_ ? 1 : 0);
  writer->U64(static_cast<uint64_t>(step_));
  writer->U64(static_cast<uint64_t>(target_));
  writer->U64(static_cast<uint64_t>(evaluations_));
  writer->U64(static_cast<uint64_t>(work_));
  writer->Vector(snapshot_);
  VectorXd counters(static_cast<Index>(2 * skip_.size()));
  for (size_t i = 0; i < skip_.size(); ++i) {
    counters[static_cast<Index>(2 * i)] = zero_streak_[i];
    counters[static_cast<Index>(2 * i + 1)] = skip_[i];
  }
  writer->Vector(counters);
  if (!in_epoch_) return;
  VectorXd columns(static_cast<Index>(2 * columns_.size()));
  for (size_t j = 0; j < columns_.size(); ++j) {
    columns[static_cast<Index>(2 * j)] = columns_[j].v;
    columns[static_cast<Index>(2 * j + 1)] = columns_[j].mu;
  }
  writer->Vector(columns);
  for (const double d : {eta_, snapshot_offset_, beta_, gamma_, bias_, center_x_, rho_, center_mu_, progress_}) {
    writer->F64(d);
  }
  writer->Vector(ToVector(slopes_));
  writer->Vector(picked_);
}

bool Svrg::Load(base::CheckpointReader* reader) {
  LUTHIER_CHECK(Allocate({}).ok());
  epoch_ = reader->U64();
  in_epoch_ = reader->U64() != 0;
  step_ = static_cast<int64_t>(reader->U64());
  target_ = static_cast<int64_t>(reader->U64());
  evaluations_ = static_cast<int64_t>(reader->U64());
  work_ = static_cast<int64_t>(reader->U64());
  snapshot_ = reader->Vector();
  const VectorXd counters = reader->Vector();
  if (!reader->ok() || snapshot_.size() != data_.dim() || counters.size() != static_cast<Index>(2 * skip_.size()) ||
      step_ < 0 || step_ > n_) {
    return false;
  }
  for (size_t i = 0; i < skip_.size(); ++i) {
    const double streak = counters[static_cast<Index>(2 * i)];
    const double skip = counters[static_cast<Index>(2 * i + 1)];
    if (!(streak >= 0.0 && streak <= kMaxStreak && skip >= 0.0 && skip < 2e9)) return false;
    zero_streak_[i] = static_cast<uint8_t>(streak);
    skip_[i] = static_cast<int32_t>(skip);
  }
  if (!in_epoch_) return true;
  const VectorXd columns = reader->Vector();
  if (!reader->ok() || columns.size() != static_cast<Index>(2 * columns_.size())) return false;
  for (size_t j = 0; j < columns_.size(); ++j) {
    columns_[j].v = columns[static_cast<Index>(2 * j)];
    columns_[j].mu = columns[static_cast<Index>(2 * j + 1)];
  }
  for (double* d : {&eta_, &snapshot_offset_, &beta_, &gamma_, &bias_, &center_x_, &rho_, &center_mu_, &progress_}) {
    *d = reader->F64();
  }
  const VectorXd slopes = reader->Vector();
  picked_ = reader->Vector();
  if (!reader->ok() || slopes.size() != static_cast<Index>(slopes_.size())) return false;
  std::copy(slopes.data(), slopes.data() + slopes.size(), slopes_.begin());
  LUTHIER_CHECK(DrawBatch({}).ok());
  DrawPick();
  return true;
}

}  // namespace luthier::linear
