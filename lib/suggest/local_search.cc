#include "lib/suggest/local_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace luthier::suggest {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

// Distances in compact coordinates are these times the square root of the number of continuous ones.
constexpr double kMerge = 0.02;         // A climb that comes so near the top of an ended one has ended, too.
constexpr double kApart = 0.2;          // Where a climb begins nothing better is nearer than this.
constexpr int kMaxSites = 4;            // Looked at for one step.
constexpr size_t kMaxCoordinates = 50;  // Beyond, there are more second derivatives than any study has trials.

VectorXd Part(const VectorXd& u, const std::vector<int>& coordinates) {
  VectorXd part(static_cast<Index>(coordinates.size()));
  for (size_t k = 0; k < coordinates.size(); ++k) part(static_cast<Index>(k)) = u(coordinates[k]);
  return part;
}

MatrixXd Stack(const std::vector<VectorXd>& rows, size_t columns) {
  MatrixXd m(static_cast<Index>(rows.size()), static_cast<Index>(columns));
  for (size_t k = 0; k < rows.size(); ++k) m.row(static_cast<Index>(k)) = rows[k];
  return m;
}

class Climbs {
 public:
  Climbs(const Observations& data, const std::map<int64_t, int64_t>& climbs, const study::Encoding& encoding,
         const LocalSearchCarry& carry)
      : data_(data), encoding_(encoding), rows_(data.CompleteRows()), solved_(carry.solved) {
    for (Index row : rows_) {
      const int64_t number = data.number[static_cast<size_t>(row)];
      const auto climb = climbs.find(number);
      sites_.push_back(climb == climbs.end() ? number : climb->second);
      points_.push_back(Compact(data.observed.row(row).transpose()));
    }
    for (int c = 0; c < encoding.compact_dim(); ++c) {
      if (!encoding.Levels(c).has_value()) continuous_.push_back(c);
    }
    unit_ = std::sqrt(static_cast<double>(continuous_.size()));
    for (int64_t site : solved_) AddTop(site);
  }

  bool empty() const { return rows_.size() < 2 || continuous_.empty() || continuous_.size() > kMaxCoordinates; }
  const std::vector<int64_t>& solved() const { return solved_; }

  void MarkSolved(int64_t site) {
    if (IsSolved(site)) return;
    solved_.push_back(site);
    AddTop(site);
  }

  // The site to climb from: the record's, else the one under way, else a new one; 0 when there is none.
  int64_t Choose(int64_t current) {
    size_t top = 0;
    for (size_t k = 1; k < rows_.size(); ++k) {
      if (score(k) > score(top)) top = k;
    }
    if (!Ended(top)) return sites_[top];
    if (current > 0 && !IsSolved(current)) {
      const int best = BestOf(current);
      if (best >= 0 && !Ended(static_cast<size_t>(best))) return current;
      MarkSolved(current);
    }
    int start = -1;
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (Ended(k) || (start >= 0 && score(k) <= score(static_cast<size_t>(start)))) continue;
      bool peak = true;
      for (size_t m = 0; m < rows_.size() && peak; ++m) {
        peak = score(m) <= score(k) || (points_[m] - points_[k]).norm() >= kApart * unit_;
      }
      if (peak) start = static_cast<int>(k);
    }
    return start < 0 ? 0 : sites_[static_cast<size_t>(start)];
  }

  // The landscape of a site: what shares its best setting's other parameters and is no better, better settings being on
  // other slopes. `home`: that setting's compact point; `active`: the coordinates that steps change.
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
    std::vector<VectorXd> points, pending;
    std::vector<double> scores;
    for (size_t k = 0; k < rows_.size(); ++k) {
      if (!same(points_[k]) || score(k) > score(centre)) continue;
      points.push_back(Part(points_[k], *active));
      scores.push_back(score(k));
    }
    for (Index i = 0; i < data_.pending.rows(); ++i) {
      const VectorXd u = Compact(data_.pending.row(i).transpose());
      if (same(u)) pending.push_back(Part(u, *active));
    }
    TrustRegionData landscape;
    landscape.points = Stack(points, active->size());
    landscape.scores = Eigen::Map<const VectorXd>(scores.data(), static_cast<Index>(scores.size()));
    landscape.pending = Stack(pending, active->size());
    return landscape;
  }

 private:
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
  // Whether the result belongs to an ended climb or lies at the top of one.
  bool Ended(size_t k) const {
    return IsSolved(sites_[k]) || std::any_of(tops_.begin(), tops_.end(), [&](const VectorXd& top) {
             return (points_[k] - top).norm() < kMerge * unit_;
           });
  }

  const Observations& data_;
  const study::Encoding& encoding_;
  std::vector<Index> rows_;
  std::vector<int64_t> solved_;
  std::vector<int64_t> sites_;    // Of each row.
  std::vector<VectorXd> points_;  // Compact, of each row.
  std::vector<VectorXd> tops_;    // The best points of solved sites.
  std::vector<int> continuous_;
  double unit_ = 1.0;
};

}  // namespace

