#include "lib/learn/linear_trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"

namespace luthier::learn {
namespace {

using Eigen::VectorXd;

// A stochastic solver is at the limit of rounding when its gradient g has not become smaller for so many iterations,
// although what is left of h, at most |g|^2 / (2 l2) with a penalty on everything, is below this share of h.
constexpr int64_t kPatience = 40;
constexpr double kRounding = 1e-14;

double LargestEntry(const VectorXd& v) {
  return v.size() == 0 ? 0.0 : v.cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
}

}  // namespace

const std::vector<std::string>& LinearSolverNames() {
  static const std::vector<std::string>& names =
      *new std::vector<std::string>{"lbfgs", "newton_cg", "newton_cholesky", "dual", "svrg"};
  return names;
}

absl::StatusOr<LinearSolver> ParseLinearSolver(absl::string_view name) {
  const std::vector<std::string>& names = LinearSolverNames();
  for (size_t k = 0; k < names.size(); ++k) {
    if (names[k] == name) return static_cast<LinearSolver>(k);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("solver: there is no \"", name, "\"; one of ", absl::StrJoin(names, ", ")));
}

bool NeedsOneStrength(LinearSolver solver) {
  return solver == LinearSolver::kDual || solver == LinearSolver::kSvrg;
}

SolverChoice ChooseSolver(const LinearProblem& problem) {
  const LinearData& data = problem.data();
  const double n = static_cast<double>(std::max<int64_t>(1, data.rows()));
  const double d = static_cast<double>(data.dim());
  const double per_row = static_cast<double>(data.nonzeros()) / n;
  const double spread = data.mean_norm2() > 0.0 ? data.max_norm2() / data.mean_norm2() : 1.0;
  const std::string shape =
      absl::StrCat(data.rows(), " rows, ", data.dim(), " columns, ", std::llround(per_row), " entries a row");
  // Multiplications of a Newton step, the Hessian and its factorisation, in passes over the entries.
  const double newton = (n * per_row * per_row / 2.0 + d * d * d / 3.0) / std::max(1.0, n * per_row);
  const bool dual_fits = problem.l2() > 0.0 && data.bias() != Bias::kFree;
  const bool newton_fits = d <= 1000.0 && (problem.l2() > 0.0 || problem.loss().kind == MarginLoss::Kind::kLogistic);
  if (newton <= 12.0 && newton_fits) {
    return {LinearSolver::kNewtonCholesky, absl::StrCat(shape, ": exact Newton steps are cheap")};
  }
  // Long rows, of which coordinate descent moves one at a time. Of a step with a sample the factorisation remains.
  if (newton > 30.0 && newton_fits && SampleEvery(data) > 0 && d * d * d / 3.0 <= 20.0 * n * per_row) {
    return {LinearSolver::kNewtonCg, absl::StrCat(shape, ": Newton steps with a sample's factor as preconditioner")};
  }
  if (dual_fits && spread <= 20.0) {
    return {LinearSolver::kDual, absl::StrCat(shape, ": coordinate descent on the dual costs a pass an iteration")};
  }
  const std::string hindrance = dual_fits
                                    ? absl::StrCat("the largest row is ", std::llround(spread), " times the mean one")
                                : problem.l2() > 0.0 ? std::string("the bias has no penalty")
                                                     : std::string("there is no penalty");
  if (newton <= 150.0 && newton_fits) {
    return {LinearSolver::kNewtonCholesky,
            absl::StrCat(shape, "; ", hindrance, ", so not the dual; exact Newton steps are affordable")};
  }
  return {LinearSolver::kLbfgs,
          absl::StrCat(shape, "; ", hindrance, ", so not the dual; too many columns for exact Newton steps")};
}

absl::Status CheckVectors(LinearSolver solver, int64_t dim, int64_t max_bytes) {
  int64_t vectors = 8;  // v, mu and batches; dual weights; a gradient and copies for whoever looks.
  if (solver == LinearSolver::kLbfgs) vectors = 20 + 10;  // Ten pairs; points, gradients and a direction of a search.
  if (solver == LinearSolver::kNewtonCg) vectors = 16;    // Conjugate gradients.
  if (solver == LinearSolver::kNewtonCholesky) vectors = 8 + 2 * dim;  // The Hessian and its factor.
  constexpr int64_t kMost = int64_t{1} << 58;
  const int64_t bytes = dim > kMost / (8 * vectors) ? kMost : vectors * dim * static_cast<int64_t>(sizeof(double));
  if (bytes <= max_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "solver ", LinearSolverNames()[static_cast<size_t>(solver)], " would need ", (bytes + (1 << 20) - 1) >> 20,
      " MiB for vectors of ", dim, " weights, and the limit is ", max_bytes >> 20,
      " MiB; are the highest column numbers meant? Else another solver, or a larger max_memory_mib"));
}

