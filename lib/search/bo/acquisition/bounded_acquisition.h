#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_BOUNDED_ACQUISITION_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_BOUNDED_ACQUISITION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/acquisition/fantasies.h"
#include "lib/search/bo/acquisition/thompson.h"
#include "lib/search/bo/acquisition/truncated.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"
#include "lib/search/bo/model/ask_key.h"
#include "lib/search/bo/model/observations.h"
#include "lib/search/bo/model/output_transform.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// Bounds on outputs, and the Lipschitz constant behind them. The constant is infinite while too little is known.
struct SlopeBounds {
  std::unique_ptr<OutputBounds> bounds;
  double constant = std::numeric_limits<double>::infinity();
};

// The models that an acquisition judges settings by. References are borrowed.
struct AcquisitionModels {
  const Observations& data;          // The results that the states were fitted to.
  const OutputTransform& transform;  // Gives the outputs of the data.
  int coordinates = 0;               // Number of tuned parameters, for UCB's schedule.
  std::vector<ModelState> states;
  std::vector<Fantasies> fantasies;  // One a state, over which improvements are averaged; or empty.
};

// The acquisition to maximise: a study's models combined as its options say, inside Lipschitz bounds if these are on.
// Owns its parts; borrows the states' regressions.
class BoundedAcquisition {
 public:
  // Returns CANCELLED if `stop` was raised.
  static absl::StatusOr<BoundedAcquisition> Create(const study::BoOptions& options, AcquisitionModels models,
                                                   const AskKey& key, const base::StopToken& stop);

  // Returns the acquisition; null if no function could be drawn.
  const AcquisitionFunction* acquisition() const { return top_; }
  // Returns the Lipschitz bounds; null without them.
  const OutputBounds* bounds() const { return bounds_.bounds.get(); }
  // Returns the slope of the bounds; infinite while too little is known.
  double lipschitz() const { return bounds_.constant; }
  // Returns the largest score of a feasible result, in the outputs' units. The bounds are compared with it.
  double incumbent() const { return incumbent_; }
  // Returns how often the bounds mattered so far.
  BindCount bind_count() const;

 private:
  BoundedAcquisition() = default;

  SlopeBounds bounds_;
  double incumbent_ = 0.0;
  std::unique_ptr<AcquisitionFunction> base_;
  std::unique_ptr<TruncatedAcquisition> truncated_;
  std::unique_ptr<AcceptRejectAcquisition> accept_;
  const AcquisitionFunction* top_ = nullptr;
};

// Returns UCB's weight by the options' schedule, given the number of results and pending trials.
double RootBetaOf(const study::BoOptions& options, int coordinates, int64_t trials);

// Returns the user's constant; std::nullopt if the constant follows from the largest slope seen. `unit` converts slopes
// of the metric to slopes of the outputs.
std::optional<double> KnownConstant(const study::BoOptions& options, double unit);

// Returns the bounds that follow from the options and the measured rows of `data`; they are inactive while too little
// is known. Returns CANCELLED if `stop` was raised.
absl::StatusOr<SlopeBounds> BoundsFor(const study::BoOptions& options, const Observations& data,
                                      const OutputTransform& transform, double noise_deviation,
                                      const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_BOUNDED_ACQUISITION_H_
