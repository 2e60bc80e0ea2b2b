#ifndef LUTHIER_TESTS_LIB_OBJECTIVES_CRF_OBJECTIVE_TESTING_H_
#define LUTHIER_TESTS_LIB_OBJECTIVES_CRF_OBJECTIVE_TESTING_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "lib/base/random.h"
#include "lib/data/data_root.h"
#include "lib/objectives/create.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

// What the tests of objective `crf` share.
namespace luthier::objectives {

// Sentences whose chunks follow from their words, mostly.
inline std::string Sentences(uint64_t seed, int sentences) {
  base::RandomStream random(seed, "test.sentences");
  std::string text;
  for (int s = 0; s < sentences; ++s) {
    bool inside = false;
    const uint64_t length = 2 + random.UniformInt(8);
    for (uint64_t t = 0; t < length; ++t) {
      const uint64_t word = random.UniformInt(12);
      const bool chunk = (word % 3 != 0) != (random.Uniform() < 0.1);
      absl::StrAppend(&text, "Word", word, " P", word % 4, chunk ? (inside ? " I-NP" : " B-NP") : " O", "\n");
      inside = chunk;
    }
    text += "\n";
  }
  return text;
}

// Words of three letters, each with pixels of its own.
inline std::string Letters() {
  base::RandomStream random(5, "test.letters");
  std::string file;
  for (int word = 0; word < 40; ++word) {
    for (int t = 0; t < 4; ++t) {
      const uint64_t letter = random.UniformInt(3);
      std::string bitmap(32, '0');
      bitmap[letter] = 'f';
      bitmap[random.UniformInt(32)] = '8';
      absl::StrAppend(&file, "a\t", word, "\t", t, "\t", std::string(1, static_cast<char>('x' + letter)), "\t", bitmap,
                      "\n");
    }
  }
  return file;
}

// The sentences in CRFsuite's format.
inline std::string Tokens(const std::string& sentences) {
  std::string file;
  for (const absl::string_view line : absl::StrSplit(sentences, '\n')) {
    const std::vector<absl::string_view> f = absl::StrSplit(line, ' ');
    if (f.size() == 3) absl::StrAppend(&file, f[2], "\tw=", f[0], ":0.5\tp=", f[1], "\n");
    if (f.size() != 3) file += "\n";
  }
  return file;
}

class CrfObjectiveTest : public ::testing::Test {
 protected:
  CrfObjectiveTest() {
    dir_.Write("train.txt", Sentences(1, 120));
    dir_.Write("test.txt", Sentences(2, 60) + "New P1 B-XX\n\n");
    study::FloatRange range;
    range.min = 1e-3;
    range.max = 1e3;
    range.scale = study::Scale::kLog;
    study::ParameterSpec l2;
    l2.name = "l2";
    l2.domain = range;
    space_ = study::SearchSpace::Create({l2}).value();
  }

  study::BuiltinObjective Spec(study::Parameters options) const {
    study::BuiltinObjective spec;
    spec.model = "crf";
    spec.data = "train.txt";
    spec.options = std::move(options);
    return spec;
  }
  absl::StatusOr<std::unique_ptr<Objective>> Make(study::BuiltinObjective spec) const {
    return CreateObjective(spec, space_, kLoss, &root_);
  }
  std::unique_ptr<Objective> Make(study::Parameters options) const { return Make(Spec(std::move(options))).value(); }

  testing::TemporaryDirectory dir_;
  data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
  study::SearchSpace space_;
};

inline EvaluationContext AtStrength(double l2) {
  EvaluationContext context;
  context.parameters = {{"l2", l2}};
  context.seed = 3;
  return context;
}

inline double Loss(const EvaluationResult& result) {
  return result.measurement->metrics.at("validation_loss");
}

}  // namespace luthier::objectives

#endif  // LUTHIER_TESTS_LIB_OBJECTIVES_CRF_OBJECTIVE_TESTING_H_