LinearTrainer::LinearTrainer(const LinearProblem* problem, const LinearTrainOptions& options)
    : problem_(problem), options_(options), start_(VectorXd::Zero(problem->dim())) {
  if (options.solver == LinearSolver::kDual) {
    dual_ = std::make_unique<DualCoordinateDescent>(problem, options.svrg.seed);
  } else if (options.solver == LinearSolver::kSvrg) {
    svrg_ = std::make_unique<Svrg>(problem, options.svrg);
  } else {
    function_ = std::make_unique<LinearFunction>(problem, options.solver == LinearSolver::kNewtonCholesky);
  }
}

absl::StatusOr<LinearTrainer> LinearTrainer::Create(const LinearProblem* problem, const LinearTrainOptions& options) {
  LUTHIER_CHECK(options.tolerance >= 0.0 && options.max_iterations >= 0);
  const std::string& name = LinearSolverNames()[static_cast<size_t>(options.solver)];
  const bool dual = options.solver == LinearSolver::kDual;
  // Where hinges are straight, Newton's method has nothing but the penalty's curvature.
  const bool smooth = problem->loss().kind == MarginLoss::Kind::kLogistic;
  if (!(problem->l2() > 0.0) && options.solver != LinearSolver::kLbfgs &&
      (dual || options.solver == LinearSolver::kSvrg || !smooth)) {
    return absl::InvalidArgumentError(absl::StrCat("solver ", name, " needs l2 above 0 here; use lbfgs"));
  }
  if (NeedsOneStrength(options.solver) && !problem->one_strength()) {
    return absl::InvalidArgumentError(absl::StrCat("solver ", name, " is for a single strength; scale the columns"));
  }
  if (dual && problem->data().bias() == Bias::kFree) {
    return absl::InvalidArgumentError(
        "solver dual needs a bias that is penalised, or none; use newton_cholesky or lbfgs");
  }
  if (options.solver == LinearSolver::kNewtonCholesky && problem->dim() > kMaxDirectColumns) {
    return absl::InvalidArgumentError(absl::StrCat("solver newton_cholesky is for at most ", kMaxDirectColumns,
                                                   " columns, not ", problem->dim(), "; use newton_cg or dual"));
  }
  LUTHIER_RETURN_IF_ERROR(CheckVectors(options.solver, problem->dim(), options.max_memory_bytes));
  return LinearTrainer(problem, options);
}

void LinearTrainer::WarmStart(VectorXd w) {
  LUTHIER_CHECK(!started_ && w.size() == problem_->dim());
  start_ = std::move(w);
}

double LinearTrainer::PassesNow() const {
  const double n = static_cast<double>(std::max<int64_t>(1, problem_->data().rows()));
  if (dual_) return extra_passes_ + static_cast<double>(dual_->steps()) / n + static_cast<double>(dual_->rebuilds());
  if (svrg_) return extra_passes_ + static_cast<double>(svrg_->evaluations()) / n;
  if (newton()) return extra_passes_ + newton_.passes();
  return extra_passes_ + static_cast<double>(lbfgs_.evaluations());
}

VectorXd LinearTrainer::Weights() const {
  if (!started_) return start_;
  if (dual_) return dual_->Weights();
  if (svrg_) return svrg_->Weights();
  return newton() ? newton_.x() : lbfgs_.x();
}

