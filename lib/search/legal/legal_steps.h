#ifndef LUTHIER_LIB_SEARCH_LEGAL_LEGAL_STEPS_H_
#define LUTHIER_LIB_SEARCH_LEGAL_LEGAL_STEPS_H_

#include <optional>
#include <vector>

#include "Eigen/Core"
#include "lib/study/encoding.h"

// Moves within the legal settings of a study (study::LegalSettings), in compact coordinates. Sums are linear in user
// units and curved on a scale LOG or LOGIT, so faces are linearised where a point is.
namespace luthier::search {

// The bounds of a study's sums as functions of a compact point.
class LegalFaces {
 public:
  // `encoding` must outlive the object.
  explicit LegalFaces(const study::Encoding& encoding);

  int size() const { return size_; }
  // Sets `excess` (size() entries) to how far each sum is beyond its bound at `u`, as a share of the sum's range: above
  // 0 is illegal. Sets `slopes` (size() x compact_dim()) to its derivatives by the active continuous coordinates; those
  // by others are 0.
  void Evaluate(const Eigen::VectorXd& u, Eigen::VectorXd* excess, Eigen::MatrixXd* slopes) const;

 private:
  const study::Encoding& encoding_;
  std::vector<std::vector<int>> units_;  // Places of each parameter's scalars among space().differentiable().
  int size_ = 0;
};

// Returns the point next to the border on the way from `legal`, a legal point, to `u`: the last legal one that
// bisection finds. It is `u` itself if that is legal, and may be `legal`.
Eigen::VectorXd PullToLegal(const study::Encoding& encoding, const Eigen::VectorXd& legal, const Eigen::VectorXd& u);

// Returns a legal point near `u` that differs from it in continuous coordinates alone: `u` projected onto the faces
// that it is beyond, one after the other, or else PullToLegal(legal, u). `lower` and `upper` bound the coordinates.
Eigen::VectorXd NearestLegal(const study::Encoding& encoding, const Eigen::VectorXd& legal, const Eigen::VectorXd& u,
                             const Eigen::VectorXd& lower, const Eigen::VectorXd& upper);
// Does the same within the unit cube.
Eigen::VectorXd NearestLegal(const study::Encoding& encoding, const Eigen::VectorXd& legal, const Eigen::VectorXd& u);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_LEGAL_LEGAL_STEPS_H_
