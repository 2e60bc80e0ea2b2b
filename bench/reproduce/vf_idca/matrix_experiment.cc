// Low-rank matrix completion on the generated problems of Gao et al. 2022, one draw and method at a time:
//
//   matrix_experiment --method=vf_idca --seed=1
//
// A matrix of 60 x 60 with 12 groups of 3 features for its rows and for its columns, of which 4 and 2 groups count, and
// a part of rank 1; two training entries and one held-out entry for each row and each column. Methods: vf_idca, with
// the authors' constants; vf_best, the same until five steps bring no better refit, its best one (as objective
// vf_matrix_completion); grid, 10 x 10 in the paper's range with one strength for all groups; wide_grid, 10 x 10 where
// the best models are; random and tpe, 100 settings of all 25 strengths in the paper's range. Prints lines as
// vf_idca_experiment does, with the size in place of both numbers of rows; --steps and --write too, with y.txt as `row
// column value part` (0 training, 1 held out, 2 test).
#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <set>
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
#include "lib/bilevel/matrix_completion.h"
#include "lib/bilevel/vf_idca/matrix_vf_idca.h"
#include "lib/search/registry.h"
#include "lib/simulate/simulate.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

ABSL_FLAG(std::string, method, "vf_idca", "vf_idca, vf_best, grid, wide_grid, random or tpe");
ABSL_FLAG(int, size, 60, "rows of the matrix, and columns");
ABSL_FLAG(int, groups, 12, "groups of 3 features for rows, and for columns");
ABSL_FLAG(uint64_t, seed, 1, "of the draw");
ABSL_FLAG(double, tolerance, 5e-2, "at which the algorithm ends");
ABSL_FLAG(int, max_steps, 500, "of the algorithm");
ABSL_FLAG(bool, steps, false, "print each step");
ABSL_FLAG(bool, inexact, false, "solve problems far from the end less accurately");
ABSL_FLAG(std::string, write, "", "folder to write the draw to");

