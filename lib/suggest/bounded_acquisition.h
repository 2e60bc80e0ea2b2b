#ifndef LUTHIER_LIB_SUGGEST_BOUNDED_ACQUISITION_H_
#define LUTHIER_LIB_SUGGEST_BOUNDED_ACQUISITION_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/stop_token.h"
#include "lib/study/study_spec.h"
#include "lib/suggest/acquisition.h"
#include "lib/suggest/fantasies.h"
#include "lib/suggest/lipschitz.h"
#include "lib/suggest/observations.h"
#include "lib/suggest/output_transform.h"
#include "lib/suggest/thompson.h"
#include "lib/suggest/truncated.h"

namespace luthier::suggest {

// Bounds on outputs, and the constant they come from: infinite while nothing is known, and with growth FITTED, whose
// slopes differ from parameter to parameter.
struct SlopeBounds {
  std::unique_ptr<OutputBounds> bounds;
  double constant = std::numeric_limits<double>::infinity();
};

// The acquisition to maximise, made of a study's models as its options say, inside Lipschitz bounds where they are on.
// Owns its parts; borrows the states' regressions.
class BoundedAcquisition {
 public:
  // data: the observations the states were fitted to (without open trials), outputs as `transform` gives them.
  // coordinates: tuned parameters, for UCB's schedule. fantasies: of each state, to average improvements over, or none.
  // finite: the points of a draw that is of finitely many (sampler FINITE), else not read. CANCELLED: `stop` was
  // raised.
  static absl::StatusOr<BoundedAcquisition> Create(const study::BoOptions& options, std::vector<ModelState> states,
                                                   const Observations& data, const OutputTransform& transform,
                                                   int coordinates, uint64_t seed, uint64_t ask_index,
                                                   std::vector<Fantasies> fantasies, const Eigen::MatrixXd& finite,
                                                   const base::StopToken& stop);

  // Null when no function could be drawn.
  const AcquisitionFunction* acquisition() const { return top_; }
  // Null without Lipschitz bounds.
  const OutputBounds* bounds() const { return bounds_.bounds.get(); }
  // Their slope; infinite where there is no single one.
  double lipschitz() const { return bounds_.constant; }
  // Largest score measured, in the outputs' units: what the bounds are held against.
  double record() const { return record_; }
  // How often the bounds mattered so far.
  BindCount bind_count() const;

 private:
  BoundedAcquisition() = default;

  SlopeBounds bounds_;
  double record_ = 0.0;
  std::unique_ptr<AcquisitionFunction> base_;
  std::unique_ptr<TruncatedAcquisition> truncated_;
  std::unique_ptr<AcceptRejectAcquisition> accept_;
  const AcquisitionFunction* top_ = nullptr;
};

// UCB's weight by the options' schedule after so many results and open trials.
double RootBetaOf(const study::BoOptions& options, int coordinates, int64_t trials);

// How the options let the constant follow from the largest slope seen. `unit`: of outputs, in units of the metric; by
// it a user's constant is multiplied. Absent with growth FITTED.
std::optional<LipschitzOptions> GrowthOf(const study::BoOptions& options, double unit);

// The bounds that the options and the measured rows of `data` give; inactive while too little is known. CANCELLED:
// `stop` was raised.
absl::StatusOr<SlopeBounds> BoundsFor(const study::BoOptions& options, const Observations& data,
                                      const OutputTransform& transform, double noise_deviation,
                                      const base::StopToken& stop);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_BOUNDED_ACQUISITION_H_
