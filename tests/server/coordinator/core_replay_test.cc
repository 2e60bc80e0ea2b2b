// Suggestions are functions of spec, ask index and a prefix of the log.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "lib/base/random.h"
#include "lib/search/registry.h"
#include "server/coordinator/proposals/replay.h"
#include "tests/server/coordinator/harness.h"

namespace luthier::coordinator::testing {
namespace {

using ::testing::IsEmpty;

double Objective(const study::Parameters& p) {
  const double x = std::get<double>(p.at("x"));
  const double n = std::get<double>(p.at("n"));
  return (x - 0.3) * (x - 0.3) + 0.01 * n;
}

// The loss and its derivatives, in the order of the parameters that have some: x.
study::Measurement Answer(const study::Parameters& p) {
  study::Measurement m = Loss(Objective(p));
  m.gradient.emplace().values = {2.0 * (std::get<double>(p.at("x")) - 0.3)};
  return m;
}

// What VerifyReplay checks, done the slow way: for each stored suggestion the history is built from nothing.
void ExpectReplays(Harness& h, const std::string& id) {
  const storage::StudyRecord record = h.Study(id);
  const std::vector<storage::TrialRecord> rows = h.Rows(id);
  int checked = 0;
  for (const storage::TrialRecord& row : rows) {
    const study::Provenance& p = row.trial.provenance;
    if (!p.ask_index) continue;
    study::History history = HistoryAt(&h.memory, record.key, record.spec, p.prefix_seq).value();
    // Asks of smaller index that were on their way at that time.
    for (const storage::TrialRecord& other : rows) {
      const study::Provenance& q = other.trial.provenance;
      if (q.ask_index && *q.ask_index < *p.ask_index && other.create_seq > p.prefix_seq) {
        history.AddSuggested(*q.ask_index, other.trial.parameters, q.designer_state);
      }
    }
    const std::unique_ptr<search::Designer> designer = search::CreateDesigner(record.spec);
    const auto again = SuggestOne(designer.get(), record.spec, history, *p.ask_index, base::StopToken());
    ASSERT_TRUE(again.ok() && again->has_value());
    EXPECT_EQ((*again)->parameters, row.trial.parameters) << "trial " << row.trial.number;
    EXPECT_EQ((*again)->origin, p.origin);
    EXPECT_EQ((*again)->details, p.details);
    EXPECT_EQ((*again)->designer_state, p.designer_state);
    ++checked;
  }
  const ReplayReport report = VerifyReplay(&h.memory, record).value();
  EXPECT_EQ(report.checked, checked);
  EXPECT_THAT(report.mismatches, IsEmpty());
}

// Workers that finish in an order drawn by `seed`, with releases, failures, restarts and suggestions that come late.
void RunStudy(Harness& h, const std::string& id, const study::StudySpec& spec, uint64_t seed, bool restarts) {
  base::RandomStream random(seed, "workers");
  ASSERT_TRUE(h.Create(id, spec).ok());
  h.late_suggestions = true;
  std::vector<Grant> running;
  std::vector<Answered<SuggestReply>> asks;
  for (int step = 0; step < 2000 && h.Study(id).state == study::StudyState::kActive; ++step) {
    const uint64_t what = random.UniformInt(10);
    if (what < 4 && asks.size() + running.size() < 3) {
      asks.push_back(h.Ask(id, absl::StrCat("w", random.UniformInt(3)), 1, absl::Hours(100)));
    } else if (what < 6 && !running.empty()) {
      const size_t which = random.UniformInt(running.size());
      const Grant grant = running[which];
      running.erase(running.begin() + static_cast<std::ptrdiff_t>(which));
      if (random.UniformInt(8) == 0) {
        ASSERT_TRUE(h.Release(grant).ok());
      } else if (grant.trial.number % 7 == 0) {
        ASSERT_TRUE(h.Fail(grant, MakeFailure(study::FailureKind::kConfig)).ok());
      } else {
        ASSERT_TRUE(h.Complete(grant, Answer(grant.trial.parameters)).ok());
      }
    } else if (what < 9) {
      std::vector<Operation> operations;
      if (std::optional<ProposalsOp> proposals = h.ComputeOne()) operations.push_back(*std::move(proposals));
      ASSERT_TRUE(h.Batch(std::move(operations)).ok());
    } else if (restarts && random.UniformInt(5) == 0) {
      h.Restart();
      asks.clear();
    }
    for (auto ask = asks.begin(); ask != asks.end();) {
      if (!ask->ready()) {
        ++ask;
        continue;
      }
      for (const Grant& grant : ask->get()->grants) running.push_back(grant);
      ask = asks.erase(ask);
    }
  }
  EXPECT_EQ(h.Study(id).state, study::StudyState::kCompleted);
}

class ReplayEveryAlgorithm : public ::testing::TestWithParam<std::string> {
 protected:
  study::StudySpec Spec() const {
    study::StudySpec spec = MakeSpec(24);
    if (GetParam() == "bo") spec = BoSpec(24);
    if (GetParam() == "sobol") spec.algorithm = study::SobolOptions{};
    if (GetParam() == "grid") spec.algorithm = study::GridOptions{};
    if (GetParam() == "halton") spec.algorithm = study::HaltonOptions{};
    if (GetParam() == "tpe") spec.algorithm = study::TpeOptions{.startup_trials = 5};
    if (GetParam() == "cma_es") spec.algorithm = study::CmaEsOptions{.population = 4};
    if (GetParam() == "nsga2") spec.algorithm = study::Nsga2Options{.population = 6};
    if (GetParam() == "hoag") spec.algorithm = study::HoagOptions{.chains = 3};
    if (GetParam() == "fobo") spec.algorithm = study::BoDefaults(study::BoPreset::kFobo);
    EXPECT_EQ(study::AlgorithmName(spec.algorithm), GetParam());
    return spec;
  }
};

TEST_P(ReplayEveryAlgorithm, EverySuggestionIsComputedAgainBitForBit) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Harness h;
    RunStudy(h, "s", Spec(), seed, /*restarts=*/true);
    ExpectReplays(h, "s");
  }
}

