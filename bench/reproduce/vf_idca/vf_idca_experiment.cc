// Strengths of sparse regressions on the generated problems of Gao et al. 2022, one draw and method at a time:
//
//   vf_idca_experiment --problem=elastic_net --method=vf_idca --validation=20 --columns=250 --seed=1
//   vf_idca_experiment --problem=sparse_group_lasso --columns=600 --groups=30 --seed=1
//
// Methods: vf_idca, with the authors' constants; vf_starts, the same from up to eight starts, its best penalised model
// (as objective vf_elastic_net); grid, 10 x 10 in the paper's ranges; wide_grid, 10 x 10 where the best models are;
// random and tpe, 100 settings of all strengths in the paper's ranges; igjo (Feng & Simon 2018) and ifdm (Bertrand et
// al. 2020), descents along implicit gradients. Prints a line, separated by commas:
//   problem,method,training rows,validation rows,columns,groups,seed,CPU seconds,steps or models,validation and test
//   loss of the point reported,validation and test loss of the refit,degenerate,largest gap
// Losses are half mean squared errors. The refit is trained on the training rows alone; the point that vf_idca reports
// has seen the validation rows. --steps prints a line before for each step of vf_idca: number, step, violation, alpha,
// objective, gaps, validation loss, largest multiplier. --write=FOLDER writes the draw as text for other programs:
// x.txt has the rows of the training, validation and test part, y.txt their targets.
#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/vf_idca/penalized_quadratic.h"
#include "lib/bilevel/vf_idca/sparse_vf_idca.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

ABSL_FLAG(std::string, problem, "elastic_net", "elastic_net or sparse_group_lasso");
ABSL_FLAG(std::string, method, "vf_idca",
          "vf_idca, vf_starts, grid, wide_grid, random, tpe, igjo or (elastic_net) ifdm");
ABSL_FLAG(int, train, 100, "training rows");
ABSL_FLAG(int, validation, 100, "validation rows");
ABSL_FLAG(int, test, 250, "test rows");
ABSL_FLAG(int, columns, 250, "columns");
ABSL_FLAG(int, groups, 30, "groups of columns, all of one size");
ABSL_FLAG(uint64_t, seed, 1, "of the draw");
ABSL_FLAG(double, tolerance, 0.1, "at which the algorithm ends");
ABSL_FLAG(bool, steps, false, "print each step");
ABSL_FLAG(bool, inexact, false, "solve problems far from the end less accurately");
ABSL_FLAG(std::string, write, "", "folder to write the draw to");

namespace luthier {
namespace {

using bilevel::SparseVfProblem;
using bilevel::SparseVfRows;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

struct Draw {
  MatrixXd x;
  VectorXd y;
};

Draw Generate(bool grouped, Index rows, Index columns, uint64_t seed) {
  base::RandomStream random(seed, "vf_idca");
  Draw draw{MatrixXd(rows, columns), VectorXd()};
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < columns; ++j) {
      // Correlation 0.5^|i - j| is that of an autoregression.
      const double before = grouped || j == 0 ? 0.0 : draw.x(i, j - 1);
      draw.x(i, j) = grouped || j == 0 ? random.Normal() : 0.5 * before + std::sqrt(0.75) * random.Normal();
    }
  }
  VectorXd beta = VectorXd::Zero(columns);
  if (grouped) {
    for (Index block = 0; block < 3; ++block) {
      for (Index k = 0; k < 5; ++k) beta[block * (columns / 3) + k] = static_cast<double>(k + 1);
    }
  } else {
    std::vector<Index> places(static_cast<size_t>(columns));
    for (Index j = 0; j < columns; ++j) places[static_cast<size_t>(j)] = j;
    random.Shuffle(places);
    for (size_t k = 0; k < 15; ++k) beta[places[k]] = 1.0;
  }
  const VectorXd signal = draw.x * beta;
  VectorXd noise(rows);
  for (double& e : noise) e = random.Normal();
  draw.y = signal + noise * (signal.norm() / (2.0 * noise.norm()));
  return draw;
}

SparseVfRows Rows(const Draw& draw, Index begin, Index count) {
  const MatrixXd x = draw.x.middleRows(begin, count);
  const VectorXd y = draw.y.segment(begin, count);
  const double n = static_cast<double>(count);
  SparseVfRows rows;
  rows.gram = MatrixXd::Zero(x.cols(), x.cols());
  rows.gram.selfadjointView<Eigen::Lower>().rankUpdate(x.transpose(), 1.0 / n);
  rows.gram.triangularView<Eigen::StrictlyUpper>() = rows.gram.transpose();
  rows.product = x.transpose() * y / n;
  rows.half_square = 0.5 * y.squaredNorm() / n;
  return rows;
}

