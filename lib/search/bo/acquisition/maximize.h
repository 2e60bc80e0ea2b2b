#ifndef LUTHIER_LIB_SEARCH_BO_ACQUISITION_MAXIMIZE_H_
#define LUTHIER_LIB_SEARCH_BO_ACQUISITION_MAXIMIZE_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "Eigen/Core"
#include "absl/status/statusor.h"
#include "lib/base/random.h"
#include "lib/base/stop_token.h"
#include "lib/search/bo/acquisition/acquisition.h"
#include "lib/search/bo/model/ask_key.h"
#include "lib/search/grid/setting_table.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// A box of compact points that contains `centre`. Its sides along discrete coordinates are all of [0, 1], or of length
// 0, where the coordinate is held at the centre's.
struct TrustBox {
  Eigen::VectorXd centre, lower, upper;
};

struct MaximizeOptions {
  int screen_points = 1024;        // Number of scrambled Sobol points that are screened, >= 1.
  int starts = 8;                  // Number of local searches, >= 1.
  int swept_starts = 2;            // Number of starts, the best ones, that are swept first.
  int max_evaluations = 80;        // Limit of one run of L-BFGS.
  int max_rounds = 20;             // Limit of alternations of continuous and discrete search from one start.
  int64_t exhaustive_levels = 16;  // All levels of a discrete coordinate are tried if it has at most this many.
  // Coordinates stay inside this box. Null for the whole cube. Borrowed.
  const TrustBox* box = nullptr;
};

// A legal setting, its model point `u`, and the acquisition there.
struct MaximizeCandidate {
  study::Parameters parameters;
  Eigen::VectorXd u;
  double value = 0.0;
};

struct MaximizeResult {
  // The ends of the local searches with finite values, best first. Equal ones have the order of their starts.
  std::vector<MaximizeCandidate> candidates;
  int not_finite = 0;  // Number of screened values that were NaN or infinite. They are treated as -infinity.
};

struct ScreenOptions {
  int sobol_points = 1024;
  // Numbers of random points around the best known one, with deviations 1e-3 (near) and 0.05 (wide).
  int near_sprays = 10, wide_sprays = 50;
  const TrustBox* box = nullptr;
};

// Returns the compact points, as rows, that a search screens: Sobol points, then the rows of `known`, then near and
// wide sprays around the first of them. A spray is normal; each of its discrete coordinates is drawn anew with
// probability 1/5. With a box, Sobol points lie in it, `known` is moved into it, and sprays are around its centre. In
// more than 20 dimensions about 20 random coordinates of such a Sobol point differ from the centre's (Regis & Shoemaker
// 2013; Eriksson et al. 2019).
Eigen::MatrixXd ScreenPoints(const study::Encoding& encoding, const Eigen::MatrixXd& known,
                             const ScreenOptions& options, base::RandomStream& random);

// Maximises an acquisition over a search space, in four stages:
//   Screening     Evaluates ScreenPoints of the random stream key.Stream("bo/acq").
//   Starts        Takes the best screened point, and draws others without replacement with weights
//                 exp((a - a_max)/range), where range is the deviation of the best 5 % of the values.
//   Sweeps        From the best `swept_starts` starts, moves each continuous coordinate to the best of 32 places along
//                 it, twice. If the objective is nearly a sum of functions of one parameter each, the acquisition has
//                 many local maxima; sweeps find the best one coordinate by coordinate.
//   Local search  Runs bounded L-BFGS over the active continuous coordinates, in units of their lengthscales. Then
//                 improves each active discrete coordinate: all levels if it is categorical or has few, otherwise a
//                 pattern search over levels with steps 1, 2, 4, …. Repeats both until nothing changes, and rounds the
//                 end to a legal setting.
//
// With constraints on parameters (Encoding::legal), illegal points have no value: those of the screening are replaced
// by legal ones, and where L-BFGS ends beyond bounds of sums, an augmented Lagrangian leads along them. All candidates
// are legal. `known` and the box's centre are.
//
// `known` has compact points as rows, best first. `lengthscales` has one entry > 0 a compact coordinate. The result
// depends on the arguments alone. It has no candidates if every value is -infinity or NaN, or if the space has no free
// coordinate. This function and the two below return CANCELLED once `stop` is raised.
absl::StatusOr<MaximizeResult> Maximize(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                        const Eigen::MatrixXd& known, const Eigen::VectorXd& lengthscales,
                                        const AskKey& key, const MaximizeOptions& options, const base::StopToken& stop);

// Maximises without derivatives, by DIRECT (math::MinimizeDirect) over the compact cube. Returns one candidate, or none
// if no value is finite. It serves comparisons with tools that use DIRECT.
absl::StatusOr<MaximizeResult> MaximizeByDirect(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                                const base::StopToken& stop);

// Returns the row of the table with the largest finite acquisition, the first of equal ones. Rows whose entry of
// `excluded` (one a row) is true are left out. Returns std::nullopt if no row is left.
absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverTable(const AcquisitionFunction& acquisition,
                                                                   const SettingTable& table,
                                                                   const std::vector<bool>& excluded,
                                                                   const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_MAXIMIZE_H_
