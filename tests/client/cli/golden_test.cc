// What people and scripts see, whole: help of every verb, tables of 80 columns, JSON and YAML. Compared with
// golden/*.txt; LUTHIER_UPDATE_GOLDEN=1 writes these files anew, and the difference is read before it is committed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/cli/table.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

// Times, which differ from run to run, in the same width.
std::string Scrubbed(std::string text) {
  text = std::regex_replace(text, std::regex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"), "TIME");
  return std::regex_replace(text, std::regex("[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}"),
                            "YYYY-MM-DD hh:mm:ss");
}

void ExpectGolden(const std::string& name, const std::string& text) {
  const char* root = std::getenv("LUTHIER_SOURCE_DIR");
  ASSERT_NE(root, nullptr) << "run through ctest, or set LUTHIER_SOURCE_DIR to the root of the sources";
  const std::string path = absl::StrCat(root, "/tests/client/cli/golden/", name);
  if (std::getenv("LUTHIER_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path;
  std::ostringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(golden.str(), text) << "of " << path << "; if it is meant: LUTHIER_UPDATE_GOLDEN=1";
}

// The verbs that a page of help lists under Subcommands.
std::vector<std::string> VerbsOf(const std::string& help) {
  std::vector<std::string> verbs;
  bool listed = false;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(help, '\n'))) {
    if (line == "Subcommands:") listed = true;
    if (line.empty()) listed = false;
    if (listed && line.size() > 2 && line[0] == ' ' && line[2] != ' ')
      verbs.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return verbs;
}

TEST_F(CliTest, HelpOfEveryVerbIsWhatIsKept) {
  std::vector<std::vector<std::string>> paths = {{}};
  std::string text;
  for (size_t i = 0; i < paths.size(); ++i) {
    std::vector<std::string> args = paths[i];
    args.emplace_back("--help");
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0);
    absl::StrAppend(&text, "$ luthier ", absl::StrJoin(args, " "), "\n", result.out, "\n");
    for (const std::string& verb : VerbsOf(result.out)) {
      paths.push_back(paths[i]);
      paths.back().push_back(verb);
    }
  }
  EXPECT_GT(paths.size(), 45u);
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    const bool copied = line.substr(0, 9) == "  luthier";
    EXPECT_TRUE(copied || ShownWidth(line) <= 80) << line;
  }
  text = std::regex_replace(text, std::regex("=unix:[^ ]*"), "=ADDRESS");
  ExpectGolden("help.txt", text);
}

constexpr char kManyParameters[] = R"(
space:
- {name: learning_rate, float: {min: 1.0e-5, max: 1, scale: LOG}}
- {name: kind, categorical: {values: [linear, a_long_name_of_a_kernel]}}
- {name: depth, int: {min: 1, max: 9}}
- {name: momentum, float: {min: 0, max: 1}}
- {name: weight_decay, float: {min: 1.0e-8, max: 1, scale: LOG}}
metric: {name: loss, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 4}
seed: 7
)";

TEST_F(CliTest, OutputOfAStudyIsWhatIsKept) {
  StartServer();
  variables_["COLUMNS"] = "80";
  Out({"study", "create", "-f", Write("small.yaml", kStudy)});
  Out({"study", "create", "-f", Write("a-study-with-a-rather-long-name.yaml", kManyParameters)});
  const std::string id = "a-study-with-a-rather-long-name";
  Out({"ask", id, "--count", "4"});
  Out({"report", id, "1", "--step", "1", "--metric", "loss=0.51234567890123456"});
  Out({"tell", id, "1", "--metric", "loss=0.12345678901234567", "--metric", "accuracy=0.9", "--elapsed", "1.5"});
  Out({"tell", id, "2", "--failed", "DIVERGED", "--message", "the loss became \"NaN\"\nat step 3"});
  Out({"tell", id, "3", "--pruned", "--metric", "loss=2", "--step", "4"});
  const std::vector<std::vector<std::string>> commands = {
      {"study", "list"},
      {"study", "list", "-o", "wide"},
      {"study", "list", "-o", "name"},
      {"study", "list", "--state", "Active", "-o", "csv"},
      {"study", "get", id},
      {"study", "get", id, "-o", "json"},
      {"study", "get", id, "-o", "yaml"},
      {"study", "watch", "small", "--after", "0"},
      {"trial", "list", id},
      {"trial", "list", id, "-o", "wide"},
      {"trial", "list", id, "-o", "csv"},
      {"trial", "list", id, "-o", "name"},
      {"trial", "list", id, "--state", "complete", "-o", "json"},
      {"trial", "list", id, "--state", "FAILED", "-o", "yaml"},
      {"trial", "get", id, "1", "--measurements"},
      {"trial", "get", id, "2"},
      {"trial", "explain", id, "1"},
      {"algorithms"},
  };
  Out({"study", "stop", "small"});
  std::string text;
  for (const std::vector<std::string>& args : commands) {
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    absl::StrAppend(&text, "$ luthier ", absl::StrJoin(args, " "), "\n", result.err.empty() ? "" : "[standard error]\n",
                    result.err, result.err.empty() ? "" : "[standard output]\n", result.out, "\n");
    const bool whole = result.out.find("  ") != std::string::npos && args.size() < 4 && args.back() != "wide";
    if (!whole || args[0] == "study") continue;
    for (const std::string& line : std::vector<std::string>(absl::StrSplit(result.out, '\n')))
      EXPECT_LE(ShownWidth(line), 80u) << line;
  }
  ExpectGolden("study.txt", Scrubbed(text));
}

}  // namespace
}  // namespace luthier::cli
