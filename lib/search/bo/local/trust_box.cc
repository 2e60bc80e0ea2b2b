#include "lib/search/bo/local/trust_box.h"

#include <algorithm>
#include <cmath>

#include "lib/base/check.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::VectorXd;

namespace {
constexpr int kManyCoordinates = 15;
constexpr int kMaxClimbed = 50;  // Largest number of continuous coordinates for which local steps are made.
constexpr double kLargestSide = 1.6;
constexpr double kSmallestSide = 0.0078125;  // 2^-7.
constexpr int kSuccesses = 3;
constexpr int kMinFailures = 4;
constexpr double kWorthwhile = 1e-3;
constexpr double kMaxStretch = 10.0;
}  // namespace

bool UsesTrustBox(const study::BoOptions& options, const study::Encoding& encoding) {
  int continuous = 0;
  for (int c = 0; c < encoding.compact_dim(); ++c) continuous += !encoding.Levels(c).has_value();
  if (continuous == 0 || options.maximizer == study::BoMaximizer::kDirect) return false;
  const bool climbs = !options.SaidNoisy() && options.trust_region == study::BoTrustRegion::kAuto &&
                      encoding.compact_dim() <= kMaxClimbed;
  return !climbs && encoding.compact_dim() > kManyCoordinates && 4 * continuous >= 3 * encoding.compact_dim();
}

TrustBoxRun FollowTrustBox(const study::History& history, const study::Encoding& encoding, study::Goal goal,
                           int64_t first, const std::vector<double>& violations) {
  TrustBoxRun run;
  run.first = first;
  const int patience = std::max(kMinFailures, encoding.compact_dim());
  double best = 0.0, least = 0.0, mean = 0.0;  // The best result's score and violation; the mean score.
  int64_t scores = 0;
  const study::Parameters* top = nullptr;
  for (int t : history.finished()) {
    const study::HistoryTrial& trial = history.trials()[static_cast<size_t>(t)];
    if (trial.number < first || run.ended) continue;
    const bool complete = trial.state == study::TrialState::kComplete && trial.value && std::isfinite(*trial.value);
    const bool failed = trial.state == study::TrialState::kFailed && trial.failure == study::FailureKind::kConfig;
    if (!complete && !failed && trial.state != study::TrialState::kPruned) continue;
    ++run.results;
    bool success = false;
    if (complete) {
      const double score = study::Score(goal, *trial.value);
      const double violation = violations.empty() ? 0.0 : violations[static_cast<size_t>(t)];
      const bool alike = violation == 0.0 && least == 0.0;
      success = top == nullptr ||
                (alike ? score > best + kWorthwhile * (best - mean) : violation < (1.0 - kWorthwhile) * least);
      if (top == nullptr || (alike ? score > best : violation < least)) {
        best = score;
        least = violation;
        top = &trial.parameters;
      }
      ++scores;
      mean += (score - mean) / static_cast<double>(scores);
    }
    run.successes = success ? run.successes + 1 : 0;
    run.failures = success ? 0 : run.failures + 1;
    if (run.successes >= kSuccesses) {
      run.side = std::min(2.0 * run.side, kLargestSide);
      run.successes = 0;
    } else if (run.failures >= patience) {
      run.side *= 0.5;
      run.failures = 0;
      run.ended = run.side < kSmallestSide;
    }
  }
  if (top != nullptr) run.centre = encoding.ToCompact(*top);
  return run;
}

TrustBox BoxOf(const TrustBoxRun& run, const VectorXd& lengthscales, const study::Encoding& encoding) {
  const Index d = encoding.compact_dim();
  LUTHIER_CHECK(run.centre.size() == d && lengthscales.size() == d);
  const VectorXd logs = lengthscales.array().log();
  const double mean = logs.mean();
  TrustBox box{run.centre, VectorXd::Zero(d), VectorXd::Ones(d)};
  for (int c = 0; c < d; ++c) {
    if (encoding.Levels(c).has_value()) continue;
    const double stretch = std::clamp(std::exp(logs(c) - mean), 1.0 / kMaxStretch, kMaxStretch);
    box.lower(c) = std::max(0.0, box.centre(c) - 0.5 * run.side * stretch);
    box.upper(c) = std::min(1.0, box.centre(c) + 0.5 * run.side * stretch);
  }
  return box;
}

}  // namespace luthier::search
