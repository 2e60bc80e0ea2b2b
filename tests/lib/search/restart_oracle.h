#ifndef LUTHIER_TESTS_LIB_SEARCH_RESTART_ORACLE_H_
#define LUTHIER_TESTS_LIB_SEARCH_RESTART_ORACLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "lib/base/random.h"
#include "lib/search/designer.h"
#include "lib/search/registry.h"
#include "lib/study/encoding.h"
#include "lib/study/study_spec.h"
#include "tests/contract/fake_study.h"

namespace luthier::search {

// Every field.
inline void ExpectSameSuggestion(const Suggestion& a, const Suggestion& b) {
  EXPECT_EQ(a.resume, b.resume);
  EXPECT_EQ(a.resource, b.resource);
  EXPECT_EQ(a.parameters, b.parameters);
  EXPECT_EQ(a.origin, b.origin);
  EXPECT_EQ(a.details, b.details);
  EXPECT_EQ(a.designer_state, b.designer_state);
  EXPECT_EQ(a.direction, b.direction);
  EXPECT_EQ(a.set_aside, b.set_aside);
}

// How a trial with these parameters ends.
using Ending = std::function<contract::Outcome(base::RandomStream&, const study::Parameters&)>;

struct RestartRun {
  uint64_t asks = 10;
  size_t workers = 4;
  int enqueued = 0;  // Random settings that users give in before the first ask.
  Ending enqueued_ending = nullptr;
  Ending ending = nullptr;
};

// Some workers whose results come out of order. Before each ask the service dies: a new designer, with the history
// rebuilt from the log, answers bit by bit like the one that lives on. Returns the answers.
inline std::vector<Suggestion> ExpectRestartsChangeNothing(const study::StudySpec& spec, const RestartRun& run) {
  constexpr uint64_t kSeed = 7;
  SCOPED_TRACE(testing::Message() << "seed " << kSeed);
  base::RandomStream random(kSeed, "test/restart");
  const study::Encoding encoding(spec.space);
  const std::unique_ptr<Designer> living = CreateDesigner(spec);
  contract::FakeStudy study;
  for (int i = 0; i < run.enqueued; ++i) {
    const study::Parameters parameters = encoding.Sample(random);
    study.Finish(study.Enqueue(parameters), run.enqueued_ending(random, parameters));
  }
  std::vector<Suggestion> answers;
  while (study.asks() < run.asks) {
    if (study.open().size() < run.workers && random.Uniform() < 0.6) {
      const absl::StatusOr<Suggestion> a = living->Suggest(study.history(), study.asks(), base::StopToken());
      const absl::StatusOr<Suggestion> b =
          CreateDesigner(spec)->Suggest(study.Replay(study.events()), study.asks(), base::StopToken());
      EXPECT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
      if (!a.ok() || !b.ok()) return answers;
      ExpectSameSuggestion(*a, *b);
      answers.push_back(*a);
      study.Suggested(*a);
      study.Store();
    } else if (!study.open().empty()) {
      const int64_t number = study.open()[random.UniformInt(study.open().size())];
      study.Finish(number, run.ending(random, study.history().trials()[static_cast<size_t>(number - 1)].parameters));
    }
  }
  return answers;
}

// Values that say nothing, and failures.
inline contract::Outcome NoiseAndFailures(base::RandomStream& random, const study::Parameters&) {
  if (random.Uniform() < 0.15) return contract::Failed(study::FailureKind::kConfig);
  return contract::Complete(random.Normal());
}

}  // namespace luthier::search

#endif  // LUTHIER_TESTS_LIB_SEARCH_RESTART_ORACLE_H_
