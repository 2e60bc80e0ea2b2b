#ifndef LUTHIER_LIB_SEARCH_NSGA2_NSGA2_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_NSGA2_NSGA2_DESIGNER_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/search/nsga2/population.h"
#include "lib/search/nsga2/variation.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Checks the options. Returns INVALID_ARGUMENT with fields "algorithm.nsga2.…".
absl::Status ValidateNsga2(const study::StudySpec& spec, const study::Nsga2Options& options);

// NSGA-II (Deb, Pratap, Agarwal & Meyarivan 2002) over a study's history, without generations: COMPLETE results enter
// the population (population.h) in log order, and each ask takes two parents from it, each the better of two random
// members, and suggests a child of theirs (variation.h). A child that is a member's setting is drawn anew, up to ten
// times. Under constraints on parameters an illegal child is drawn anew up to a hundred times, and then pulled towards
// its first parent until it is legal. The first `population` asks, and those before two results have come, are
// ExplorationPoint: point for point random search. Settings of users join the population like any other.
//
// Violations are those of study::Violation, with spreads that are computed again whenever the number of COMPLETE
// results has grown by an eighth.
//
// An ask takes in the results that are new, and its cost does not depend on the number of the others. With rungs, where
// the history changes as trials go on, it compares them with those of the ask before, some nanoseconds for each. Origin
// "random" at first, then "nsga2"; details: first_parent, second_parent (numbers of trials), population.
class Nsga2Designer final : public Designer {
 public:
  static constexpr int kDefaultPopulation = 40;

  Nsga2Designer(const study::StudySpec& spec, const study::Nsga2Options& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // Fields of a final result on which suggestions depend.
  struct Result {
    int trial = 0;  // Index into History::trials().
    uint64_t setting = 0;
    bool usable = false;  // COMPLETE with all of its values, at `place` in values_.
    size_t place = 0;
  };

  Result ToResult(const study::History& history, int trial) const;
  // Returns true if the results taken so far are the first of this history. In a study without a resource results stay
  // as they are (History::Remove), so that only the newest and those of the members are compared.
  absl::StatusOr<bool> IsContinued(const study::History& history, const base::StopToken& stop) const;
  void Reset();
  // Takes in one more result. Returns CANCELLED if `stop` was raised; nothing has changed then.
  absl::Status Take(const study::History& history, int trial, const base::StopToken& stop);
  double ViolationOf(const std::vector<double>& values) const;
  absl::StatusOr<Suggestion> Breed(const study::History& history, uint64_t ask_index,
                                   const base::StopToken& stop) const;

  const study::StudySpec spec_;
  const study::Encoding encoding_;
  const Nsga2Variation variation_;
  const uint64_t startup_;
  const bool bounds_;

  // Cache: everything below follows from the results in `taken_`.
  std::vector<Result> taken_;
  std::vector<std::vector<double>> values_;  // The values of the usable ones, in order.
  size_t next_spreads_ = 1;                  // Size of values_ at which the spreads are computed again.
  std::vector<double> spreads_;
  Nsga2Population population_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_NSGA2_NSGA2_DESIGNER_H_
