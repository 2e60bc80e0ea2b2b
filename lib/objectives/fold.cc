#include "lib/objectives/fold.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/base/team.h"
#include "lib/bilevel/linear_inner.h"
#include "lib/bilevel/logistic_inner.h"
#include "lib/catalogue/objective_info.h"
#include "lib/catalogue/penalty_groups.h"
#include "lib/catalogue/settings.h"

namespace luthier::objectives {
namespace {

using Eigen::VectorXd;
using linear::LinearSolver;
using linear::MarginLoss;
using linear::TrainOutcome;

// A training whose problem others can work on.
class HostedTraining : public FoldTraining {
 public:
  virtual std::unique_ptr<bilevel::InnerProblem> MakeInner() const = 0;
  virtual std::unique_ptr<bilevel::OuterLoss> MakeOuter() const = 0;
  // Makes `w` the weights that Measure and Weights are about.
  virtual void Fix(VectorXd w) = 0;
};

class Training : public HostedTraining {
 public:
  absl::Status Init(const linear::PenalizedProblem* problem, const LinearSettings& settings, LinearSolver solver) {
    linear::LinearTrainOptions options = settings.train;
    options.solver = solver;
    options.adaptive = settings.solver == "auto";
    LUTHIER_ASSIGN_OR_RETURN(linear::LinearTrainer trainer, linear::LinearTrainer::Create(problem, options));
    trainer_ = std::make_unique<linear::LinearTrainer>(std::move(trainer));
    return absl::OkStatus();
  }
  std::string changes() const final { return trainer_->changes(); }
  void Fix(VectorXd w) final { polished_ = std::move(w); }
  absl::StatusOr<TrainOutcome> Advance(const base::StopToken& stop) final { return trainer_->Advance(stop); }
  TrainOutcome outcome() const final { return trainer_->outcome(); }
  bool started() const final { return trainer_->started(); }
  int64_t iteration() const final { return trainer_->iteration(); }
  double passes() const final { return trainer_->passes(); }
  double relative_gradient() const final { return trainer_->relative_gradient(); }
  double relative_gap() const final { return trainer_->relative_gap(); }
  void Save(base::CheckpointWriter* writer, absl::string_view identity) const final {
    trainer_->Save(writer, identity);
    writer->Vector(adjoint_);
  }
  absl::Status Load(base::CheckpointReader* reader, absl::string_view identity) final {
    LUTHIER_RETURN_IF_ERROR(trainer_->Load(reader, identity));
    adjoint_ = reader->Vector();
    if (adjoint_.size() == 0 || Fits(adjoint_)) return absl::OkStatus();
    return absl::InvalidArgumentError("the checkpoint's adjoint is of another size");
  }
  VectorXd Weights() const final { return Unscaled(Trained()); }
  VectorXd Adjoint() const final { return Unscaled(adjoint_); }
  bool WarmStart(const VectorXd& w, const VectorXd& adjoint) final {
    if (!Fits(w) || (adjoint.size() > 0 && !Fits(adjoint))) return false;
    trainer_->WarmStart(Scaled(w));
    adjoint_ = Scaled(adjoint);
    return true;
  }

 protected:
  virtual Eigen::Index dim() const = 0;
  // Maps the trainer's coordinates to those of the standardized columns, and back. Empty vectors stay empty.
  virtual VectorXd Unscaled(VectorXd w) const { return w; }
  virtual VectorXd Scaled(VectorXd w) const { return w; }

  // In the trainer's coordinates.
  VectorXd Trained() const { return polished_.size() > 0 ? polished_ : trainer_->Weights(); }
  bool Fits(const VectorXd& w) const { return w.size() == dim() && w.allFinite(); }

