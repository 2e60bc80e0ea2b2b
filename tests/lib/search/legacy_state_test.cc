#include "lib/search/legacy_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "Eigen/Core"
#include "lib/search/bo/turns/bo_state.h"
#include "lib/search/cma_es/cma_es_designer.h"
#include "lib/search/designer_state.h"
#include "lib/search/harmonica/stages.h"
#include "lib/search/hoag/hoag_designer.h"

// The texts are of a past program, some with fewer parts.
namespace luthier::search {
namespace {

using Eigen::Vector2d;
using Eigen::Vector3d;

std::vector<ModelChoice> Choices(int count, int groups) {
  ModelChoice choice;
  choice.shape.groups = groups;
  return std::vector<ModelChoice>(static_cast<size_t>(count), choice);
}

TEST(LegacyState, CurrentStatesStayAsTheyAre) {
  EXPECT_EQ(CurrentState(""), "");
  BoState state;
  state.index = 7;
  const std::string bytes = FormatBoState(state);
  EXPECT_EQ(CurrentState(bytes), bytes);
  for (const char* other : {"nonsense", "|", "hoag", "hoag 1", "s 1", "b x", "s 0 1\nstage 0 1 2", "a0|"}) {
    EXPECT_EQ(CurrentState(other), "") << other;
  }
}

TEST(LegacyState, ReadsTheTextsOfBo) {
  const std::string text =
      "t8 9 2 5|8 0.25 -0.5 8.8263951919099695e-09 1 0.125 0.5 0.25 0.75 0.125 1 2,4,1,3 12|"
      "11 9 2 0x1.8p-1 0x1p-27 -0x1p-2 0x1p+0 0x1p-3 0x1p+1 g0x1p-4;0 -11.23 1.1948 1e-08 -1.0232 1 1.0583 "
      "0.32278@0x1p+0 "
      "-0x1.8p+1|14 1 0x1p-10 0 1 0.5 0.25|17|1 -12.345678901234567 3 5 8 4;25;1.5 1e-06 0 1 0.3 0.7";
  const BoState state = ParseBoState(CurrentState(text), Choices(3, 2));
  EXPECT_EQ(state.kind, AskKind::kLocalStep);
  EXPECT_EQ(state.index, 8);
  EXPECT_EQ(ParseAskHead(CurrentState(text)).index, 8);
  EXPECT_EQ(state.checked, 9);
  EXPECT_EQ(state.set_aside, (std::vector<int32_t>{2, 5}));
  ASSERT_TRUE(state.local.has_value());
  EXPECT_EQ(state.local->incumbent.site, 8);
  const TrustRegionState& step = state.local->incumbent.state;
  EXPECT_EQ(step.radius, 0.25);
  EXPECT_EQ(step.anchor, -0.5);
  EXPECT_EQ(step.predicted_gain, 8.8263951919099695e-09);
  EXPECT_TRUE(step.at_boundary);
  EXPECT_EQ(step.slope_error, 0.125);
  EXPECT_EQ(step.centre, Vector2d(0.5, 0.25));
  EXPECT_EQ(step.step, Vector2d(0.75, 0.125));
  EXPECT_EQ(step.lengths, Vector2d(1.0, 2.0));
  EXPECT_EQ(state.local->other.site, 4);
  EXPECT_EQ(state.local->other.state.radius, 0.0);
  EXPECT_TRUE(state.local->other_last);
  EXPECT_EQ(state.local->solved, (std::vector<int64_t>{3, 12}));
  ASSERT_TRUE(state.surrogate.has_value());
  EXPECT_EQ(state.surrogate->observations, 11);
  EXPECT_EQ(state.surrogate->searches, 9);
  EXPECT_EQ(state.surrogate->choice, 2);
  EXPECT_EQ(state.surrogate->theta.signal_variance, 0.75);
  EXPECT_EQ(state.surrogate->theta.noise_variance, std::ldexp(1.0, -27));
  EXPECT_EQ(state.surrogate->theta.mean, -0.25);
  EXPECT_EQ(state.surrogate->theta.lengthscales, Vector2d(0.125, 2.0));
  EXPECT_EQ(state.surrogate->theta.slope_noise_variance, 0.0625);
  ASSERT_EQ(state.surrogate->others.size(), 1u);
  EXPECT_EQ(state.surrogate->others[0].margin, -11.23);
  EXPECT_EQ(state.surrogate->others[0].theta.mean, -1.0232);
  EXPECT_EQ(state.surrogate->others[0].theta.lengthscales, Vector2d(1.0583, 0.32278));
  EXPECT_EQ(state.surrogate->chain, Vector2d(1.0, -3.0));
  ASSERT_TRUE(state.feasibility.has_value());
  EXPECT_EQ(state.feasibility->trials, 14);
  EXPECT_EQ(state.feasibility->theta.noise_variance, std::ldexp(1.0, -10));
  EXPECT_EQ(state.box, 17);
  EXPECT_TRUE(state.basins.away);
  EXPECT_EQ(state.basins.log_ei, -12.345678901234567);
  EXPECT_EQ(state.basins.turns, 3);
  EXPECT_EQ(state.basins.best_other, 5);
  EXPECT_EQ(state.basins.maxima, (std::vector<int64_t>{8, 4}));
  EXPECT_EQ(state.basins.rows, 25);
  EXPECT_EQ(state.basins.theta->lengthscales, Vector2d(0.3, 0.7));
  // Of another space, what has numbers of parameters is left out.
  const BoState other = ParseBoState(CurrentState(text), Choices(3, 3));
  EXPECT_EQ(other.set_aside, state.set_aside);
  EXPECT_TRUE(other.local.has_value());
  EXPECT_FALSE(other.surrogate.has_value());
  EXPECT_FALSE(other.feasibility.has_value());
  EXPECT_TRUE(other.basins.maxima.empty());
}

TEST(LegacyState, ReadsTextsOfBoThatLackParts) {
  const BoState initial = ParseBoState(CurrentState("i0||"), Choices(1, 2));
  EXPECT_EQ(initial.kind, AskKind::kInitial);
  EXPECT_FALSE(initial.local.has_value());
  EXPECT_FALSE(initial.surrogate.has_value());
  const BoState boxed = ParseBoState(CurrentState("a0||||9"), Choices(1, 2));
  EXPECT_FALSE(boxed.feasibility.has_value());
  EXPECT_EQ(boxed.box, 9);
}

TEST(LegacyState, ReadsTheTextsOfHarmonica) {
  const HarmonicaState sample = ReadHarmonicaState(CurrentState(
      "s 1 0\nstage 0 1 20 2 1 0x1p-3 0x1p-1 0x1p-4 0x1.8p+0 -0x1p-2 2 0x1p-5 1 3 -0x1p-6 2 0 7 2 5 -0x1p+0 0 0x1p+1"));
  EXPECT_EQ(sample.kind, 's');
  EXPECT_EQ(sample.stage, 1);
  EXPECT_EQ(sample.index, 0);
  ASSERT_EQ(sample.records.size(), 1u);
  HarmonicaStage stage;
  stage.polynomial = {-0.25, {{{3}, 0.03125}, {{0, 7}, -0.015625}}};
  stage.believed = true;
  stage.results = 20;
  stage.failed = 2;
  stage.dropped = 1;
  stage.variance = 0.125;
  stage.r2 = 0.5;
  stage.cv_r2 = 0.0625;
  stage.factor = 1.5;
  stage.restrictions = {{5, -1.0}, {0, 2.0}};
  EXPECT_EQ(sample.records[0].number, 0);
  EXPECT_EQ(sample.records[0].stage, stage);
  const HarmonicaState base = ReadHarmonicaState(CurrentState("b 3 0 2\n--\nx4||"));
  EXPECT_EQ(base.kind, 'b');
  EXPECT_EQ(base.index, 3);
  EXPECT_EQ(base.selection, (std::vector<int>{0, 2}));
  EXPECT_EQ(ParseAskHead(base.base).kind, AskKind::kExploration);
  EXPECT_EQ(ParseAskHead(base.base).index, 4);
}

TEST(LegacyState, ReadsTheTextsOfHoagAndCmaEs) {
  const HoagState hoag = DecodeState<HoagState>(kHoagStateKind, CurrentState("hoag 2 4")).value();
  EXPECT_EQ(hoag.chain, 2);
  EXPECT_EQ(hoag.evaluation, 4);
  EXPECT_EQ(DecodeState<CmaEsState>(kCmaEsStateKind, CurrentState("13"))->generation, 13);
}

TEST(DesignerState, DamagedBytesAreNoState) {
  const std::string bytes = EncodeState(kHoagStateKind, HoagState{2, 4});
  ASSERT_TRUE(DecodeState<HoagState>(kHoagStateKind, bytes).has_value());
  EXPECT_FALSE(DecodeState<HoagState>("hoag/2", bytes).has_value());
  EXPECT_FALSE(DecodeState<CmaEsState>(kHoagStateKind, bytes).has_value()) << "something is left";
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    EXPECT_FALSE(DecodeState<HoagState>(kHoagStateKind, damaged).has_value()) << at;
    EXPECT_FALSE(DecodeState<HoagState>(kHoagStateKind, bytes.substr(0, at)).has_value()) << at;
  }
}

}  // namespace
}  // namespace luthier::search
