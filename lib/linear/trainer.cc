#include "lib/linear/trainer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/linear/problem.h"

namespace luthier::linear {
namespace {

using Eigen::VectorXd;

// A stochastic solver is at the limit of rounding if its gradient g has not become smaller for this many iterations,
// although the distance of h from its minimum, at most |g|^2 / (2 l2) with a penalty on everything, is below this share
// of h.
constexpr int64_t kPatience = 40;
constexpr double kRounding = 1e-14;
constexpr double kTighter = 0.1;  // Factor of the tolerance if the bound on h(w) - min h is not small enough.
// A decrease of h by less than this share of it, or none, is rounding.

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

bool NeedsOnePenalty(LinearSolver solver) {
  return solver == LinearSolver::kDual || solver == LinearSolver::kSvrg;
}

namespace {

constexpr LinearSolver kCandidates[] = {LinearSolver::kLbfgs, LinearSolver::kNewtonCholesky, LinearSolver::kNewtonCg,
                                        LinearSolver::kDual};

}  // namespace

SolverChoice ChooseSolver(const PenalizedProblem& problem) {
  const SolverCosts costs = problem.Costs();
  LinearSolver best = LinearSolver::kLbfgs;
  for (const LinearSolver solver : kCandidates) {
    if (NeedsOnePenalty(solver) && !problem.one_penalty()) continue;
    if (costs.Of(solver) < costs.Of(best)) best = solver;
  }
  std::vector<std::string> estimates;
  for (const LinearSolver solver : kCandidates) {
    if (std::isinf(costs.Of(solver))) continue;
    estimates.push_back(
        absl::StrCat(LinearSolverNames()[static_cast<size_t>(solver)], " ", std::llround(costs.Of(solver))));
  }
  return {best, absl::StrCat(problem.Describe(), "; estimated passes: ", absl::StrJoin(estimates, ", "))};
}

absl::Status CheckVectors(LinearSolver solver, int64_t dim, int64_t max_bytes) {
  int64_t vectors = 8;  // v, mu and batches; dual weights; a gradient and copies for readers of the weights.
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

LinearTrainer::LinearTrainer(const PenalizedProblem* problem, const LinearTrainOptions& options)
    : problem_(problem), options_(options), solver_(options.solver), start_(VectorXd::Zero(problem->dim())) {
  MakeSolver();
}

void LinearTrainer::MakeSolver() {
  function_.reset();
  dual_.reset();
  svrg_.reset();
  lbfgs_ = LbfgsSolver();
  newton_ = NewtonSolver();
  lbfgs_.set_scale(problem_->column_scale());
  newton_.set_scale(problem_->column_scale());
  if (solver_ == LinearSolver::kDual) {
    dual_ = std::make_unique<DualCoordinateDescent>(problem_->two_classes(), options_.svrg.seed);
  } else if (solver_ == LinearSolver::kSvrg) {
    svrg_ = std::make_unique<Svrg>(problem_->two_classes(), options_.svrg);
  } else if (newton()) {
    function_ = problem_->MakeFunction(solver_ == LinearSolver::kNewtonCholesky);
  }
  solver_started_ = false;
  solver_iteration_ = 0;
  best_gradient_ = INFINITY;
  best_iteration_ = 0;
  next_check_ = 0;
  check_pending_ = false;
  claim_ = SolveState::kRunning;
  look_distance_ = INFINITY;
  if (zero_gradient_ >= 0.0) SetTolerance();
}

absl::Status CheckSolver(const PenalizedProblem& problem, LinearSolver solver, int64_t max_bytes) {
  const std::string& name = LinearSolverNames()[static_cast<size_t>(solver)];
  const LinearProblem* const two = problem.two_classes();
  if (NeedsOnePenalty(solver) && two == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("solver ", name, " is for two classes, and there are more (",
                                                   problem.Describe(),
                                                   "); use auto, lbfgs, newton_cg or "
                                                   "newton_cholesky"));
  }
  // In the straight parts of hinges, Newton's method has only the penalty's curvature.
  const bool smooth = two == nullptr || two->loss().kind == MarginLoss::Kind::kLogistic;
  if (!(problem.l2() > 0.0) && solver != LinearSolver::kLbfgs && (NeedsOnePenalty(solver) || !smooth)) {
    return absl::InvalidArgumentError(absl::StrCat("solver ", name, " needs l2 above 0 here; use lbfgs"));
  }
  if (NeedsOnePenalty(solver) && !problem.one_penalty()) {
    return absl::InvalidArgumentError(absl::StrCat("solver ", name, " is for a single strength; scale the columns"));
  }
  if (solver == LinearSolver::kNewtonCholesky && problem.dim() > LinearTrainer::kMaxDirectColumns) {
    return absl::InvalidArgumentError(absl::StrCat("solver newton_cholesky is for at most ",
                                                   LinearTrainer::kMaxDirectColumns, " weights, not ", problem.dim(),
                                                   "; use newton_cg or dual"));
  }
  return CheckVectors(solver, problem.dim(), max_bytes);
}

absl::StatusOr<LinearTrainer> LinearTrainer::Create(const PenalizedProblem* problem,
                                                    const LinearTrainOptions& options) {
  LUTHIER_CHECK(options.tolerance >= 0.0 && options.max_iterations >= 0);
  LUTHIER_RETURN_IF_ERROR(CheckSolver(*problem, options.solver, options.max_memory_bytes));
  return LinearTrainer(problem, options);
}

void LinearTrainer::WarmStart(VectorXd w) {
  LUTHIER_CHECK(!started_ && w.size() == problem_->dim());
  start_ = std::move(w);
}

double LinearTrainer::PassesNow() const {
  const double n = static_cast<double>(std::max<int64_t>(1, problem_->rows()));
  if (dual_) return extra_passes_ + static_cast<double>(dual_->steps()) / n + static_cast<double>(dual_->rebuilds());
  if (svrg_) return extra_passes_ + static_cast<double>(svrg_->evaluations()) / n;
  if (newton()) return extra_passes_ + newton_.passes();
  return extra_passes_ + static_cast<double>(lbfgs_.evaluations());
}

VectorXd LinearTrainer::Weights() const {
  if (!solver_started_) return start_;
  if (dual_) return dual_->Weights();
  if (svrg_) return svrg_->Weights();
  return newton() ? newton_.x() : lbfgs_.x();
}

double LinearTrainer::DualityGap() const {
  if (!dual_ || !solver_started_ || problem_->penalized() < problem_->dim()) return INFINITY;
  return problem_->Evaluate(dual_->Weights(), nullptr, {}).value() - dual_->DualValue();
}

const VectorXd& LinearTrainer::gradient() const {
  return stochastic() ? exact_gradient_ : newton() ? newton_.gradient() : lbfgs_.gradient();
}

double LinearTrainer::value() const {
  return stochastic() ? exact_value_ : newton() ? newton_.value() : lbfgs_.value();
}

void LinearTrainer::SetTolerance() {
  const double tolerance = options_.tolerance * tightened_ * zero_gradient_;
  lbfgs_.set_tolerance(tolerance);
  newton_.set_tolerance(tolerance);
}

// Computes the gradient at 0. A stop changes nothing.
absl::Status LinearTrainer::ZeroGradient(const base::StopToken& stop) {
  VectorXd gradient;
  LUTHIER_ASSIGN_OR_RETURN(zero_value_, problem_->Evaluate(VectorXd::Zero(problem_->dim()), &gradient, stop));
  extra_passes_ += 1.0;
  zero_gradient_ = LargestEntry(gradient, problem_->column_scale());
  SetTolerance();
  return absl::OkStatus();
}

// Sets the first Hessian of L-BFGS to the diagonal of the one that bounds h from above, and its first step to the
// length that this bound allows.
absl::Status LinearTrainer::SetMetric(const VectorXd& gradient, const base::StopToken& stop) {
  VectorXd diagonal = problem_->BoundDiagonal();
  const VectorXd direction = gradient.cwiseQuotient(diagonal);
  LUTHIER_ASSIGN_OR_RETURN(const VectorXd product, problem_->BoundVector(direction, stop));
  const double bend = direction.dot(product);
  const double step = bend > 0.0 ? direction.dot(gradient) / bend : 1.0;
  lbfgs_.set_metric(std::move(diagonal), std::isfinite(step) && step > 0.0 ? std::min(1.0, step) : 0.0);
  return absl::OkStatus();
}

// Starts the solver. A stop changes only state that the next call makes anew.
absl::StatusOr<SolveState> LinearTrainer::StartSolver(const base::StopToken& stop) {
  // Training mostly starts at 0, whose gradient the methods with full gradients need anyway.
  const bool from_zero = start_.isZero(0.0);
  const bool known = zero_gradient_ >= 0.0;
  const bool shared = !known && from_zero && !stochastic();
  if (!known && !shared) {
    LUTHIER_RETURN_IF_ERROR(ZeroGradient(stop));
  }
  // No solver can use such rows; the weights stay as they are.
  const bool hopeless = !shared && !std::isfinite(zero_gradient_);
  double passes = 0.0;
  const auto start = [&]() -> absl::StatusOr<SolveState> {
    if (svrg_) return svrg_->Start(start_, /*near=*/!from_zero, stop);
    if (dual_ && hopeless) return SolveState::kNonFinite;
    if (dual_) {
      if (!from_zero) passes += 1.0;  // The scores cost one pass.
      return dual_->Start(from_zero ? nullptr : &start_, stop);
    }
    if (newton()) return newton_.Start(*function_, start_, stop);
    const auto f = [&](const VectorXd& w, VectorXd* g) { return problem_->Evaluate(w, g, stop); };
    LUTHIER_ASSIGN_OR_RETURN(const SolveState state, lbfgs_.Start(f, start_));
    if (state == SolveState::kRunning) {
      LUTHIER_RETURN_IF_ERROR(SetMetric(lbfgs_.gradient(), stop));
      passes += 1.0;
    }
    return state;
  };
  const absl::StatusOr<SolveState> state = start();
  if (!state.ok()) {
    if (!stochastic()) MakeSolver();
    return state;
  }
  if (shared) {
    zero_value_ = value();
    zero_gradient_ = LargestEntry(gradient(), problem_->column_scale());
    SetTolerance();
  }
  extra_passes_ += passes;
  // The first checks are skipped: hardly any problem gains more than a digit a pass.
  next_check_ = static_cast<int64_t>(std::clamp(-std::log10(std::max(1e-300, options_.tolerance)), 1.0, 8.0));
  solver_started_ = true;
  started_ = true;
  look_passes_ = solver_passes_ = PassesNow();
  if (!stochastic()) look_distance_ = Distance();
  return hopeless ? SolveState::kNonFinite : *state;
}

// Checks the exact gradient as rarely as possible. A solver that converges linearly needs the same number of iterations
// for each digit, so the next check comes when half of the missing digits may have been gained.
absl::StatusOr<SolveState> LinearTrainer::CheckStochastic(const base::StopToken& stop) {
  if (solver_iteration_ < next_check_ && iteration_ < options_.max_iterations) {
    check_pending_ = false;
    return SolveState::kRunning;
  }
  VectorXd gradient;
  LUTHIER_ASSIGN_OR_RETURN(const double value, problem_->Evaluate(Weights(), &gradient, stop));
  check_pending_ = false;
  extra_passes_ += 1.0;
  const double largest = LargestEntry(gradient, problem_->column_scale());
  if (!std::isfinite(value) || !std::isfinite(largest)) return SolveState::kNonFinite;
  exact_gradient_ = std::move(gradient);
  exact_value_ = value;
  relative_gradient_ = zero_gradient_ > 0.0 ? largest / zero_gradient_ : largest;
  const double target = options_.tolerance * tightened_;
  if (largest <= target * zero_gradient_) return SolveState::kConverged;
  if (largest < 0.9 * best_gradient_) {
    best_gradient_ = largest;
    best_iteration_ = solver_iteration_;
  } else if (svrg_) {
    svrg_->Awaken();  // Rows that are being skipped may prevent convergence.
  }
  const double left = 0.5 * exact_gradient_.squaredNorm() / problem_->l2();
  if (solver_iteration_ - best_iteration_ > kPatience && left < kRounding * value) return SolveState::kPrecision;
  const double made = std::log(zero_gradient_ / largest);
  const double missing = std::log(largest / std::max(1e-14, target) / zero_gradient_);
  const double ahead = made > 0.1 ? 0.5 * static_cast<double>(solver_iteration_) * missing / made : 1.0;
  const double most = options_.adaptive && changes_made_ < kMostChanges ? kPassesBetweenLooks : 20.0;
  next_check_ = solver_iteration_ + static_cast<int64_t>(std::clamp(ahead, 1.0, most));
  return SolveState::kRunning;
}

absl::StatusOr<SolveState> LinearTrainer::CheckConverged(const base::StopToken& stop) {
  if (!(problem_->l2() > 0.0) || zero_value_ == 0.0) return SolveState::kConverged;
  const Eigen::Index p = problem_->penalized();
  const VectorXd& g = gradient();
  const double enough = options_.gap_share * value();
  if (g.size() - p <= 1) {
    // Bounds as DualityGap does. A free bias first moves to where its own gradient is 0, which changes the others' by
    // at most this much.
    const double bias = p < g.size() ? std::abs(g[p]) * problem_->largest_row_norm() : 0.0;
    const VectorXd shares = VectorXd::Ones(problem_->dim());
    const double squares =
        (g.head(p).cwiseAbs().array() + bias).matrix().cwiseAbs2().cwiseQuotient(problem_->Penalize(shares)).sum();
    if (0.5 * squares <= enough) {
      if (p == g.size()) relative_gap_ = 0.5 * squares / zero_value_;
      return SolveState::kConverged;
    }
  }
  if (newton() && newton_.promised() <= enough) return SolveState::kConverged;
  LUTHIER_ASSIGN_OR_RETURN(const double gap, problem_->DualityGap(Weights(), stop));
  extra_passes_ += p < g.size() ? 2.0 : 1.0;
  relative_gap_ = gap / zero_value_;
  if (gap <= enough) return SolveState::kConverged;
  tightened_ *= kTighter;
  SetTolerance();
  if (stochastic()) next_check_ = solver_iteration_ + 1;
  return SolveState::kRunning;
}

absl::StatusOr<SolveState> LinearTrainer::CheckPrecision(const base::StopToken& stop) {
  if (newton()) return SolveState::kPrecision;  // Newton's method has confirmed it itself.
  const VectorXd w = Weights();
  const std::unique_ptr<SecondOrderFunction> function = problem_->MakeFunction(false);
  NewtonSolver newton;
  newton.set_path(false);
  LUTHIER_RETURN_IF_ERROR(newton.Start(*function, w, stop).status());
  const double before = newton.value();
  LUTHIER_ASSIGN_OR_RETURN(const SolveState state, newton.Step(*function, stop));
  extra_passes_ += newton.passes();
  if (state != SolveState::kRunning || newton.value() >= before - kValueNoise * std::abs(before)) {
    return SolveState::kPrecision;
  }
  ChangeTo(options_.adaptive ? LinearSolver::kNewtonCg : solver_, newton.x());
  return SolveState::kRunning;
}

void LinearTrainer::ChangeTo(LinearSolver solver, VectorXd w) {
  extra_passes_ = PassesNow();
  solver_ = solver;
  start_ = std::move(w);
  MakeSolver();
}

double LinearTrainer::Distance() const {
  // The gradient at the weights of dual variables fluctuates; the gains of the steps do not.
  if (dual_) return std::sqrt(dual_->gap_estimate() / (options_.gap_share * exact_value_));
  const double claimed =
      LargestEntry(gradient(), problem_->column_scale()) / (options_.tolerance * tightened_ * zero_gradient_);
  if (!(problem_->l2() > 0.0)) return claimed;
  return std::max(claimed, gradient().norm() / std::sqrt(2.0 * options_.gap_share * problem_->l2() * value()));
}

void LinearTrainer::LookAround() {
  if (!options_.adaptive || changes_made_ >= kMostChanges || newton_.path_left()) return;
  if (stochastic() && exact_gradient_.size() == 0) return;
  const double passes = PassesNow();
  const double spent = passes - look_passes_;
  if (spent < kPassesBetweenLooks) return;
  const double before = look_distance_;
  const double now = Distance();
  look_passes_ = passes;
  look_distance_ = now;
  if (!std::isfinite(before) || !std::isfinite(now)) return;
  const double made = std::log(before / now);
  double needed = made > 0.0 ? spent * std::max(0.0, std::log(now)) / made : INFINITY;
  // A solver that has run for long was never as close as it seemed.
  const double used = passes - solver_passes_;
  if (now > 10.0) needed = std::max(needed, 0.5 * used);
  const SolverCosts costs = problem_->Costs();
  // Newton's method gains little for long and then all at once; coordinate descent is nearly as sudden.
  const double own = costs.Of(solver_);
  if (used < (newton() ? 3.0 : dual_ ? 1.0 : 0.0) * own) needed = std::min(needed, std::max(own - used, 0.3 * own));
  LinearSolver best = solver_;
  double least = 0.5 * needed;
  for (const LinearSolver other : kCandidates) {
    if (other == solver_ || other == LinearSolver::kDual || Left(other)) continue;
    // From these weights Newton's method needs fewer of its first steps.
    const bool newton = other != LinearSolver::kLbfgs;
    const double share = newton ? (costs.steps > 2.0 ? 0.7 : 1.0) : 1.0;
    const double cost = share * costs.Of(other);
    if (!(cost < least) || !CheckSolver(*problem_, other, options_.max_memory_bytes).ok()) {
      continue;
    }
    least = cost;
    best = other;
  }
  if (best == solver_) return;
  absl::StrAppend(&changes_, changes_.empty() ? "" : "; ", "after ", std::llround(passes), " passes ",
                  LinearSolverNames()[static_cast<size_t>(best)], " (",
                  std::isfinite(needed) ? absl::StrCat(std::llround(needed)) : "no end of",
                  " more passes foreseen, with it ", std::llround(least), ")");
  ++changes_made_;
  left_ |= 1 << static_cast<int>(solver_);
  ChangeTo(best, Weights());
}

absl::StatusOr<SolveState> LinearTrainer::StepSolver(const base::StopToken& stop) {
  SolveState state = SolveState::kRunning;
  if (dual_) {
    LUTHIER_ASSIGN_OR_RETURN(state, dual_->Advance(stop));
  } else if (svrg_) {
    LUTHIER_ASSIGN_OR_RETURN(state, svrg_->Advance(stop));
  } else if (newton()) {
    LUTHIER_ASSIGN_OR_RETURN(state, newton_.Step(*function_, stop));
  } else {
    const auto f = [&](const VectorXd& w, VectorXd* g) { return problem_->Evaluate(w, g, stop); };
    LUTHIER_ASSIGN_OR_RETURN(state, lbfgs_.Step(f, stop));
  }
  ++iteration_;
  ++solver_iteration_;
  if (stochastic()) {
    check_pending_ = state == SolveState::kRunning;
  } else if (zero_gradient_ > 0.0) {
    relative_gradient_ = LargestEntry(gradient(), problem_->column_scale()) / zero_gradient_;
  }
  return state;
}

absl::StatusOr<TrainOutcome> LinearTrainer::Advance(const base::StopToken& stop) {
  if (outcome_ != TrainOutcome::kRunning) return outcome_;
  SolveState state = SolveState::kRunning;
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  if (!solver_started_) {
    LUTHIER_ASSIGN_OR_RETURN(state, StartSolver(stop));
    // All weights are at their optimum: l2 dominates, or the data have nothing to learn from.
    if (state == SolveState::kRunning && zero_gradient_ == 0.0 && start_.isZero(0.0)) state = SolveState::kConverged;
  } else if (claim_ == SolveState::kRunning && !check_pending_) {
    if (iteration_ >= options_.max_iterations) {
      outcome_ = TrainOutcome::kIterationLimit;
      return outcome_;
    }
    LUTHIER_ASSIGN_OR_RETURN(state, StepSolver(stop));
  }
  if (state == SolveState::kRunning && check_pending_) {
    LUTHIER_ASSIGN_OR_RETURN(state, CheckStochastic(stop));
  }
  // A stop leaves the claim for the next call.
  if (state == SolveState::kConverged || state == SolveState::kPrecision) claim_ = state;
  if (claim_ != SolveState::kRunning) {
    LUTHIER_ASSIGN_OR_RETURN(state, claim_ == SolveState::kConverged ? CheckConverged(stop) : CheckPrecision(stop));
    claim_ = SolveState::kRunning;
  }
  if (state == SolveState::kRunning && solver_started_ && iteration_ < options_.max_iterations) LookAround();
  outcome_ = OutcomeOf(state);
  passes_ = PassesNow();
  if (outcome_ == TrainOutcome::kRunning && iteration_ >= options_.max_iterations) {
    outcome_ = TrainOutcome::kIterationLimit;
  }
  return outcome_;
}

void LinearTrainer::Save(base::CheckpointWriter* writer, absl::string_view identity) const {
  TrainerState{started_, outcome_, iteration_, zero_gradient_}.Save(writer, identity,
                                                                    static_cast<uint64_t>(options_.solver));
  writer->U64(static_cast<uint64_t>(solver_));
  writer->U64(solver_started_ ? 1 : 0);
  for (const double number : {zero_value_, extra_passes_, passes_, tightened_, relative_gradient_, relative_gap_,
                              best_gradient_, look_passes_, look_distance_, solver_passes_, exact_value_}) {
    writer->F64(number);
  }
  for (const int64_t number : {best_iteration_, solver_iteration_, next_check_, int64_t{changes_made_}, left_}) {
    writer->U64(static_cast<uint64_t>(number));
  }
  writer->U64(check_pending_ ? 1 : 0);
  writer->U64(static_cast<uint64_t>(claim_));
  writer->Text(changes_);
  writer->Vector(exact_gradient_);
  writer->Vector(start_);
  if (!solver_started_) return;
  if (dual_) {
    dual_->Save(writer);
  } else if (svrg_) {
    svrg_->Save(writer);
  } else if (newton()) {
    newton_.Save(writer);
  } else {
    lbfgs_.Save(writer);
  }
}

absl::Status LinearTrainer::Load(base::CheckpointReader* reader, absl::string_view identity) {
  LUTHIER_CHECK(!started_);
  TrainerState state;
  LUTHIER_RETURN_IF_ERROR(state.Load(reader, identity, static_cast<uint64_t>(options_.solver)));
  const uint64_t solver = reader->U64();
  const bool solver_started = reader->U64() != 0;
  if (!reader->ok() || solver >= LinearSolverNames().size() ||
      (solver != static_cast<uint64_t>(options_.solver) && !options_.adaptive)) {
    return UnfitCheckpoint();
  }
  zero_gradient_ = state.zero_gradient;
  solver_ = static_cast<LinearSolver>(solver);
  if (!CheckSolver(*problem_, solver_, options_.max_memory_bytes).ok()) {
    return UnfitCheckpoint();
  }
  MakeSolver();
  for (double* number : {&zero_value_, &extra_passes_, &passes_, &tightened_, &relative_gradient_, &relative_gap_,
                         &best_gradient_, &look_passes_, &look_distance_, &solver_passes_, &exact_value_}) {
    *number = reader->F64();
  }
  int64_t changes = 0;
  for (int64_t* number : {&best_iteration_, &solver_iteration_, &next_check_, &changes, &left_}) {
    *number = static_cast<int64_t>(reader->U64());
  }
  check_pending_ = reader->U64() != 0;
  const uint64_t claim = reader->U64();
  changes_ = reader->Text();
  exact_gradient_ = reader->Vector();
  start_ = reader->Vector();
  bool fits = reader->ok() && start_.size() == problem_->dim() && changes >= 0 && changes <= kMostChanges &&
              claim <= static_cast<uint64_t>(SolveState::kNonFinite) &&
              (exact_gradient_.size() == 0 || exact_gradient_.size() == problem_->dim());
  if (fits && solver_started && dual_) {
    fits = dual_->Load(reader);
  } else if (fits && solver_started && svrg_) {
    fits = svrg_->Load(reader);
  } else if (fits && solver_started) {
    fits = newton() ? newton_.Load(reader, problem_->dim()) : lbfgs_.Load(reader, problem_->dim());
  }
  if (!fits) return UnfitCheckpoint();
  started_ = state.started;
  solver_started_ = solver_started;
  outcome_ = state.outcome;
  iteration_ = state.iteration;
  changes_made_ = static_cast<int>(changes);
  claim_ = static_cast<SolveState>(claim);
  SetTolerance();
  return absl::OkStatus();
}

}  // namespace luthier::linear
