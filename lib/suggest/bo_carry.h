#ifndef LUTHIER_LIB_SUGGEST_BO_CARRY_H_
#define LUTHIER_LIB_SUGGEST_BO_CARRY_H_

#include <cstdint>
#include <string>
#include <vector>

// What one ask of BoDesigner leaves for the next, beside its setting.
namespace luthier::suggest {

inline constexpr int64_t kExplorations = int64_t{1} << 40;  // More than any study has.

struct BoCarry {
  char kind = 'a';                 // i: initial design, x: exploration, t: trust-region step, a: all else.
  int64_t index = 0;               // Of kind x: in random search's stream; of kind t: the climb's site.
  int64_t checked = 0;             // Results when reported slopes were last held against values; 0: never.
  std::vector<int32_t> set_aside;  // Reporters whose slopes contradicted them; ascending.
  std::string local;               // LocalSearchCarry and
  std::string surrogate;           //   SurrogateCarry as text, handed on by asks that do not use them,
  std::string feasibility;         //   as is FeasibilityModel's; empty where nothing has failed.
  std::string box;                 // TrustBoxRun as text; empty where there is no trust box.
  std::string hills;               // HillsCarry as text; empty where no hill is known.
};

// Reads back to the same; anything else is an empty carry.
std::string FormatCarry(const BoCarry& carry);
BoCarry ParseBoCarry(const std::string& text);
// Kind and index alone, without a look at the rest: every ask reads them of all trials.
BoCarry ParseBoCarryHead(const std::string& text);

}  // namespace luthier::suggest

#endif  // LUTHIER_LIB_SUGGEST_BO_CARRY_H_
