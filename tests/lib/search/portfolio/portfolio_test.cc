#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/auto.h"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/portfolio/direct_member.h"
#include "lib/search/portfolio/portfolio_designer.h"
#include "lib/search/portfolio/shares.h"
#include "lib/search/registry.h"
#include "tests/lib/search/bo/bo_testing.h"

namespace luthier::search {
namespace {

using study::AutoOptions;
using study::Bool;
using study::Parameters;

// A value without any structure: what a member finds on it is its own luck, which no model shares.
double Lottery(const Parameters& setting) {
  base::RandomStream random(study::HashOf(setting), "test/lottery");
  return random.Uniform();
}

// A spike in a bowl that points elsewhere, and plateaus: the optimizer's model is wrong for long.
double Staircase(const Parameters& setting) {
  double sum = 0.0;
  for (const auto& [name, value] : setting) {
    if (const double* x = std::get_if<double>(&value)) sum += std::floor(5.0 * std::abs(*x - 0.83));
  }
  return sum + 0.01 * Lottery(setting);
}

study::StudySpec SpecOf(study::SearchSpace space, uint64_t seed) {
  study::StudySpec spec = BoSpec(std::move(space), seed);
  spec.algorithm = AutoOptions{.noisy = false};
  return spec;
}

std::vector<study::SearchSpace> Spaces() {
  return {Space({Float("x", 0, 1), Float("y", 0, 1)}),
          Space({Float("a", 0, 1), Float("b", 0, 1), Float("c", 0, 1), Int("d", 0, 20), Float("e", 1e-3, 1)}),
          Space({Categorical("kernel", {"rbf", "poly", "linear"}), Float("C", 1e-3, 1e3, study::Scale::kLog),
                 When("kernel", {"rbf"}, Float("gamma", 1e-4, 1, study::Scale::kLog))})};
}

// Returns the settings that the member tries if the study is its own.
std::vector<Parameters> Alone(study::StudySpec spec, Member member, int trials,
                              const std::function<double(const Parameters&)>& f) {
  std::unique_ptr<Designer> designer;
  if (const std::optional<study::AlgorithmSpec> algorithm = AlgorithmOf(member); algorithm.has_value()) {
    spec.algorithm = *algorithm;
    designer = CreateDesigner(spec);
  } else {
    designer = std::make_unique<DirectMember>(spec);
  }
  study::History history;
  std::vector<Parameters> settings;
  for (int i = 0; i < trials; ++i) {
    const absl::StatusOr<Suggestion> s = designer->Suggest(history, static_cast<uint64_t>(i), base::StopToken());
    EXPECT_TRUE(s.ok()) << s.status();
    if (!s.ok()) break;
    study::HistoryTrial trial;
    trial.number = i + 1;
    trial.ask_index = static_cast<uint64_t>(i);
    trial.parameters = s->parameters;
    trial.designer_state = s->designer_state;
    history.AddStored(trial);
    history.Finish(i + 1, study::TrialState::kComplete, f(s->parameters), std::nullopt, std::nullopt);
    settings.push_back(s->parameters);
  }
  return settings;
}

TEST(Portfolio, IsNeverBehindItsMembersAlone) {
  for (const study::SearchSpace& space : Spaces()) {
    for (const auto& f : {Lottery, Staircase}) {
      for (uint64_t seed = 0; seed < 2; ++seed) {
        MemoryStudy study(SpecOf(space, seed));
        const AutoChoice choice = ChooseAlgorithm(study.spec(), AutoOptions{.noisy = false});
        ASSERT_FALSE(choice.members.empty());
        std::vector<std::vector<Parameters>> alone;
        for (const Member member : choice.members) alone.push_back(Alone(study.spec(), member, 110, f));
        double best = INFINITY;
        std::vector<size_t> own(alone.size(), 0);
        for (int64_t n = 1; n <= 110; ++n) {
          if (n % 7 == 0) study.Restart();
          const Suggestion s = study.Ask();
          const double value = f(s.parameters);
          study.Complete(study.newest(), value);
          best = std::min(best, value);
          if (const auto at = s.details.find(kMemberTrial); at != s.details.end()) {
            const auto place = static_cast<size_t>(at->second) - 1;
            const auto member = static_cast<size_t>(ParseAskHead(s.designer_state).index);
            ASSERT_LT(place, alone[member].size());
            EXPECT_EQ(s.parameters, alone[member][place]) << "its own sequence, setting for setting";
            EXPECT_GE(place, own[member]);
            own[member] = place + 1;
          }
          for (size_t m = 0; m < alone.size(); ++m) {
            double members_best = INFINITY;
            for (int64_t i = 0; i < n / kMemberEvery; ++i) {
              members_best = std::min(members_best, f(alone[m][static_cast<size_t>(i)]));
            }
            EXPECT_LE(best, members_best) << NameOf(choice.members[m]) << " after " << n << " with seed " << seed;
          }
        }
        for (const size_t made : own) EXPECT_GE(made, 110u / kMemberEvery);
      }
    }
  }
}

// The answer is a function of spec, history and ask index: a designer that knows nothing gives the same bits.
TEST(Portfolio, ARestartChangesNoBit) {
  for (const study::SearchSpace& space : Spaces()) {
    MemoryStudy one(SpecOf(space, 5)), other(SpecOf(space, 5));
    for (int i = 0; i < 45; ++i) {
      other.Restart();
      const Suggestion a = one.Ask(), b = other.Ask();
      ASSERT_EQ(a.parameters, b.parameters) << i;
      ASSERT_EQ(a.designer_state, b.designer_state) << i;
      ASSERT_EQ(a.details, b.details) << i;
      one.Complete(one.newest(), Staircase(a.parameters));
      other.Complete(other.newest(), Staircase(b.parameters));
    }
  }
}

TEST(Portfolio, TriesNoSettingTwiceAndFindsTheEndOfAFiniteSpace) {
  MemoryStudy study(SpecOf(Space({Int("i", 0, 6), Int("j", 0, 6)}), 3));
  std::set<Parameters> seen;
  int members = 0;
  for (int i = 0; i < 49; ++i) {
    const Suggestion s = study.Ask();
    EXPECT_TRUE(seen.insert(s.parameters).second) << i;
    members += s.details.contains(kMemberTrial) ? 1 : 0;
    study.Complete(study.newest(), Lottery(s.parameters));
  }
  EXPECT_GE(members, 1);
  EXPECT_FALSE(study.TryAsk().ok());
}

TEST(Portfolio, WhatComesToNothingIsAskedAgain) {
  MemoryStudy study(SpecOf(Spaces()[0], 1));
  std::optional<Parameters> lost;
  int again = 0;
  for (int i = 0; i < 100; ++i) {
    const Suggestion s = study.Ask();
    const bool member = s.details.contains(kMemberTrial);
    if (member && lost.has_value()) {
      EXPECT_EQ(s.parameters, *lost);
      lost.reset();
      ++again;
    } else if (member) {
      lost = s.parameters;
      study.Fail(study.newest(), study::FailureKind::kInfra);
      continue;
    }
    study.Complete(study.newest(), Lottery(s.parameters));
  }
  EXPECT_GE(again, 2);
}

TEST(Portfolio, IsForExactValuesAloneAndForNewStudies) {
  const auto members = [](study::StudySpec spec, const std::function<void(MemoryStudy*, const Suggestion&)>& end) {
    MemoryStudy study(std::move(spec));
    int count = 0;
    for (int i = 0; i < 40; ++i) {
      const Suggestion s = study.Ask();
      count += s.details.contains(kMemberTrial) ? 1 : 0;
      end(&study, s);
    }
    return count;
  };
  const auto plain = [](MemoryStudy* study, const Suggestion& s) {
    study->Complete(study->newest(), Lottery(s.parameters));
  };
  const study::StudySpec spec = SpecOf(Spaces()[0], 2);
  EXPECT_GE(members(spec, plain), 1);
  study::StudySpec old = spec;
  std::get<AutoOptions>(old.algorithm).rules = 3;
  EXPECT_EQ(members(old, plain), 0);
  study::StudySpec noisy = spec;
  noisy.algorithm = AutoOptions{};
  int64_t trial = 0;
  const auto noise = [&](MemoryStudy* study, const Suggestion& s) {
    study->Complete(study->newest(), Lottery(s.parameters) + 0.1 * static_cast<double>(++trial % 7));
  };
  EXPECT_EQ(members(noisy, noise), 0) << "the probe shows noise before any member's turn";
  const auto gradients = [](MemoryStudy* study, const Suggestion& s) {
    study::Gradient gradient;
    gradient.values = {1.0, 1.0};
    study->Complete(study->newest(), Lottery(s.parameters), gradient);
  };
  EXPECT_EQ(members(spec, gradients), 0);
}

TEST(Portfolio, StatesComeBackAndHoldTheOptimizers) {
  MemberState state;
  state.kind = AskKind::kMember;
  state.index = 2;
  state.number = 17;
  state.passed = {{3, 5, "a"}, {4, 9, std::string("\0b", 2)}};
  state.state = "own";
  state.optimizer = FormatBoState(BoState());
  const std::string bytes = FormatMemberState(state);
  const std::optional<MemberState> back = ParseMemberState(bytes);
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(FormatMemberState(*back), bytes);
  EXPECT_EQ(ParseAskHead(bytes).kind, AskKind::kMember);
  EXPECT_EQ(ParseAskHead(bytes).index, 2);
  EXPECT_FALSE(ParseMemberState(state.optimizer).has_value());
  EXPECT_FALSE(ParseMemberState(bytes.substr(0, bytes.size() - 1)).has_value());
}

// Whatever is found, whoever obeys the rule keeps each member's floor, and beyond it leaves every other ask to the
// optimizer.
TEST(Shares, KeepFloorsAndCeilings) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    base::RandomStream random(seed, "test/shares");
    const int members = 1 + static_cast<int>(random.UniformInt(3));
    const double rate = random.Uniform();
    std::vector<PastTurn> past;
    std::vector<int64_t> made(static_cast<size_t>(members), 0);
    for (int64_t n = 1; n <= 200; ++n) {
      const std::optional<MemberTurn> turn = NextMember(past, members);
      PastTurn next;
      next.score = random.Uniform() < rate ? static_cast<double>(n) : -1.0 - random.Uniform();
      if (turn.has_value()) {
        next.member = turn->member;
        ++made[static_cast<size_t>(turn->member)];
      }
      past.push_back(next);
      int64_t all = 0;
      for (const int64_t of_member : made) {
        EXPECT_GE(of_member, n / kMemberEvery);
        all += of_member;
      }
      EXPECT_LE(all, (n + 1) / 2 + members * (n / kMemberEvery + 1));
    }
  }
}

