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
#include "lib/search/grid/setting_table.h"
#include "lib/study/encoding.h"

namespace luthier::search {

// A box of compact points around `centre`, which it holds. Discrete coordinates have all of [0, 1].
struct TrustBox {
  Eigen::VectorXd centre, lower, upper;
};

struct MaximizeOptions {
  int screen_points = 1024;        // Scrambled Sobol points of the screening, >= 1.
  int starts = 8;                  // Local searches, >= 1: the best screened point and others by Boltzmann weights.
  int swept_starts = 2;            // Starts, best first, that are improved coordinate by coordinate first.
  int max_evaluations = 80;        // Per L-BFGS run.
  int max_rounds = 20;             // Alternations of the continuous and the discrete block per start.
  int64_t exhaustive_levels = 16;  // A discrete coordinate of at most so many levels is searched level by level.
  // When not null, continuous coordinates stay inside it, see ScreenPoints. Borrowed.
  const TrustBox* box = nullptr;
};

// A legal setting, its model point and the acquisition there.
struct MaximizeCandidate {
  study::Parameters parameters;
  Eigen::VectorXd u;
  double value = 0.0;
};

struct MaximizeResult {
  std::vector<MaximizeCandidate> candidates;  // One a start, best first (ties: earlier start). Values are finite.
  int not_finite = 0;                         // Screened values that were NaN or infinite: counted as -infinity.
};

struct ScreenOptions {
  int sobol_points = 1024;
  int near_sprays = 10, wide_sprays = 50;  // Around the best known point: deviations 1e-3 and 0.05.
  const TrustBox* box = nullptr;
};

// The compact points at which a search begins, see Maximize. In a box: Sobol points in it, of each of which only about
// 20 coordinates, at random, differ from the centre's when there are more (Regis & Shoemaker 2013; Eriksson et al.
// 2019), known points moved into it, and sprays around its centre.
Eigen::MatrixXd ScreenPoints(const study::Encoding& encoding, const Eigen::MatrixXd& known,
                             const ScreenOptions& options, base::RandomStream& random);

// Maximises an acquisition over a search space.
//
// Screening: scrambled Sobol points of the stream (seed, "bo/acq", index), `known` points, and 10 + 50 points sprayed
// around the best known one (normal, deviations 1e-3 and 0.05; each discrete coordinate anew with probability 1/5).
// Starts: the best of them and others drawn without replacement with weights exp((a - a_max)/range), range = deviation
// of the top 5 %. Sweeps: the first starts move each continuous coordinate to the best of 32 places along it, twice:
// where the objective is nearly a sum of functions of one parameter, the acquisition has many maxima, the number
// growing like a power of the dimension, and coordinates lead to the best of them one by one. Local search: bounded
// L-BFGS over the active continuous coordinates in units of their lengthscales; then each active discrete coordinate in
// turn: all levels when there are few or it is categorical, else a pattern search over the level index with steps 1, 2,
// 4, …; both again until nothing changes. Ends are snapped to legal settings.
//
// known: compact points as rows, best first. lengthscales: one a compact coordinate, > 0. Deterministic in its
// arguments. No candidates when every value is -infinity or NaN, or when the space has no free coordinate. CANCELLED,
// here and below: `stop` was raised.
absl::StatusOr<MaximizeResult> Maximize(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                        const Eigen::MatrixXd& known, const Eigen::VectorXd& lengthscales,
                                        uint64_t seed, uint64_t index, const MaximizeOptions& options,
                                        const base::StopToken& stop);

// The same by DIRECT (math::MinimizeDirect) over the compact cube, derivative-free: one candidate, or none when no
// value is finite. For comparison with tools that have nothing else.
absl::StatusOr<MaximizeResult> MaximizeByDirect(const AcquisitionFunction& acquisition, const study::Encoding& encoding,
                                                const base::StopToken& stop);

// The row of the table with the largest finite acquisition among those not excluded; ties to the first. Returns
// std::nullopt if there is none. excluded.size() == table.size().
absl::StatusOr<std::optional<MaximizeCandidate>> MaximizeOverTable(const AcquisitionFunction& acquisition,
                                                                   const SettingTable& table,
                                                                   const std::vector<bool>& excluded,
                                                                   const base::StopToken& stop);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_BO_ACQUISITION_MAXIMIZE_H_
