#ifndef LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "lib/search/cma_es/cma_es.h"
#include "lib/search/designer.h"
#include "lib/search/designer_state.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Checks the options. Returns INVALID_ARGUMENT with fields "algorithm.cma_es…".
absl::Status ValidateCmaEs(const study::StudySpec& spec, const study::CmaEsOptions& options);

// CMA-ES (cma_es.h) over a study's history. Every ask is one more sample of the current generation, however many are
// pending. The generation ends with its first lambda usable results in log order; its later results are ignored. The
// generation's number is the suggestion's designer state (CmaEsState). Everything else is computed again from the log,
// the samples from their streams (seed, "cma_es", ask index). Settings that the distribution did not draw are ignored:
// those of users and other algorithms, and those that replaced a sample (UntriedDesigner, open spaces).
//
// Results of a generation are ranked: COMPLETE by value (those that keep the bounds of metrics before the others, which
// are in order of their violation, with the spreads of all results until the generation's end), then PRUNED by how far
// they got and then by value, then FAILED for a fault of the setting and PRUNED without a value; ties to the smaller
// ask index. Cancelled trials and failures that say nothing about the setting are ignored; further asks fill their
// places.
//
// With constraints on parameters a sample is drawn anew up to 100 times until it is legal; after that a random legal
// setting is suggested, which no run learns from. Runs begin at legal points.
//
// A run starts again with twice the population around a random point (IPOP, Auger & Hansen 2005) if it has collapsed,
// if its results are all the same, or if they have not improved for long. Origin "cma_es"; details: generation,
// population, restart, sigma.
struct CmaEsState {
  int64_t generation = 0;
};
template <>
inline constexpr auto kStateFields<CmaEsState> = std::tuple(&CmaEsState::generation);
inline constexpr char kCmaEsStateKind[] = "cma_es/1";

class CmaEsDesigner final : public Designer {
 public:
  CmaEsDesigner(const study::StudySpec& spec, const study::CmaEsOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // Fields of a final result on which the run depends.
  struct Result {
    int64_t number = 0;
    std::optional<uint64_t> ask_index;
    uint64_t setting = 0;  // study::HashOf.
    study::TrialState state = study::TrialState::kPending;
    std::optional<double> value;
    std::vector<double> values;  // HistoryTrial::values.
    int64_t step = 0;
    bool usable = false;
    int64_t generation = -1;
    friend bool operator==(const Result&, const Result&) = default;
  };
  // A result of the current generation. Smaller is better, in order of the fields.
  struct Ranked {
    int rank = 0;  // 0 complete, 1 pruned with a value, 2 without any.
    int64_t minus_step = 0;
    double violation = 0.0;
    double loss = 0.0;
    uint64_t ask_index = 0;
    Eigen::VectorXd latent;
    std::vector<double> values;
  };

  Result ToResult(const study::HistoryTrial& trial) const;
  // Restores the state before any result.
  void Reset();
  void Take(const Result& result);
  // Fills in the violations of finished_.
  void TakeViolations();
  void EndGeneration();
  bool Stagnates() const;
  CmaEs NewRun(int restart) const;
  CmaEs::Sample SampleOf(uint64_t ask_index) const;

  const study::StudySpec spec_;
  const study::Encoding encoding_;
  const study::Goal goal_;
  const study::CmaEsOptions options_;
  const uint64_t seed_;
  std::vector<study::CompactColumn> columns_;
  Eigen::VectorXd centre_;  // Compact point at which the first run begins.

  // Cache: everything below follows from the results in `taken_`.
  std::vector<Result> taken_;
  int restart_ = 0;
  int64_t generation_ = 0;  // Number over all runs.
  std::vector<Ranked> finished_;
  std::vector<double> best_, median_;  // Losses of the run's generations, of COMPLETE results that keep the bounds.
  std::optional<CmaEs> run_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_CMA_ES_CMA_ES_DESIGNER_H_
