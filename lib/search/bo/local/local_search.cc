#include "lib/search/bo/local/local_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "lib/base/pace.h"
#include "lib/base/status_macros.h"
#include "lib/search/bo/local/border_search.h"
#include "lib/search/legal/legal_steps.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Distances in compact coordinates, in lengthscales.
constexpr double kMerge = 0.1;          // A climb that comes this near the top of an ended one has ended, too.
constexpr double kApart = 1.0;          // A climb begins only where no better result is nearer than this.
constexpr double kFine = 1e-6;          // Smallest gain worth a step now, as a share of the spread of the scores.
constexpr int kWorse = 2;               // A climb elsewhere needs more than this many times d + 1 results.
constexpr int kMaxSites = 4;            // Number of sites that are tried for one step.
constexpr size_t kMaxSolved = 500;      // Number of ended climbs that are remembered, the newest.
constexpr size_t kMaxCoordinates = 50;  // Above it there are more second derivatives than any study has trials.

// Half of the first box's width, in the unit cube, with whole gradients. Climbs then begin after few results: the other
// results are far away, and a polynomial through all of them is right only near its centre.
constexpr double kFirstRadiusOfGradients = 0.1;

VectorXd Part(const VectorXd& u, const std::vector<int>& coordinates) {
  VectorXd part(static_cast<Index>(coordinates.size()));
  for (size_t k = 0; k < coordinates.size(); ++k) part(static_cast<Index>(k)) = u(coordinates[k]);
  return part;
}

// Returns the step of the climb within the faces of the legal settings, in place of one that would leave them. `home`
// is the compact point of the climb's best setting.
absl::StatusOr<std::optional<TrustRegionStep>> StepWithinFaces(const TrustRegionData& landscape,
                                                               const TrustRegionState& state,
                                                               const study::Encoding& encoding, const VectorXd& home,
                                                               const std::vector<int>& active,
                                                               const base::StopToken& stop) {
  const LegalFaces faces(encoding);
  const BorderData data{.points = landscape.points,
                        .scores = landscape.scores,
                        .metrics = {},
                        .pending = landscape.pending,
                        .faces = FacesAround(faces, home, active),
                        .face_count = faces.size(),
                        .slopes = landscape.slopes};
  BorderState before;
  if (state.radius > 0.0) {
    before = {state.radius, state.predicted_gain, state.at_boundary, state.centre, state.step, {}, {state.lengths}};
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::optional<BorderStep> within, SuggestBorderStep(data, before, stop));
  if (!within.has_value()) return std::nullopt;
  TrustRegionStep step;
  step.kind = within->kind;
  step.point = within->point;
  step.predicted_gain = within->predicted_gain;
  step.next = {within->next.radius,    landscape.scores(within->centre),
               within->predicted_gain, within->next.at_boundary,
               state.slope_error,      within->next.centre,
               within->point,          within->next.lengths.front()};
  return std::optional<TrustRegionStep>(std::move(step));
}