  absl::StatusOr<bilevel::ImplicitGradient> DifferentiateThere(bilevel::InnerProblem& inner, bilevel::OuterLoss& outer,
                                                               bool certified, double mu, const GradientEffort& effort,
                                                               const base::StopToken& stop) {
    polished_ = Trained();
    LUTHIER_ASSIGN_OR_RETURN(bilevel::ImplicitGradient gradient,
                             DifferentiateAt(inner, outer, {certified, mu}, effort, stop, &polished_, adjoint_));
    adjoint_ = gradient.usable() && gradient.adjoint.allFinite() ? gradient.adjoint : VectorXd();
    return gradient;
  }

  std::unique_ptr<linear::LinearTrainer> trainer_;
  // In the trainer's coordinates.
  VectorXd polished_;  // Empty: the trainer's own.
  VectorXd adjoint_;   // Start of the solve for the adjoint, and then its solution. Empty: the start is 0.
};

// Training by a fixed number of steps from zero, which Differentiate goes back through. It starts again after a
// restart.
class UnrolledTraining final : public FoldTraining {
 public:
  UnrolledTraining(std::unique_ptr<HostedTraining> host, const UnrollSettings& settings)
      : host_(std::move(host)),
        settings_(settings),
        inner_(host_->MakeInner()),
        descent_(inner_.get(), *settings.method, settings.steps) {}

  absl::StatusOr<TrainOutcome> Advance(const base::StopToken& stop) override {
    LUTHIER_ASSIGN_OR_RETURN(const bool moved, descent_.Advance(stop));
    if (!descent_.finite()) {
      outcome_ = TrainOutcome::kDiverged;
    } else if (!moved) {
      outcome_ = TrainOutcome::kPrecision;
    } else if (descent_.steps() >= settings_.steps) {
      outcome_ = TrainOutcome::kIterationLimit;
    }
    host_->Fix(descent_.x());
    return outcome_;
  }
  TrainOutcome outcome() const override { return outcome_; }
  bool started() const override { return descent_.first_gradient_norm() > 0.0 || outcome_ != TrainOutcome::kRunning; }
  int64_t iteration() const override { return descent_.steps(); }
  double passes() const override { return descent_.steps(); }
  double relative_gradient() const override {
    const double first = descent_.first_gradient_norm();
    return first > 0.0 ? descent_.gradient_norm() / first : 0.0;
  }
  double relative_gap() const override { return NAN; }
  void Save(base::CheckpointWriter* writer, absl::string_view identity) const override {
    writer->Text(std::string(identity));
  }
  absl::Status Load(base::CheckpointReader*, absl::string_view) override {
    return absl::UnimplementedError("unrolled training begins anew");
  }
  VectorXd Weights() const override { return host_->Weights(); }
  bool WarmStart(const VectorXd&, const VectorXd&) override { return false; }
  absl::StatusOr<Sums> Measure(const base::StopToken& stop) const override { return host_->Measure(stop); }
  bool differentiable() const override {
    return outcome_ == TrainOutcome::kIterationLimit || outcome_ == TrainOutcome::kPrecision;
  }
  absl::StatusOr<bilevel::ImplicitGradient> Differentiate(const GradientEffort&, const base::StopToken& stop) override {
    const std::unique_ptr<bilevel::OuterLoss> outer = host_->MakeOuter();
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::UnrolledGradient unrolled, descent_.Differentiate(*outer, stop));
    return AsImplicit(unrolled);
  }

