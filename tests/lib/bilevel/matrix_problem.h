#ifndef LUTHIER_TESTS_LIB_BILEVEL_MATRIX_PROBLEM_H_
#define LUTHIER_TESTS_LIB_BILEVEL_MATRIX_PROBLEM_H_

#include <cstdint>

#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/bilevel/matrix_completion.h"

// Random matrices of low rank, a third of whose entries are known.
namespace luthier::bilevel {

// A matrix of rank 1 plus `features` (even) features in two groups, of which the first counts, plus noise.
inline MatrixProblem RandomMatrixProblem(Eigen::Index rows, Eigen::Index cols, Eigen::Index features, uint64_t seed) {
  using Eigen::Index;
  base::RandomStream random(seed, "matrix");
  MatrixProblem problem;
  problem.rows = rows;
  problem.cols = cols;
  Eigen::VectorXd u(rows), v(cols);
  for (double& x : u) x = random.Normal();
  for (double& x : v) x = random.Normal();
  for (MatrixEntries* part : {&problem.train, &problem.validation}) {
    const Index count = rows * cols / (part == &problem.train ? 3 : 6);
    part->value.resize(count);
    part->features.resize(count, features);
    for (Index e = 0; e < count; ++e) {
      const auto i = static_cast<Index>(random.UniformInt(static_cast<uint64_t>(rows)));
      const auto j = static_cast<Index>(random.UniformInt(static_cast<uint64_t>(cols)));
      part->row.push_back(i);
      part->col.push_back(j);
      part->value[e] = u[i] * v[j] + 0.3 * random.Normal();
      for (Index f = 0; f < features; ++f) {
        part->features(e, f) = random.Normal();
        if (f < features / 2) part->value[e] += 0.5 * part->features(e, f);
      }
    }
  }
  if (features > 0) {
    problem.groups.resize(2);
    for (Index f = 0; f < features; ++f) problem.groups[f < features / 2 ? 0 : 1].push_back(f);
  }
  return problem;
}

// A token whose stop is requested.
inline base::StopToken Stopped() {
  base::StopSource source;
  source.RequestStop();
  return source.token();
}

}  // namespace luthier::bilevel

#endif  // LUTHIER_TESTS_LIB_BILEVEL_MATRIX_PROBLEM_H_