class Climbs {
 public:
  Climbs(const Observations& data, const study::Encoding& encoding, const VectorXd& lengthscales,
         const LocalSearchState& state)
      : data_(data),
        encoding_(encoding),
        rows_(data.CompleteRows()),
        lengthscales_(lengthscales),
        solved_(state.solved) {
    if (solved_.size() > kMaxSolved) solved_.erase(solved_.begin(), solved_.end() - kMaxSolved);
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      if (!encoding.Levels(c).has_value()) continuous_.push_back(c);
    }
  }

  bool empty() const { return rows_.size() < 2 || continuous_.empty() || continuous_.size() > kMaxCoordinates; }

  // Reads the results. It must be called before the other functions.
  absl::Status Read(const std::map<int64_t, int64_t>& climbs, const base::StopToken& stop) {
    base::Pace pace(stop);
    for (Index row : rows_) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(base::kRandomAccess * (1 + data_.observed.cols())));
      const int64_t number = data_.number[static_cast<size_t>(row)];
      const auto climb = climbs.find(number);
      sites_.push_back(climb == climbs.end() ? number : climb->second);
      points_.push_back(Compact(data_.observed.row(row).transpose()));
    }
    for (int64_t site : solved_) {
      LUTHIER_RETURN_IF_ERROR(pace.Poll(static_cast<int64_t>(rows_.size())));
      AddTop(site);
    }
    return absl::OkStatus();
  }

  const std::vector<int64_t>& solved() const { return solved_; }

  void MarkSolved(int64_t site) {
    if (IsSolved(site)) return;
    solved_.push_back(site);
    AddTop(site);
  }

  // Returns the incumbent's site, or 0 if its climb has ended.
  int64_t RecordSite() const {
    size_t top = 0;
    for (size_t k = 1; k < rows_.size(); ++k) {
      if (score(k) > score(top)) top = k;
    }
    return Ended(top) ? 0 : sites_[top];
  }
  // Returns the site of another climb than `incumbent`: `current` while it lasts, else that of the best setting that
  // has no better result near it; 0 if there is none.
  absl::StatusOr<int64_t> OtherSite(int64_t incumbent, int64_t current, const base::StopToken& stop) {
    if (current > 0 && current != incumbent && !IsSolved(current)) {
      const int best = BestOf(current);
      if (best >= 0 && !Ended(static_cast<size_t>(best))) return current;
      MarkSolved(current);
    }
    int start = -1;
    for (size_t k = 0; k < rows_.size(); ++k) {
      LUTHIER_RETURN_IF_ERROR(stop.Poll(static_cast<int64_t>(rows_.size() + tops_.size()) * lengthscales_.size()));
      if (sites_[k] == incumbent || Ended(k) || (start >= 0 && score(k) <= score(static_cast<size_t>(start)))) continue;
      bool peak = true;
      for (size_t m = 0; m < rows_.size() && peak; ++m) {
        peak = score(m) <= score(k) || Distance(points_[m], points_[k]) >= kApart;
      }
      if (peak) start = static_cast<int>(k);
    }
    return start < 0 ? 0 : sites_[static_cast<size_t>(start)];
  }
  // Returns the site of trial `number` if no climb to it has ended, it is not the incumbent's, and the trial is better
  // than enough others; else 0.
  int64_t SiteElsewhere(int64_t incumbent, int64_t number) const {
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (data_.number[static_cast<size_t>(rows_[k])] != number) continue;
      int worse = 0;
      for (size_t m = 0; m < rows_.size(); ++m) worse += score(m) < score(k) ? 1 : 0;
      return worse < kWorse * (encoding_.compact_dim() + 1) || sites_[k] == incumbent || Ended(k) ? 0 : sites_[k];
    }
    return 0;
  }
  double Spread() const {
    double best = score(0), worst = score(0);
    for (size_t k = 1; k < rows_.size(); ++k) {
      best = std::max(best, score(k));
      worst = std::min(worst, score(k));
    }
    return best - worst;
  }

  // Returns the results that steps of a site are fitted to: those that share the other parameters of the site's best
  // setting and are no better, since better ones are on other slopes. Sets `home` to that setting's compact point, and
  // `active` to the coordinates that steps change.
  TrustRegionData Landscape(int64_t site, VectorXd* home, std::vector<int>* active) const {
    const size_t centre = static_cast<size_t>(BestOf(site));
    *home = points_[centre];
    const study::Parameters setting = encoding_.FromCompact(*home);
    active->clear();
    for (int c : continuous_) {
      const auto& name = encoding_.space().parameters()[static_cast<size_t>(encoding_.compact_parameter(c))].name;
      if (setting.contains(name)) active->push_back(c);
    }
    auto same = [&](const VectorXd& u) {
      for (int c = 0; c < encoding_.compact_dim(); ++c) {
        if (encoding_.Levels(c).has_value() && u(c) != (*home)(c)) return false;
      }
      return true;
    };
    TrustRegionData landscape;
    std::vector<VectorXd> points, pending;
    std::vector<double> scores;
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (!same(points_[k]) || score(k) > score(centre)) continue;
      if (!data_.slopes.empty()) {
        AddSlopes(data_.slopes[static_cast<size_t>(rows_[k])], static_cast<int>(points.size()), *active,
                  &landscape.slopes);
      }
      points.push_back(Part(points_[k], *active));
      scores.push_back(score(k));
    }
    for (Index i = 0; i < data_.pending.rows(); ++i) {
      const VectorXd u = Compact(data_.pending.row(i).transpose());
      if (same(u)) pending.push_back(Part(u, *active));
    }
    landscape.points = Stack(points, static_cast<Index>(active->size()));
    landscape.scores = Eigen::Map<const VectorXd>(scores.data(), static_cast<Index>(scores.size()));
    landscape.pending = Stack(pending, static_cast<Index>(active->size()));
    return landscape;
  }

 private:
  // Adds the slopes at row `point` of a landscape. Only the active coordinates have derivatives.
  void AddSlopes(const ScoreSlopes& known, int point, const std::vector<int>& active,
                 std::vector<SlopeObservation>* slopes) const {
    const Index d = static_cast<Index>(active.size());
    auto position = [&](int axis) {
      for (Index k = 0; k < d; ++k) {
        if (encoding_.model_begin(active[static_cast<size_t>(k)]) == axis) return k;
      }
      return Index{-1};
    };
    for (size_t i = 0; i < known.axes.size(); ++i) {
      const Index k = position(known.axes[i]);
      if (k >= 0) slopes->push_back({point, VectorXd::Unit(d, k), known.values(static_cast<Index>(i))});
    }
    if (known.direction.size() == 0) return;
    VectorXd direction(d);
    for (Index k = 0; k < d; ++k) direction(k) = known.direction(encoding_.model_begin(active[static_cast<size_t>(k)]));
    if (direction.squaredNorm() > 0.5) slopes->push_back({point, direction, known.values(0)});
  }
  double Distance(const VectorXd& a, const VectorXd& b) const { return (a - b).cwiseQuotient(lengthscales_).norm(); }
  double score(size_t k) const { return data_.scores(rows_[k]); }
  VectorXd Compact(const VectorXd& model) const { return encoding_.ToCompact(encoding_.FromModel(model)); }
  bool IsSolved(int64_t site) const { return std::find(solved_.begin(), solved_.end(), site) != solved_.end(); }
  void AddTop(int64_t site) {
    const int best = BestOf(site);
    if (best >= 0) tops_.push_back(points_[static_cast<size_t>(best)]);
  }
  int BestOf(int64_t site) const {
    int best = -1;
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (sites_[k] == site && (best < 0 || score(k) > score(static_cast<size_t>(best)))) best = static_cast<int>(k);
    }
    return best;
  }
  // Returns true if the result belongs to an ended climb or lies at the top of one.
  bool Ended(size_t k) const {
    return IsSolved(sites_[k]) || std::any_of(tops_.begin(), tops_.end(),
                                              [&](const VectorXd& top) { return Distance(points_[k], top) < kMerge; });
  }

  const Observations& data_;
  const study::Encoding& encoding_;
  std::vector<Index> rows_;
  VectorXd lengthscales_;
  std::vector<int64_t> solved_;
  std::vector<int64_t> sites_;    // Site of each row.
  std::vector<VectorXd> points_;  // Compact point of each row.
  std::vector<VectorXd> tops_;    // The best points of solved sites.
  std::vector<int> continuous_;
};

