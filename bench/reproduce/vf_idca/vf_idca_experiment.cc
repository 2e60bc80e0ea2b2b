// VF-iDCA on the generated problems of Gao et al. 2022, one draw at a time:
//
//   vf_idca_experiment --problem=elastic_net --train=100 --validation=20 --test=250 --columns=250 --seed=1
//   vf_idca_experiment --problem=sparse_group_lasso --columns=600 --groups=30 --seed=1
//
// Prints a line a step (number, step, violation, alpha, objective, gaps, validation loss), then a line of the result,
// separated by commas:
//   problem,method,columns,groups,seed,CPU seconds,steps,validation and test loss of the iterate,validation and test
//   loss of the refit,degenerate,largest gap
// Losses are half mean squared errors. --write=FOLDER writes the draw as text for other programs: x.txt has the rows
// of the training, validation and test part, y.txt their targets.
#include <Eigen/Core>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "lib/base/random.h"
#include "lib/bilevel/vf_idca/sparse_vf_idca.h"
#include "lib/simulate/simulate.h"

ABSL_FLAG(std::string, problem, "elastic_net", "elastic_net or sparse_group_lasso");
ABSL_FLAG(int, train, 100, "training rows");
ABSL_FLAG(int, validation, 100, "validation rows");
ABSL_FLAG(int, test, 250, "test rows");
ABSL_FLAG(int, columns, 250, "columns");
ABSL_FLAG(int, groups, 30, "groups of columns, all of one size");
ABSL_FLAG(uint64_t, seed, 1, "of the draw");
ABSL_FLAG(double, tolerance, 0.1, "at which the algorithm ends");
ABSL_FLAG(bool, steps, false, "print each step");
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

absl::Status Run() {
  const bool grouped = absl::GetFlag(FLAGS_problem) == "sparse_group_lasso";
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
  bilevel::VfIdcaOptions options = grouped ? bilevel::SparseGroupLassoVfOptions(problem.penalties.count())
                                           : bilevel::ElasticNetVfOptions();
  options.tolerance = absl::GetFlag(FLAGS_tolerance);
  const auto report = [](const bilevel::VfIdcaStep& s) {
    if (!absl::GetFlag(FLAGS_steps)) return true;
    absl::PrintF("%d,%.6g,%.6g,%g,%.10g,%.2g,%.2g,%.8g,%.8g\n", s.number, s.step, s.violation, s.alpha, s.upper_value,
                 s.lower_gap, s.upper_gap, s.validation_loss, s.gamma.maxCoeff());
    return true;
  };
  absl::StatusOr<bilevel::VfIdcaResult> result = bilevel::RunSparseVfIdca(problem, options, report, {});
  if (!result.ok()) return result.status();
  const double seconds = absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin);
  const SparseVfRows held_out = Rows(draw, train + validation, test);
  absl::PrintF("%s,vf_idca,%d,%d,%d,%.4f,%d,%.6g,%.6g,%.6g,%.6g,%d,%.2g\n", absl::GetFlag(FLAGS_problem), columns,
               groups, absl::GetFlag(FLAGS_seed), seconds, result->steps, problem.validation.Loss(result->x),
               held_out.Loss(result->x), problem.validation.Loss(result->refit), held_out.Loss(result->refit),
               result->degenerate ? 1 : 0, result->worst_gap);
  return absl::OkStatus();
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Chooses strengths by VF-iDCA on generated problems.");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = luthier::Run();
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
