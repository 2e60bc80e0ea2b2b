#ifndef LUTHIER_LIB_SUGGEST_HILLS_H_
#define LUTHIER_LIB_SUGGEST_HILLS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/gp/hyper_inference.h"
#include "lib/gp/hyperparameters.h"
#include "lib/gp/regression.h"
#include "lib/kernels/stationary.h"
#include "lib/suggest/acquisition.h"
#include "lib/suggest/lipschitz.h"

// Where to look once a model expects nothing more of the hill that the record stands on: the expected improvement on
// the best result of all other hills. docs/design/bo.md, "Other basins".
//
// A point stands on the hill with top t unless half way to t the model's mean is lower than at the point itself: the
// pass between the two (after the hill-valley test of Ursem 1999, with the mean in place of evaluations).
// Outputs are those of one regression ("the model"), larger is better.
namespace luthier::suggest {

// What one suggestion hands on to the next.
struct HillsCarry {
  std::vector<int64_t> tops;  // Trials at the tops of known hills, oldest first.
  bool away = false;          // Whether the record stands on one of them.
  double promise = 0.0;       // The logarithm of the expected improvement on the record when it was last maximised,
  int turns = 0;              //   and how often since then that on other hills was instead.
  int64_t elsewhere = 0;      // The best trial on none of them; 0: none.
  int64_t rows = 0;           // That `theta` was found on.
  std::optional<gp::Hyperparameters> theta;  // Of the model of what lies elsewhere.
};
// Empty where no hill is known. Text without line ends or '|', which reads back to the same bits but for theta, a start
// for the next search; anything else is an empty carry.
std::string FormatCarry(const HillsCarry& carry);
HillsCarry ParseHillsCarry(absl::string_view text, int groups);

// The row, of `rows`, with the best output on no hill whose top is a row of `tops`; -1 when there is none. A pass has
// to be lower than the point by a thousandth of the point's height above the worst output. O(rows tops n). CANCELLED,
// here and below: `stop` was raised.
absl::StatusOr<Eigen::Index> BestElsewhere(const gp::Regression& model, const Eigen::MatrixXd& x,
                                           const Eigen::VectorXd& outputs, const std::vector<Eigen::Index>& rows,
                                           const std::vector<Eigen::Index>& tops, const base::StopToken& stop);

// A model of what lies beside the known hills: results better than `level`, all of which are on known hills, count as
// `level`. Its hyperparameters are those of the other results alone: what a hill taught about one part of the space (a
// parameter that matters nowhere on it, say) need not hold elsewhere.
struct ElsewhereModel {
  gp::Regression regression;  // Of (output - offset)/unit: mean 0, deviation 1 over the results up to `level`.
  double offset = 0.0, unit = 1.0;
  double level = 0.0;  // Outputs.
};
// pending: points of open trials, believed to give what is predicted; where that is more than `level` it becomes the
// level. The search for hyperparameters starts from the carried ones and is made when the rows it sees have changed by
// a twentieth; the carry learns its end. Absent when the covariance cannot be factored.
absl::StatusOr<std::optional<ElsewhereModel>> FitElsewhere(const kernels::KernelShape& shape,
                                                           const gp::InferenceOptions& inference,
                                                           const Eigen::MatrixXd& x, const Eigen::VectorXd& outputs,
                                                           double level, const Eigen::MatrixXd& pending,
                                                           HillsCarry* carry, base::RandomStream random,
                                                           const base::StopToken& stop);

// (Log) expected improvement, under a model of what lies elsewhere and in its units, on the highest of its level and
// the passes between the point and the tops: on the slope of a known hill nothing counts but what rises above it.
class ElsewhereAcquisition final : public AcquisitionFunction {
 public:
  // Borrows all. tops: rows. margin: added to the level, in deviations of the other results. bounds: of outputs, or
  // null; record: the value that a point must be able to exceed by them.
  ElsewhereAcquisition(const gp::Regression* model, const ElsewhereModel* elsewhere, Eigen::MatrixXd tops,
                       double margin, bool logarithm, const OutputBounds* bounds = nullptr, double record = 0.0)
      : model_(model),
        elsewhere_(elsewhere),
        tops_(std::move(tops)),
        level_(elsewhere->level + margin * elsewhere->unit),
        bounds_(bounds),
        record_(record),
        settings_{.kind =
                      logarithm ? AcquisitionKind::kLogExpectedImprovement : AcquisitionKind::kExpectedImprovement} {}

  Eigen::VectorXd Values(const Eigen::Ref<const Eigen::MatrixXd>& u) const override;
  double Value(const Eigen::VectorXd& u, Eigen::VectorXd* gradient) const override;

 private:
  const gp::Regression* model_;
  const ElsewhereModel* elsewhere_;
  Eigen::MatrixXd tops_;
  double level_;
  const OutputBounds* bounds_;
  double record_;
  AcquisitionSettings settings_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_HILLS_H_