 private:
  const std::unique_ptr<HostedTraining> host_;
  const UnrollSettings settings_;
  const std::unique_ptr<bilevel::InnerProblem> inner_;
  bilevel::UnrolledDescent descent_;
  TrainOutcome outcome_ = TrainOutcome::kRunning;
};

// Returns `training` itself, or its problem unrolled.
std::unique_ptr<FoldTraining> Unrolled(std::unique_ptr<HostedTraining> training, const UnrollSettings& settings) {
  if (!settings.method) return training;
  return std::make_unique<UnrolledTraining>(std::move(training), settings);
}

// Returns true if all penalties are equal: one penalty does not give the same bits as many equal ones.
bool OnePenalty(const LinearSettings& settings) {
  return std::all_of(settings.penalties.begin(), settings.penalties.end(),
                     [&](double penalty) { return penalty == settings.l2; });
}

// Returns the penalty of each column.
VectorXd PenaltyOfColumns(const bilevel::ColumnPenalties& groups, const LinearSettings& settings) {
  VectorXd l2(static_cast<Eigen::Index>(groups.column.size()));
  for (size_t j = 0; j < groups.column.size(); ++j) {
    l2[static_cast<Eigen::Index>(j)] = settings.penalties[static_cast<size_t>(groups.column[j])];
  }
  return l2;
}

// Returns the penalty of each penalised weight.
VectorXd PenaltyOfWeights(const bilevel::ColumnPenalties& groups, const LinearSettings& settings,
                          const linear::LogisticData& data) {
  VectorXd l2(data.penalized());
  for (Eigen::Index i = 0; i < l2.size(); ++i) {
    l2[i] = settings.penalties[static_cast<size_t>(groups.IndexOf(i, data.scores()))];
  }
  return l2;
}

// Combines a standardization and scales.
data::Standardization Scale(data::Standardization s, const VectorXd& scales) {
  if (scales.size() == 0) return s;
  if (s.identity()) s.mean = VectorXd::Zero(scales.size());
  s.deviation = s.deviation.size() == 0 ? scales : VectorXd(s.deviation.cwiseProduct(scales));
  return s;
}

// Counts the rows of a fold, and those that the weights get right.
template <typename Fold>
absl::Status Count(const Fold& fold, const VectorXd& w, const base::StopToken& stop, FoldTraining::Sums* sums) {
  const auto count = [&](const auto& rows, double* correct, double* all) -> absl::Status {
    LUTHIER_ASSIGN_OR_RETURN(const int64_t right, rows.CountCorrect(w, stop));
    *correct = static_cast<double>(right);
    *all = static_cast<double>(rows.rows());
    return absl::OkStatus();
  };
  sums->train_rows = static_cast<double>(fold.train.rows());
  LUTHIER_RETURN_IF_ERROR(count(fold.validation, &sums->validation_correct, &sums->validation_rows));
  if (fold.third.rows() == 0) return absl::OkStatus();
  return count(fold.third, &sums->third_correct, &sums->third_rows);
}

// A fold with two classes.
class MarginFold final : public FoldData, public std::enable_shared_from_this<MarginFold> {
 public:
  MarginFold(data::Standardization standardization, const bilevel::ColumnPenalties& groups,
             const VectorXd& column_scales, linear::LinearData train_rows, linear::LinearData validation_rows,
             linear::LinearData third_rows)
      : FoldData(std::move(standardization), groups),
        scales(column_scales),
        train(std::move(train_rows)),
        validation(std::move(validation_rows)),
        third(std::move(third_rows)) {}

  linear::SolverChoice Choose(const LinearSettings& settings) const override {
    return linear::ChooseSolver(Problem(settings));
  }
  absl::StatusOr<std::unique_ptr<FoldTraining>> Start(const LinearSettings& settings,
                                                      LinearSolver solver) const override;

  linear::LinearProblem Problem(const LinearSettings& settings) const {
    if (OnePenalty(settings) || scales.size() > 0) return {&train, settings.loss, settings.l2};
    VectorXd l2 = PenaltyOfColumns(groups(), settings);
    l2.conservativeResize(train.dim() - (train.bias() == linear::Bias::kFree ? 1 : 0));
    if (train.bias() == linear::Bias::kPenalized) l2[l2.size() - 1] = settings.l2;
    return {&train, settings.loss, std::move(l2)};
  }

