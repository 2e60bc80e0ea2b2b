#ifndef LUTHIER_LIB_SUGGEST_CMA_ES_DESIGNER_H_
#define LUTHIER_LIB_SUGGEST_CMA_ES_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "Eigen/Core"
#include "absl/status/status.h"
#include "lib/study/encoding.h"
#include "lib/suggest/cma_es.h"
#include "lib/suggest/designer.h"

namespace luthier::suggest {

// INVALID_ARGUMENT with fields "algorithm.cma_es…".
absl::Status ValidateCmaEs(const study::StudySpec& spec, const study::CmaEsOptions& options);

// CMA-ES (cma_es.h) over a study's history. Every ask is one more sample of the current generation, however many are
// open; the generation ends with its first lambda usable results in log order, and what arrives later for it is left
// out. The generation's number is the suggestion's carry; everything else is computed again from the log, the samples
// from their streams (seed, "cma_es", ask index). Nobody else's settings take part: a covariance knows nothing of them.
//
// Results of a generation are ranked: COMPLETE by value, then PRUNED by how far they got and then by value, then FAILED
// for a fault of the setting and PRUNED without a value; ties to the smaller ask index. Cancelled trials and failures
// that say nothing are passed over; further asks fill their places.
//
// A run that has collapsed, or whose results are all the same or have not improved for long, starts again with twice
// the population around a random point (IPOP, Auger & Hansen 2005), unless `restarts` is off. Origin "cma_es"; details:
// generation, population, restart, sigma.
class CmaEsDesigner final : public Designer {
 public:
  CmaEsDesigner(const study::StudySpec& spec, const study::CmaEsOptions& options);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;

 private:
  // A final result, as far as the run depends on it.
  struct Result {
    int64_t number = 0;
    std::optional<uint64_t> ask_index;
    study::TrialState state = study::TrialState::kPending;
    std::optional<double> value;
    int64_t step = 0;
    bool usable = false;
    int64_t generation = -1;
    friend bool operator==(const Result&, const Result&) = default;
  };
  // One of the current generation. Smaller is better, in order of the fields.
  struct Ranked {
    int rank = 0;  // 0 complete, 1 pruned with a value, 2 without any.
    int64_t minus_step = 0;
    double loss = 0.0;
    uint64_t ask_index = 0;
    Eigen::VectorXd latent;
  };

  Result ToResult(const study::HistoryTrial& trial) const;
  // The state before any result.
  void Reset();
  void Take(const Result& result);
  void EndGeneration();
  bool Stagnates() const;
  CmaEs NewRun(int restart) const;
  CmaEs::Sample SampleOf(uint64_t ask_index) const;

  const study::Encoding encoding_;
  const study::Goal goal_;
  const study::CmaEsOptions options_;
  const uint64_t seed_;
  std::vector<CompactColumn> columns_;
  Eigen::VectorXd centre_;  // Compact point where the first run begins.

  // A cache of what follows from the results in `taken_`.
  std::vector<Result> taken_;
  int restart_ = 0;
  int64_t generation_ = 0;  // Over all runs.
  std::vector<Ranked> finished_;
  std::vector<double> best_, median_;  // Losses of the run's generations; only of complete ones.
  std::optional<CmaEs> run_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_CMA_ES_DESIGNER_H_