// A setting of all strengths beside the halved mean of squares, and the model that it gives.
class Trainer {
 public:
  explicit Trainer(const SparseVfProblem* problem) : problem_(problem), model_(problem->train.product.size()) {
    quadratic_.a = &problem->train.gram;
    quadratic_.c = problem->train.product;
    model_.setZero();
  }

  // Trains; from the last model, which is where paths of strengths are quick.
  absl::StatusOr<double> Train(const VectorXd& mu) {
    LUTHIER_ASSIGN_OR_RETURN(minimum_, MinimizePenalized(quadratic_, problem_->penalties, mu, model_, 2000, {}));
    model_ = minimum_->x;
    ++models_;
    const double loss = problem_->validation.Loss(model_);
    if (best_.size() == 0 || loss < best_loss_) {
      best_ = model_;
      best_loss_ = loss;
    }
    return loss;
  }

  // Derivatives of the last model's validation loss by the strengths: -q' grad P_i on its support, H q = grad L.
  VectorXd Gradient() const {
    const bilevel::SparsePenalties& penalties = problem_->penalties;
    VectorXd out = VectorXd::Zero(penalties.count());
    if (!minimum_->factored) return out;
    const std::vector<Index>& support = minimum_->support;
    const VectorXd slope = problem_->validation.gram * model_ - problem_->validation.product;
    const VectorXd q = minimum_->factor.solve(VectorXd(slope(support)));
    const VectorXd w = model_(support);
    out[penalties.l1()] = -q.dot(w.cwiseSign());
    if (penalties.ridge) out[penalties.l2()] = -q.dot(w);
    VectorXd all = VectorXd::Zero(model_.size());
    all(support) = q;
    for (Index m = 0; m < penalties.group_count(); ++m) {
      const std::vector<Index>& group = penalties.groups[static_cast<size_t>(m)];
      const VectorXd part = model_(group);
      if (part.norm() > 0.0) out[m] = -VectorXd(all(group)).dot(part) / part.norm();
    }
    return out;
  }

  const VectorXd& best() const { return best_; }
  double best_loss() const { return best_loss_; }
  int models() const { return models_; }

 private:
  const SparseVfProblem* const problem_;
  bilevel::Quadratic quadratic_;
  std::optional<bilevel::PenalizedMinimum> minimum_;
  VectorXd model_, best_;
  double best_loss_ = 0.0;
  int models_ = 0;
};

// Ranges of the logarithms, base 10, of the strengths: of the groups (or the ridge) and of the l1 norm.
struct Ranges {
  double others_low, others_high, l1_low, l1_high;
};

Ranges RangesOf(bool grouped, bool wide, double rows) {
  // The paper has those of the elastic net beside sums of squares.
  const double sums = std::log10(rows);
  if (grouped) return wide ? Ranges{-3.0, 1.5, -2.0, 1.0} : Ranges{-3.0, 1.0, -3.0, 1.0};
  return wide ? Ranges{-3.0 - sums, 3.0 - sums, -2.0 - sums, 2.5 - sums}
              : Ranges{-9.0 - sums, -2.0 - sums, -9.0 - sums, -2.0 - sums};
}

absl::Status Grid(const SparseVfProblem& problem, const Ranges& ranges, Trainer* trainer) {
  constexpr int kValues = 10;
  for (int i = 0; i < kValues; ++i) {
    for (int k = kValues - 1; k >= 0; --k) {
      const auto at = [](double low, double high, int j) { return std::pow(10.0, low + (high - low) * j / 9.0); };
      VectorXd mu = VectorXd::Constant(problem.penalties.count(), at(ranges.others_low, ranges.others_high, i));
      mu[problem.penalties.l1()] = at(ranges.l1_low, ranges.l1_high, k);
      LUTHIER_RETURN_IF_ERROR(trainer->Train(mu).status());
    }
  }
  return absl::OkStatus();
}