TEST_P(ReplayEveryAlgorithm, AReproducibleStudyTriesTheSameSettingsInWhateverOrderWorkersFinish) {
  study::StudySpec spec = Spec();
  spec.reproducible = true;
  spec.budget.max_parallel = GetParam() == "hoag" ? 1 : 3;  // Chains wait for results: more is refused at creation.
  std::map<uint64_t, study::Parameters> first;
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    Harness h;
    RunStudy(h, "s", spec, seed, /*restarts=*/seed % 2 == 0);
    std::map<uint64_t, study::Parameters> asked;
    for (const storage::TrialRecord& row : h.Rows("s")) {
      asked[*row.trial.provenance.ask_index] = row.trial.parameters;
    }
    EXPECT_EQ(asked.size(), 24u);
    if (seed == 1) first = asked;
    EXPECT_EQ(asked, first) << "seed " << seed;
    ExpectReplays(h, "s");
  }
}
INSTANTIATE_TEST_SUITE_P(All, ReplayEveryAlgorithm,
                         ::testing::Values("bo", "cma_es", "fobo", "grid", "halton", "hoag", "nsga2", "random", "sobol",
                                           "tpe"),
                         [](const auto& p) { return p.param; });

TEST(CoreReplay, WithoutReproducibleTheOrderOfResultsMatters) {
  std::vector<std::vector<study::Parameters>> settings;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Harness h;
    RunStudy(h, "s", BoSpec(20), seed, false);
    settings.emplace_back();
    for (const storage::TrialRecord& row : h.Rows("s")) {
      settings.back().push_back(row.trial.parameters);
    }
  }
  EXPECT_NE(settings[0], settings[1]);  // Otherwise the test above shows nothing.
}

TEST(CoreReplay, EnqueuedTrialsAreHistoryToo) {
  Harness h;
  ASSERT_TRUE(h.Create("s", BoSpec(16)).ok());
  for (int i = 0; i < 8; ++i) {
    NewTrial setting;
    setting.parameters["x"] = 0.1 * i;
    ASSERT_TRUE(h.Enqueue("s", {setting}).ok());
    for (int k = 0; k < 2; ++k) {
      const Grant grant = h.Get("s", "a");
      ASSERT_TRUE(h.Complete(grant, Loss(Objective(grant.trial.parameters))).ok());
    }
  }
  EXPECT_EQ(h.Study("s").state, study::StudyState::kCompleted);
  ExpectReplays(h, "s");
}

TEST(CoreReplay, AChangedSettingIsFound) {
  Harness h;
  ASSERT_TRUE(h.Create("s", MakeSpec(3)).ok());
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(h.Complete(h.Get("s", "a"), Loss(i)).ok());
  storage::TrialRecord row = h.Trial("s", 2);
  row.trial.parameters["x"] = std::nextafter(std::get<double>(row.trial.parameters["x"]), 2.0);
  ASSERT_TRUE(h.memory.Commit({storage::PutTrial{h.Study("s").key, row}}).ok());
  const ReplayReport report = VerifyReplay(&h.memory, h.Study("s")).value();
  ASSERT_EQ(report.mismatches.size(), 1u);
  EXPECT_THAT(report.mismatches[0], ::testing::HasSubstr("trial 2 (ask 1)"));
}

TEST(CoreReplay, AReproducibleStudyWaitsForTheResultItNeeds) {
  Harness h;
  study::StudySpec spec = MakeSpec(10);
  spec.reproducible = true;
  spec.budget.max_parallel = 2;
  ASSERT_TRUE(h.Create("s", spec).ok());
  const Grant one = h.Get("s", "a");
  const Grant two = h.Get("s", "b");
  ASSERT_TRUE(h.Complete(two, Loss(1)).ok());
  const Answered<SuggestReply> ask = h.Ask("s", "b");
  EXPECT_FALSE(ask.ready());  // There is room, but ask 2 may see trial 1's result.
  ASSERT_TRUE(h.Complete(one, Loss(1)).ok());
  EXPECT_TRUE(ask.ready());
}

}  // namespace
}  // namespace luthier::coordinator::testing
