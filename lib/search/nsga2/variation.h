#ifndef LUTHIER_LIB_SEARCH_NSGA2_VARIATION_H_
#define LUTHIER_LIB_SEARCH_NSGA2_VARIATION_H_

#include <vector>

#include "Eigen/Core"
#include "lib/base/random.h"
#include "lib/study/compact_column.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// A child of two coordinates in [0, 1] by simulated binary crossover with index 20, inside of [0, 1] (Deb & Agrawal
// 1995, "Simulated binary crossover for continuous search space"; bounds as in Deb & Beyer 1999): one of the two
// children, each with probability 1/2. Their mean is that of the parents where neither end of the range is near. Draws
// two uniforms.
double SimulatedBinaryChild(double a, double b, base::RandomStream* random);

// A coordinate in [0, 1] moved by polynomial mutation with index 20, inside of [0, 1] (Deb & Deb 2014, "Analysing
// mutation schemes for real-parameter genetic algorithms", as in NSGA-II's own program). Draws one uniform.
double PolynomialMutation(double u, base::RandomStream* random);

// Breeds settings. Immutable; any thread.
class Nsga2Variation {
 public:
  explicit Nsga2Variation(const study::Encoding& encoding);

  // Returns a child of two valid settings, valid and canonical.
  //   crossover  With probability .9, of each coordinate that both parents have with probability 1/2: numbers by
  //              SimulatedBinaryChild, labels and switches from the second parent. Otherwise the first parent's. A
  //              coordinate that one parent alone has is that one's; one that neither has is uniform.
  //   mutation   Of each of the d coordinates that the child has, with probability 1/d: numbers by PolynomialMutation,
  //              those with levels by at least one level; labels and switches become another one, all equally likely.
  // Coordinates are those of the compact encoding.
  study::Parameters Child(const study::Parameters& first, const study::Parameters& second,
                          base::RandomStream* random) const;

 private:
  std::vector<bool> Has(const study::Parameters& setting) const;
  void Mutate(size_t c, Eigen::VectorXd* u, base::RandomStream* random) const;

  const study::Encoding encoding_;
  std::vector<study::CompactColumn> columns_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_NSGA2_VARIATION_H_