std::string FormatCarry(const LocalSearchCarry& carry) {
  std::string text = absl::StrCat(carry.site, ",", absl::StrJoin(carry.solved, " "), ",");
  for (double number : carry.state.Pack()) absl::StrAppendFormat(&text, " %.17g", number);
  return text;
}

LocalSearchCarry ParseLocalSearchCarry(absl::string_view text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  LocalSearchCarry carry;
  if (parts.size() != 3 || !absl::SimpleAtoi(parts[0], &carry.site) || carry.site < 0) return {};
  for (absl::string_view word : absl::StrSplit(parts[1], ' ', absl::SkipEmpty())) {
    int64_t site = 0;
    if (!absl::SimpleAtoi(word, &site) || site < 1) return {};
    carry.solved.push_back(site);
  }
  std::vector<double> numbers;
  for (absl::string_view word : absl::StrSplit(parts[2], ' ', absl::SkipEmpty())) {
    double number = 0.0;
    if (!absl::SimpleAtod(word, &number)) return {};
    numbers.push_back(number);
  }
  const Index dim = numbers.size() < 5 ? 0 : static_cast<Index>((numbers.size() - 5) / 3);
  std::optional<TrustRegionState> state = TrustRegionState::Unpack(numbers, dim);
  if (!state.has_value()) return {};
  carry.state = *std::move(state);
  return carry;
}

std::optional<LocalStep> SuggestLocalStep(const Observations& data, const std::map<int64_t, int64_t>& climbs,
                                          const study::Encoding& encoding, LocalSearchCarry* carry) {
  Climbs search(data, climbs, encoding, *carry);
  if (search.empty()) return std::nullopt;
  std::optional<LocalStep> result;
  for (int attempt = 0; attempt < kMaxSites && !result.has_value(); ++attempt) {
    const int64_t site = search.Choose(carry->site);
    if (site == 0) break;
    VectorXd home;
    std::vector<int> active;
    const TrustRegionData landscape = search.Landscape(site, &home, &active);
    TrustRegionState state;
    if (site == carry->site && carry->state.centre.size() == static_cast<Index>(active.size())) state = carry->state;
    const std::optional<TrustRegionStep> step = SuggestTrustRegionStep(landscape, state);
    if (step.has_value() && step->kind != TrustRegionStepKind::kConverged) {
      for (size_t k = 0; k < active.size(); ++k) home(active[k]) = step->point(static_cast<Index>(k));
      LocalStep found;
      found.parameters = encoding.FromCompact(home);
      found.predicted_gain = step->predicted_gain;
      found.next.site = site;
      found.next.state = step->next;
      if (!IsTried(data, encoding.ToModel(found.parameters))) result = std::move(found);
    }
    if (!result.has_value()) search.MarkSolved(site);
  }
  carry->solved = search.solved();
  if (result.has_value()) result->next.solved = carry->solved;
  return result;
}

}  // namespace luthier::suggest
