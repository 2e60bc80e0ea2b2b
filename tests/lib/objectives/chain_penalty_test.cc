// Penalties for groups of a chain model's weights: every method ends at the optimum of the grouped problem, which a
// gradient on the data as they are confirms, and what the option may name.

#include "lib/objectives/chain_penalty.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/crf/solvers/problem.h"
#include "lib/crf/training/trainer.h"
#include "lib/data/data_cache.h"
#include "lib/model/model.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/crf/crf_testing.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using Eigen::VectorXd;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<double> kStrengths = {0.8, 0.1, 4.0};

// Rows 0, 1, 2, ... are in groups 0, 1, 2, 0, ...
std::vector<int32_t> Rotating(int32_t attributes) {
  std::vector<int32_t> groups;
  for (int32_t a = 0; a < attributes; ++a) groups.push_back(a % 3);
  return groups;
}

// Largest entry of the gradient of sum nll + 1/2 sum penalty |w|^2, on unscaled data.
double LargestGradient(const crf::ChainData& data, const VectorXd& w, int32_t transitions) {
  VectorXd gradient;
  crf::ChainLoss loss(&data);
  loss.Value(w, &gradient).value();
  const int stride = data.shape().stride();
  for (Eigen::Index j = 0; j < w.size(); ++j) {
    const Eigen::Index row = j / stride;
    gradient[j] += kStrengths[static_cast<size_t>(row < data.attributes ? row % 3 : transitions)] * w[j];
  }
  return gradient.cwiseAbs().maxCoeff();
}

VectorXd TrainGrouped(const crf::ChainData& data, int32_t transitions, crf::ChainTrainerOptions options,
                      const std::vector<double>& l1 = {0.0, 0.0, 0.0}) {
  const ChainPenalty penalty(Rotating(data.attributes), transitions, kStrengths, l1);
  EXPECT_FALSE(penalty.uniform());
  options.l1 = penalty.l1();
  const crf::ChainData scaled = penalty.Scaled(data);
  crf::ChainTrainer trainer = crf::ChainTrainer::Create(&scaled, penalty.l2(), options).value();
  while (trainer.Advance({}).value() == crf::ChainOutcome::kRunning) {
  }
  VectorXd w = trainer.Weights();
  penalty.Unscale(data.shape().stride(), &w);
  return w;
}

TEST(ChainPenaltyTest, EveryMethodEndsAtTheOptimumOfTheGroupedProblem) {
  for (const bool values : {false, true}) {
    crf::ChainData data = crf::testing::RandomChains(3, 3, 40, 6, 8);
    if (values) data = crf::testing::WithValues(std::move(data), 4);
    for (const int32_t transitions : {0, 1, 2}) {
      const double start = LargestGradient(data, VectorXd::Zero(data.shape().dim()), transitions);
      VectorXd reference;
      for (const std::string& method : crf::testing::AllMethods()) {
        // The dual method comes near, though it cannot tell.
        if (crf::testing::IsBlind(method) && method != "oeg") continue;
        for (const int threads : {1, 2}) {
          if (threads == 2 && method != "sag") continue;
          SCOPED_TRACE(absl::StrCat(values, " ", transitions, " ", method, " ", threads));
          crf::ChainTrainerOptions options;
          options.method = method;
          options.threads = threads;
          options.tolerance = 1e-9;
          options.max_passes = 400.0;
          // Longer steps go with more sequences than these.
          if (method == "saga") options.average.step = stochastic::StepRule::kLmax;
          const VectorXd w = TrainGrouped(data, transitions, options);
          // Gradients are remembered as floats, and the dual method knows none.
          const double tolerance = method == "oeg" ? 3e-5 : 1e-6;
          EXPECT_LT(LargestGradient(data, w, transitions), tolerance * start);
          if (reference.size() == 0) reference = w;
          EXPECT_LT((w - reference).cwiseAbs().maxCoeff(), 3.0 * tolerance);
        }
      }
    }
  }
}