  const VectorXd scales;  // Empty: none.
  const linear::LinearData train, validation, third;
};

class MarginTraining final : public Training {
 public:
  MarginTraining(std::shared_ptr<const MarginFold> fold, const LinearSettings& settings)
      : fold_(std::move(fold)),
        loss_(settings.loss),
        team_(settings.threads > 1 ? std::make_unique<base::Team>(settings.threads) : nullptr),
        problem_(Shared(fold_->Problem(settings))),
        train_(Shared({&fold_->train, loss_, 0.0})),
        held_out_(Shared({&fold_->validation, loss_, 0.0})),
        third_(Shared({&fold_->third, loss_, 0.0})) {}

  const linear::LinearProblem& problem() const { return problem_; }
  std::unique_ptr<bilevel::InnerProblem> MakeInner() const override {
    return std::make_unique<bilevel::LinearInner>(&problem_, fold_->groups());
  }
  std::unique_ptr<bilevel::OuterLoss> MakeOuter() const override {
    return std::make_unique<bilevel::LinearOuter>(&fold_->validation, loss_);
  }

  absl::StatusOr<Sums> Measure(const base::StopToken& stop) const override {
    const VectorXd w = Trained();
    Sums sums;
    LUTHIER_ASSIGN_OR_RETURN(sums.validation_loss, held_out_.Value(w, nullptr, nullptr, stop));
    LUTHIER_ASSIGN_OR_RETURN(sums.train_loss, train_.Value(w, nullptr, nullptr, stop));
    if (fold_->third.rows() > 0) {
      LUTHIER_ASSIGN_OR_RETURN(sums.third_loss, third_.Value(w, nullptr, nullptr, stop));
    }
    LUTHIER_RETURN_IF_ERROR(Count(*fold_, w, stop, &sums));
    return sums;
  }

  absl::StatusOr<bilevel::ImplicitGradient> Differentiate(const GradientEffort& effort,
                                                          const base::StopToken& stop) override {
    bilevel::LinearInner inner(&problem_, fold_->groups());
    bilevel::LinearOuter outer(&fold_->validation, loss_);
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::InnerConstants constants, inner.Constants(stop));
    return DifferentiateThere(inner, outer, constants.certified, constants.mu, effort, stop);
  }

 private:
  Eigen::Index dim() const override { return problem_.dim(); }
  VectorXd Unscaled(VectorXd w) const override {
    if (w.size() > 0) w.head(fold_->scales.size()).array() /= fold_->scales.array();
    return w;
  }
  VectorXd Scaled(VectorXd w) const override {
    if (w.size() > 0) w.head(fold_->scales.size()).array() *= fold_->scales.array();
    return w;
  }

  linear::LinearProblem Shared(linear::LinearProblem problem) const {
    problem.ShareWith(team_.get());
    return problem;
  }

  const std::shared_ptr<const MarginFold> fold_;
  const MarginLoss loss_;
  const std::unique_ptr<base::Team> team_;  // Null: one thread.
  const linear::LinearProblem problem_, train_, held_out_, third_;
};

absl::StatusOr<std::unique_ptr<FoldTraining>> MarginFold::Start(const LinearSettings& settings,
                                                                LinearSolver solver) const {
  auto training = std::make_unique<MarginTraining>(shared_from_this(), settings);
  LUTHIER_RETURN_IF_ERROR(training->Init(&training->problem(), settings, solver));
  return Unrolled(std::move(training), settings.unroll);
}

// A fold with more than two classes and the logistic loss.
class SoftmaxFold final : public FoldData, public std::enable_shared_from_this<SoftmaxFold> {
 public:
  SoftmaxFold(data::Standardization standardization, const bilevel::ColumnPenalties& groups,
              linear::LogisticData train_rows, linear::LogisticData validation_rows, linear::LogisticData third_rows)
      : FoldData(std::move(standardization), groups),
        train(std::move(train_rows)),
        validation(std::move(validation_rows)),
        third(std::move(third_rows)) {}

