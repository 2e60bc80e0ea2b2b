#ifndef LUTHIER_LIB_SEARCH_BO_TURNS_LABELS_H_
#define LUTHIER_LIB_SEARCH_BO_TURNS_LABELS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/bo/acquisition/maximize.h"
#include "lib/search/bo/turns/ask.h"
#include "lib/search/bo/turns/bo_model.h"

// Labels that a few unlucky trials must not end: every label keeps a floor of trials. docs/design/labels.md.
namespace luthier::search {

// A label whose turn it is.
struct DueLabel {
  int coordinate = 0;   // Compact coordinate of its parameter.
  int64_t level = 0;    // Its number there.
  double trials = 0.0;  // Its trials so far: open ones count, too, and PRUNED ones half.
  // The scores of its COMPLETE trials are at most this; std::nullopt without one.
  std::optional<double> best;
  // The settings with the label: it and the parents that it needs are held.
  TrustBox held;
};

// Returns the label that has fewer trials than its floor, of several the one that lacks most, if it is a label's turn:
// the least share of its floor first, then the best result, then the order of the space. Call it with the model of the
// ask.
//
//   labels  the values of each categorical parameter and switch, and of each discrete parameter with conditions on it,
//           if it has at most 16
//   floor   3 (t + 1) trials for t numbers that are tuned with the label, 4 to 16; from 64 trials of the study on half
//           of that more whenever these double
//   known   a label with 4 trials is left alone while the model's mean is 8 deviations below the value to beat at each
//           of 64 Sobol points with it: then it knows that the label is bad, rather than having seen no good setting
//   turns   at most one ask in 3 after the initial design, or in half as many as there are labels if these are more
//   than 6
//
// Studies of older rules, of several objectives, and with spaces without labels have none.
absl::StatusOr<std::optional<DueLabel>> LabelTurn(const BoStudy& study, const Ask& ask, const BoModel& model);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_TURNS_LABELS_H_
