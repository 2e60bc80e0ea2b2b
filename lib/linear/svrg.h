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
// The penalty is treated exactly. A step reads v and mu of its row's columns, side by side, and writes v only: the way
// along mu is in S alone, so nothing has to be brought up to date. From time to time S mu is subtracted from v (Flush),
// before the two grow so large that their difference loses digits. Centring goes into two scalars (gamma and m'x), so
// centred data stay sparse.
namespace luthier::linear {

struct SvrgOptions {
  enum class Batch {
    kFull,   // |B| = n
    kGrow,   // |B| = 1, 2, 4, ..., n
    kMixed,  // As kGrow; a row outside of B gets a plain stochastic gradient step, x -= eta (loss'_i(x) z_i + lambda x)
  };
  enum class Sampling {
    kUniform,
    kLipschitz,  // P_i = 1/(2n) + L_i / (2 sum L): the step follows the mean constant, not the largest.
  };
  enum class Skip {
    kNone,
    kAfterThree,  // A row found without gradient three times in a row is left out for 2, 4, 8, ... looks.
    kLiteral,     // As printed (algorithm 8): for 1, 1, 2, 4, ... looks, from the first time on.
  };
  Batch batch = Batch::kGrow;
  bool random_iterate = false;  // "Option II": an epoch ends at a random one of its iterates instead of the last.
  Sampling sampling = Sampling::kUniform;
  enum class Step {
    kLargest,  // 1/L, L the largest constant of a row, as the source has it.
    // Logistic loss: half of sum c_i / sum c_i^2 |z_i|^2 / (n P_i) over the batch, with the curvatures c_i = p (1 - p)
    // of the losses at the snapshot; between 1/4 and 3/2 of 1/L. What a step does to the others' gradients goes with
    // c_i, which is 1/4 (as L has it) at first and less for all rows that are classified well; and the noise of rows
    // that all go the same way wants less than 1/L. Other losses: 1/L.
    kSeen,
  };
  Step step = Step::kSeen;
  double step_scale = 1.0;  // Step as a multiple of 1/L. > 0; the theory wants less than 1/2, practice 1.
  // Remember which rows of B had no gradient at x_s: loss'_i(x_s) = 0 is not evaluated again. The iterates are the same
  // bit for bit.
  bool support_list = true;
  Skip skip = Skip::kNone;
  // Remember loss'_i(x_s) of all rows of B (n numbers): one evaluation a step instead of two. Same iterates.
  bool keep_slopes = true;
  uint64_t seed = 0;
};

class Svrg {
 public:
  // `problem` must outlive it. l2 > 0.
  Svrg(const LinearProblem* problem, const SvrgOptions& options);

  // kNonFinite when the rows are not finite; CANCELLED when stopped: to be started again. `near`:
  // x0 is near the optimum already; batches are whole from the first epoch on then, as the noise of small ones would
  // only lead away.
  absl::StatusOr<SolveState> Start(const Eigen::VectorXd& x0, bool near = false, const base::StopToken& stop = {});

  // Goes on until about n more evaluations of a row's loss are done (about one pass). kNonFinite: Weights() is then the
  // last snapshot. CANCELLED when stopped, at the pace of lib/base/pace.h; Advance then goes on as if nothing had been.
  absl::StatusOr<SolveState> Advance(const base::StopToken& stop);

  // Runs the rest of the current epoch, or the next one.
  absl::StatusOr<SolveState> AdvanceEpoch(const base::StopToken& stop) { return Run(INT64_MAX, stop); }

  // x, as a copy: nothing of the state changes.
  Eigen::VectorXd Weights() const;

  // Forgets what Skip learned: for when a gradient over all rows is not 0 where the skipping one is.
  void Awaken();

  int64_t epochs() const { return static_cast<int64_t>(epoch_); }
  // Evaluations of one row's slope, as the source counts them: |B| + 2 a step, less those that the support list, Skip
  // and mixed steps save.
  int64_t evaluations() const { return evaluations_; }
  double step() const { return eta_; }

  void Save(base::CheckpointWriter* writer) const;
  // False when the bytes do not fit: the object is then of no use.
  bool Load(base::CheckpointReader* reader);

 private:
  struct alignas(16) Column {
    double v = 0.0, mu = 0.0;
  };

  double* pairs() { return columns_.empty() ? nullptr : &columns_.front().v; }
  // Ends with the epoch, or where `until` evaluations are made.
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
  // 1 / (n P_i)
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
  // These and what else there is of each row: from Start or Load on.
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
  int64_t work_ = 0;  // Evaluations really made: what Advance's quantum is measured in.
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