namespace luthier {
namespace {

using bilevel::MatrixEntries;
using bilevel::MatrixProblem;
using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr double kPaperLow = -3.5, kPaperHigh = -1.0;  // Logarithms, base 10, of strengths.
constexpr double kWideLow = -2.5, kWideHigh = -0.5;
constexpr double kModelGap = 1e-4;
constexpr int kModelSteps = 3000;

struct Draw {
  MatrixProblem problem;
  MatrixEntries test;
};

MatrixXd Normals(Index rows, Index cols, base::RandomStream& random) {
  MatrixXd m(rows, cols);
  for (Index i = 0; i < rows; ++i) {
    for (Index j = 0; j < cols; ++j) m(i, j) = random.Normal();
  }
  return m;
}

Draw Generate(Index size, Index groups, uint64_t seed) {
  base::RandomStream random(seed, "matrix");
  const Index features = 3 * groups;
  MatrixXd of_rows = Normals(size, features, random), of_cols = Normals(size, features, random);
  VectorXd row_weights = VectorXd::Zero(features), col_weights = VectorXd::Zero(features);
  for (Index g = 0; g < 4; ++g) row_weights.segment(3 * g, 3).setConstant(static_cast<double>(g + 1));
  for (Index g = 0; g < 2; ++g) col_weights.segment(3 * g, 3).setConstant(static_cast<double>(g + 1));
  const MatrixXd low_rank = Normals(size, 1, random) * Normals(1, size, random);
  MatrixXd linear = (of_rows * row_weights).replicate(1, size) + (of_cols * col_weights).transpose().replicate(size, 1);
  const double scale = low_rank.norm() / linear.norm();
  of_rows *= scale;
  of_cols *= scale;
  const MatrixXd signal = scale * linear + low_rank;
  const MatrixXd noise = Normals(size, size, random);
  const MatrixXd value = signal + noise * (signal.norm() / (2.0 * noise.norm()));
  std::set<std::pair<Index, Index>> train, validation;
  const auto pick = [&](size_t count, std::set<std::pair<Index, Index>>* entries) {
    for (Index i = 0; i < size; ++i) {
      for (const bool row : {true, false}) {
        std::vector<Index> others(static_cast<size_t>(size));
        for (Index j = 0; j < size; ++j) others[static_cast<size_t>(j)] = j;
        random.Shuffle(others);
        for (size_t k = 0; k < count; ++k) {
          entries->insert(row ? std::pair(i, others[k]) : std::pair(others[k], i));
        }
      }
    }
  };
  pick(2, &train);
  pick(1, &validation);
  for (const auto& entry : train) validation.erase(entry);
  Draw draw;
  draw.problem.rows = draw.problem.cols = size;
  for (Index g = 0; g < 2 * groups; ++g) draw.problem.groups.push_back({3 * g, 3 * g + 1, 3 * g + 2});
  const auto fill = [&](MatrixEntries* entries, auto belongs) {
    std::vector<double> values;
    for (Index i = 0; i < size; ++i) {
      for (Index j = 0; j < size; ++j) {
        if (!belongs(std::pair(i, j))) continue;
        entries->row.push_back(i);
        entries->col.push_back(j);
        values.push_back(value(i, j));
      }
    }
    entries->value = Eigen::Map<const VectorXd>(values.data(), static_cast<Index>(values.size()));
    entries->features.resize(entries->count(), 2 * features);
    for (Index e = 0; e < entries->count(); ++e) {
      const auto at = static_cast<size_t>(e);
      entries->features.row(e) << of_rows.row(entries->row[at]), of_cols.row(entries->col[at]);
    }
  };
  fill(&draw.problem.train, [&](const auto& e) { return train.contains(e); });
  fill(&draw.problem.validation, [&](const auto& e) { return validation.contains(e); });
  fill(&draw.test, [&](const auto& e) { return !train.contains(e) && !validation.contains(e); });
  return draw;
}

void Write(const Draw& draw, const std::string& folder) {
  const Eigen::IOFormat full(17, Eigen::DontAlignCols);
  std::ofstream x(folder + "/x.txt"), y(folder + "/y.txt");
  int part = 0;
  for (const MatrixEntries* entries : {&draw.problem.train, &draw.problem.validation, &draw.test}) {
    x << entries->features.format(full) << "\n";
    for (Index e = 0; e < entries->count(); ++e) {
      const auto at = static_cast<size_t>(e);
      y << absl::StrFormat("%d %d %.17g %d\n", entries->row[at], entries->col[at], entries->value[e], part);
    }
    ++part;
  }
}

class Trainer {
 public:
  explicit Trainer(const MatrixProblem* problem) : problem_(problem), model_(VectorXd::Zero(problem->variables())) {}

  // Trains from the last model, which is where paths of strengths are quick.
  absl::StatusOr<double> Train(const VectorXd& strengths) {
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::MatrixTraining trained,
                             bilevel::TrainMatrixCompletion(*problem_, strengths, model_, kModelGap, kModelSteps, {}));
    model_ = trained.x;
    ++models_;
    const double loss = MatrixLoss(*problem_, problem_->validation, model_);
    if (best_.size() == 0 || loss < best_loss_) {
      best_ = model_;
      best_loss_ = loss;
    }
    return loss;
  }
  const VectorXd& best() const { return best_; }
  int models() const { return models_; }