TEST(ChainPenaltyTest, MethodsWithoutAnEndComeNearTheOptimum) {
  const crf::ChainData data = crf::testing::RandomChains(5, 3, 40, 6, 8);
  const double start = LargestGradient(data, VectorXd::Zero(data.shape().dim()), 0);
  if (!crf::testing::OfTheLab()) GTEST_SKIP() << "the lab has them";
  for (const std::string method : {"sg", "asg", "pegasos", "adagrad", "smd"}) {
    crf::ChainTrainerOptions options;
    options.method = method;
    options.rate = method == "pegasos" || method == "adagrad" ? 1.0 : 0.01;
    options.max_passes = 300.0;
    EXPECT_LT(LargestGradient(data, TrainGrouped(data, 0, options), 0), 0.3 * start) << method;
  }
}

// Largest entry of the smallest subgradient of the grouped problem with its l1 penalty, by hand.
double LargestSubgradient(const crf::ChainData& data, const VectorXd& w, int32_t transitions,
                          const std::vector<double>& l1) {
  VectorXd gradient;
  crf::ChainLoss loss(&data);
  loss.Value(w, &gradient).value();
  double largest = 0.0;
  for (Eigen::Index j = 0; j < w.size(); ++j) {
    const Eigen::Index row = j / data.shape().stride();
    const auto group = static_cast<size_t>(row < data.attributes ? row % 3 : transitions);
    const double smooth = gradient[j] + kStrengths[group] * w[j];
    const double entry = w[j] == 0.0 ? std::max(0.0, std::abs(smooth) - l1[group])
                                     : std::abs(smooth + (w[j] > 0.0 ? l1[group] : -l1[group]));
    largest = std::max(largest, entry);
  }
  return largest;
}

// Penalties of both penalties differ from group to group, on data as they are.
TEST(ChainPenaltyTest, AnL1PenaltyOfGroupsEndsWhereItsSubgradientVanishes) {
  const crf::ChainData plain = crf::testing::RandomChains(3, 3, 40, 6, 8);
  const crf::ChainData valued = crf::testing::WithValues(plain, 4);
  for (const crf::ChainData* data : {&plain, &valued}) {
    for (const int32_t transitions : {0, 1, 2}) {
      for (const std::vector<double>& l1 :
           {std::vector<double>{0.3, 2.0, 0.0}, {1.0, 1.0, 1.0}, {0.0, 0.0, 5.0}, {50.0, 0.2, 0.2}}) {
        const double start = LargestGradient(*data, VectorXd::Zero(data->shape().dim()), transitions);
        VectorXd reference;
        for (const std::string method : {"sag", "saga"}) {
          crf::ChainTrainerOptions options;
          options.method = method;
          options.average.step = stochastic::StepRule::kLmax;
          options.tolerance = 1e-7;
          options.max_passes = 3000.0;
          const VectorXd w = TrainGrouped(*data, transitions, options, l1);
          EXPECT_LT(LargestSubgradient(*data, w, transitions, l1), 1e-5 * start)
              << transitions << " " << l1[0] << " " << method;
          if (reference.size() == 0) reference = w;
          EXPECT_LT((w - reference).cwiseAbs().maxCoeff(), 1e-4);
          EXPECT_GT((w.array() != 0.0).count(), 0);
          if (l1[0] > 10.0) {
            EXPECT_EQ(w.head(data->shape().stride()), VectorXd::Zero(data->shape().stride()));
          }
        }
      }
    }
  }
}

