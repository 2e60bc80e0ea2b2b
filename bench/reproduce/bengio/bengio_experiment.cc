// Gradients by a weight decay for each input of a ridge regression (Bengio 2000, section 3), and what they cost:
//
//   bengio_experiment [--rows=2000] [--columns=1000] [--folds=5] [--repeats=5]
//
// Prints the CPU seconds of a trial (least of the repeats) without and with its gradient, and those of the three ways
// to go back through one Cholesky factor: adjoint, by entries, by blocks, with their largest difference from the
// adjoint. The rate of Eigen's own product of two matrices of that size is measured in the same run.
#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <algorithm>
#include <cstdint>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
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
#include "lib/math/cholesky_reverse.h"
#include "lib/objectives/create.h"
#include "lib/simulate/simulate.h"

ABSL_FLAG(int, rows, 2000, "rows");
ABSL_FLAG(int, columns, 1000, "columns");
ABSL_FLAG(int, folds, 5, "folds");
ABSL_FLAG(int, repeats, 5, "repetitions, of which the least time counts");

namespace luthier {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

double Seconds(const std::function<void()>& work) {
  double least = 1e300;
  for (int k = 0; k < absl::GetFlag(FLAGS_repeats); ++k) {
    const absl::Duration begin = simulate::ThreadCpuTime();
    work();
    least = std::min(least, absl::ToDoubleSeconds(simulate::ThreadCpuTime() - begin));
  }
  return least;
}

absl::Status Trials() {
  const int columns = absl::GetFlag(FLAGS_columns), folds = absl::GetFlag(FLAGS_folds);
  study::BuiltinObjective objective;
  objective.model = "ridge";
  objective.data = absl::StrCat("synth:regression?rows=", absl::GetFlag(FLAGS_rows), "&cols=", columns);
  objective.split = {.validation = 0.25, .folds = folds, .seed = 1};
  study::ParameterSpec l2;
  l2.name = "l2";
  l2.domain = study::FloatRange{1e-4, 1e4, study::Scale::kLog, std::nullopt};
  l2.count = columns;
  LUTHIER_ASSIGN_OR_RETURN(study::SearchSpace space, study::SearchSpace::Create({l2}));
  LUTHIER_ASSIGN_OR_RETURN(
      const std::unique_ptr<objectives::Objective> made,
      objectives::CreateObjective(objective, space, {"validation_loss", study::Goal::kMinimize}, nullptr));
  objectives::EvaluationContext context;
  context.parameters["l2"] = std::vector<double>(static_cast<size_t>(columns), 1.0);
  context.gradient = study::GradientUse::kNone;
  absl::Status status;
  const auto evaluate = [&] { status.Update(made->Evaluate(context).status()); };
  evaluate();  // Lays out the rows and computes the Gram matrices.
  const double fits = Seconds(evaluate);
  context.gradient = study::GradientUse::kFull;
  const double both = Seconds(evaluate);
  absl::PrintF("trial of %d folds: fits %.4f s, with gradient %.4f s: %.3f times\n", folds, fits, both, both / fits);
  const double p = columns;
  absl::PrintF("rate of the fits, by the factors' p^3/3 operations a fold: %.2f Gflop/s\n",
               folds * p * p * p / 3.0 / fits / 1e9);
  return status;
}

absl::Status Ways() {
  const Index p = absl::GetFlag(FLAGS_columns);
  base::RandomStream random(1, "bengio");
  MatrixXd a(p, p);
  for (double& x : a.reshaped()) x = random.Normal();
  MatrixXd h = MatrixXd::Identity(p, p), product(p, p);
  h.selfadjointView<Eigen::Lower>().rankUpdate(a, 1.0 / static_cast<double>(p));
  h.triangularView<Eigen::StrictlyUpper>() = h.transpose();
  const VectorXd b = a.col(0), theta_bar = a.col(1);
  const double gemm = Seconds([&] { product.noalias() = a * h; });
  absl::PrintF("Eigen's product: %.4f s, %.2f Gflop/s\n", gemm, 2.0 * static_cast<double>(p * p * p) / gemm / 1e9);
  Eigen::LLT<MatrixXd> factor(p);
  const double llt = Seconds([&] { factor.compute(h); });
  absl::PrintF("Eigen's Cholesky: %.4f s, %.2f Gflop/s\n", llt, static_cast<double>(p * p * p) / 3.0 / llt / 1e9);
  const MatrixXd l = factor.matrixL();
  const VectorXd u = factor.matrixL().solve(b), theta = factor.matrixU().solve(u);
  VectorXd q;
  const double adjoint = Seconds([&] { q = factor.solve(theta_bar); });
  const VectorXd expected = -q.cwiseProduct(theta);  // dE/dH_jj
  absl::PrintF("adjoint: %.4f s, %.1f %% of the factor's\n", adjoint, 100.0 * adjoint / llt);
  absl::Status status;
  VectorXd back;
  const auto reverse = [&](bool blocks) {
    MatrixXd l_bar = MatrixXd::Zero(p, p);
    const MatrixXd u_bar = math::ReverseSolveLowerTransposed(l, theta, theta_bar, &l_bar);
    math::ReverseSolveLower(l, u, u_bar, &l_bar);
    if (!blocks) {
      back = math::ReverseCholeskyByEntry(l, std::move(l_bar)).diagonal();
      return;
    }
    absl::StatusOr<MatrixXd> h_bar = math::ReverseCholesky(l, std::move(l_bar), {});
    status.Update(h_bar.status());
    if (h_bar.ok()) back = h_bar->diagonal();
  };
  for (const bool blocks : {true, false}) {
    const double seconds = Seconds([&] { reverse(blocks); });
    absl::PrintF("back-propagation by %s: %.4f s, largest difference %.1e of the norm\n", blocks ? "blocks" : "entries",
                 seconds, (back - expected).cwiseAbs().maxCoeff() / expected.norm());
  }
  return status;
}

}  // namespace
}  // namespace luthier

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage("Times gradients by a weight decay for each input.");
  absl::ParseCommandLine(argc, argv);
  absl::Status status = luthier::Trials();
  status.Update(luthier::Ways());
  if (!status.ok()) std::cerr << status << "\n";
  return status.ok() ? 0 : 1;
}
