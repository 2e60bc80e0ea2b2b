#ifndef LUTHIER_LIB_LINEAR_SVRG_H_
#define LUTHIER_LIB_LINEAR_SVRG_H_

#include <Eigen/Core>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/checkpoint.h"
#include "lib/linear/minimizer.h"
#include "lib/linear/problem.h"

// Stochastic variance-reduced gradients with growing batches, mixed steps and support vectors (Johnson & Zhang 2013;
// Babanezhad, Ahmed, Virani, Schmidt, Konecny, Sallinen 2015; Ahmed 2018, chapter 3), on the mean f = h / n,
// lambda = l2 / n.
//
//   symbol     meaning                                                            name in code
//   x_s        snapshot, where an epoch starts                                    snapshot_
//   B          batch of the epoch, drawn without replacement                      in_batch_
//   mu         (1/|B|) sum_{i in B} loss'_i(x_s) a_i, the data part alone         Column::mu
//   rho        (1/|B|) sum_{i in B} loss'_i(x_s)                                  rho_
//   x          beta (v - S mu) + gamma m                                          Column::v
//   S          sum of eta / beta over steps along mu since the last flush         progress_
//
// An epoch makes |B| steps, i uniform over all rows (or with probability P_i):
//   x <- (1 - eta lambda) x - eta [(loss'_i(x) - loss'_i(x_s)) z_i / (n P_i) + mu],   z_i = a_i - m
// The penalty is treated exactly. A step reads v and mu of its row's columns, which are stored side
// by side, and writes v alone. S accounts for the way along mu, so no other column needs an update.
// From time to time S mu is subtracted from v (Flush), before the two grow so large that their
// difference loses digits. Two scalars (gamma and m'x) account for centring, so centred data stay
// sparse.
namespace luthier::linear {

struct SvrgOptions {
  enum class Batch {
    kFull,  // |B| = n
    kGrow,  // |B| = 1, 2, 4, ..., n
    // As kGrow, but a row outside of B makes a stochastic gradient step, x -= eta (loss'_i(x) z_i +
    // lambda x).
    kMixed,
  };
  enum class Sampling {
    kUniform,
    // P_i = 1/(2n) + L_i / (2 sum L). The step length then depends on the mean constant, not on the
    // largest.
    kLipschitz,
  };
  enum class Skip {
    kNone,
    kAfterThree,  // A row without gradient three times in a row is skipped 2, 4, 8, ... times.
    kLiteral,     // As printed (algorithm 8): from the first time on, 1, 1, 2, 4, ... times.
  };
  Batch batch = Batch::kGrow;
  bool random_iterate = false;  // "Option II": an epoch ends at a random one of its iterates.
  Sampling sampling = Sampling::kUniform;
  enum class Step {
    kLargest,  // 1/L, L the largest constant of a row, as in the source.
    // For the logistic loss: half of sum c_i / sum c_i^2 |z_i|^2 / (n P_i) over the batch, between
    // 1/4 and 3/2 of 1/L. The curvatures of the losses at the snapshot are c_i = p (1 - p). The
    // effect of a step on the gradients of other rows is proportional to c_i. At first c_i is 1/4,
    // the value that L assumes; for rows that are classified well it is less. The noise of rows
    // that all go the same way asks for less than 1/L. For other losses: 1/L.
    kSeen,
  };
  Step step = Step::kSeen;
  double step_scale = 1.0;  // Step as a multiple of 1/L, > 0. In theory below 1/2, in practice 1.
  // Remembers the rows of B with loss'_i(x_s) = 0, which is then not evaluated again. The iterates
  // are the same bit for bit.
  bool support_list = true;
  Skip skip = Skip::kNone;
  // Remembers loss'_i(x_s) of all rows of B (n numbers), so that a step needs one evaluation
  // instead of two. The iterates are the same.
  bool keep_slopes = true;
  uint64_t seed = 0;
};

class Svrg {
 public:
  // `problem` must outlive this. l2 > 0.
  Svrg(const LinearProblem* problem, const SvrgOptions& options);

  // Starts at `x0`. If `near` is true, x0 is near the optimum already; batches are then whole from
  // the first epoch on, because the noise of small ones would only lead away. Returns kNonFinite if
  // the rows or x0 are not finite. Returns CANCELLED when stopped; Start must then be called again.
  absl::StatusOr<SolveState> Start(const Eigen::VectorXd& x0, bool near = false, const base::StopToken& stop = {});

