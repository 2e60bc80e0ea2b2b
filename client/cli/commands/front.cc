#include "client/cli/commands/front.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "Eigen/Core"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/cli/context.h"
#include "client/cli/show.h"
#include "lib/base/error.h"
#include "lib/base/status_macros.h"
#include "lib/notation/number.h"
#include "lib/pareto/front_choice.h"

namespace luthier::cli {
namespace {

constexpr int kFew = 50;  // Number of trials up to which each is asked for by itself.

struct Limit {
  std::string metric;
  double value = 0.0;
  bool at_most = true;
};

// Reads --at-most and --at-least.
absl::StatusOr<std::vector<Limit>> LimitsOf(const Options& options, const v1::StudySpec& spec) {
  std::vector<std::string> names;
  for (const v1::MetricSpec& metric : spec.metrics()) names.push_back(metric.name());
  std::vector<Limit> limits;
  for (const auto& [option, texts] : {std::pair("--at-most", &options.at_most), {"--at-least", &options.at_least}}) {
    for (const std::string& text : *texts) {
      const size_t equals = text.find('=');
      double number = 0.0;
      if (equals == std::string::npos || !notation::ParseNumber(text.substr(equals + 1), &number))
        return UsageError(option, absl::StrCat(base::Quote(text), " is not of the form NAME=NUMBER"));
      if (std::isnan(number)) return UsageError(option, absl::StrCat(base::Quote(text), " ends in no number"));
      const std::string name = text.substr(0, equals);
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        return UsageError(option, absl::StrCat(base::Quote(name), " is none of the study's metrics, ",
                                               absl::StrJoin(names, ", "), base::DidYouMean(name, names)));
      }
      limits.push_back({name, number, option == absl::string_view("--at-most")});
    }
  }
  return limits;
}

double ValueOf(const v1::Trial& trial, const std::string& metric) {
  const auto value = trial.final_measurement().metrics().find(metric);
  return value == trial.final_measurement().metrics().end() ? 0.0 : value->second;
}

double ScoreOf(const v1::Trial& trial, const v1::MetricSpec& metric) {
  return metric.goal() == v1::MAXIMIZE ? ValueOf(trial, metric.name()) : -ValueOf(trial, metric.name());
}

std::vector<v1::MetricSpec> Objectives(const v1::StudySpec& spec) {
  std::vector<v1::MetricSpec> objectives;
  for (const v1::MetricSpec& metric : spec.metrics()) {
    if (metric.goal() != v1::GOAL_UNSPECIFIED) objectives.push_back(metric);
  }
  return objectives;
}

v1::Trial Knee(const v1::Study& study, const std::vector<v1::Trial>& front) {
  const std::vector<v1::MetricSpec> objectives = Objectives(study.spec());
  const auto columns = static_cast<Eigen::Index>(objectives.size());
  Eigen::MatrixXd scores(static_cast<Eigen::Index>(front.size()), columns);
  for (Eigen::Index j = 0; j < columns; ++j) {
    for (Eigen::Index i = 0; i < scores.rows(); ++i) {
      scores(i, j) = ScoreOf(front[static_cast<size_t>(i)], objectives[static_cast<size_t>(j)]);
    }
  }
  Eigen::VectorXd reference = scores.colwise().minCoeff();
  for (int j = 0; j < study.reference_point_size() && j < columns; ++j) {
    const double value = study.reference_point(j);
    reference(j) = objectives[static_cast<size_t>(j)].goal() == v1::MAXIMIZE ? value : -value;
  }
  return front[static_cast<size_t>(pareto::Knee(scores, reference))];
}

}  // namespace

bool HasSeveralObjectives(const v1::StudySpec& spec) {
  return Objectives(spec).size() > 1;
}

absl::StatusOr<std::vector<v1::Trial>> FrontTrials(client::Client& client, const v1::Study& study, size_t most) {
  if (study.front_overflowed()) {
    return absl::FailedPreconditionError(
        absl::StrCat("more than 5,000 trials are on the front of ", IdOf(study),
                     ": with bounds on its metrics, or fewer objectives, it would be smaller; `luthier trial list "
                     "--filter` has all trials"));
  }
  if (study.front().empty()) return NoBestTrial(study);
  std::vector<v1::Trial> trials;
  const size_t count = std::min(most, static_cast<size_t>(study.front_size()));
  if (count <= kFew) {
    for (size_t i = 0; i < count; ++i) {
      LUTHIER_ASSIGN_OR_RETURN(v1::Trial trial, client.GetTrial(IdOf(study), study.front(static_cast<int>(i))));
      trials.push_back(std::move(trial));
    }
    return trials;
  }
  std::map<int64_t, size_t> places;
  for (size_t i = 0; i < count; ++i) places[study.front(static_cast<int>(i))] = i;
  trials.resize(count);
  LUTHIER_RETURN_IF_ERROR(client.ListTrials(IdOf(study), {v1::Trial::COMPLETE}, [&](const v1::Trial& trial) {
    const auto place = places.find(trial.number());
    if (place != places.end()) trials[place->second] = trial;
    return true;
  }));
  std::erase_if(trials, [](const v1::Trial& trial) { return trial.number() == 0; });  // Deleted meanwhile.
  return trials;
}

absl::StatusOr<Choice> ChooseOnFront(const Options& options, const v1::Study& study, std::vector<v1::Trial> front) {
  if (!options.pick.empty() && options.pick != "knee") {
    return UsageError("--pick", absl::StrCat(base::Quote(options.pick), " is not knee, the best compromise"));
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<Limit> limits, LimitsOf(options, study.spec()));
  std::vector<v1::MetricSpec> free = Objectives(study.spec());
  for (const Limit& limit : limits) {
    std::erase_if(front, [&](const v1::Trial& trial) {
      const double value = ValueOf(trial, limit.metric);
      return limit.at_most ? value > limit.value : value < limit.value;
    });
    std::erase_if(free, [&](const v1::MetricSpec& metric) { return metric.name() == limit.metric; });
  }
  if (front.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("no trial on the front of ", IdOf(study),
                                                      " is within these limits; `luthier trial best ", IdOf(study),
                                                      "` shows them all"));
  }
  if (!options.pick.empty()) return Choice{{Knee(study, front)}, true};
  if (limits.empty() || free.size() != 1) return Choice{std::move(front), false};
  const auto best = std::max_element(front.begin(), front.end(), [&](const v1::Trial& a, const v1::Trial& b) {
    return ScoreOf(a, free[0]) < ScoreOf(b, free[0]);
  });
  return Choice{{*best}, true};
}

absl::Status NoBestTrial(const v1::Study& study) {
  if (study.least_violating_trial() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no trial of ", IdOf(study), " is COMPLETE yet: ", Summary(study)));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "no trial of ", IdOf(study), " meets the bounds of its metrics; the least violation is ",
      ShortNumber(study.least_violation()), " (in standard deviations of the metrics), of trial ",
      study.least_violating_trial(), ": luthier trial get ", IdOf(study), " ", study.least_violating_trial()));
}

}  // namespace luthier::cli
