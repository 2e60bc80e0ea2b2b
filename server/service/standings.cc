#include "server/service/standings.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "Eigen/Core"
#include "lib/pareto/hypervolume.h"
#include "lib/study/front.h"
#include "lib/study/metrics.h"

namespace luthier::service {
namespace {

// Most steps of the hypervolume of a study that is looked at: a tenth of a second. More than is needed for a hundred
// trials on the front of four objectives.
constexpr int64_t kMostHypervolumeSteps = pareto::kMostHypervolumeSteps / 10;

// Fills in the trial with the least violation, the first of equal ones.
void FillLeastViolation(const study::StudySpec& spec, const std::vector<TrialValues>& results, v1::Study* study) {
  std::vector<const std::vector<double>*> all;
  all.reserve(results.size());
  for (const TrialValues& result : results) all.push_back(&result.values);
  const std::vector<double> spreads = study::SpreadsOf(spec, all);
  for (const TrialValues& result : results) {
    const double violation = study::Violation(spec.metrics, result.values, spreads);
    if (study->has_least_violation() && study->least_violation() <= violation) continue;
    study->set_least_violating_trial(result.number);
    study->set_least_violation(violation);
  }
}

// Returns the point, in scores, beyond which the front's hypervolume counts: the references of the specification;
// elsewhere a tenth of the front's extent behind its worst. Where the front has no extent, the lower quartile of all
// scores, which `scores` has.
Eigen::VectorXd ReferenceOf(const std::vector<study::MetricSpec>& objectives, const Eigen::MatrixXd& front,
                            const Eigen::MatrixXd& scores) {
  Eigen::VectorXd reference(front.cols());
  for (Eigen::Index j = 0; j < front.cols(); ++j) {
    const study::MetricSpec& objective = objectives[static_cast<size_t>(j)];
    const double worst = front.col(j).minCoeff(), extent = front.col(j).maxCoeff() - worst;
    if (objective.reference) {
      reference(j) = study::Score(objective.goal, *objective.reference);
    } else if (extent > 0.0) {
      reference(j) = worst - 0.1 * extent;
    } else {
      std::vector<double> all(scores.col(j).begin(), scores.col(j).end());
      const auto quartile = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 4);
      std::nth_element(all.begin(), quartile, all.end());
      reference(j) = *quartile;
    }
  }
  return reference;
}

// Fills in the hypervolume of the front: in units of the metrics where each objective has a reference, so that it never
// falls; else as a share of the box from the reference point, which moves with the front, to the best scores.
void FillHypervolume(const std::vector<study::MetricSpec>& objectives, const Eigen::MatrixXd& front,
                     const Eigen::MatrixXd& scores, v1::Study* study) {
  const Eigen::VectorXd reference = ReferenceOf(objectives, front, scores);
  for (Eigen::Index j = 0; j < reference.size(); ++j) {
    // The score of a score is the value.
    study->add_reference_point(study::Score(objectives[static_cast<size_t>(j)].goal, reference(j)));
  }
  const Eigen::VectorXd sides = front.colwise().maxCoeff().transpose() - reference;
  if (!(sides.minCoeff() > 0.0) || !sides.allFinite()) return;
  // In units of the sides, so that nothing overflows.
  const Eigen::MatrixXd scaled =
      (front.rowwise() - reference.transpose()).array().rowwise() / sides.transpose().array();
  const std::optional<double> volume =
      pareto::Hypervolume(scaled, Eigen::VectorXd::Zero(sides.size()), kMostHypervolumeSteps);
  if (!volume) return;
  const bool fixed =
      std::all_of(objectives.begin(), objectives.end(), [](const auto& m) { return m.reference.has_value(); });
  // A product that is too large or small for a double is not told.
  const double hypervolume = fixed ? *volume * sides.prod() : std::min(*volume, 1.0);
  if (std::isfinite(hypervolume) && hypervolume > 0.0) study->set_hypervolume(hypervolume);
}

Eigen::MatrixXd Rows(const std::vector<const std::vector<double>*>& scores) {
  Eigen::MatrixXd rows(static_cast<Eigen::Index>(scores.size()), static_cast<Eigen::Index>(scores.front()->size()));
  for (Eigen::Index i = 0; i < rows.rows(); ++i) {
    const std::vector<double>& row = *scores[static_cast<size_t>(i)];
    rows.row(i) = Eigen::Map<const Eigen::RowVectorXd>(row.data(), rows.cols());
  }
  return rows;
}

}  // namespace

void FillStandings(const study::StudySpec& spec, const std::vector<TrialValues>& results, v1::Study* study) {
  const bool several = study::ObjectiveCount(spec) > 1;
  study::Front front;
  std::vector<std::vector<double>> scores;  // Scores of feasible results.
  int64_t infeasible = 0;
  for (const TrialValues& result : results) {
    if (!study::IsFeasible(spec.metrics, result.values)) {
      ++infeasible;
    } else if (several) {
      scores.push_back(study::ScoresOf(spec, result.values));
      front.Add(result.number, scores.back());
    }
  }
  study->set_infeasible(infeasible);
  if (infeasible > 0 && infeasible == static_cast<int64_t>(results.size())) FillLeastViolation(spec, results, study);
  if (!several) return;
  study->set_front_overflowed(front.overflowed());
  std::vector<study::Front::Member> members = front.members();
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return a.scores[0] != b.scores[0] ? a.scores[0] > b.scores[0] : a.trial < b.trial;
  });
  for (const study::Front::Member& member : members) study->add_front(member.trial);
  if (members.empty()) return;
  std::vector<study::MetricSpec> objectives;
  for (const study::MetricSpec& metric : spec.metrics) {
    if (metric.objective) objectives.push_back(metric);
  }
  std::vector<const std::vector<double>*> best, all;
  for (const study::Front::Member& member : members) best.push_back(&member.scores);
  for (const std::vector<double>& row : scores) all.push_back(&row);
  FillHypervolume(objectives, Rows(best), Rows(all), study);
}

}  // namespace luthier::service