// 100 settings by a designer of studies.
absl::Status Search(const SparseVfProblem& problem, const Ranges& ranges, bool tpe, Trainer* trainer) {
  const auto range = [](const char* name, double low, double high) {
    study::ParameterSpec p;
    p.name = name;
    p.domain = study::FloatRange{std::pow(10.0, low), std::pow(10.0, high), study::Scale::kLog, std::nullopt};
    return p;
  };
  study::StudySpec spec;
  spec.seed = absl::GetFlag(FLAGS_seed);
  const Index others = problem.penalties.count() - 1;
  std::vector<study::ParameterSpec> space = {range("l1", ranges.l1_low, ranges.l1_high),
                                             range("others", ranges.others_low, ranges.others_high)};
  space[1].count = static_cast<int>(others);
  LUTHIER_ASSIGN_OR_RETURN(spec.space, study::SearchSpace::Create(std::move(space)));
  spec.metric = {"loss", study::Goal::kMinimize};
  spec.budget.max_trials = 100;
  if (tpe) {
    spec.algorithm = study::TpeOptions();
  } else {
    spec.algorithm = study::RandomOptions();
  }
  const std::unique_ptr<search::Designer> designer = search::CreateDesigner(spec);
  study::History history;
  for (int64_t k = 0; k < 100; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(const search::Suggestion suggestion,
                             designer->Suggest(history, static_cast<uint64_t>(k), base::StopToken()));
    const auto& list = std::get<std::vector<double>>(suggestion.parameters.at("others"));
    VectorXd mu(others + 1);
    const Index l1 = problem.penalties.l1();
    mu[l1] = std::get<double>(suggestion.parameters.at("l1"));
    for (Index i = 0, at = 0; i <= others; ++i) {
      if (i != l1) mu[i] = list[static_cast<size_t>(at++)];
    }
    LUTHIER_ASSIGN_OR_RETURN(const double loss, trainer->Train(mu));
    study::HistoryTrial trial;
    trial.number = k + 1;
    trial.ask_index = static_cast<uint64_t>(k);
    trial.parameters = suggestion.parameters;
    trial.designer_state = suggestion.designer_state;
    history.AddStored(std::move(trial));
    history.Finish(k + 1, study::TrialState::kComplete, loss, std::nullopt, std::nullopt);
  }
  return absl::OkStatus();
}

// Descent in the strengths themselves with Armijo's rule, as the authors of VF-iDCA coded IGJO; with their elastic
// net's gradient divided by the rows, which they left out.
absl::Status Igjo(const SparseVfProblem& problem, double start, Trainer* trainer) {
  VectorXd mu = VectorXd::Constant(problem.penalties.count(), start);
  LUTHIER_ASSIGN_OR_RETURN(double loss, trainer->Train(mu));
  for (int k = 0; k < 100; ++k) {
    const VectorXd gradient = trainer->Gradient();
    double step = 1.0, next_loss = loss;
    VectorXd next = mu;
    for (; step > 1e-12; step *= 0.1) {
      next = (mu - step * gradient).cwiseMax(1e-6);
      LUTHIER_ASSIGN_OR_RETURN(next_loss, trainer->Train(next));
      if (next_loss <= loss + 1e-3 * gradient.dot(next - mu)) break;
    }
    if (loss - next_loss < 5e-4) break;
    mu = next;
    loss = next_loss;
  }
  return absl::OkStatus();
}

// Descent in the logarithms with steps of a fixed length, then shorter ones, as in the authors' use of IFDM.
absl::Status Ifdm(const SparseVfProblem& problem, Trainer* trainer) {
  const double most = problem.train.product.lpNorm<Eigen::Infinity>();
  VectorXd log_mu = VectorXd::Constant(problem.penalties.count(), std::log(0.1 * most));
  double length = 1.5, loss = INFINITY;
  for (int k = 0; k < 50; ++k) {
    LUTHIER_ASSIGN_OR_RETURN(const double next, trainer->Train(log_mu.array().exp()));
    if (k >= 20 && next > loss) length /= 10.0;
    loss = next;
    const VectorXd gradient = trainer->Gradient().cwiseProduct(VectorXd(log_mu.array().exp()));
    if (gradient.norm() == 0.0) break;
    log_mu -= length / gradient.norm() * gradient;
    log_mu = log_mu.cwiseMax(std::log(most) - 7.0).cwiseMin(std::log(0.9 * most));
  }
  return absl::OkStatus();
}

struct Outcome {
  int steps = 0;
  VectorXd point, refit;
  bool degenerate = false;
  double gap = 0.0;
};

