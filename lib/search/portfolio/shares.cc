#include "lib/search/portfolio/shares.h"

#include <algorithm>
#include <limits>

namespace luthier::search {
namespace {

constexpr double kGainThatMatters = 1e-6;  // In interquartile ranges of the scores.
constexpr int64_t kTurnsForAGain = 2, kMostEarned = 4;

double InterquartileRange(const std::vector<PastTurn>& past) {
  std::vector<double> scores;
  for (const PastTurn& turn : past) {
    if (turn.score.has_value()) scores.push_back(*turn.score);
  }
  if (scores.size() < 2) return 0.0;
  std::sort(scores.begin(), scores.end());
  return scores[3 * (scores.size() - 1) / 4] - scores[(scores.size() - 1) / 4];
}

}  // namespace

std::optional<MemberTurn> NextMember(const std::vector<PastTurn>& past, int members) {
  if (members == 0) return std::nullopt;
  const double matters = kGainThatMatters * InterquartileRange(past);
  std::vector<int64_t> made(static_cast<size_t>(members), 0), earned = made;
  int64_t counted = 0;
  double best = -std::numeric_limits<double>::infinity();
  bool last = false;  // The last trial that counts was a member's.
  for (const PastTurn& turn : past) {
    const bool gains = turn.score.has_value() && *turn.score > best + matters;
    if (turn.score.has_value()) best = std::max(best, *turn.score);
    if (!turn.counts) continue;
    ++counted;
    last = turn.member.has_value();
    if (!last) continue;
    const auto m = static_cast<size_t>(*turn.member);
    made[m] += 1 + turn.passed;
    earned[m] = gains ? std::min(earned[m] + kTurnsForAGain, kMostEarned) : std::max<int64_t>(earned[m] - 1, 0);
  }
  const auto least = std::min_element(made.begin(), made.end());
  if (*least < (counted + members) / kMemberEvery) {
    return MemberTurn{static_cast<int>(least - made.begin()), /*earned=*/false};
  }
  const auto most = std::max_element(earned.begin(), earned.end());
  if (last || *most == 0) return std::nullopt;
  return MemberTurn{static_cast<int>(most - earned.begin()), /*earned=*/true};
}

}  // namespace luthier::search