using SettingAndStep = std::optional<std::pair<study::Parameters, TrustRegionStep>>;

// Returns a step of the climb from `site`. It continues from the climb's state if `last` has it.
absl::StatusOr<SettingAndStep> StepFrom(const Climbs& search, const Observations& data, const study::Encoding& encoding,
                                        const LocalSearchState& last, int64_t site, const TrustRegionOptions& options,
                                        const base::StopToken& stop) {
  LUTHIER_RETURN_IF_ERROR(stop.Poll());
  VectorXd home;
  std::vector<int> active;
  TrustRegionData landscape = search.Landscape(site, &home, &active);
  TrustRegionState state;
  for (const Climb* climb : {&last.incumbent, &last.other}) {
    if (site == climb->site && climb->state.centre.size() == static_cast<Index>(active.size())) state = climb->state;
  }
  LUTHIER_ASSIGN_OR_RETURN(std::optional<TrustRegionStep> step,
                           SuggestTrustRegionStep(landscape, state, options, stop));
  if (!step.has_value() && !landscape.slopes.empty()) {  // The slopes are too large for any model.
    landscape.slopes.clear();
    LUTHIER_ASSIGN_OR_RETURN(step, SuggestTrustRegionStep(landscape, state, options, stop));
  }
  if (!step.has_value() || step->kind == TrustRegionStepKind::kConverged) return std::nullopt;
  const VectorXd centre = home;
  const auto end = [&] {
    VectorXd u = centre;
    for (size_t k = 0; k < active.size(); ++k) u(active[k]) = step->point(static_cast<Index>(k));
    return u;
  };
  home = end();
  if (!encoding.IsLegalAt(home)) {
    LUTHIER_ASSIGN_OR_RETURN(step, StepWithinFaces(landscape, state, encoding, centre, active, stop));
    if (!step.has_value() || step->kind == TrustRegionStepKind::kConverged) return std::nullopt;
    home = NearestLegal(encoding, centre, end());
    step->point = step->next.step = Part(home, active);
  }
  study::Parameters parameters = encoding.FromCompact(home);
  if (IsTried(data, encoding.ToModel(parameters))) return std::nullopt;
  return SettingAndStep(std::make_pair(std::move(parameters), *std::move(step)));
}

}  // namespace

