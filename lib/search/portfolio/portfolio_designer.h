#ifndef LUTHIER_LIB_SEARCH_PORTFOLIO_PORTFOLIO_DESIGNER_H_
#define LUTHIER_LIB_SEARCH_PORTFOLIO_PORTFOLIO_DESIGNER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "lib/search/designer.h"
#include "lib/search/portfolio/shares.h"
#include "lib/study/history.h"
#include "lib/study/study_spec.h"

namespace luthier::search {

// A search that stands beside the optimizer.
enum class Member { kDirect, kCmaEs, kTpe };

// Suggestion::details of a member's setting: its place in the member's own sequence, from 1, and 1 if a gain of the
// member's earned the turn (0: it was due).
inline constexpr char kMemberTrial[] = "member_trial";
inline constexpr char kMemberEarned[] = "member_earned";

// Returns the members beside the optimizer, `spec.algorithm` (bo), in a study of `auto`; empty if there are none. The
// choice is a function of the spec: docs/design/portfolio.md.
std::vector<Member> MembersOf(const study::StudySpec& spec);

// Returns the member's name, for people: "direct", "cma_es" or "tpe".
const char* NameOf(Member member);

// Returns the algorithm that gives the member's sequence if it is alone; std::nullopt for kDirect, which is none.
std::optional<study::AlgorithmSpec> AlgorithmOf(Member member);

// Returns the member's search, alone in a study.
std::unique_ptr<Designer> CreateMember(const study::StudySpec& spec, Member member, const NestedAlgorithms& nested);

// The optimizer, harmless to each of its members. Most asks are the optimizer's, which sees all results. Some are a
// member's (shares.h): the next setting of its own sequence, which it makes from its own results alone, as if it were
// the study's algorithm. A setting of the sequence that was tried already costs no trial. So for the same seed, where
// results repeat exactly and trials come one at a time, the best of N trials is at least as good as that of the
// member's first floor(N / kMemberEvery), for every N and each member. Trials that came to nothing are asked again.
//
// There are no members' turns once noise was found or a trial has reported a gradient. A member that has no setting
// gives its turn to the optimizer. State: MemberState (lib/search/bo/turns/bo_state.h), from which the optimizer goes
// on as if the member's trial were a user's. Origins of members' settings are their own; details: above.
class PortfolioDesigner final : public Designer {
 public:
  // `spec.algorithm` is the optimizer, bo. `members` are MembersOf(spec), or others for tests.
  PortfolioDesigner(const study::StudySpec& spec, const std::vector<Member>& members, const NestedAlgorithms& nested);

  absl::StatusOr<Suggestion> Suggest(const study::History& history, uint64_t ask_index,
                                     const base::StopToken& stop) override;
  absl::StatusOr<std::vector<Prediction>> Predict(const study::History& history,
                                                  const std::vector<study::Parameters>& settings,
                                                  const base::StopToken& stop) override {
    return optimizer_->Predict(history, settings, stop);
  }
  absl::StatusOr<std::optional<Recommendation>> Recommend(const study::History& history,
                                                          const base::StopToken& stop) override {
    return optimizer_->Recommend(history, stop);
  }

 private:
  // Returns the next setting of the member's sequence that was not tried; std::nullopt if it has none now.
  absl::StatusOr<std::optional<Suggestion>> Ask(const study::History& history, const MemberTurn& turn,
                                                uint64_t ask_index, const base::StopToken& stop);

  const study::Goal goal_;
  const std::vector<Member> kinds_;
  const std::unique_ptr<Designer> optimizer_;
  std::vector<std::unique_ptr<Designer>> members_;
};

}  // namespace luthier::search

#endif  // LUTHIER_LIB_SEARCH_PORTFOLIO_PORTFOLIO_DESIGNER_H_
