#include "lib/notation/synth_specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luthier::notation {
namespace {

using ::testing::HasSubstr;

TEST(SynthSpecsTest, WrongUrisSayWhatIsRight) {
  const auto error = [](const std::string& uri) { return std::string(ParseSynth(uri).status().message()); };
  EXPECT_THAT(error("synth:logisitc?rows=9"), HasSubstr("did you mean \"logistic\"?"));
  EXPECT_THAT(error("synth:logistic?row=9"), HasSubstr("did you mean \"rows\"?"));
  EXPECT_THAT(error("synth:logistic?rows=9&rows=9"), HasSubstr("twice"));
  EXPECT_THAT(error("synth:logistic?rows=-9"), HasSubstr("from 4 to"));
  EXPECT_THAT(error("synth:logistic?rows"), HasSubstr("key=value"));
  EXPECT_THAT(error("synth:logistic?noise=nan"), HasSubstr("from 0 to 1"));
  EXPECT_THAT(error("synth:logistic?rows=10&classes=6"), HasSubstr("below two"));
  EXPECT_THAT(error("synth:logistic?rows=10000000&cols=1000000"), HasSubstr("5e8"));
  EXPECT_THAT(error("synth:logistic?cols=3&informative=4"), HasSubstr("above cols"));
  EXPECT_THAT(error("synth:logistic?seed=x"), HasSubstr("seed"));
  const auto images = [](const std::string& uri) { return std::string(CheckSynthRows(uri, false).message()); };
  EXPECT_THAT(images("synth:image"), HasSubstr("did you mean \"images\"?"));
  EXPECT_THAT(images("synth:images?cols=9"), HasSubstr("keys are rows, side, classes, noise, seed"));
  EXPECT_THAT(images("synth:images?side=3"), HasSubstr("from 4 to 256"));
  EXPECT_THAT(images("synth:images?rows=10"), HasSubstr("below two"));
  EXPECT_THAT(images("synth:images?rows=1000000&side=256"), HasSubstr("10^9 pixels"));
}

TEST(SynthSpecsTest, MatricesAreNumbersToPredict) {
  EXPECT_TRUE(CheckSynthRows("synth:matrix?rows=9&cols=8&known=30&features=2", true).ok());
  const auto error = [](const std::string& uri) { return std::string(CheckSynthRows(uri, true).message()); };
  EXPECT_THAT(error("synth:matrx"), HasSubstr("did you mean \"matrix\"?"));
  EXPECT_THAT(error("synth:matrix?rank=0"), HasSubstr("from 1 to 100"));
  EXPECT_THAT(error("synth:matrix?known=10000000&features=1000"), HasSubstr("5e8"));
  EXPECT_FALSE(CheckSynthRows("synth:matrix", false).ok());
}

TEST(SynthSpecsTest, SequencesAndLettersAreToldApartByTheFormat) {
  EXPECT_TRUE(CheckSynthChains("synth:sequences?sentences=4", "attributes").ok());
  EXPECT_TRUE(CheckSynthChains("synth:letters?words=4", "letters").ok());
  EXPECT_THAT(std::string(CheckSynthChains("synth:letters", "").message()),
              HasSubstr("there is no generator \"letters\" here"));
  EXPECT_THAT(std::string(CheckSynthChains("synth:sequences", "letters").message()),
              HasSubstr("there is no generator \"sequences\" here"));
  EXPECT_THAT(std::string(ParseSynthSequences("synth:sequences?types=0").status().message()),
              HasSubstr("from 1 to 100"));
  EXPECT_THAT(std::string(ParseSynthSequences("synth:sequences?sentences=1000000&length=1000").status().message()),
              HasSubstr("10^8 tokens"));
  EXPECT_THAT(std::string(ParseSynthLetters("synth:letters?letters=27").status().message()), HasSubstr("from 2 to 26"));
}

}  // namespace
}  // namespace luthier::notation