absl::StatusOr<std::optional<LocalStep>> SuggestLocalStep(const Observations& data,
                                                          const std::map<int64_t, int64_t>& climbs,
                                                          const study::Encoding& encoding, const VectorXd& lengthscales,
                                                          LocalSearchState* last, std::optional<int64_t> elsewhere,
                                                          const base::StopToken& stop) {
  Climbs search(data, encoding, lengthscales, *last);
  if (search.empty()) return std::nullopt;
  LUTHIER_RETURN_IF_ERROR(search.Read(climbs, stop));
  TrustRegionOptions options;
  const bool gradients =
      std::any_of(data.slopes.begin(), data.slopes.end(), [](const ScoreSlopes& known) { return !known.axes.empty(); });
  if (gradients) options.initial_radius = kFirstRadiusOfGradients;
  const auto step_from = [&](int64_t site) { return StepFrom(search, data, encoding, *last, site, options, stop); };

  std::optional<LocalStep> result;
  const int64_t incumbent = search.RecordSite();
  SettingAndStep mine;
  if (incumbent > 0) {
    LUTHIER_ASSIGN_OR_RETURN(mine, step_from(incumbent));
    if (!mine.has_value()) search.MarkSolved(incumbent);
  }
  const bool fine = mine.has_value() && mine->second.predicted_gain < kFine * search.Spread();
  if (!mine.has_value() || (fine && !last->other_last)) {
    for (int attempt = 0; attempt < kMaxSites && !result.has_value(); ++attempt) {
      int64_t site = 0;
      if (elsewhere.has_value()) {
        site = search.SiteElsewhere(incumbent, *elsewhere);
      } else {
        LUTHIER_ASSIGN_OR_RETURN(site, search.OtherSite(incumbent, last->other.site, stop));
      }
      if (site == 0) break;
      LUTHIER_ASSIGN_OR_RETURN(SettingAndStep found, step_from(site));
      if (!found.has_value()) {
        search.MarkSolved(site);
        continue;
      }
      result = LocalStep{std::move(found->first), found->second.predicted_gain, *last};
      result->next.other = {site, found->second.next};
      result->next.other_last = true;
    }
  }
  if (!result.has_value() && fine && elsewhere.has_value() && !last->other_last) {
    mine.reset();
    last->other_last = true;  // The incumbent gives up its turn.
  }
  if (!result.has_value() && mine.has_value()) {
    result = LocalStep{std::move(mine->first), mine->second.predicted_gain, *last};
    result->next.incumbent = {incumbent, mine->second.next};
    result->next.other_last = false;
  }
  last->solved = search.solved();
  if (result.has_value()) result->next.solved = last->solved;
  return result;
}

}  // namespace luthier::search
