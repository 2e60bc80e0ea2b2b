#include "lib/search/bo/local/border_search.h"

#include <utility>

#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/legal/legal_steps.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr size_t kMostCoordinates = 50;  // As in local_search.cc.

// The results around the best one that share its other parameters.
struct Surroundings {
  VectorXd best;            // Compact point of the best result.
  std::vector<int> active;  // Its continuous coordinates.
  BorderData data;
};

class Surveyor {
 public:
  Surveyor(const Observations& data, const BorderResults& results, const study::Encoding& encoding)
      : data_(data), results_(results), encoding_(encoding) {}

  absl::StatusOr<Surroundings> Survey(const base::StopToken& stop) {
    Surroundings around;
    base::Pace pace(stop);
    std::vector<VectorXd> points;
    for (const Index row : results_.rows) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + data_.observed.cols())));
      points.push_back(Compact(data_.observed.row(row).transpose()));
    }
    around.best = points[Best()];
    const study::Parameters setting = encoding_.FromCompact(around.best);
    for (int c = 0; c < encoding_.compact_dim(); ++c) {
      const auto& name = encoding_.space().parameters()[static_cast<size_t>(encoding_.compact_parameter(c))].name;
      if (!encoding_.Levels(c).has_value() && setting.contains(name)) around.active.push_back(c);
    }
    std::vector<Index> kept;
    std::vector<VectorXd> near, pending;
    for (size_t k = 0; k < points.size(); ++k) {
      if (!SharesLevels(points[k], around.best)) continue;
      kept.push_back(static_cast<Index>(k));
      near.push_back(Active(points[k], around.active));
    }
    for (Index i = 0; i < data_.pending.rows(); ++i) {
      const VectorXd u = Compact(data_.pending.row(i).transpose());
      if (SharesLevels(u, around.best)) pending.push_back(Active(u, around.active));
    }
    const Index d = static_cast<Index>(around.active.size());
    around.data.points = Stack(near, d);
    around.data.pending = Stack(pending, d);
    around.data.scores.resize(static_cast<Index>(kept.size()));
    for (size_t k = 0; k < kept.size(); ++k) around.data.scores(static_cast<Index>(k)) = Score(kept[k]);
    for (const BorderMetric& metric : results_.metrics) {
      around.data.metrics.push_back({metric.values(kept), metric.lower, metric.upper, metric.spread});
    }
    return around;
  }

  // Returns the compact coordinates that steps do not change.
  static VectorXd HomeOf(const Surroundings& around) {
    VectorXd home = around.best;
    for (const int c : around.active) home(c) = 0.0;
    return home;
  }

 private:
  double Score(Index k) const { return data_.scores(results_.rows[static_cast<size_t>(k)]); }
  VectorXd Compact(const VectorXd& model) const { return encoding_.ToCompact(encoding_.FromModel(model)); }
  static VectorXd Active(const VectorXd& u, const std::vector<int>& active) {
    VectorXd part(static_cast<Index>(active.size()));
    for (size_t k = 0; k < active.size(); ++k) part(static_cast<Index>(k)) = u(active[k]);
    return part;
  }
  bool SharesLevels(const VectorXd& a, const VectorXd& b) const {
    for (int c = 0; c < encoding_.compact_dim(); ++c) {
      if (encoding_.Levels(c).has_value() && a(c) != b(c)) return false;
    }
    return true;
  }
  size_t Best() const {
    BorderData all;
    all.points.resize(static_cast<Index>(results_.rows.size()), 0);
    all.metrics = results_.metrics;
    const VectorXd violations = BorderViolations(all);
    Index best = 0;
    for (Index k = 1; k < violations.size(); ++k) {
      const bool equal = violations(k) == violations(best);
      if (violations(k) < violations(best) || (equal && Score(k) > Score(best))) best = k;
    }
    return static_cast<size_t>(best);
  }

  const Observations& data_;
  const BorderResults& results_;
  const study::Encoding& encoding_;
};

}  // namespace

BorderFaces FacesAround(const LegalFaces& faces, VectorXd home, std::vector<int> active) {
  if (faces.size() == 0) return nullptr;
  return [&faces, home = std::move(home), active = std::move(active)](const VectorXd& point, VectorXd* excess,
                                                                      MatrixXd* slopes) {
    VectorXd u = home;
    for (size_t k = 0; k < active.size(); ++k) u(active[k]) = point(static_cast<Index>(k));
    MatrixXd all;
    faces.Evaluate(u, excess, &all);
    slopes->resize(faces.size(), static_cast<Index>(active.size()));
    for (size_t k = 0; k < active.size(); ++k) slopes->col(static_cast<Index>(k)) = all.col(active[k]);
  };
}

absl::StatusOr<std::optional<BorderMove>> SuggestBorderMove(const Observations& data, const BorderResults& results,
                                                            const study::Encoding& encoding, BorderClimb* last,
                                                            const base::StopToken& stop) {
  if (results.rows.size() < 2) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(Surroundings around, Surveyor(data, results, encoding).Survey(stop));
  if (around.active.empty() || around.active.size() > kMostCoordinates) return std::nullopt;
  const VectorXd home = Surveyor::HomeOf(around);
  if (last->home.size() != home.size() || last->home != home ||
      last->state.centre.size() != static_cast<Index>(around.active.size())) {
    *last = {};
  }
  VectorXd best(static_cast<Index>(around.active.size()));
  for (size_t k = 0; k < around.active.size(); ++k) best(static_cast<Index>(k)) = around.best(around.active[k]);
  const LegalFaces faces(encoding);
  around.data.faces = FacesAround(faces, around.best, around.active);
  around.data.face_count = faces.size();
  if (last->ended && last->state.centre == best) return std::nullopt;
  LUTHIER_ASSIGN_OR_RETURN(std::optional<BorderStep> step, SuggestBorderStep(around.data, last->state, stop));
  if (!step.has_value()) return std::nullopt;
  if (step->kind == TrustRegionStepKind::kConverged) {
    if (data.pending.rows() == 0) *last = {true, home, std::move(step->next)};
    return std::nullopt;
  }
  BorderMove move;
  VectorXd u = around.best;
  for (size_t k = 0; k < around.active.size(); ++k) u(around.active[k]) = step->point(static_cast<Index>(k));
  if (!encoding.IsLegalAt(u)) {
    u = NearestLegal(encoding, around.best, u);
    for (size_t k = 0; k < around.active.size(); ++k) step->next.step(static_cast<Index>(k)) = u(around.active[k]);
  }
  move.parameters = encoding.FromCompact(u);
  if (IsTried(data, encoding.ToModel(move.parameters))) return std::nullopt;
  move.predicted_gain = step->predicted_gain;
  move.best = around.data.scores(step->centre);
  move.best_feasible = BorderViolations(around.data)(step->centre) == 0.0;
  move.active = step->active;
  move.next = {false, home, std::move(step->next)};
  return std::optional<BorderMove>(std::move(move));
}

}  // namespace luthier::search