TEST(ChainPenaltyTest, EqualStrengthsScaleNothing) {
  const ChainPenalty equal({0, 1, 1}, 1, {2.0, 2.0}, {0.5, 0.5});
  EXPECT_TRUE(equal.uniform());
  EXPECT_EQ(equal.l2(), 2.0);
  for (const int64_t row : {0, 1, 2, 3}) EXPECT_EQ(equal.l1().Of(row), 0.5);
  VectorXd w = VectorXd::Ones(32);
  equal.Unscale(8, &w);
  EXPECT_EQ(w, VectorXd::Ones(32));
  // u = w / s has s times the penalty.
  const ChainPenalty both({0, 1, 0}, 1, {0.5, 2.0}, {3.0, 4.0});
  EXPECT_FALSE(both.uniform());
  EXPECT_EQ(both.l1().Of(0), 6.0);
  EXPECT_EQ(both.l1().Of(1), 4.0);
  EXPECT_EQ(both.l1().Of(2), 6.0);
  EXPECT_EQ(both.l1().transitions(), 4.0);
  // Without any l1 there is none to scale.
  EXPECT_FALSE(ChainPenalty({0, 1, 0}, 1, {0.5, 2.0}, {0.0, 0.0}).l1().any());
}

class ChainGroupsTest : public ::testing::Test {
 protected:
  static BuiltinObjective Spec(study::Parameters options, const std::string& groups = "transitions; words: w[*") {
    BuiltinObjective spec;
    spec.model = "crf";
    spec.data = "synth:sequences?sentences=60&length=6&words=40";
    spec.split.seed = 1;
    spec.options = std::move(options);
    spec.options["l2_groups"] = groups;
    return spec;
  }
  static SearchSpace GroupSpace() {
    return Space({Float("l2", 1e-3, 1e3), Float("l2.transitions", 1e-3, 1e3), Float("l2.words", 1e-3, 1e3)});
  }
  absl::StatusOr<std::unique_ptr<Objective>> Create(const BuiltinObjective& spec, const SearchSpace& space) const {
    return CreateObjective(spec, space, kLoss, &root_);
  }

  testing::TemporaryDirectory dir_;
  data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
};

const study::Parameters kAt = {{"l2", 1.5}, {"l2.transitions", 0.2}, {"l2.words", 6.0}};

TEST_F(ChainGroupsTest, SolversAgreeAndEqualStrengthsAreTheUngroupedModelBitForBit) {
  double expected = 0.0;
  for (const char* solver : {"lbfgs", "sag", "saga"}) {
    const study::Parameters options = {
        {"solver", std::string(solver)}, {"tolerance", 1e-8}, {"max_passes", 2000.0}, {"gradient", false}};
    const auto made = Create(Spec(options), GroupSpace());
    ASSERT_TRUE(made.ok()) << made.status();
    const double loss = (*made)->Evaluate(At(kAt))->measurement->metrics.at("validation_loss");
    if (expected == 0.0) expected = loss;
    EXPECT_NEAR(loss, expected, 1e-6) << solver;
    const Measurement equal =
        *(*made)->Evaluate(At({{"l2", 1.5}, {"l2.transitions", 1.5}, {"l2.words", 1.5}}))->measurement;
    const Measurement plain = *(*Create(Spec(options, ""), L2Space()))->Evaluate(At({{"l2", 1.5}}))->measurement;
    EXPECT_EQ(equal, plain);
    EXPECT_GT(std::abs(loss - plain.metrics.at("validation_loss")), 1e-3) << "the strengths do something";
  }
}

