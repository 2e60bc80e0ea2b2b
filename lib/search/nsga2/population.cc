#include "lib/search/nsga2/population.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "lib/base/check.h"
#include "lib/base/status_macros.h"
#include "lib/pareto/crowding.h"
#include "lib/pareto/dominance.h"
#include "lib/pareto/reference_lines.h"

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kMostCrowdedObjectives = 3;  // With more, reference lines.
constexpr int kMostLines = 500;
constexpr size_t kResultsAtOnce = 40;  // One of so many members goes at a time.

std::vector<std::vector<size_t>> MembersOfLayers(const std::vector<int>& layers, const std::vector<size_t>& members) {
  std::vector<std::vector<size_t>> of_layer;
  for (size_t k = 0; k < layers.size(); ++k) {
    const auto layer = static_cast<size_t>(layers[k]);
    if (of_layer.size() <= layer) of_layer.resize(layer + 1);
    of_layer[layer].push_back(members[k]);
  }
  return of_layer;
}

}  // namespace

bool Beats(const Nsga2Member& a, const Nsga2Member& b) {
  return std::tuple(a.violation, a.layer, -a.room) < std::tuple(b.violation, b.layer, -b.room);
}

Nsga2Population::Nsga2Population(int objectives, int size) : objectives_(objectives), size_(static_cast<size_t>(size)) {
  LUTHIER_CHECK(objectives >= 1 && size >= 1);
  if (objectives > kMostCrowdedObjectives) {
    directions_ = pareto::ReferenceDirections(objectives, std::min(size, kMostLines));
  }
}

void Nsga2Population::SetViolations(const std::vector<double>& violations) {
  LUTHIER_CHECK(violations.size() == members_.size());
  for (size_t k = 0; k < members_.size(); ++k) members_[k].violation = violations[k];
}

absl::Status Nsga2Population::Add(Nsga2Member member, const base::StopToken& stop) {
  members_.push_back(std::move(member));
  if (members_.size() < size_ + std::max<size_t>(1, size_ / kResultsAtOnce)) return absl::OkStatus();
  const absl::StatusOr<std::vector<size_t>> survivors = Survivors(stop);
  if (!survivors.ok()) {
    members_.pop_back();
    return survivors.status();
  }
  std::vector<Nsga2Member> left;
  left.reserve(survivors->size());
  for (const size_t k : *survivors) left.push_back(std::move(members_[k]));
  members_ = std::move(left);
  return absl::OkStatus();
}

MatrixXd Nsga2Population::ScoresOf(const std::vector<size_t>& members) const {
  MatrixXd scores(static_cast<Index>(members.size()), objectives_);
  for (size_t k = 0; k < members.size(); ++k) {
    scores.row(static_cast<Index>(k)) = members_[members[k]].scores.transpose();
  }
  return scores;
}

absl::StatusOr<std::vector<size_t>> Nsga2Population::Survivors(const base::StopToken& stop) const {
  std::vector<size_t> feasible, others;
  for (size_t k = 0; k < members_.size(); ++k) (members_[k].violation == 0.0 ? feasible : others).push_back(k);
  std::vector<size_t> survivors;
  if (feasible.size() <= size_) {
    survivors = feasible;
    // Members are in the order in which they came: of equal violations the newest is the last one.
    std::sort(others.begin(), others.end(), [&](size_t a, size_t b) {
      return std::pair(members_[a].violation, b) < std::pair(members_[b].violation, a);
    });
    others.resize(std::min(others.size(), size_ - survivors.size()));
    survivors.insert(survivors.end(), others.begin(), others.end());
  } else {
    LUTHIER_ASSIGN_OR_RETURN(const std::vector<int> layers, pareto::Layers(ScoresOf(feasible), stop));
    for (const std::vector<size_t>& layer : MembersOfLayers(layers, feasible)) {
      const size_t left = size_ - survivors.size();
      if (layer.size() <= left) {
        survivors.insert(survivors.end(), layer.begin(), layer.end());
        continue;
      }
      std::vector<size_t> chosen;
      if (left > 0 && directions_.rows() > 0) {
        LUTHIER_ASSIGN_OR_RETURN(chosen, ChooseByLines(survivors, layer, left, stop));
      } else if (left > 0) {
        chosen = ChooseByRoom(layer, left);
      }
      survivors.insert(survivors.end(), chosen.begin(), chosen.end());
      break;
    }
  }
  std::sort(survivors.begin(), survivors.end());
  return survivors;
}

