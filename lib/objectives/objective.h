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
  // Decides the gradients of objectives whose option `gradient` is absent; true and false stand for kFull and kNone.
  GradientUse gradient = GradientUse::kFull;
  // True if the search goes by gradients alone. Otherwise a gradient is given up if it takes more work than trainings
  // whose results would say as much.
  bool by_gradients_alone = false;
  // Direction of the wanted directional derivative (study::Gradient::direction), instead of the full gradient; empty if
  // none is wanted.
  std::vector<double> direction;
  // Accuracy that a gradient needs of the inner problem and the adjoint system: the distance of the weights from their
  // optimum, and the residual. If absent, all digits.
  std::optional<double> tolerance;
  uint64_t seed = 0;    // Seed of the trial: all randomness of the evaluation follows from it and `attempt`.
  int32_t attempt = 1;  // Number of the attempt, from 1.
  // The step of the curve to pause at: training goes on until its point is reported and no further (kPaused). A
  // training that ends before is complete. 0: train to the end.
  int64_t target = 0;
  // Called once, before any report, with true if the checkpoint is used, and its last step. May be empty.
  std::function<void(bool, int64_t)> started;
  // Called once, when training (of the first fold) has its first gradient, which is that of one example with methods
  // that take examples one by one: for measuring how long a worker needs to get there. May be empty.
  std::function<void()> first_gradient;
  // Called with points of the learning curve, steps ascending, on the thread of Evaluate. False: stop now (pruned). May
  // be empty.
  std::function<bool(const study::Measurement&)> report;
  base::StopToken stop;                // Asks to give up: kCancelled.
  const base::Clock* clock = nullptr;  // Times the gradient (Measurement::gradient_seconds). May be null.
  // The checkpoint that a former attempt of the same trial saved last; empty if there is none. A checkpoint that does
  // not fit (other version, data or options; damaged) is ignored: the result is the same, only later.
  std::string checkpoint;
  // Takes bytes from which a later attempt can go on. May be empty.
  std::function<void(std::string)> save_checkpoint;
  // With the option warm_start: the bytes that `save_model` got from another trial of the study. Training starts there
  // if that trial had the same data, split and settings except penalties; otherwise, or if empty, from zero.
  std::string warm_start;
  // Takes the bytes that later trials can start from, when a trial of a study with that option is complete. May be
  // empty.
  std::function<void(std::string)> save_model;
};

enum class EvaluationOutcome {
  kComplete,   // `measurement` is the final one.
  kStopped,    // `report` returned false; `measurement` is its argument.
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
  // Blocks until done; polls the stop every few milliseconds of work. Deterministic: the same parameters, seed and
  // attempt give the same result, bit for bit on one instruction set, resumed or not. Returns INVALID_ARGUMENT if the
  // parameters do not fit the objective's study; everything else is in the result.
  virtual absl::StatusOr<EvaluationResult> Evaluate(const EvaluationContext& context) const = 0;
};

}  // namespace luthier::objectives

#endif  // LUTHIER_LIB_OBJECTIVES_OBJECTIVE_H_
