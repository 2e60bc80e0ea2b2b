#include "lib/objectives/fold_errors.h"

#include <cmath>

namespace luthier::objectives {

void FoldErrors::Add(const std::string& metric, double sum, double rows) {
  if (rows > 0.0) folds_[metric].push_back({sum / rows, rows});
}

void FoldErrors::WriteTo(study::Measurement* measurement) const {
  for (const auto& [metric, folds] : folds_) {
    if (folds.size() < 2) continue;
    double rows = 0.0, mean = 0.0, squares = 0.0;
    for (const Fold& fold : folds) rows += fold.rows;
    for (const Fold& fold : folds) mean += fold.rows / rows * fold.mean;
    for (const Fold& fold : folds) squares += fold.rows / rows * (fold.mean - mean) * (fold.mean - mean);
    const double error = std::sqrt(squares / static_cast<double>(folds.size() - 1));
    if (std::isfinite(error)) measurement->standard_errors[metric] = error;
  }
}

}  // namespace luthier::objectives
