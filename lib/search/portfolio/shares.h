#ifndef LUTHIER_LIB_SEARCH_PORTFOLIO_SHARES_H_
#define LUTHIER_LIB_SEARCH_PORTFOLIO_SHARES_H_

#include <cstdint>
#include <optional>
#include <vector>

// Who of a portfolio answers the next ask: the optimizer, or one of the members beside it.
namespace luthier::search {

// Every so many trials one is of each member, whatever the others find.
inline constexpr int64_t kMemberEvery = 32;

// A trial, in order of number.
struct PastTurn {
  std::optional<int> member = std::nullopt;  // The member whose setting it is; std::nullopt: the optimizer's, a user's.
  bool counts = true;                        // False for trials of users, and for those that say nothing of a setting.
  std::optional<double> score = std::nullopt;  // The score of a COMPLETE trial; larger is better.
  int64_t passed = 0;  // Settings of the member's sequence before this one that had been tried already.
};

struct MemberTurn {
  int member = 0;
  bool earned = false;  // True if a gain of the member's earned the turn; false: it is due.
};

// Returns the member whose turn the next ask is; std::nullopt for the optimizer's.
//
// With N trials that count, those of the next ask of each member included, a member is due if it has made fewer than
// floor(N / kMemberEvery) settings of its sequence: as late as lets all have made as many after N. The rest moves to
// whom it serves: a member's setting that improves the best score, by a millionth of the interquartile range of all
// scores or more, earns it two further turns, four at most at a time, and one that does not uses up one of them. Such
// turns alternate with the optimizer's; the member with the most of them is first. O(n log n).
std::optional<MemberTurn> NextMember(const std::vector<PastTurn>& past, int members);

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_PORTFOLIO_SHARES_H_
