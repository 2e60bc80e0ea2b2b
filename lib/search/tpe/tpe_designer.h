#ifndef LUTHIER_LIB_SEARCH_TPE_TPE_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_TPE_TPE_DESIGNER_H_

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "lib/search/designer.h"
#include "lib/search/tpe/parzen.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Checks the options. Returns INVALID_ARGUMENT with fields "algorithm.tpe.…".
absl::Status ValidateTpe(const study::StudySpec& spec, const study::TpeOptions& options);

// The tree-structured Parzen estimator. It draws `candidates` settings from a density l of good settings and suggests
// the one with the largest l/g, where g is the density of the others.
//
//   l  the best min(ceil(n/10), 25) (SQRT: min(ceil(sqrt(n)/4), 25)) of n results; COMPLETE ones by value, then PRUNED
//      ones by how far they got, then by value; ties to the smaller number
//      With bounds on metrics, COMPLETE ones that keep them come before the others, and these are in order of their
//      violation. With several objectives, those that keep the bounds are in order of their non-domination layer; of
//      the layer that does not fit, those that add most to the hypervolume, one after the other (Ozaki, Tanigaki,
//      Watanabe & Onishi 2020, "Multiobjective tree-structured Parzen estimator").
//   g  the others, settings that FAILED by their own fault, and pending trials, so that workers do not all try the
//      same
//
// Trials enter in order of number, so the order in which results arrive changes nothing. Cancelled trials and failures
// that say nothing about the setting are left out. The first `startup_trials` results come from ExplorationPoint: point
// for point random search.
//
// Parameters that exist together (the same condition, or none) form a group with one joint mixture of products;
// groups are drawn one after the other, parents first, each from the trials in which it exists. Without `multivariate`
// every parameter is a group of its own. Origin "random" at the start, then "tpe"; details: below, above (trials in l
// and g), log_ratio (sum over groups of ln l - ln g at the chosen setting).
class TpeDesigner final : public Designer {
 public:
  TpeDesigner(const study::StudySpec& spec, const study::TpeOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  struct Split {
    std::vector<int> good, rest;  // Indices of trials, ascending.
  };
  // Data of each trial's setting, by index. They are a function of the settings alone and are kept from ask to ask,
  // since computing them takes longer than a suggestion does.
  struct Known {
    std::vector<uint64_t> settings;  // HistoryTrial::setting.
    std::vector<double> u;           // Compact coordinates, a row each.
    std::vector<bool> active;        // By group, a row each.
    // For each coordinate its values with their trials, in order.
    std::vector<std::vector<std::pair<double, int>>> order;
  };

  // A trial with a value. Smaller is better, in order of the fields.
  struct Ranked {
    bool pruned = false;
    int64_t minus_step = 0;  // PRUNED: minus the last step.
    double violation = 0.0;
    double loss = 0.0;  // Or, with several objectives, the place among the trials that keep the bounds.
    size_t trial = 0;
    friend auto operator<=>(const Ranked&, const Ranked&) = default;
  };

  // Returns std::nullopt before there are enough results.
  absl::StatusOr<std::optional<Split>> SplitTrials(const study::History& history, const base::StopToken& stop) const;
  // Sets the losses of COMPLETE trials that keep the bounds to their places: `count` of them are the best.
  absl::Status RankByLayers(const study::History& history, int64_t count, std::vector<Ranked>* ranked,
                            const base::StopToken& stop) const;
  // Keeps only the trials before `first` in known_.
  void Forget(size_t first);
  // Brings known_ up to date. Here and below the functions return CANCELLED if `stop` was raised; known_ then holds
  // fewer trials.
  absl::Status Remember(const std::vector<study::HistoryTrial>& trials, const base::StopToken& stop);
  absl::StatusOr<ParzenMixture> Mixture(const std::vector<int>& trials, size_t group,
                                        const base::StopToken& stop) const;
  // Sets the group's coordinates in `u`. Returns ln l - ln g there.
  absl::StatusOr<double> Choose(const Split& split, size_t group, uint64_t ask_index, Eigen::VectorXd* u,
                                const base::StopToken& stop) const;
  // Returns the best of the legal ones among candidates of all groups together: its compact point, and ln l - ln g
  // there. Draws further candidates while all are illegal, and returns std::nullopt if all of them are.
  absl::StatusOr<std::optional<std::pair<Eigen::VectorXd, double>>> ChooseLegal(const Split& split, uint64_t ask_index,
                                                                                const base::StopToken& stop) const;

  const study::StudySpec spec_;
  const study::Encoding encoding_;
  const study::Goal goal_;
  const study::TpeOptions options_;
  const uint64_t seed_;
  std::vector<study::CompactColumn> columns_;  // By compact coordinate.
  std::vector<std::vector<int>> groups_;       // Compact coordinates.
  std::vector<int> group_of_;                  // By compact coordinate.
  Known known_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_TPE_TPE_DESIGNER_H_
