#include "lib/search/bo/turns/labels.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <string>
#include <utility>

#include "Eigen/Core"
#include "lib/base/pace.h"
#include "lib/base/random.h"
#include "lib/base/status_macros.h"
#include "lib/gp/regression.h"
#include "lib/math/sobol.h"
#include "lib/study/compact_column.h"

namespace luthier::search {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int64_t kMostLabels = 16;  // Values of one parameter. With more, the budget holds no floor for each.
// One ask in so many at most, or in half as many as there are labels: many labels would take the asks of the search.
constexpr int64_t kLabelEvery = 3;
// The floor: so many trials for each tuned number and one more, within the limits, and by how much of itself it grows
// when the trials of the study double.
constexpr double kTrialsEach = 3.0, kFewestTrials = 4.0, kMostTrials = 16.0, kGrowth = 0.5, kGrowsFrom = 64.0;
// A label with kFewestTrials is left alone while the model is so many deviations sure that it holds no gain.
constexpr double kSure = 8.0;
constexpr Index kPlaces = 64;      // Settings at which the model is asked for it.
constexpr size_t kMostJudged = 4;  // Labels that are judged so at one ask.
constexpr double kWeightOfPruned = 0.5;

// The record of one label.
struct Record {
  double trials = 0.0;
  std::optional<double> best;
  const study::HistoryTrial* best_trial = nullptr;  // Or any of its trials, if none is COMPLETE.
};

// The labels of one coordinate.
struct Column {
  int coordinate = 0, parameter = 0;
  std::string name;
  std::vector<Record> records;  // By level.
};

std::vector<Column> ColumnsOf(const BoStudy& study) {
  const study::Encoding& encoding = study.encoding;
  const study::SearchSpace& space = encoding.space();
  std::set<int> parents;
  for (int i = 0; i < space.size(); ++i) {
    if (space.parent(i) >= 0) parents.insert(space.parent(i));
  }
  std::vector<Column> columns;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    const int parameter = encoding.compact_parameter(c);
    const std::optional<int64_t> levels = encoding.Levels(c);
    const bool unordered = study::CompactColumn(encoding, c).kind() == study::CompactColumn::Kind::kUnordered;
    if (!levels || *levels > kMostLabels || !(unordered || parents.contains(parameter))) continue;
    columns.push_back({c, parameter, space.parameters()[static_cast<size_t>(parameter)].name,
                       std::vector<Record>(static_cast<size_t>(*levels))});
  }
  return columns;
}

// Returns how much a trial says of its labels.
double WeightOf(const study::HistoryTrial& trial) {
  switch (trial.state) {
    case study::TrialState::kCancelled:
      return 0.0;
    case study::TrialState::kPruned:
      return kWeightOfPruned;
    case study::TrialState::kFailed:
      return trial.failure == study::FailureKind::kConfig ? 1.0 : 0.0;
    default:
      return 1.0;
  }
}

void Count(const BoStudy& study, const study::HistoryTrial& trial, Column* column) {
  const auto at = trial.parameters.find(column->name);
  const double weight = WeightOf(trial);
  if (at == trial.parameters.end() || weight == 0.0) return;
  Record& record = column->records[static_cast<size_t>(study.encoding.space().LevelOf(column->parameter, at->second))];
  record.trials += weight;
  if (record.best_trial == nullptr) record.best_trial = &trial;
  if (trial.state != study::TrialState::kComplete || !trial.value || !std::isfinite(*trial.value)) return;
  const double score = study::Score(study.goal, *trial.value);
  if (record.best && *record.best >= score) return;
  record.best = score;
  record.best_trial = &trial;
}

// Returns the compact points with the label, around the best of them that was tried, or around a random one; no sides
// if no legal one was found.
TrustBox Hold(const BoStudy& study, const Ask& ask, const Column& column, int64_t level) {
  const study::Encoding& encoding = study.encoding;
  const study::SearchSpace& space = encoding.space();
  TrustBox box;
  const Record& record = column.records[static_cast<size_t>(level)];
  VectorXd centre;
  if (record.best_trial != nullptr) {
    centre = encoding.ToCompact(record.best_trial->parameters);
  } else {
    base::RandomStream random(study.seed, "bo/label", ask.index);
    const auto hold = [&](int parameter, const study::ParameterValue& value) {
      const int c = encoding.coordinate_of(parameter);
      const std::string& name = space.parameters()[static_cast<size_t>(parameter)].name;
      if (c >= 0) centre(c) = encoding.ToCompact({{name, value}})(c);
    };
    for (int attempt = 0; attempt < kRandomTries; ++attempt) {
      centre.resize(encoding.compact_dim());
      for (double& x : centre) x = random.Uniform();
      hold(column.parameter, space.LevelValue(column.parameter, level));
      for (int p = column.parameter; space.parent(p) >= 0; p = space.parent(p)) {
        const study::Condition& condition = *space.parameters()[static_cast<size_t>(p)].condition;
        hold(space.parent(p), condition.values[random.UniformInt(condition.values.size())]);
      }
      if (encoding.IsLegalAt(centre)) break;
      centre.resize(0);
    }
    if (centre.size() == 0) return box;
    centre = encoding.ToCompact(encoding.FromCompact(centre));
  }
  box.centre = centre;
  box.lower = VectorXd::Zero(centre.size());
  box.upper = VectorXd::Ones(centre.size());
  for (int p = column.parameter; p >= 0; p = space.parent(p)) {
    const int c = encoding.coordinate_of(p);
    if (c >= 0) box.lower(c) = box.upper(c) = centre(c);
  }
  return box;
}