 private:
  const MatrixProblem* const problem_;
  VectorXd model_, best_;
  double best_loss_ = 0.0;
  int models_ = 0;
};

absl::Status Grid(Index count, double low, double high, Trainer* trainer) {
  const auto at = [&](int j) { return std::pow(10.0, low + (high - low) * j / 9.0); };
  for (int i = 9; i >= 0; --i) {
    for (int k = 9; k >= 0; --k) {
      VectorXd strengths = VectorXd::Constant(count, at(i));
      strengths[0] = at(k);
      LUTHIER_RETURN_IF_ERROR(trainer->Train(strengths).status());
    }
  }
  return absl::OkStatus();
}

// 100 settings by a designer of studies.
absl::Status Search(Index count, bool tpe, Trainer* trainer) {
  study::ParameterSpec p;
  p.name = "strengths";
  p.count = static_cast<int>(count);
  p.domain = study::FloatRange{std::pow(10.0, kPaperLow), std::pow(10.0, kPaperHigh), study::Scale::kLog, std::nullopt};
  study::StudySpec spec;
  spec.seed = absl::GetFlag(FLAGS_seed);
  LUTHIER_ASSIGN_OR_RETURN(spec.space, study::SearchSpace::Create({p}));
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
    const auto& list = std::get<std::vector<double>>(suggestion.parameters.at("strengths"));
    LUTHIER_ASSIGN_OR_RETURN(const double loss,
                             trainer->Train(Eigen::Map<const VectorXd>(list.data(), static_cast<Index>(list.size()))));
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

absl::Status Run() {
  const std::string method = absl::GetFlag(FLAGS_method);
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  const Draw draw = Generate(absl::GetFlag(FLAGS_size), absl::GetFlag(FLAGS_groups), seed);
  const MatrixProblem& problem = draw.problem;
  if (!absl::GetFlag(FLAGS_write).empty()) Write(draw, absl::GetFlag(FLAGS_write));
  const absl::Duration begin = simulate::ThreadCpuTime();
  const Index count = 1 + static_cast<Index>(problem.groups.size());
  VectorXd point, refit;
  int steps = 0;
  bool degenerate = false;
  double gap = 0.0;
  if (method == "vf_idca" || method == "vf_best") {
    bilevel::VfIdcaOptions options = bilevel::MatrixVfOptions(problem);
    options.tolerance = absl::GetFlag(FLAGS_tolerance);
    options.inexact = absl::GetFlag(FLAGS_inexact);
    options.max_steps = absl::GetFlag(FLAGS_max_steps);
    if (method == "vf_best") options.patience = 5;
    bilevel::MatrixVfProblem solver(&problem, &options);
    const auto report = [](const bilevel::VfIdcaStep& s) {
      if (absl::GetFlag(FLAGS_steps)) {
        absl::PrintF("%d,%.6g,%.6g,%g,%.10g,%.2g,%.2g,%.8g,%.8g\n", s.number, s.step, s.violation, s.alpha,
                     s.upper_value, s.lower_gap, s.upper_gap, s.validation_loss, s.gamma.maxCoeff());
      }
      return true;
    };
    LUTHIER_ASSIGN_OR_RETURN(const bilevel::VfIdcaResult found, RunVfIdca(solver, options, report, {}));
    steps = found.steps;
    gap = found.worst_gap;
    degenerate = found.degenerate;
    point = found.x;
    refit = found.refit;
    if (method == "vf_best" && found.best_step >= 0) {
      point = refit = found.best_refit;
      degenerate = false;
    }
  } else {
    Trainer trainer(&problem);
    if (method == "grid" || method == "wide_grid") {
      const bool wide = method == "wide_grid";
      LUTHIER_RETURN_IF_ERROR(Grid(count, wide ? kWideLow : kPaperLow, wide ? kWideHigh : kPaperHigh, &trainer));
    } else if (method == "random" || method == "tpe") {
      LUTHIER_RETURN_IF_ERROR(Search(count, method == "tpe", &trainer));
    } else {
      return absl::InvalidArgumentError(absl::StrCat("there is no method ", method));
    }
    steps = trainer.models();
    point = refit = trainer.best();
  }
  const double seconds = absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin);
  const auto loss = [&](const MatrixEntries& entries, const VectorXd& x) { return MatrixLoss(problem, entries, x); };
  absl::PrintF("matrix_completion,%s,%d,%d,%d,%d,%d,%.4f,%d,%.6g,%.6g,%.6g,%.6g,%d,%.2g\n", method, problem.rows,
               problem.rows, problem.cols, count - 1, seed, seconds, steps, loss(problem.validation, point),
               loss(draw.test, point), loss(problem.validation, refit), loss(draw.test, refit), degenerate ? 1 : 0,
               gap);
  return absl::OkStatus();
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Chooses strengths of low-rank matrix completions on generated problems.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = luthier::Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
