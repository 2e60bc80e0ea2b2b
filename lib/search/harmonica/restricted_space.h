#ifndef LUTHIER_LIB_SEARCH_HARMONICA_RESTRICTED_SPACE_H_
#define LUTHIER_LIB_SEARCH_HARMONICA_RESTRICTED_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/search/harmonica/stages.h"
#include "lib/spectral/bit_encoding.h"
#include "lib/study/search_space.h"

namespace luthier::search {

// Search space that Harmonica's stages leave of a study's space. Any algorithm works on it. Its parameters are:
//
//   s0, s1, …   one for each stage with restrictions: a categorical that chooses one of them
//   p0, p1, …   one for each parameter of the study, numbered by its place there:
//               no bit of it fixed        the parameter itself; conditional if its parent is here unchanged, too
//               cells, some or all fixed  a float in [0, 1] that runs through the cells left, one after the other
//               levels, some bits fixed   the number of the level among those left (int; unordered: categorical)
//               all bits of levels fixed  left out
//
// Parameters that lost their condition are always present and have no effect while they are inactive. Independent
// uniform values in this space give the mixture of restrictions from which the stages draw.
class RestrictedSpace {
 public:
  // `bits` must outlive the object. At least one stage must have restrictions.
  RestrictedSpace(const spectral::BitEncoding& bits, const std::vector<HarmonicaStage>& stages);

  const study::SearchSpace& space() const { return space_; }
  int selectors() const { return static_cast<int>(fixing_.size()); }

  // Returns the study's setting that a valid setting of space() stands for. It is always valid for the study.
  study::Parameters Embed(const study::Parameters& restricted) const;
  // Returns the restriction of each stage that `restricted` chose.
  std::vector<int> SelectionOf(const study::Parameters& restricted) const;
  // Returns a setting of space() that stands for `full`, a valid setting of the study. With `selection` it lies under
  // those restrictions; values of `full` that they exclude become the closest that remain. Without `selection` it lies
  // under the first restrictions that agree with `full`; std::nullopt if none agree. Parameters that are inactive in
  // `full` get their default or middle.
  std::optional<study::Parameters> Project(const study::Parameters& full,
                                           const std::optional<std::vector<int>>& selection) const;

 private:
  struct Fixed {
    int mask = 0;  // Bits of a group's code, and what they are fixed to.
    int code = 0;
  };
  struct Column {
    int parameter = 0;                          // Index in the study's space.
    const spectral::BitGroup* group = nullptr;  // Null: constant.
    bool original = false;
    int size = 0;  // Number of levels if some of their bits are fixed; 0: a float, or left out.
    std::string name;
  };
  // Returns the bits of each group that each restriction of `stage` fixes: restrictions x groups.
  static std::vector<std::vector<Fixed>> FixedBy(const spectral::BitEncoding& bits, const HarmonicaStage& stage);
  // Returns the bits of a group that the selected restrictions fix.
  Fixed FixedOf(const spectral::BitGroup& group, const std::vector<int>& selection) const;
  // Returns the levels or cells of the group that remain, ascending.
  static std::vector<int> Left(const spectral::BitGroup& group, const Fixed& fixed);
  std::optional<std::vector<int>> Agreeing(const study::Parameters& full) const;

  const spectral::BitEncoding& bits_;
  // Indexed by stage with restrictions, restriction, and group.
  std::vector<std::vector<std::vector<Fixed>>> fixing_;
  std::vector<Column> columns_;
  study::SearchSpace space_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_HARMONICA_RESTRICTED_SPACE_H_