// Returns how many numbers are tuned where the label is.
int TunedWith(const BoStudy& study, const study::Parameters& setting) {
  const study::Encoding& encoding = study.encoding;
  int tuned = 0;
  for (int c = 0; c < encoding.compact_dim(); ++c) {
    const std::string& name = encoding.space().parameters()[static_cast<size_t>(encoding.compact_parameter(c))].name;
    const bool number = study::CompactColumn(encoding, c).kind() != study::CompactColumn::Kind::kUnordered;
    tuned += number && setting.contains(name) ? 1 : 0;
  }
  return tuned;
}

// A label that has fewer trials than its floor.
struct Lack {
  const Column* column;
  int64_t level;
  double share;  // Its trials as a share of its floor.
  double best;
};

// Returns the largest (mean - value to beat) / deviation at kPlaces points with the label.
absl::StatusOr<double> PromiseOf(const BoStudy& study, const Ask& ask, const BoModel& model, const TrustBox& held) {
  const study::Encoding& encoding = study.encoding;
  const math::SobolSequence sobol(encoding.compact_dim(), study.seed, "bo/label/promise");
  MatrixXd points(kPlaces, encoding.model_dim());
  const VectorXd width = held.upper - held.lower;
  for (Index i = 0; i < kPlaces; ++i) {
    const VectorXd u = held.lower + width.cwiseProduct(sobol.Point(static_cast<uint64_t>(i)));
    points.row(i) = encoding.CompactToModel(u);
  }
  LUTHIER_RETURN_IF_ERROR(ask.stop.Poll());
  const gp::Posterior p = model.surrogate.states.front().Predict(points);
  return ((p.mean.array() - model.best.front()) / p.variance.array().sqrt()).maxCoeff();
}

// Returns the labels that lack trials, those that lack most first, at most kMostJudged.
std::vector<Lack> LacksOf(const BoStudy& study, const std::vector<Column>& columns, size_t trials) {
  const double grown = 1.0 + kGrowth * std::log2(std::max(1.0, static_cast<double>(trials) / kGrowsFrom));
  std::vector<Lack> lacks;
  for (const Column& column : columns) {
    for (size_t level = 0; level < column.records.size(); ++level) {
      const Record& record = column.records[level];
      const int tuned = record.best_trial == nullptr ? 0 : TunedWith(study, record.best_trial->parameters);
      const double floor = grown * std::clamp(kTrialsEach * (tuned + 1), kFewestTrials, kMostTrials);
      if (record.trials >= floor) continue;
      lacks.push_back({&column, static_cast<int64_t>(level), record.trials / floor,
                       record.best.value_or(std::numeric_limits<double>::infinity())});
    }
  }
  std::stable_sort(lacks.begin(), lacks.end(), [](const Lack& a, const Lack& b) {
    return a.share != b.share ? a.share < b.share : a.best > b.best;
  });
  if (lacks.size() > kMostJudged) lacks.resize(kMostJudged);
  return lacks;
}

}  // namespace

absl::StatusOr<std::optional<DueLabel>> LabelTurn(const BoStudy& study, const Ask& ask, const BoModel& model) {
  if (!study.has_labels) return std::nullopt;
  std::vector<Column> columns = ColumnsOf(study);
  int64_t counted = 0, turns = 0;
  base::Pace pace(ask.stop);
  for (const PastAsk& past : ask.past) {
    LUTHIER_RETURN_IF_ERROR(pace.Poll(kReadingATrial * static_cast<int64_t>(1 + columns.size())));
    for (Column& column : columns) Count(study, *past.trial, &column);
    if (!past.asked || past.head.kind == AskKind::kInitial || WeightOf(*past.trial) == 0.0) continue;
    ++counted;
    turns += past.head.kind == AskKind::kLabel ? 1 : 0;
  }
  int64_t labels = 0;
  for (const Column& column : columns) labels += static_cast<int64_t>(column.records.size());
  if ((turns + 1) * std::max(kLabelEvery, labels / 2) > counted + 1) return std::nullopt;
  for (const Lack& lack : LacksOf(study, columns, ask.past.size())) {
    const Record& record = lack.column->records[static_cast<size_t>(lack.level)];
    DueLabel due{lack.column->coordinate, lack.level, record.trials, record.best,
                 Hold(study, ask, *lack.column, lack.level)};
    if (due.held.centre.size() == 0) continue;
    if (record.trials >= kFewestTrials) {
      LUTHIER_ASSIGN_OR_RETURN(const double promise, PromiseOf(study, ask, model, due.held));
      if (promise < -kSure) continue;
    }
    return std::optional<DueLabel>(std::move(due));
  }
  return std::nullopt;
}

}  // namespace luthier::search
