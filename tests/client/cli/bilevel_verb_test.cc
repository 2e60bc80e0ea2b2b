// `luthier bilevel`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;

class BilevelVerbTest : public CliTest {};

TEST_F(BilevelVerbTest, ShowsStrengthsMetricsAndPath) {
  std::string csv = "a,b,c,d,y\n";
  for (int i = 0; i < 60; ++i) {
    const double a = std::sin(i), b = std::cos(1.7 * i), c = std::sin(2.3 * i), d = std::cos(3.1 * i);
    absl::StrAppend(&csv, a, ",", b, ",", c, ",", d, ",", 2.0 * a - b + 0.5 * std::sin(29.0 * i), "\n");
  }
  const std::string path = Write("t.csv", csv);
  const Result table = Run({"bilevel", "elastic_net", "--data", path});
  EXPECT_EQ(table.code, kExitDone) << table.err;
  EXPECT_THAT(table.out, HasSubstr("strength  l1"));
  EXPECT_THAT(table.err, HasSubstr("step 1: validation_loss"));
  const Result json = Run(
      {"bilevel", "sparse_group_lasso", "--data", path, "--set", "group_size=2", "--validation", "0.3", "-o", "json"});
  EXPECT_EQ(json.code, kExitDone) << json.err;
  const auto parsed = nlohmann::json::parse(json.out);
  EXPECT_TRUE(parsed["strengths"].contains("group.3-4"));
  EXPECT_TRUE(parsed["metrics"].contains("iterate_loss"));
  EXPECT_EQ(parsed["path"].size(), parsed["path"].back()["step"].get<size_t>());
}

TEST_F(BilevelVerbTest, ExplainsMistakes) {
  EXPECT_EQ(Run({"bilevel", "lasso", "--data", "x.csv"}).code, kExitUsage);
  EXPECT_EQ(Run({"bilevel", "elastic_net"}).code, kExitUsage);
  const Result missing = Run({"bilevel", "elastic_net", "--data", Path("absent.csv")});
  EXPECT_NE(missing.code, kExitDone);
  EXPECT_THAT(missing.err, HasSubstr("absent.csv"));
  const Result option =
      Run({"bilevel", "elastic_net", "--data", "synth:regression?rows=50&cols=5", "--set", "strat=1"});
  EXPECT_THAT(option.err, HasSubstr("has no option"));
}

}  // namespace
}  // namespace luthier::cli
