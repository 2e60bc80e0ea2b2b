#include "lib/study/front.h"

#include <algorithm>
#include <utility>

namespace luthier::study {
namespace {

// Returns true if `a` is at least as good as `b` in every objective.
bool Covers(const std::vector<double>& a, const std::vector<double>& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] < b[i]) return false;
  }
  return true;
}

}  // namespace

bool Front::Add(int64_t trial, std::vector<double> scores) {
  if (overflowed_) return true;
  for (size_t i = 0; i < members_.size(); ++i) {
    if (!Covers(members_[i].scores, scores)) continue;
    // A member that covers one result often covers the next one, too.
    std::swap(members_[i], members_[i / 2]);
    return false;
  }
  std::erase_if(members_, [&](const Member& member) { return Covers(scores, member.scores); });
  members_.push_back({trial, std::move(scores)});
  if (members_.size() > kMost) {
    overflowed_ = true;
    members_.clear();
    members_.shrink_to_fit();
  }
  return true;
}

}  // namespace luthier::study