// A strong one leaves no weight of its group; all alike is the ungrouped penalty, bit for bit.
TEST_F(ChainGroupsTest, AnL1PenaltyHasGroupsToo) {
  const study::Parameters options = {{"max_passes", 100.0}};
  const auto space = Space({Float("l2", 1e-3, 1e3), Float("l2.transitions", 1e-3, 1e3), Float("l2.words", 1e-3, 1e3),
                            Float("l1", 0, 1e3), Float("l1.transitions", 0, 1e3), Float("l1.words", 0, 1e3)});
  const auto made = Create(Spec(options), space);
  ASSERT_TRUE(made.ok()) << made.status();
  const auto at = [&](double l1, double transitions, double words, double l2_words = 1.0) {
    return *(*made)
                ->Evaluate(At({{"l2", 1.0},
                               {"l2.transitions", 1.0},
                               {"l2.words", l2_words},
                               {"l1", l1},
                               {"l1.transitions", transitions},
                               {"l1.words", words}}))
                ->measurement;
  };
  const Measurement plain = *(*Create(Spec(options, ""), Space({Float("l2", 1e-3, 1e3), Float("l1", 0, 1e3)})))
                                 ->Evaluate(At({{"l2", 1.0}, {"l1", 0.5}}))
                                 ->measurement;
  EXPECT_EQ(at(0.5, 0.5, 0.5), plain);
  const double all = plain.metrics.at("active_weights");
  const double wordless = at(0.5, 0.5, 1000.0).metrics.at("active_weights");
  const double only_words = at(1000.0, 1000.0, 0.5).metrics.at("active_weights");
  EXPECT_LT(wordless, all);
  EXPECT_LT(at(1000.0, 1000.0, 3.0).metrics.at("active_weights"), only_words);
  EXPECT_GT(wordless, 0.0);
  EXPECT_GT(only_words, 0.0);
  EXPECT_EQ(at(1000.0, 1000.0, 1000.0).metrics.at("active_weights"), 0.0);
  // And beside different l2.
  EXPECT_LT(at(0.5, 0.5, 2.0, 0.1).metrics.at("active_weights"), at(0.5, 0.5, 0.5, 0.1).metrics.at("active_weights"));
  // One group is enough to need a solver that can.
  const auto lbfgs = Create(Spec({{"solver", std::string("lbfgs")}, {"l1.words", 1.0}}), GroupSpace());
  ASSERT_TRUE(lbfgs.ok()) << lbfgs.status();
  const EvaluationResult refused = (*lbfgs)->Evaluate(At(kAt)).value();
  EXPECT_EQ(refused.outcome, EvaluationOutcome::kFailed);
  EXPECT_THAT(refused.failure->message, HasSubstr("l1 > 0 needs solver sag or saga"));
}

TEST_F(ChainGroupsTest, PausedAndResumedGivesTheSameBits) {
  for (const char* solver : {"sag", "saga", "lbfgs"}) {
    BuiltinObjective spec = Spec({{"solver", std::string(solver)}, {"max_passes", 9.0}, {"tolerance", 0.0}});
    if (std::string(solver) == "saga") spec.options["l1.words"] = 0.3;
    spec.split.folds = 2;
    const auto made = Create(spec, GroupSpace()).value();
    std::vector<Measurement> whole;
    const EvaluationResult straight = RunPaused(*made, kAt, {}, &whole);
    ASSERT_EQ(straight.outcome, EvaluationOutcome::kComplete);
    std::string saved;
    EvaluationContext context = At(kAt);
    context.target = 3;
    context.save_checkpoint = [&](std::string bytes) { saved = std::move(bytes); };
    ASSERT_EQ(made->Evaluate(context)->outcome, EvaluationOutcome::kPaused);
    EvaluationContext again = At(kAt);
    again.checkpoint = saved;
    const EvaluationResult resumed = made->Evaluate(again).value();
    EXPECT_TRUE(resumed.resumed) << solver;
    EXPECT_EQ(resumed.measurement, straight.measurement) << solver;
    again.parameters["l2.words"] = 5.0;
    EXPECT_FALSE(made->Evaluate(again)->resumed);
  }
}

TEST_F(ChainGroupsTest, ModelsAreTrainedWithThem) {
  const std::string data = "synth:sequences?sentences=60&length=6&words=40";
  const auto train = [&](const std::string& groups, const study::Parameters& parameters) {
    TrainRequest request;
    request.objective = Spec({{"solver", std::string("lbfgs")}, {"tolerance", 1e-9}, {"max_passes", 500.0}}, groups);
    request.parameters = parameters;
    return TrainModel(request, nullptr, {});
  };
  const auto grouped = train("transitions; words: w[*", kAt);
  ASSERT_TRUE(grouped.ok()) << grouped.status();
  // The other way round: names of the complement, so that l2 is the words' penalty.
  const auto other =
      train("rest: pos* bias ends; transitions", {{"l2", 6.0}, {"l2.rest", 1.5}, {"l2.transitions", 0.2}});
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_NEAR((*grouped)->info().metrics.at("train_loss"), (*other)->info().metrics.at("train_loss"), 1e-7);
  EXPECT_EQ(std::get<double>((*grouped)->info().settings.at("l2.words")), 6.0);
  const auto uniform = train("", {{"l2", 1.5}});
  EXPECT_GT(std::abs((*uniform)->info().metrics.at("train_loss") - (*grouped)->info().metrics.at("train_loss")), 1e-3);
  // On the file's own data the model has the loss that training ended with.
  const auto loaded = model::LoadModel((*grouped)->Save(), "m").value();
  EXPECT_EQ(loaded->info().settings, (*grouped)->info().settings);
}

