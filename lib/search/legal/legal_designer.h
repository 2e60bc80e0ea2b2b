#ifndef LUTHIER_LIB_SEARCH_LEGAL_LEGAL_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_LEGAL_LEGAL_DESIGNER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// Keeps the promise that every setting asked for is legal, in studies with constraints on parameters. An algorithm
// knows the constraints itself (study::Encoding draws and names legal settings) and suggests legal ones; a setting that
// is illegal all the same is replaced by a random legal one, of origin "legal".
class LegalDesigner final : public Designer {
 public:
  // `spec` has constraints.
  LegalDesigner(const study::StudySpec& spec, std::unique_ptr<Designer> inner)
      : seed_(spec.seed), encoding_(spec.space, spec.constraints), inner_(std::move(inner)) {}

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;
  absl::StatusOr<std::vector<Prediction>> Predict(const study::History& history,
                                                  const std::vector<study::Parameters>& settings,
                                                  const base::StopToken& stop) override {
    return inner_->Predict(history, settings, stop);
  }

 private:
  const uint64_t seed_;
  const study::Encoding encoding_;
  const std::unique_ptr<Designer> inner_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_LEGAL_LEGAL_DESIGNER_H_