  linear::LogisticProblem Problem(const LinearSettings& settings) const {
    if (OnePenalty(settings)) return {&train, settings.l2};
    return {&train, PenaltyOfWeights(groups(), settings, train)};
  }
  linear::SolverChoice Choose(const LinearSettings& settings) const override {
    return linear::ChooseSolver(Problem(settings));
  }
  absl::StatusOr<std::unique_ptr<FoldTraining>> Start(const LinearSettings& settings,
                                                      LinearSolver solver) const override;

  const linear::LogisticData train, validation, third;
};

class SoftmaxTraining final : public Training {
 public:
  SoftmaxTraining(std::shared_ptr<const SoftmaxFold> fold, const LinearSettings& settings)
      : fold_(std::move(fold)), problem_(fold_->Problem(settings)) {}

  const linear::LogisticProblem& problem() const { return problem_; }
  std::unique_ptr<bilevel::InnerProblem> MakeInner() const override {
    return std::make_unique<bilevel::LogisticInner>(&problem_, fold_->groups());
  }
  std::unique_ptr<bilevel::OuterLoss> MakeOuter() const override {
    return std::make_unique<bilevel::LogisticOuter>(&fold_->validation);
  }

  absl::StatusOr<Sums> Measure(const base::StopToken& stop) const override {
    const VectorXd w = Trained();
    Sums sums;
    LUTHIER_ASSIGN_OR_RETURN(sums.validation_loss, fold_->validation.Loss(w, nullptr, stop));
    LUTHIER_ASSIGN_OR_RETURN(sums.train_loss, fold_->train.Loss(w, nullptr, stop));
    if (fold_->third.rows() > 0) {
      LUTHIER_ASSIGN_OR_RETURN(sums.third_loss, fold_->third.Loss(w, nullptr, stop));
    }
    LUTHIER_RETURN_IF_ERROR(Count(*fold_, w, stop, &sums));
    return sums;
  }

  absl::StatusOr<bilevel::ImplicitGradient> Differentiate(const GradientEffort& effort,
                                                          const base::StopToken& stop) override {
    bilevel::LogisticInner inner(&problem_, fold_->groups());
    bilevel::LogisticOuter outer(&fold_->validation);
    return DifferentiateThere(inner, outer, !fold_->train.intercept(), problem_.l2(), effort, stop);
  }

 private:
  Eigen::Index dim() const override { return problem_.dim(); }

  const std::shared_ptr<const SoftmaxFold> fold_;
  const linear::LogisticProblem problem_;
};

absl::StatusOr<std::unique_ptr<FoldTraining>> SoftmaxFold::Start(const LinearSettings& settings,
                                                                 LinearSolver solver) const {
  auto training = std::make_unique<SoftmaxTraining>(shared_from_this(), settings);
  LUTHIER_RETURN_IF_ERROR(training->Init(&training->problem(), settings, solver));
  return Unrolled(std::move(training), settings.unroll);
}

}  // namespace

LinearSettings ParseLinearSettings(const catalogue::ObjectiveInfo& info,
                                   const std::vector<catalogue::PenaltyGroup>& groups,
                                   const catalogue::Settings& settings) {
  LinearSettings out;
  const bool hinge = info.model == "hsvm";
  if (hinge) {
    out.loss = {MarginLoss::Kind::kHuberizedHinge, settings.Number("epsilon")};
  }
  out.bias = !settings.Bool("intercept")                    ? linear::Bias::kNone
             : hinge || settings.Bool("penalize_intercept") ? linear::Bias::kPenalized
                                                            : linear::Bias::kFree;
  out.standardize = settings.Bool("standardize");
  if (settings.IsVector("l2")) {
    // Number 0 is the intercept's, the last entry; without an intercept nothing has number 0.
    out.penalties = settings.Vector("l2");
    out.l2 = out.penalties.back();
    out.penalties.insert(out.penalties.begin(), out.l2);
  } else {
    out.l2 = settings.Number("l2");
    out.penalties = catalogue::PenaltiesOf(groups, settings);
  }
  out.solver = settings.Text("solver");
  out.train.tolerance = settings.Number("tolerance");
  out.train.max_iterations = settings.Int("max_iterations");
  out.train.max_memory_bytes = settings.Int("max_memory_mib") << 20;
  const std::string& batch = settings.Text("svrg_batch");
  out.train.svrg.batch = batch == "full"    ? linear::SvrgOptions::Batch::kFull
                         : batch == "mixed" ? linear::SvrgOptions::Batch::kMixed
                                            : linear::SvrgOptions::Batch::kGrow;
  out.train.svrg.sampling = settings.Text("svrg_sampling") == "uniform" ? linear::SvrgOptions::Sampling::kUniform
                                                                        : linear::SvrgOptions::Sampling::kLipschitz;
  out.threads = static_cast<int>(settings.Int("threads"));
  out.unroll = ParseUnroll(settings);
  if (settings.Bool("svrg_skip")) out.train.svrg.skip = linear::SvrgOptions::Skip::kAfterThree;
  return out;
}