std::vector<size_t> Nsga2Population::ChooseByRoom(const std::vector<size_t>& last, size_t count) const {
  const VectorXd room = pareto::CrowdingDistances(ScoresOf(last));
  std::vector<size_t> places(last.size());
  for (size_t k = 0; k < places.size(); ++k) places[k] = k;
  std::sort(places.begin(), places.end(), [&](size_t a, size_t b) {
    return std::pair(room(static_cast<Index>(a)), a) > std::pair(room(static_cast<Index>(b)), b);
  });
  std::vector<size_t> chosen;
  for (size_t k = 0; k < count; ++k) chosen.push_back(last[places[k]]);
  return chosen;
}

absl::StatusOr<std::vector<size_t>> Nsga2Population::ChooseByLines(const std::vector<size_t>& before,
                                                                   const std::vector<size_t>& last, size_t count,
                                                                   const base::StopToken& stop) const {
  std::vector<size_t> all = before;
  all.insert(all.end(), last.begin(), last.end());
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<pareto::Niche> niches,
                           pareto::Niches(pareto::Normalized(ScoresOf(all)), directions_, stop));
  struct Line {
    int survivors = 0;
    std::vector<std::pair<double, size_t>> waiting;  // Distance and member, the nearest one last.
  };
  std::vector<Line> lines(static_cast<size_t>(directions_.rows()));
  for (size_t k = 0; k < all.size(); ++k) {
    Line& line = lines[static_cast<size_t>(niches[k].line)];
    if (k < before.size()) {
      ++line.survivors;
    } else {
      line.waiting.emplace_back(niches[k].distance, all[k]);
    }
  }
  for (Line& line : lines) {
    // The newer of equally near ones is the nearer.
    std::sort(line.waiting.begin(), line.waiting.end(), [](const auto& a, const auto& b) {
      return std::pair(-a.first, a.second) < std::pair(-b.first, b.second);
    });
  }
  std::vector<size_t> chosen;
  while (chosen.size() < count) {
    Line* fewest = nullptr;
    for (Line& line : lines) {
      if (line.waiting.empty()) continue;
      if (fewest == nullptr || line.survivors < fewest->survivors) fewest = &line;
    }
    LUTHIER_CHECK(fewest != nullptr);
    chosen.push_back(fewest->waiting.back().second);
    fewest->waiting.pop_back();
    ++fewest->survivors;
    LUTHIER_RETURN_IF_ERROR(stop.Poll(static_cast<int64_t>(lines.size())));
  }
  return chosen;
}

absl::StatusOr<std::vector<Nsga2Member>> Nsga2Population::Ranked(const base::StopToken& stop) const {
  std::vector<Nsga2Member> ranked = members_;
  std::vector<size_t> feasible;
  for (size_t k = 0; k < ranked.size(); ++k) {
    if (ranked[k].violation == 0.0) feasible.push_back(k);
  }
  const MatrixXd scores = ScoresOf(feasible);
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<int> layers, pareto::Layers(scores, stop));
  for (size_t k = 0; k < feasible.size(); ++k) ranked[feasible[k]].layer = layers[k];
  if (directions_.rows() == 0) {
    for (const std::vector<size_t>& layer : MembersOfLayers(layers, feasible)) {
      const VectorXd room = pareto::CrowdingDistances(ScoresOf(layer));
      for (size_t k = 0; k < layer.size(); ++k) ranked[layer[k]].room = room(static_cast<Index>(k));
    }
    return ranked;
  }
  LUTHIER_ASSIGN_OR_RETURN(const std::vector<pareto::Niche> niches,
                           pareto::Niches(pareto::Normalized(scores), directions_, stop));
  std::vector<int> sharing(static_cast<size_t>(directions_.rows()), 0);
  for (const pareto::Niche& niche : niches) ++sharing[static_cast<size_t>(niche.line)];
  for (size_t k = 0; k < feasible.size(); ++k) {
    // Below 1 for any distance, so that it decides between equally many only.
    const double apart = niches[k].distance / (1.0 + niches[k].distance);
    ranked[feasible[k]].room = -sharing[static_cast<size_t>(niches[k].line)] - apart;
  }
  return ranked;
}

}  // namespace luthier::search
