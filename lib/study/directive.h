#ifndef LUTHIER_LIB_STUDY_DIRECTIVE_H_
#define LUTHIER_LIB_STUDY_DIRECTIVE_H_

namespace luthier::study {

// The coordinator's word to the worker that holds a lease, in answer to a heartbeat or a report.
enum class Directive {
  kContinue,
  kStop,    // The trial is over, cancelled or pruned: end the run, nothing need be reported.
  kLost,    // The lease is no longer the worker's: end the run.
  kPause,   // The target is reached: save a checkpoint, end the run, and complete it as paused.
  kFinish,  // Somebody asked for the trial's end: end the run, and complete it with what there is.
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_DIRECTIVE_H_