std::string NoteOf(const linear::SolverChoice& choice, const std::vector<std::string>& changes) {
  std::string note = absl::StrCat("solver auto is ", linear::LinearSolverNames()[static_cast<size_t>(choice.solver)],
                                  ": ", choice.reason);
  for (size_t k = 0; k < changes.size(); ++k) {
    if (changes[k].empty()) continue;
    absl::StrAppend(&note, changes.size() > 1 ? absl::StrCat("; fold ", k + 1, " ") : "; ", changes[k]);
  }
  return note;
}

VectorXd ColumnScales(const bilevel::ColumnPenalties& groups, const LinearSettings& settings, LinearSolver solver) {
  if (!linear::NeedsOnePenalty(solver) || OnePenalty(settings)) return {};
  return (PenaltyOfColumns(groups, settings) / settings.l2).cwiseSqrt();
}

absl::StatusOr<std::shared_ptr<const FoldData>> MakeFoldData(const data::Dataset* dataset,
                                                             const data::Partition& partition, bool standardize,
                                                             linear::Bias bias, const bilevel::ColumnPenalties& groups,
                                                             const VectorXd& scales, const base::StopToken& stop) {
  data::Standardization s;
  if (standardize) {
    LUTHIER_ASSIGN_OR_RETURN(s, data::FitStandardization(dataset->x, partition.train, stop));
  }
  if (dataset->num_classes() == 2) {
    const data::Standardization scaled = Scale(s, scales);
    LUTHIER_ASSIGN_OR_RETURN(linear::LinearData train,
                             linear::LinearData::Create(*dataset, partition.train, scaled, bias, stop));
    LUTHIER_ASSIGN_OR_RETURN(linear::LinearData validation,
                             linear::LinearData::Create(*dataset, partition.validation, scaled, bias, stop));
    LUTHIER_ASSIGN_OR_RETURN(linear::LinearData third,
                             linear::LinearData::Create(*dataset, partition.third, scaled, bias, stop));
    return std::shared_ptr<const FoldData>(std::make_shared<MarginFold>(std::move(s), groups, scales, std::move(train),
                                                                        std::move(validation), std::move(third)));
  }
  const bool intercept = bias != linear::Bias::kNone;
  LUTHIER_ASSIGN_OR_RETURN(linear::LogisticData train,
                           linear::LogisticData::Create(dataset, partition.train, s, intercept, stop));
  LUTHIER_ASSIGN_OR_RETURN(linear::LogisticData validation,
                           linear::LogisticData::Create(dataset, partition.validation, s, intercept, stop));
  LUTHIER_ASSIGN_OR_RETURN(linear::LogisticData third,
                           linear::LogisticData::Create(dataset, partition.third, s, intercept, stop));
  return std::shared_ptr<const FoldData>(
      std::make_shared<SoftmaxFold>(std::move(s), groups, std::move(train), std::move(validation), std::move(third)));
}

}  // namespace luthier::objectives