TEST_F(ChainGroupsTest, LettersAndAttributesHaveGroupsToo) {
  BuiltinObjective letters = Spec({{"format", std::string("letters")}}, "shape: pixels; transitions; always: bias");
  letters.data = "synth:letters?words=40&letters=4&length=4";
  const auto made = Create(letters, Space({Float("l2", 0.1, 10), Float("l2.shape", 0.1, 10),
                                           Float("l2.transitions", 0.1, 10), Float("l2.always", 0.1, 10)}));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(
      (*made)->Evaluate(At({{"l2", 1.0}, {"l2.shape", 0.3}, {"l2.transitions", 3.0}, {"l2.always", 0.1}}))->outcome,
      EvaluationOutcome::kComplete);
  std::string file;
  for (int s = 0; s < 40; ++s) {
    absl::StrAppend(&file, s % 3 == 0 ? "B" : "O", "\tw=", s % 5, ":0.5\tp=a", s % 2, "\nO\tw=x\tp=b\n\n");
  }
  dir_.Write("tokens.txt", file);
  BuiltinObjective tokens = Spec({{"format", std::string("attributes")}}, "words: w=*; transitions");
  tokens.data = "tokens.txt";
  const auto with = Create(tokens, GroupSpace());
  ASSERT_TRUE(with.ok()) << with.status();
  EXPECT_EQ((*with)->Evaluate(At(kAt))->outcome, EvaluationOutcome::kComplete);
  tokens.options["l2_groups"] = std::string("words: v=*; transitions");
  EXPECT_THAT(std::string(Create(tokens, GroupSpace()).status().message()),
              HasSubstr("l2_groups: group \"words\": tokens.txt has no attribute like \"v=*\""));
  tokens.options["l2_groups"] = std::string("words: bias; transitions");
  EXPECT_THAT(std::string(Create(tokens, GroupSpace()).status().message()), HasSubstr("has no attribute \"bias\""));
}

TEST_F(ChainGroupsTest, KeptEncodingsHaveTheirGroups) {
  std::string text;
  for (int s = 0; s < 200; ++s)
    absl::StrAppend(&text, "w", s % 7, " P O\nw", s % 5, " Q ", s % 2 ? "B-X" : "O", "\n\n");
  dir_.Write("data/train.txt", text);
  const data::DataRoot root = data::DataRoot::Open(dir_.path() + "/data").value();
  const data::DataCache cache =
      data::DataCache::Open(dir_.path() + "/cache", {.min_source_bytes = 1, .settle_nanoseconds = 0}).value();
  const auto measure = [&](const std::string& groups) {
    BuiltinObjective spec = Spec({{"max_passes", 5.0}}, groups);
    spec.data = "train.txt";
    const auto made = CreateObjective(spec, GroupSpace(), kLoss, &root, &cache);
    EXPECT_TRUE(made.ok()) << made.status();
    return *(*made)->Evaluate(At(kAt))->measurement;
  };
  const Measurement first = measure("transitions; words: w[*");
  EXPECT_EQ(measure("transitions; words: w[*"), first);
  EXPECT_NE(measure("transitions; words: w[0] w[1]"), first);
}

