#include "client/cli/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using Json = nlohmann::ordered_json;

TEST(YamlText, IsBlocksOfPlainAndQuotedScalars) {
  const Json value = Json::parse(R"({"a": 1, "b": [1.5, {"c": null, "d": []}, [true, "x"]], "e": {}, "no": "no",
                                     "f": {"g": {"h": "a: b"}}, "1": "12", "i": "line\nbreak", "k": "plain_text-1.0"})");
  EXPECT_EQ(YamlText(value),
            "a: 1\n"
            "b:\n"
            "  - 1.5\n"
            "  - c: null\n"
            "    d: []\n"
            "  - - true\n"
            "    - x\n"
            "e: {}\n"
            "\"no\": \"no\"\n"
            "f:\n"
            "  g:\n"
            "    h: \"a: b\"\n"
            "\"1\": \"12\"\n"
            "i: \"line\\nbreak\"\n"
            "k: plain_text-1.0\n");
  EXPECT_EQ(YamlText(Json::array()), "[]\n");
  EXPECT_EQ(YamlText(3), "3\n");
}

// The spec that `study get` prints is a study file.
TEST_F(CliTest, YamlOfAStudyIsReadAgain) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  EXPECT_EQ(Out({"trial", "list", "s", "-o", "yaml"}), "[]\n");
  Out({"ask", "s", "--count", "2"});
  const std::string yaml = Out({"study", "get", "s", "-o", "yaml"});
  EXPECT_THAT(yaml, ::testing::HasSubstr("\nspec:\n  display_name: \"\"\n"));
  EXPECT_THAT(yaml, ::testing::HasSubstr("\n          - \"=b\"\n"));
  std::string spec;
  for (size_t at = yaml.find("\nspec:\n") + 7; yaml.compare(at, 2, "  ") == 0; at = yaml.find('\n', at) + 1) {
    spec += yaml.substr(at + 2, yaml.find('\n', at) + 1 - at - 2);
  }
  Out({"study", "create", "-f", Write("again.yaml", spec)});
  EXPECT_EQ(CliTest::Json({"study", "get", "s"})["spec"], CliTest::Json({"study", "get", "again"})["spec"]);
  const std::string trials = Out({"trial", "list", "s", "-o", "yaml"});
  EXPECT_EQ(trials.substr(0, 2), "- ");
  EXPECT_THAT(trials, ::testing::HasSubstr("\n- "));
}

}  // namespace
}  // namespace luthier::cli