double LinearTrainer::DualityGap() const {
  if (!dual_ || !started_) return INFINITY;
  return problem_->Value(dual_->Weights(), nullptr) - dual_->DualValue();
}

void LinearTrainer::SetTolerance(const VectorXd& zero_gradient) {
  zero_gradient_ = LargestEntry(zero_gradient);
  SetTolerance();
}

void LinearTrainer::SetTolerance() {
  lbfgs_.set_tolerance(options_.tolerance * zero_gradient_);
  newton_.set_tolerance(options_.tolerance * zero_gradient_);
}

// Given up, it has changed nothing that is not made anew.
SolveState LinearTrainer::StartSolver(const std::atomic<bool>* stop) {
  // Mostly training starts at 0, whose gradient the methods that take whole ones need anyway.
  const bool from_zero = start_.isZero(0.0);
  const bool shared = from_zero && !stochastic();
  double passes = 0.0;
  if (!shared) {
    VectorXd gradient;
    problem_->Value(VectorXd::Zero(problem_->dim()), &gradient, nullptr, stop);
    if (StopRequested(stop)) return SolveState::kStopped;
    passes += 1.0;
    SetTolerance(gradient);
  }
  // Nothing can be made of such rows; the weights stay where they are.
  const bool hopeless = !shared && !std::isfinite(zero_gradient_);
  SolveState state = SolveState::kNonFinite;
  if (svrg_) {
    state = svrg_->Start(start_, /*near=*/!from_zero, stop);
  } else if (dual_ && !hopeless) {
    state = dual_->Start(from_zero ? nullptr : &start_, stop);
    if (!from_zero) passes += 1.0;  // For the scores.
  } else if (!dual_) {
    const auto f = [&](const VectorXd& w, VectorXd* g) { return problem_->Value(w, g, nullptr, stop); };
    state = newton() ? newton_.Start(*function_, start_, stop) : lbfgs_.Start(f, start_, stop);
  }
  if (state == SolveState::kStopped) return state;
  if (shared) SetTolerance(newton() ? newton_.gradient() : lbfgs_.gradient());
  extra_passes_ += passes;
  // The first looks are of no use: hardly any problem gains more than a digit a pass.
  next_check_ = static_cast<int64_t>(std::clamp(-std::log10(std::max(1e-300, options_.tolerance)), 1.0, 8.0));
  started_ = true;
  return hopeless ? SolveState::kNonFinite : state;
}

// Looks at the exact gradient, as seldom as can be: a solver that converges linearly needs as many iterations again for
// as many digits, so the next look comes when half of what is missing may have been made.
SolveState LinearTrainer::CheckStochastic(const std::atomic<bool>* stop) {
  check_pending_ = false;
  if (iteration_ < next_check_ && iteration_ < options_.max_iterations) return SolveState::kRunning;
  VectorXd gradient;
  const double value = problem_->Value(Weights(), &gradient, nullptr, stop);
  if (StopRequested(stop)) {
    check_pending_ = true;
    return SolveState::kStopped;
  }
  extra_passes_ += 1.0;
  const double largest = LargestEntry(gradient);
  if (!std::isfinite(value) || !std::isfinite(largest)) return SolveState::kNonFinite;
  if (largest <= options_.tolerance * zero_gradient_) return SolveState::kConverged;
  if (largest < 0.9 * best_gradient_) {
    best_gradient_ = largest;
    best_iteration_ = iteration_;
  } else if (svrg_) {
    svrg_->Awaken();  // Rows that are being skipped may be what holds it up.
  }
  const double left = 0.5 * gradient.squaredNorm() / problem_->l2();
  if (iteration_ - best_iteration_ > kPatience && left < kRounding * value) return SolveState::kPrecision;
  const double made = std::log(zero_gradient_ / largest);
  const double missing = std::log(largest / std::max(1e-14, options_.tolerance) / zero_gradient_);
  const double ahead = made > 0.1 ? 0.5 * static_cast<double>(iteration_) * missing / made : 1.0;
  next_check_ = iteration_ + static_cast<int64_t>(std::clamp(ahead, 1.0, 20.0));
  return SolveState::kRunning;
}

