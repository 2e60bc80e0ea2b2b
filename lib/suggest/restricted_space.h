#ifndef LUTHIER_LIB_SUGGEST_RESTRICTED_SPACE_H_
#define LUTHIER_LIB_SUGGEST_RESTRICTED_SPACE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lib/spectral/bit_encoding.h"
#include "lib/study/search_space.h"
#include "lib/suggest/harmonica_stages.h"

namespace luthier::suggest {

// What Harmonica's stages leave of a study's space, as a search space of its own on which any algorithm works:
//
//   s0, s1, …   for each stage with restrictions, which of them: a categorical
//   p0, p1, …   for each parameter of the study, by its place there:
//               no bit of it fixed        as it is; conditional if its parent is here and as it is too
//               cells, some or all fixed  a float in [0, 1] that runs through the cells left, one after the other
//               levels, some bits fixed   the number of the level among those left (int; unordered: categorical)
//               all bits of levels fixed  not here
//
// Parameters that lost their condition are always here and do nothing while they are inactive. Independent uniform
// values here are the mixture of restrictions that the stages draw from.
class RestrictedSpace {
 public:
  // `bits` must outlive it. At least one stage must have restrictions.
  RestrictedSpace(const spectral::BitEncoding& bits, const std::vector<HarmonicaStage>& stages);

  const study::SearchSpace& space() const { return space_; }
  int selectors() const { return static_cast<int>(fixing_.size()); }

  // The study's setting that a valid one of space() means. Always valid for the study.
  study::Parameters Embed(const study::Parameters& restricted) const;
  // The restrictions that it chose.
  std::vector<int> SelectionOf(const study::Parameters& restricted) const;
  // A setting of space() that means `full`, a valid one of the study: under `selection`, whatever its values (the
  // closest where they are not left); or, where that is absent, under the first restrictions that agree with it. Absent
  // when none does. Parameters that are inactive in `full` get their default or middle.
  std::optional<study::Parameters> Project(const study::Parameters& full,
                                           const std::optional<std::vector<int>>& selection) const;

 private:
  struct Fixed {
    int mask = 0;  // Bits of a group's code, and what they are fixed to.
    int code = 0;
  };
  struct Column {
    int parameter = 0;                          // Of the study.
    const spectral::BitGroup* group = nullptr;  // Null: constant.
    bool original = false;
    int size = 0;  // Of levels partly fixed: how many there are here; 0: a float, or not here.
    std::string name;
  };
  // What the selected restrictions fix of a group.
  Fixed FixedOf(const spectral::BitGroup& group, const std::vector<int>& selection) const;
  // The levels or cells left of it, ascending.
  static std::vector<int> Left(const spectral::BitGroup& group, const Fixed& fixed);
  std::optional<std::vector<int>> Agreeing(const study::Parameters& full) const;

  const spectral::BitEncoding& bits_;
  // By stage with restrictions, restriction and group.
  std::vector<std::vector<std::vector<Fixed>>> fixing_;
  std::vector<Column> columns_;
  study::SearchSpace space_;
};

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_RESTRICTED_SPACE_H_