TEST_F(ChainGroupsTest, ErrorsSayWhatAndWhere) {
  const auto problems = [&](const std::string& groups, study::Parameters options = {},
                            const SearchSpace& space = Space({Float("l2", 0.1, 1)})) {
    BuiltinObjective spec = Spec(std::move(options), groups);
    for (const char* name : {"a", "b"}) {
      if (groups.find(absl::StrCat(name, ":")) != std::string::npos) spec.options[absl::StrCat("l2.", name)] = 1.0;
    }
    return std::string(catalogue::Validate(spec, space, kLoss).message());
  };
  EXPECT_EQ(problems("a: w[0] w[-1]|w[0]; b: bias ends transitions"), "");
  EXPECT_EQ(problems("a: U0*; b: U10", {{"templates", std::string("U00:%x[0,0]\nU01:%x[1,0]\nU10:%x[0,1]")}}), "");
  EXPECT_THAT(problems("a: U02", {{"templates", std::string("U00:%x[0,0],U01:%x[1,0]")}}),
              HasSubstr("objective.builtin.options.l2_groups: group \"a\": the model has no part \"U02\"; it has "
                        "transitions, bias, ends, U00, U01"));
  EXPECT_THAT(problems("a: w[7]"), HasSubstr("the model has no part \"w[7]\"; it has transitions, bias, ends, w[-2]"));
  EXPECT_THAT(problems("a: w*; b: w[0]"), HasSubstr("part \"w[0]\" is in two groups, \"a\" and \"b\""));
  EXPECT_THAT(problems("a: 3"), HasSubstr("\"3\" is a number; parts go by their names here"));
  EXPECT_THAT(problems("a: *"), HasSubstr("every part of the model is in a group, so l2 has no effect"));
  EXPECT_EQ(problems("a: w*", {{"l1", 1.0}, {"l1.a", 0.5}}), "");
  EXPECT_EQ(problems("a: w*", {}, Space({Float("l2", 0.1, 1), Float("l1", 0, 1), Float("l1.a", 0, 1)})), "");
  EXPECT_THAT(problems("a: w*", {{"l1.b", 1.0}}), HasSubstr("has no option \"l1.b\""));
  EXPECT_THAT(problems("a: w*", {}, Space({Float("l2", 0.1, 1), Float("l1.c", 0, 1)})),
              HasSubstr("has no parameter \"l1.c\""));
  EXPECT_THAT(problems("a: w*", {{"l1.a", -1.0}}), HasSubstr("objective.builtin.options.l1.a: "));
  EXPECT_THAT(problems("a: pixels"), HasSubstr("the model has no part \"pixels\""));
  EXPECT_THAT(problems("a: w*; b: w["), HasSubstr("has no part \"w[\""));
  for (const double l2 : {0.0, -1.0, 1e300, std::nan("")}) {
    BuiltinObjective spec = Spec({{"l2.words", l2}, {"l2.transitions", 1.0}});
    EXPECT_THAT(std::string(catalogue::Validate(spec, L2Space(), kLoss).message()),
                HasSubstr("objective.builtin.options.l2.words: "));
  }
  // Found in a trial: switches of features.
  ParameterSpec bits;
  bits.name = "hash_bits";
  bits.domain = study::IntRange{.min = 0, .max = 10};
  const auto made = Create(Spec({{"l2.transitions", 1.0}, {"l2.words", 2.0}}), Space({Float("l2", 0.1, 10), bits}));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->Evaluate(At({{"l2", 1.0}, {"hash_bits", 0.0}}))->outcome, EvaluationOutcome::kComplete);
  EXPECT_THAT(std::string((*made)->Evaluate(At({{"l2", 1.0}, {"hash_bits", 8.0}})).status().message()),
              HasSubstr("hash_bits makes templates share weights"));
  // Templates that a trial drops leave an empty group, which is none of its faults.
  const auto narrow = Create(Spec({{"l2.a", 1.0}, {"window", 0.0}}, "a: w[-2] w[2]"), Space({Float("l2", 0.1, 10)}));
  ASSERT_TRUE(narrow.ok()) << narrow.status();
  EXPECT_EQ((*narrow)->Evaluate(At({{"l2", 3.0}}))->outcome, EvaluationOutcome::kComplete);
}

}  // namespace
}  // namespace luthier::objectives