TrainOutcome LinearTrainer::Advance(const std::atomic<bool>* stop) {
  if (outcome_ != TrainOutcome::kRunning && outcome_ != TrainOutcome::kStopped) return outcome_;
  SolveState state = SolveState::kRunning;
  if (StopRequested(stop)) {
    state = SolveState::kStopped;
  } else if (!started_) {
    state = StartSolver(stop);
    // Everything is at its optimum: l2 rules, or there is nothing to learn from.
    if (state == SolveState::kRunning && zero_gradient_ == 0.0 && start_.isZero(0.0)) state = SolveState::kConverged;
  } else if (check_pending_) {
    state = CheckStochastic(stop);
  } else if (iteration_ >= options_.max_iterations) {
    outcome_ = TrainOutcome::kIterationLimit;
    return outcome_;
  } else {
    if (dual_) {
      state = dual_->Advance(stop);
    } else if (svrg_) {
      state = svrg_->Advance(stop);
    } else if (newton()) {
      state = newton_.Step(*function_, stop);
    } else {
      state = lbfgs_.Step([&](const VectorXd& w, VectorXd* g) { return problem_->Value(w, g, nullptr, stop); }, stop);
    }
    if (state != SolveState::kStopped) ++iteration_;
    if (stochastic() && state == SolveState::kRunning) state = CheckStochastic(stop);
  }
  outcome_ = OutcomeOf(state);
  if (outcome_ != TrainOutcome::kStopped) passes_ = PassesNow();
  if (outcome_ == TrainOutcome::kRunning && iteration_ >= options_.max_iterations) {
    outcome_ = TrainOutcome::kIterationLimit;
  }
  return outcome_;
}

void LinearTrainer::Save(CheckpointWriter* writer, absl::string_view identity) const {
  TrainerState{started_, outcome_, iteration_, zero_gradient_}.Save(writer, identity,
                                                                    static_cast<uint64_t>(options_.solver));
  writer->F64(extra_passes_);
  writer->F64(passes_);
  writer->F64(best_gradient_);
  writer->U64(static_cast<uint64_t>(best_iteration_));
  writer->U64(static_cast<uint64_t>(next_check_));
  writer->U64(check_pending_ ? 1 : 0);
  if (!started_) {
    writer->Vector(start_);
  } else if (dual_) {
    dual_->Save(writer);
  } else if (svrg_) {
    svrg_->Save(writer);
  } else if (newton()) {
    newton_.Save(writer);
  } else {
    lbfgs_.Save(writer);
  }
}

absl::Status LinearTrainer::Load(CheckpointReader* reader, absl::string_view identity) {
  LUTHIER_CHECK(!started_);
  TrainerState state;
  LUTHIER_RETURN_IF_ERROR(state.Load(reader, identity, static_cast<uint64_t>(options_.solver)));
  extra_passes_ = reader->F64();
  passes_ = reader->F64();
  best_gradient_ = reader->F64();
  best_iteration_ = static_cast<int64_t>(reader->U64());
  next_check_ = static_cast<int64_t>(reader->U64());
  check_pending_ = reader->U64() != 0;
  bool fits = reader->ok();
  if (fits && !state.started) {
    start_ = reader->Vector();
    fits = reader->ok() && start_.size() == problem_->dim();
  } else if (fits && dual_) {
    fits = dual_->Load(reader);
  } else if (fits && svrg_) {
    fits = svrg_->Load(reader);
  } else if (fits) {
    fits = newton() ? newton_.Load(reader, problem_->dim()) : lbfgs_.Load(reader, problem_->dim());
  }
  if (!fits) return UnfitCheckpoint();
  started_ = state.started;
  outcome_ = state.outcome;
  iteration_ = state.iteration;
  zero_gradient_ = state.zero_gradient;
  SetTolerance();
  return absl::OkStatus();
}

}  // namespace luthier::learn
