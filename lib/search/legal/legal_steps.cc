#include "lib/search/legal/legal_steps.h"

#include <algorithm>
#include <cmath>

namespace luthier::search {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

namespace {

constexpr int kBisections = 40;
constexpr int kSweepsOfFaces = 50;
constexpr double kInset = 1e-9;  // Projections end so far inside, as a share of a sum's range.

}  // namespace

LegalFaces::LegalFaces(const study::Encoding& encoding)
    : encoding_(encoding), units_(static_cast<size_t>(encoding.space().size())) {
  if (encoding.legal() == nullptr) return;
  const std::vector<study::Scalar>& differentiable = encoding.space().differentiable();
  for (size_t k = 0; k < differentiable.size(); ++k) {
    units_[static_cast<size_t>(differentiable[k].parameter)].push_back(static_cast<int>(k));
  }
  for (const study::LegalSettings::Row& row : encoding.legal()->rows()) {
    size_ += (std::isfinite(row.at_most) ? 1 : 0) + (std::isfinite(row.at_least) ? 1 : 0);
  }
}

void LegalFaces::Evaluate(const VectorXd& u, VectorXd* excess, MatrixXd* slopes) const {
  excess->setZero(size_);
  slopes->setZero(size_, u.size());
  if (size_ == 0) return;
  const study::LegalSettings& legal = *encoding_.legal();
  const study::Parameters setting = encoding_.FromCompact(u);
  const std::vector<double> values = legal.ValuesOf(setting);
  VectorXd user_per_unit = VectorXd::Zero(u.size());
  for (const int parameter : legal.deciding()) {
    const std::vector<int>& units = units_[static_cast<size_t>(parameter)];
    const int first = encoding_.coordinate_of(parameter);
    for (size_t element = 0; first >= 0 && element < units.size(); ++element) {
      user_per_unit(first + static_cast<int>(element)) = encoding_.UserPerUnit(units[element], setting);
    }
  }
  Index face = 0;
  const auto set = [&](const study::LegalSettings::Row& row, double sign, double bound, double sum) {
    (*excess)(face) = sign * (sum - bound) / row.range;
    for (const auto& [place, weight] : row.weights) {
      const int parameter = legal.deciding()[static_cast<size_t>(place)];
      const Index first = encoding_.coordinate_of(parameter);
      const auto width = static_cast<Index>(units_[static_cast<size_t>(parameter)].size());
      if (first < 0 || width == 0) continue;
      slopes->row(face).segment(first, width) =
          sign * weight / row.range * user_per_unit.segment(first, width).transpose();
    }
    ++face;
  };
  for (const study::LegalSettings::Row& row : legal.rows()) {
    const double sum = legal.SumOf(row, values);
    if (std::isfinite(row.at_most)) set(row, 1.0, row.at_most, sum);
    if (std::isfinite(row.at_least)) set(row, -1.0, row.at_least, sum);
  }
}

VectorXd PullToLegal(const study::Encoding& encoding, const VectorXd& legal, const VectorXd& u) {
  if (encoding.IsLegalAt(u)) return u;
  double inside = 0.0, outside = 1.0;
  for (int k = 0; k < kBisections; ++k) {
    const double middle = 0.5 * (inside + outside);
    (encoding.IsLegalAt(legal + middle * (u - legal)) ? inside : outside) = middle;
  }
  return legal + inside * (u - legal);
}

VectorXd NearestLegal(const study::Encoding& encoding, const VectorXd& legal, const VectorXd& u, const VectorXd& lower,
                      const VectorXd& upper) {
  const LegalFaces faces(encoding);
  VectorXd at = u, excess;
  MatrixXd slopes;
  for (int sweep = 0; sweep < kSweepsOfFaces && faces.size() > 0; ++sweep) {
    if (encoding.IsLegalAt(at)) return at;
    faces.Evaluate(at, &excess, &slopes);
    const VectorXd from = at;
    for (Index face = 0; face < faces.size(); ++face) {
      const double here = excess(face) + slopes.row(face).dot(at - from);
      const double square = slopes.row(face).squaredNorm();
      if (here <= -kInset || !(square > 0.0)) continue;
      at -= (here + kInset) / square * slopes.row(face).transpose();
      at = at.cwiseMax(lower).cwiseMin(upper);
    }
  }
  return PullToLegal(encoding, legal, encoding.IsLegalAt(at) ? at : u);
}

VectorXd NearestLegal(const study::Encoding& encoding, const VectorXd& legal, const VectorXd& u) {
  return NearestLegal(encoding, legal, u, VectorXd::Zero(u.size()), VectorXd::Ones(u.size()));
}

}  // namespace luthier::search
