#ifndef LUTHIER_LIB_OBJECTIVES_OBJECTIVE_H_
#define LUTHIER_LIB_OBJECTIVES_OBJECTIVE_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/base/clock.h"
#include "lib/base/stop_token.h"
#include "lib/catalogue/objective_info.h"
#include "lib/study/measurement.h"
#include "lib/study/parameters.h"
#include "lib/study/study_spec.h"
#include "lib/study/trial.h"

namespace luthier::objectives {

using study::GradientUse;

// Arguments of one evaluation. Everything referred to must outlive the call.
struct EvaluationContext {
  study::Parameters parameters;  // Valid for the study's space.
  // Objectives whose option `gradient` is absent compute what is named here; true and false are for kFull and kNone.
  GradientUse gradient = GradientUse::kFull;
  // True if the search goes by gradients alone. Else one is given up that takes more work than the trainings whose
  // results would say as much.
  bool by_gradients_alone = false;
  // Along which a directional derivative is asked for (study::Gradient::direction), instead of the full gradient;
  // empty: none is.
  std::vector<double> direction;
  // Accuracy that a gradient needs of the inner problem and the adjoint system: the distance of the weights
  // from their optimum, and the residual. Absent: all digits.
  std::optional<double> tolerance;
  uint64_t seed = 0;    // Seed of the trial: all randomness of the evaluation follows from it and `attempt`.
  int32_t attempt = 1;  // From 1.
  // The step of the curve to pause at: training goes on until its point is reported and no further (kPaused). One that
  // comes to its end before is complete. 0: train to the end.
  int64_t target = 0;
  // Called once, before any report: whether the checkpoint is used, and the last step that it holds. May be empty.
  std::function<void(bool, int64_t)> started;
  // Called once, when training (of the first fold) has its first gradient, of one example with the methods that take
  // them one by one: for measuring how long a worker needs to get there. May be empty.
  std::function<void()> first_gradient;
  // Called with points of the learning curve, steps ascending, on the thread of Evaluate. False: stop now (pruned). May
  // be empty.
  std::function<bool(const study::Measurement&)> report;
  base::StopToken stop;                // Asks to give up: kCancelled.
  const base::Clock* clock = nullptr;  // Times the gradient (Measurement::gradient_seconds). May be null.
  // The checkpoint that a former attempt of the same trial saved last; empty: there is none. One that does not fit
  // (other version, data or options; damaged) is ignored: the result is the same, only later.
  std::string checkpoint;
  // Takes bytes from which a later attempt can go on. May be empty.
  std::function<void(std::string)> save_checkpoint;
  // With the option warm_start: what `save_model` got from another trial of the study. Training starts there, if that
  // one had the same data, split and settings but for penalties; else, or when empty, from zero.
  std::string warm_start;
  // Takes what later trials can start from, when a trial of a study with that option is complete. May be empty.
  std::function<void(std::string)> save_model;
};

enum class EvaluationOutcome {
  kComplete,   // `measurement` is the final one.
  kStopped,    // `report` returned false; `measurement` is what it was called with.
  kPaused,     // `target` was reached; `measurement` is its point. The last checkpoint saved is of this moment.
  kFailed,     // `failure` says why; `measurement` may hold the last finite state.
  kCancelled,  // `stop` was raised; a checkpoint was saved where that is possible. `resumed` and `note` hold as ever.
};

struct EvaluationResult {
  EvaluationOutcome outcome = EvaluationOutcome::kComplete;
  std::optional<study::Measurement> measurement;
  std::optional<study::Failure> failure;
  bool resumed = false;  // The checkpoint was used.
  // Training began with `warm_start`, in this attempt or the one that it goes on from.
  bool warm_started = false;
  // Over the training rows, of all folds together: the solvers' passes, and for the gradient each value of the training
  // problem and each product with its Hessian. 0 where the objective does not count them.
  double passes = 0.0;
  std::string note;  // For people: what the objective decided by itself, and why. May be empty.
};

// A builtin objective of one study, data loaded. Thread-safe: a worker with several slots shares one.
class Objective {
 public:
  virtual ~Objective() = default;
  virtual const catalogue::ObjectiveInfo& info() const = 0;
  // Blocks until done; looks at the stop every few milliseconds of work. Deterministic: the same
  // parameters, seed and attempt give the same result, bit for bit on one instruction set, resumed or not.
  // INVALID_ARGUMENT when the parameters do not fit what the objective was created with; everything else is in the
  // result.
  virtual absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const = 0;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_OBJECTIVE_H_
