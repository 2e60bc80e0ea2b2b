#ifndef LUTHIER_LIB_SEARCH_NSGA2_POPULATION_H_
#define LUTHIER_LIB_SEARCH_NSGA2_POPULATION_H_

#include <cstdint>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"

namespace luthier::search {

// A result that may become a parent.
struct Nsga2Member {
  int trial = 0;               // Index into History::trials().
  uint64_t setting = 0;        // HistoryTrial::setting.
  std::vector<double> values;  // The values of the study's metrics.
  Eigen::VectorXd scores;      // One an objective, finite; larger is better.
  double violation = 0.0;      // 0 for a result that keeps the bounds, else above 0, possibly infinite.
  // Set by Ranked(). Of two results that keep the bounds the smaller layer is better, then the larger room.
  int layer = 0;
  double room = 0.0;
};

// Returns true if `a` beats `b` in a tournament: by violation, layer and room.
bool Beats(const Nsga2Member& a, const Nsga2Member& b);

// The survivors among the results so far, in the order in which they came. Results enter one by one. Whenever there are
// `size` + floor(size/40) of them, `size` survive (at least one goes):
//   first those that keep the bounds, by layer (pareto::Layers); of the layer that does not fit, up to three
//   objectives, those with the most room (pareto::CrowdingDistances), newer ones before older ones; with more
//   objectives those whose reference lines have the fewest survivors: again and again the line with the fewest, the
//   first of several, takes its nearest member of that layer (Deb & Jain 2014, algorithm 4); then those with the least
//   violation, newer ones before older ones.
// With one result in and one out it is the steady-state form of NSGA-II (Durillo, Nebro, Luna & Alba 2009, "On the
// effect of the steady-state selection scheme in multi-objective genetic algorithms").
class Nsga2Population {
 public:
  // `objectives` and `size` are at least 1.
  Nsga2Population(int objectives, int size);

  void Clear() { members_.clear(); }
  // Sets the violations of all members; one for each, in order.
  void SetViolations(const std::vector<double>& violations);
  // Returns CANCELLED if `stop` was raised; the result has then not entered.
  absl::Status Add(Nsga2Member member, const base::StopToken& stop);
  const std::vector<Nsga2Member>& members() const { return members_; }
  // Returns the members with their layers and rooms. With more than three objectives a member has the more room the
  // fewer share its reference line, then the nearer it is to that. Returns CANCELLED if `stop` was raised.
  absl::StatusOr<std::vector<Nsga2Member>> Ranked(const base::StopToken& stop) const;

 private:
  // Returns the indices of the survivors, ascending.
  absl::StatusOr<std::vector<size_t>> Survivors(const base::StopToken& stop) const;
  // Chooses `count` of the `last` layer beside `before`; indices of members.
  absl::StatusOr<std::vector<size_t>> ChooseByLines(const std::vector<size_t>& before, const std::vector<size_t>& last,
                                                    size_t count, const base::StopToken& stop) const;
  std::vector<size_t> ChooseByRoom(const std::vector<size_t>& last, size_t count) const;
  Eigen::MatrixXd ScoresOf(const std::vector<size_t>& members) const;

  const int objectives_;
  const size_t size_;
  Eigen::MatrixXd directions_;  // Reference lines; there are no rows up to three objectives.
  std::vector<Nsga2Member> members_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_NSGA2_POPULATION_H_
