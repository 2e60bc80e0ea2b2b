#ifndef LUTHIER_LIB_STUDY_ENCODING_H_
#define LUTHIER_LIB_STUDY_ENCODING_H_

#include <Eigen/Core>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lib/base/random.h"
#include "lib/study/legal_settings.h"
#include "lib/study/search_space.h"

namespace luthier::study {

// The one way a search space becomes numbers. Two coordinate systems, both in the unit cube:
//
//  * compact: one coordinate for each scalar (search_space.h) of a parameter that is not constant. Random, quasi-random
//  and grid designers use it.
//      float      linear (x-min)/(max-min); log, logit: the same in ln x, ln(x/(1-x))
//      stepped float, linear int, ordinal: level i of m at (i+1/2)/m; decode min(floor(u m), m-1), so that uniform u
//                 makes all levels equally likely
//      int log    (ln x - ln(min-1/2)) / (ln(max+1/2) - ln(min-1/2)); decode rounds
//                 Decoding an encoded level gives it back for up to 2^50 levels; in scale LOG for values up to 10^12.
//                 Beyond that a double cannot tell neighbours apart and the answer may be off by a few levels.
//      bool       false at 0.25, true at 0.75
//      categorical label i of k at (i+1/2)/k
//  * model: what a Gaussian process sees. As compact, but a categorical of k labels takes k coordinates e_i/sqrt(2), so
//    that two labels are at distance 1, and a bool is 0 or 1. Inactive parameters: 0.5 (categorical: all zeros).
//
// Constraints on parameters make some settings illegal. Coordinates of these decode like any others; who draws settings
// asks IsLegal.
//
// Thread-safe after construction. Keeps a copy of the space.
class Encoding {
 public:
  explicit Encoding(SearchSpace space, const std::vector<ParameterConstraint>& constraints = {});

  const SearchSpace& space() const { return space_; }
  // The legal settings; null without constraints, when all are.
  const LegalSettings* legal() const { return legal_.get(); }
  // Returns true if the canonical setting keeps the study's constraints.
  bool IsLegal(const Parameters& values) const { return legal_ == nullptr || legal_->Contains(values); }
  // Returns IsLegal(FromCompact(u)), and decodes only what that depends on.
  bool IsLegalAt(const Eigen::Ref<const Eigen::VectorXd>& u) const;
  int compact_dim() const { return static_cast<int>(compact_scalar_.size()); }
  int model_dim() const { return model_dim_; }
  // Parameter index, and scalar, of compact coordinate c.
  int compact_parameter(int c) const { return compact_scalar_[c].parameter; }
  const Scalar& compact_scalar(int c) const { return compact_scalar_[c]; }
  // Compact coordinate of a parameter (a vector's first), or -1 when it is constant. A vector's follow one another.
  int coordinate_of(int parameter) const { return coordinate_of_[parameter]; }
  // Model coordinates [begin, end) of compact coordinate c.
  int model_begin(int c) const { return model_begin_[c]; }
  int model_end(int c) const { return model_begin_[c + 1]; }
  // For each model column, the compact coordinate (thus the lengthscale) it belongs to.
  std::vector<int> ModelGroups() const;
  // Number of levels of compact coordinate c, or absent when it is continuous.
  std::optional<int64_t> Levels(int c) const { return space_.Levels(compact_parameter(c)); }
  bool IsCategorical(int c) const { return categorical_[c]; }

  // compact_dim() coordinates. `values` must be valid. Inactive: 0.5.
  Eigen::VectorXd ToCompact(const Parameters& values) const;
  // Any u; coordinates are clamped to [0,1] (NaN counts as 0.5). Constants are put in, inactive parameters left out.
  // Always a valid setting.
  Parameters FromCompact(const Eigen::Ref<const Eigen::VectorXd>& u) const;

  // The value of compact coordinate c at u, as FromCompact decodes it when the parameter is active. Vectors: that of
  // the one element.
  ParameterValue DecodeCoordinate(int c, double u) const { return DecodeOne(compact_parameter(c), u); }
  // The value of an active parameter at compact point u (compact_dim()), whichever kind it has.
  ParameterValue DecodeParameter(int parameter, const Eigen::Ref<const Eigen::VectorXd>& u) const;

  Eigen::VectorXd ToModel(const Parameters& values) const;
  // Categorical: the largest of its k coordinates, ties to the lowest.
  Parameters FromModel(const Eigen::Ref<const Eigen::VectorXd>& u) const;
  // The model point of the setting that u decodes to: what the surrogate sees.
  Eigen::VectorXd SnapModel(const Eigen::Ref<const Eigen::VectorXd>& u) const { return ToModel(FromModel(u)); }
  // The model point of a compact point.
  Eigen::VectorXd CompactToModel(const Eigen::Ref<const Eigen::VectorXd>& u) const { return ToModel(FromCompact(u)); }

  // A legal setting drawn with u uniform per coordinate: random search's measure. Every draw uses compact_dim()
  // uniforms, and draws are made until one is legal. After kMostDraws illegal ones, which spaces with a share of legal
  // settings as LegalShareOf demands do not have, the last is returned.
  static constexpr int kMostDraws = 200'000;
  Parameters Sample(base::RandomStream& random) const;

  // d(user value)/d(u) of scalar `space().differentiable()[k]` at `values`: multiplies a user-unit
  // derivative to give a derivative per unit-cube coordinate. 0 when it is inactive or constant.
  double UserPerUnit(int k, const Parameters& values) const;

 private:
  // The value of an active parameter at compact point u, as a number (LegalSettings).
  double NumberAt(int parameter, const Eigen::Ref<const Eigen::VectorXd>& u) const;
  ParameterValue DecodeOne(int parameter, double u) const;
  double EncodeOne(int parameter, const ParameterValue& value) const;

  SearchSpace space_;
  std::shared_ptr<const LegalSettings> legal_;
  std::vector<Scalar> compact_scalar_;
  std::vector<int> coordinate_of_;
  std::vector<bool> categorical_;
  std::vector<int> model_begin_;
  int model_dim_ = 0;
};

}  // namespace luthier::study

#endif  // LUTHIER_LIB_STUDY_ENCODING_H_