  // Makes about n more evaluations of a row's loss, which is about one pass. If it returns
  // kNonFinite, Weights() is the last snapshot. Polls `stop` at the pace of lib/base/pace.h and
  // returns CANCELLED when stopped. The next call continues where this one stopped, with the same
  // result.
  absl::StatusOr<SolveState> Advance(const base::StopToken& stop);

  // Runs the rest of the current epoch, or the next one.
  absl::StatusOr<SolveState> AdvanceEpoch(const base::StopToken& stop) { return Run(INT64_MAX, stop); }

  // Returns a copy of x.
  Eigen::VectorXd Weights() const;

  // Ends the skipping of all rows, for a point where the gradient over all rows is not 0 but that
  // of the rows in use is.
  void Awaken();

  int64_t epochs() const { return static_cast<int64_t>(epoch_); }
  // Returns the evaluations of one row's slope as the source counts them: |B| + 2 a step, less
  // those that the support list, Skip and mixed steps save.
  int64_t evaluations() const { return evaluations_; }
  double step() const { return eta_; }

  void Save(base::CheckpointWriter* writer) const;
  // Returns false if the bytes do not fit. The object must then not be used.
  bool Load(base::CheckpointReader* reader);

 private:
  struct alignas(16) Column {
    double v = 0.0, mu = 0.0;
  };

  double* pairs() { return columns_.empty() ? nullptr : &columns_.front().v; }
  // Runs until the end of the epoch, or until `until` evaluations are made.
  absl::StatusOr<SolveState> Run(int64_t until, const base::StopToken& stop);
  int64_t BatchSize() const;
  absl::Status Begin(const base::StopToken& stop);
  absl::Status Allocate(const base::StopToken& stop);
  absl::Status SetProbabilities(const base::StopToken& stop);
  absl::Status DrawBatch(const base::StopToken& stop);
  void DrawRows(int64_t first, int64_t count, int32_t* rows) const;
  void DrawPick();
  double SlopeAt(int64_t i, double score);
  double SnapshotSlope(int64_t i);
  // Returns 1 / (n P_i).
  double Weight(int64_t i) const { return probability_.empty() ? 1.0 : 1.0 / probability_[i]; }
  bool SeesCurvature() const {
    return options_.step == SvrgOptions::Step::kSeen && problem_->loss().kind == MarginLoss::Kind::kLogistic;
  }
  bool Step(int64_t i);
  void PrefetchRow(int64_t i) const;
  void Flush();

  const LinearProblem* const problem_;
  const LinearData& data_;
  const SvrgOptions options_;
  const int64_t n_;
  const double lambda_;
  const int64_t flush_every_;  // Steps.
  // These and all members with an entry a row are filled by Start or Load.
  double largest_step_ = 0.0;  // 1/L
  double eta_ = 0.0;
  std::vector<double> probability_;  // kLipschitz: n P_i.
  std::vector<double> alias_share_;  // Walker's table.
  std::vector<int32_t> alias_;

  uint64_t epoch_ = 0;
  bool in_epoch_ = false;
  int64_t step_ = 0;  // Within the epoch.
  int64_t target_ = 0;
  int64_t evaluations_ = 0;
  int64_t work_ = 0;  // Evaluations really made, by which Advance measures a pass.
  Eigen::VectorXd snapshot_;
  double snapshot_offset_ = 0.0;
  std::vector<Column> columns_;
  double beta_ = 1.0, gamma_ = 0.0, bias_ = 0.0, center_x_ = 0.0;  // center_x_: m'x
  double rho_ = 0.0, center_mu_ = 0.0;                             // m'mu
  double progress_ = 0.0;
  std::vector<uint8_t> in_batch_;
  std::vector<double> slopes_;  // loss'_i(x_s) of the rows of B, from the batch pass.
  int64_t pick_ = -1;           // Option II: the step whose iterate the epoch ends at.
  Eigen::VectorXd picked_;
  std::vector<uint8_t> zero_streak_;  // ps
  std::vector<int32_t> skip_;         // sk
};

}  // namespace luthier::linear

#endif  // LUTHIER_LIB_LINEAR_SVRG_H_
