#ifndef LUTHIER_LIB_OBJECTIVES_FOLD_ERRORS_H_
#define LUTHIER_LIB_OBJECTIVES_FOLD_ERRORS_H_

#include <map>
#include <string>
#include <vector>

#include "lib/study/measurement.h"

namespace luthier::objectives {

// Standard errors of metrics that are means over the held-out rows of folds. With r_k rows and mean m_k in fold k of K
// and the mean m of all rows,
//   error = sqrt(sum_k r_k (m_k - m)^2/((K - 1) sum_k r_k)),
// which is the deviation of the folds' means over the root of K where folds are equally large. Folds share training
// rows, so it is an estimate, mostly too small (Bengio & Grandvalet 2004).
class FoldErrors {
 public:
  // Adds one fold: the sum of the metric over its held-out rows. Folds without rows do not count.
  void Add(const std::string& metric, double sum, double rows);
  // Sets the errors of the metrics that two folds or more have, if they are finite.
  void WriteTo(study::Measurement* measurement) const;

 private:
  struct Fold {
    double mean, rows;
  };
  std::map<std::string, std::vector<Fold>> folds_;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_FOLD_ERRORS_H_
