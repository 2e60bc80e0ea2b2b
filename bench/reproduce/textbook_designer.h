#ifndef LUTHIER_BENCH_REPRODUCE_TEXTBOOK_DESIGNER_H_
#define LUTHIER_BENCH_REPRODUCE_TEXTBOOK_DESIGNER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "lib/gp/hyperparameters.h"
#include "lib/gp/likelihood.h"
#include "lib/kernels/stationary.h"
#include "lib/search/designer.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"

namespace luthier::reproduce {

// What the thesis says matters and our optimizer has no switch for, as it never goes without.
struct TextbookOptions {
  bool standardize = true;    // Outputs to mean 0 and deviation 1; else as they are.
  bool constant_mean = true;  // m ~ N(0, 1), at its most probable; else 0.
  bool replace_stuck = true;  // A proposal within 1e-12 of an earlier point becomes a random one; else it is repeated.
};

// Bayesian optimization as the thesis' algorithm 9 has it and no more: the initial points of `bo`, Matern-5/2 with MAP
// hyperparameters under the thesis' prior, expected improvement by DIRECT. Origins: init, acq, stuck_random, repeat.
class TextbookDesigner final : public search::Designer {
 public:
  TextbookDesigner(const study::StudySpec& spec, const TextbookOptions& options);
  absl::StatusOr<search::Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                             const base::StopToken& stop) override;

 private:
  // The most probable hyperparameters: searches from those carried and from the prior.
  absl::StatusOr<gp::Hyperparameters> Infer(gp::Likelihood* likelihood,
                                            const std::optional<gp::Hyperparameters>& carried, uint64_t ask_index,
                                            const base::StopToken& stop) const;

  study::Encoding encoding_;
  study::Goal goal_;
  uint64_t seed_;
  TextbookOptions options_;
  kernels::KernelShape shape_;
};

}  // namespace luthier::reproduce

#endif  // LUTHIER_BENCH_REPRODUCE_TEXTBOOK_DESIGNER_H_