absl::StatusOr<Outcome> VfIdca(const SparseVfProblem& problem, bool starts) {
  const bool grouped = !problem.penalties.ridge;
  bilevel::VfIdcaOptions options =
      grouped ? bilevel::SparseGroupLassoVfOptions(problem.penalties.count()) : bilevel::ElasticNetVfOptions();
  options.tolerance = absl::GetFlag(FLAGS_tolerance);
  options.inexact = absl::GetFlag(FLAGS_inexact);
  const auto report = [](const bilevel::VfIdcaStep& s) {
    if (!absl::GetFlag(FLAGS_steps)) return true;
    absl::PrintF("%d,%.6g,%.6g,%g,%.10g,%.2g,%.2g,%.8g,%.8g\n", s.number, s.step, s.violation, s.alpha, s.upper_value,
                 s.lower_gap, s.upper_gap, s.validation_loss, s.gamma.maxCoeff());
    return true;
  };
  Outcome out;
  double best = INFINITY;
  int idle = 0;
  for (int k = 0; k < (starts ? 8 : 1) && idle < 2; ++k) {
    ++idle;
    if (starts) {
      const double most = grouped ? 0.7 : 0.4, share = most * std::pow(0.003 / most, k / 7.0);
      LUTHIER_ASSIGN_OR_RETURN(options.start, bilevel::StartingBounds(problem, share, {}));
      options.least_bound = 0.01 * options.start.minCoeff();
      options.patience = 5;
    }
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::VfIdcaResult found, RunSparseVfIdca(problem, options, report, {}));
    out.steps += found.steps;
    out.gap = std::max(out.gap, found.worst_gap);
    if (!starts) {
      out.point = found.x;
      out.refit = found.refit;
      out.degenerate = found.degenerate;
    } else if (found.best_step >= 0 && found.best_loss < best) {
      best = found.best_loss;
      idle = 0;
      out.point = out.refit = found.best_refit;
    }
  }
  return out;
}

absl::Status Run() {
  const bool grouped = absl::GetFlag(FLAGS_problem) == "sparse_group_lasso";
  const std::string method = absl::GetFlag(FLAGS_method);
  const Index train = absl::GetFlag(FLAGS_train), validation = absl::GetFlag(FLAGS_validation);
  const Index test = absl::GetFlag(FLAGS_test), columns = absl::GetFlag(FLAGS_columns);
  const Index groups = grouped ? absl::GetFlag(FLAGS_groups) : 0;
  const Draw draw = Generate(grouped, train + validation + test, columns, absl::GetFlag(FLAGS_seed));
  if (!absl::GetFlag(FLAGS_write).empty()) {
    const Eigen::IOFormat full(17, Eigen::DontAlignCols);
    std::ofstream(absl::GetFlag(FLAGS_write) + "/x.txt") << draw.x.format(full) << "\n";
    std::ofstream(absl::GetFlag(FLAGS_write) + "/y.txt") << draw.y.format(full) << "\n";
  }
  const absl::Duration begin = simulate::ThreadCpuTime();
  SparseVfProblem problem;
  problem.train = Rows(draw, 0, train);
  problem.validation = Rows(draw, train, validation);
  problem.penalties.ridge = !grouped;
  for (Index m = 0; m < groups; ++m) {
    std::vector<Index>& group = problem.penalties.groups.emplace_back();
    for (Index j = m * columns / groups; j < (m + 1) * columns / groups; ++j) group.push_back(j);
  }
  Outcome out;
  if (method == "vf_idca" || method == "vf_starts") {
    LUTHIER_ASSIGN_OR_RETURN(out, VfIdca(problem, method == "vf_starts"));
  } else {
    const double rows = static_cast<double>(train);
    Trainer trainer(&problem);
    if (method == "grid" || method == "wide_grid") {
      LUTHIER_RETURN_IF_ERROR(Grid(problem, RangesOf(grouped, method == "wide_grid", rows), &trainer));
    } else if (method == "random" || method == "tpe") {
      LUTHIER_RETURN_IF_ERROR(Search(problem, RangesOf(grouped, false, rows), method == "tpe", &trainer));
    } else if (method == "igjo") {
      LUTHIER_RETURN_IF_ERROR(Igjo(problem, grouped ? 1e-2 : 1e-2 / rows, &trainer));
    } else if (method == "ifdm" && !grouped) {
      LUTHIER_RETURN_IF_ERROR(Ifdm(problem, &trainer));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("there is no method ", method, " for this problem"));
    }
    out.steps = trainer.models();
    out.point = out.refit = trainer.best();
  }
  const double seconds = absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin);
  const SparseVfRows held_out = Rows(draw, train + validation, test);
  absl::PrintF("%s,%s,%d,%d,%d,%d,%d,%.4f,%d,%.6g,%.6g,%.6g,%.6g,%d,%.2g\n", absl::GetFlag(FLAGS_problem), method,
               train, validation, columns, groups, absl::GetFlag(FLAGS_seed), seconds, out.steps,
               problem.validation.Loss(out.point), held_out.Loss(out.point), problem.validation.Loss(out.refit),
               held_out.Loss(out.refit), out.degenerate ? 1 : 0, out.gap);
  return absl::OkStatus();
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Chooses strengths of sparse regressions on generated problems.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = luthier::Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
