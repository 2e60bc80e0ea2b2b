#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_BASINS_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_BASINS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/lipschitz/slope_bounds.h"

// The search in other basins, once a model expects no further improvement in the incumbent's basin: expected
// improvement on the best result of all other basins. docs/design/bo.md, "Other basins".
//
// A point belongs to the basin with maximum t unless the model's mean half way between the two, at the saddle, is lower
// than at the point itself (after the hill-valley test of Ursem 1999, with the mean in place of evaluations). Outputs
// are those of one regression ("the model"); larger is better.
namespace luthier::search {

// The designer state of the search in other basins.
struct BasinsState {
  std::vector<int64_t> maxima;               // Trials at the maxima of known basins, oldest first.
  bool away = false;                         // True if the incumbent is in one of them.
  double log_ei = 0.0;                       // Log expected improvement on the incumbent when it was last maximised.
  int turns = 0;                             // Asks since then that maximised the improvement in other basins instead.
  int64_t best_other = 0;                    // Best trial in none of the basins; 0: there is none.
  int64_t rows = 0;                          // Number of rows that `theta` was found on.
  std::optional<gp::Hyperparameters> theta;  // Hyperparameters of the model of other basins.
};

// Returns true if the whole space is searched again: the incumbent is in no known basin, or as many asks in a row have
// searched other basins as the improvement that was left on the incumbent allows. The model of all results may know
// better where to search than that of the other basins. Its turns get rarer as the improvement that it finds gets
// smaller.
bool WholeSpaceIsDue(const BasinsState& state);

// Returns the row, of `rows`, with the best output in no basin whose maximum is a row of `maxima`; -1 if there is none.
// A saddle counts if it is lower than the point by at least a thousandth of the point's height above the worst output.
// O(rows maxima n). Here and below the functions return CANCELLED if `stop` was raised.
absl::StatusOr<Eigen::Index> BestInOtherBasins(const gp::Regression& model, const Eigen::MatrixXd& x,
                                               const Eigen::VectorXd& outputs, const std::vector<Eigen::Index>& rows,
                                               const std::vector<Eigen::Index>& maxima, const base::StopToken& stop);

// A model of the space beside the known basins. Results better than `level`, all of which are in known basins, count as
// `level`. Hyperparameters are fitted to the other results alone, because what holds in a known basin (that a parameter
// has no effect there, say) need not hold elsewhere.
struct OtherBasinsModel {
  gp::Regression regression;  // Model of (output - offset)/unit: mean 0, deviation 1 over the results up to `level`.
  double offset = 0.0, unit = 1.0;
  double level = 0.0;  // Outputs.
};
// The results that it is fitted to. References are borrowed.
struct OtherBasinsData {
  const Eigen::MatrixXd& x;        // n x d points.
  const Eigen::VectorXd& outputs;  // n.
  const Eigen::MatrixXd& pending;  // q x d points of pending trials.
  double level = 0.0;              // The best output in other basins.
};
// Fits that model. The pending trials are assumed to give the predicted mean; a prediction above the level becomes the
// level. Hyperparameters are searched for, starting from those in `state`, once the number of rows that the search sees
// has changed by a twentieth; `state` then takes the result. Returns std::nullopt if no output is at or below `level`,
// or if the covariance cannot be factored.
absl::StatusOr<std::optional<OtherBasinsModel>> FitOtherBasins(const kernels::KernelShape& shape,
                                                               const gp::InferenceOptions& inference,
                                                               const OtherBasinsData& data, BasinsState* state,
                                                               base::RandomStream random, const base::StopToken& stop);

// (Log) expected improvement under a model of other basins, in its units. The value to beat at a point is the largest
// of the model's level and of the saddles between the point and the known maxima, so on the slope of a known basin only
// values above the saddle are improvements.
class OtherBasinsAcquisition final : public AcquisitionFunction {
 public:
  // Borrows every pointer. `maxima` has the known maxima as rows. `margin` is added to the level, in deviations of the
  // other results. `bounds` are bounds of outputs, or null; a point counts only if they allow it to exceed `incumbent`.
  OtherBasinsAcquisition(const gp::Regression* model, const OtherBasinsModel* elsewhere, Eigen::MatrixXd maxima,
                         double margin, bool logarithm, const OutputBounds* bounds = nullptr, double incumbent = 0.0)
      : model_(model),
        elsewhere_(elsewhere),
        maxima_(std::move(maxima)),
        level_(elsewhere->level + margin * elsewhere->unit),
        bounds_(bounds),
        incumbent_(incumbent),
        settings_{.kind =
                      logarithm ? AcquisitionKind::kLogExpectedImprovement : AcquisitionKind::kExpectedImprovement} {}

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  const gp::Regression* model_;
  const OtherBasinsModel* elsewhere_;
  Eigen::MatrixXd maxima_;
  double level_;
  const OutputBounds* bounds_;
  double incumbent_;
  AcquisitionSettings settings_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_BASINS_H_