TEST(Shares, MoveToWhomTheyServe) {
  std::vector<PastTurn> past;
  for (int i = 0; i < 20; ++i) past.push_back(PastTurn{.score = -1.0 - 0.01 * i});
  std::vector<int> asks(2, 0);
  double best = -1.0;
  for (int i = 0; i < 120; ++i) {  // Only the second member ever gains.
    const std::optional<MemberTurn> turn = NextMember(past, 2);
    PastTurn next;
    next.score = -5.0;
    if (turn.has_value()) {
      next.member = turn->member;
      ++asks[static_cast<size_t>(turn->member)];
      if (turn->member == 1) next.score = best += 0.1;
    }
    past.push_back(next);
  }
  EXPECT_LE(asks[0], 140 / kMemberEvery + 1) << "no more than what is due";
  EXPECT_GE(asks[1], 50) << "every other ask";
}

TEST(Shares, TinyGainsEarnNothing) {
  std::vector<PastTurn> past;
  for (int i = 0; i < 15; ++i) past.push_back(PastTurn{.score = -1.0 - 0.01 * i});
  past.push_back(PastTurn{.member = 0, .score = -1.0 + 1e-9});
  EXPECT_FALSE(NextMember(past, 1).has_value());
  past.push_back(PastTurn{.score = -2.0});
  EXPECT_FALSE(NextMember(past, 1).has_value());
  past[15].score = -0.9;
  ASSERT_TRUE(NextMember(past, 1).has_value());
  EXPECT_TRUE(NextMember(past, 1)->earned);
  past.push_back(PastTurn{.member = 0, .score = -3.0});
  EXPECT_FALSE(NextMember(past, 1).has_value()) << "the optimizer has the next one";
}

}  // namespace
}  // namespace luthier::search
