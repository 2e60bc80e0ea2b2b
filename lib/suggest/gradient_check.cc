#include "lib/suggest/gradient_check.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "lib/base/random.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/slope_check.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr size_t kValues = 100;
constexpr Index kSlopes = 150;
constexpr size_t kReporters = 8;      // Checked at once.
constexpr size_t kMaxSetAside = 500;  // They have to fit into what a suggestion carries.
constexpr double kHuge = 1e30;        // Output deviations; beyond, only the size is certain.

}  // namespace

std::vector<int32_t> ContradictingReporters(const Observations& data, const std::vector<int32_t>& reporter,
                                            const SurrogateOptions& options, const std::vector<int32_t>& before,
                                            uint64_t seed, uint64_t ask_index) {
  std::vector<Index> rows = data.CompleteRows();
  if (rows.size() > kValues) rows.erase(rows.begin(), rows.end() - kValues);
  std::vector<int32_t> present;
  for (const Index row : rows) {
    if (!data.slopes[static_cast<size_t>(row)].empty()) present.push_back(reporter[static_cast<size_t>(row)]);
  }
  std::sort(present.begin(), present.end());
  present.erase(std::unique(present.begin(), present.end()), present.end());
  if (present.empty()) return before;
  if (present.size() > kReporters) {
    const size_t first = static_cast<size_t>(ask_index * kReporters % present.size());
    std::rotate(present.begin(), present.begin() + static_cast<std::ptrdiff_t>(first), present.end());
    present.resize(kReporters);
  }

  const MatrixXd x = Rows(data.observed, rows);
  VectorXd scores(x.rows());
  for (size_t k = 0; k < rows.size(); ++k) scores(static_cast<Index>(k)) = data.scores(rows[k]);
  const OutputTransform transform = OutputTransform::Standard(scores);
  const VectorXd outputs = transform.Forward(scores);
  const kernels::KernelShape& shape = options.choices[0].shape;
  gp::Likelihood likelihood(shape, x, outputs);
  gp::InferenceOptions inference = InferenceFor(options.choices[0], options);
  inference.max_searches = 1;
  inference.random_starts = 1;
  inference.max_evaluations = 30;
  const gp::Hyperparameters theta =
      gp::MaximizePosterior(&likelihood, inference, std::nullopt, base::RandomStream(seed, "bo/check", ask_index))
          .theta;

  // Of the outputs, as they were computed from scores of that size.
  const double value_error =
      std::numeric_limits<double>::epsilon() * scores.cwiseAbs().maxCoeff() * transform.Slope(scores.maxCoeff());
  std::vector<int32_t> contradicting = before;
  for (const int32_t who : present) {
    gp::Slopes slopes;
    for (size_t k = rows.size(); k-- > 0 && slopes.size() < kSlopes;) {
      const size_t row = static_cast<size_t>(rows[k]);
      const ScoreSlopes& known = data.slopes[row];
      const double unit = transform.Slope(data.scores(rows[k]));
      if (known.empty() || reporter[row] != who || unit == 0.0) continue;
      for (Index i = 0; i < known.values.size(); ++i) {
        const VectorXd direction = known.axes.empty()
                                       ? known.direction
                                       : VectorXd(VectorXd::Unit(x.cols(), known.axes[static_cast<size_t>(i)]));
        slopes.Add(static_cast<Index>(k), direction, std::clamp(unit * known.values(i), -kHuge, kHuge),
                   std::min(unit * unit * known.variances(i), kHuge));
      }
    }
    const std::optional<gp::SlopeCheck> check = gp::CheckSlopes(shape, theta, x, outputs, slopes);
    if (!check.has_value()) continue;
    const gp::PairCheck pairs = gp::CheckPairs(shape, theta, x, outputs, slopes, value_error);
    const auto known = std::find(contradicting.begin(), contradicting.end(), who);
    if (known == contradicting.end()) {
      const bool contradicts = check->contradicts || pairs.contradicts;
      if (contradicts && contradicting.size() < kMaxSetAside) contradicting.push_back(who);
    } else if (check->confirms && !pairs.contradicts) {
      contradicting.erase(known);
    }
  }
  std::sort(contradicting.begin(), contradicting.end());
  return contradicting;
}

}  // namespace luthier::suggest
