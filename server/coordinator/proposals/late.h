#ifndef LUTHIER_SERVER_COORDINATOR_PROPOSALS_LATE_H_
#define LUTHIER_SERVER_COORDINATOR_PROPOSALS_LATE_H_

#include <cstdint>

#include "lib/study/study_spec.h"
#include "lib/study/trial.h"

// Settings for asks that cannot wait for the model of their study.
namespace luthier::coordinator {

// Provenance::origin of such a trial. It has no ask index: to the designer it is one that somebody added.
inline constexpr char kLateOrigin[] = "late";

inline bool IsLate(const study::Provenance& provenance) {
  return provenance.origin == kLateOrigin && !provenance.ask_index;
}

// True if asks of the study may get such settings. `reproducible` studies wait, and those whose trials are trained in
// parts. So do studies with few settings, where a blind choice would often repeat a trial.
bool MayBeLate(const study::StudySpec& spec);

// The setting of the late trial `number`: point `number` of a scrambled Sobol sequence of the study's own.
study::Parameters LatePoint(const study::StudySpec& spec, int64_t number);

}  // namespace luthier::coordinator

#endif  // LUTHIER_SERVER_COORDINATOR_PROPOSALS_LATE_H_
