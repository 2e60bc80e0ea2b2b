// Names, widths, colours and --watch of lists and gets; what a file of results keeps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CliTest, NamesOfResultsAreTakenBackInPlaceOfStudyAndTrial) {
  StartServer();
  EXPECT_EQ(Out({"study", "create", "-f", Write("s.yaml", kStudy), "-o", "name"}), "projects/default/studies/s\n");
  EXPECT_EQ(Out({"study", "list", "-o", "name"}), "projects/default/studies/s\n");
  EXPECT_EQ(Out({"ask", "s", "--count", "2", "-o", "name"}),
            "projects/default/studies/s/trials/1\nprojects/default/studies/s/trials/2\n");
  EXPECT_EQ(Out({"tell", "projects/default/studies/s/trials/1", "--metric", "y=1", "-o", "name"}),
            "projects/default/studies/s/trials/1\n");
  EXPECT_EQ(Out({"tell", "s", "2", "--failed", "BROKEN"}), "trial 2: FAILED\n");
  EXPECT_EQ(Out({"trial", "list", "s", "--state", "Complete", "-o", "name"}), "projects/default/studies/s/trials/1\n");
  EXPECT_EQ(Json({"trial", "get", "projects/default/studies/s/trials/2"})["state"], "FAILED");
  EXPECT_EQ(Out({"trial", "best", "s", "-o", "name"}), "projects/default/studies/s/trials/1\n");
  // Several at once, as a shell makes of $(luthier trial list s -o name).
  EXPECT_EQ(Out({"trial", "delete", "projects/default/studies/s/trials/1", "projects/default/studies/s/trials/2",
                 "--yes", "-o", "name"}),
            "projects/default/studies/s/trials/1\nprojects/default/studies/s/trials/2\n");
  EXPECT_EQ(Out({"study", "delete", "projects/default/studies/s", "--yes", "-o", "name"}),
            "projects/default/studies/s\n");
  EXPECT_THAT(Out({"algorithms", "-o", "name"}), AllOf(HasSubstr("\nbo\n"), Not(HasSubstr(" "))));
  EXPECT_THAT(Out({"objectives", "-o", "name"}), HasSubstr("\nlogistic\n"));
}

TEST_F(CliTest, WidthIsColumnsElseTheTerminalsElseUnlimited) {
  StartServer();
  Out({"study", "create", "-f", Write("a-study-with-a-rather-long-name.yaml", kStudy)});
  const auto header = [&] { return Out({"study", "list"}).substr(0, Out({"study", "list"}).find('\n')); };
  EXPECT_THAT(header(), EndsWith("  created")) << "a pipe gets everything";
  out_width_ = 80;
  EXPECT_THAT(header(), Not(HasSubstr("created")));
  EXPECT_THAT(Run({"study", "list"}).err, HasSubstr("\nno room for "));
  EXPECT_THAT(Out({"study", "list", "-o", "wide"}), HasSubstr("  created"));
  variables_["COLUMNS"] = "200";
  EXPECT_THAT(header(), EndsWith("  created"));
  for (const char* text : {"0", "-5", "", "wide", "1e3", "99999999999999999999"}) {
    variables_["COLUMNS"] = text;
    EXPECT_THAT(header(), Not(HasSubstr("created"))) << text << ": the terminal's";
  }
  variables_["COLUMNS"] = "1";
  EXPECT_THAT(header(), HasSubstr("state"));
}

TEST_F(CliTest, ColourIsForTerminalsWithoutNoColor) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  const std::string escape = "\x1b[";
  variables_["TERM"] = "xterm";
  EXPECT_THAT(Out({"study", "list"}), Not(HasSubstr(escape))) << "a pipe";
  out_width_ = 80;
  EXPECT_THAT(Out({"study", "list"}), HasSubstr("\x1b[36mACTIVE\x1b[0m"));
  EXPECT_THAT(Out({"study", "list", "-o", "csv"}), Not(HasSubstr(escape)));
  variables_["NO_COLOR"] = "1";
  EXPECT_THAT(Out({"study", "list"}), Not(HasSubstr(escape)));
  variables_["NO_COLOR"] = "";
  EXPECT_THAT(Out({"study", "list"}), HasSubstr(escape)) << "no-color.org: an empty one says nothing";
  variables_["TERM"] = "dumb";
  EXPECT_THAT(Out({"study", "list"}), Not(HasSubstr(escape)));
}

TEST_F(CliTest, WatchPrintsWhatChangesAndEndsWithTheStudy) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s", "--count", "4"});
  Out({"tell", "s", "1", "--metric", "y=9"});
  std::thread other([&] {
    for (int i = 2; i <= 4; ++i) Out({"tell", "s", std::to_string(i), "--metric", absl::StrCat("y=", 5 - i)});
  });
  std::thread study([&] {
    const std::string text = Out({"study", "get", "s", "--watch"});
    EXPECT_THAT(text, StartsWith("id  state"));
    EXPECT_THAT(text, HasSubstr("\ns   COMPLETED "));
  });
  std::thread best([&] {
    const std::vector<std::string> lines = absl::StrSplit(Out({"trial", "best", "s", "-w", "-o", "json"}), '\n');
    ASSERT_GE(lines.size(), 2u);
    EXPECT_EQ(json::parse(lines[lines.size() - 2])["number"], 4);
  });
  const std::vector<std::string> lines = absl::StrSplit(Out({"trial", "list", "s", "--watch"}), '\n');
  other.join();
  study.join();
  best.join();
  EXPECT_THAT(lines[0], StartsWith("number  state"));
  EXPECT_GE(lines.size(), 1u + 4u);
  int final_rows = 0;
  for (const std::string& line : lines) final_rows += line.find("COMPLETE") != std::string::npos ? 1 : 0;
  EXPECT_EQ(final_rows, 4) << "each once";
  // Nothing changes any more: the list, and no waiting.
  EXPECT_EQ(Out({"trial", "list", "s", "--watch", "-o", "csv"}), Out({"trial", "list", "s", "-o", "csv"}));
  EXPECT_EQ(Out({"trial", "get", "s", "3", "--watch", "-o", "csv"}), Out({"trial", "get", "s", "3", "-o", "csv"}));
  EXPECT_EQ(Out({"trial", "list", "s", "-w", "-o", "name"}), Out({"trial", "list", "s", "-o", "name"}));
  EXPECT_THAT(Out({"trial", "get", "s", "3", "--watch", "-o", "yaml"}), StartsWith("---\nnumber: 3\n"));
  EXPECT_EQ(Run({"trial", "get", "s", "9", "--watch"}).code, 5);
}

// An export without what must differ: the study's and the trials' names, the place in the log, and where a trial came
// from, which an import replaces by itself.
std::vector<json> Comparable(const std::string& text, bool imported) {
  std::vector<json> lines;
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n', absl::SkipEmpty()))) {
    json value = json::parse(line);
    for (const char* field : {"id", "name", "update_seq"}) value.erase(field);
    if (!imported) {
      for (const char* field : {"provenance", "attempts", "resource_spent"}) value.erase(field);
      if (value.contains("attributes")) value["attributes"].erase("luthier.source");
    }
    lines.push_back(std::move(value));
  }
  return lines;
}

TEST_F(CliTest, ExportsComeBackAsTheyWere) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", R"(
space: [{name: x, float: {min: -5, max: 5}}, {name: v, float: {min: 0, max: 1}, count: 2},
        {name: kind, categorical: {values: ["1", "ü\"b"]}}, {name: on, bool: {}}]
metric: {name: y, goal: MINIMIZE}
algorithm: {bo: {}}
budget: {max_trials: 8}
seed: 18446744073709551615
labels: {"a b": "ü"}
)")});
  for (int i = 1; i <= 8; ++i) {
    Out({"ask", "s"});
    const std::string number = absl::StrCat(i);
    Out({"report", "s", number, "--step", "1", "--metric", "y=0.1", "--metric", "z=-inf", "--elapsed", "0.1"});
    if (i == 3) {
      Out({"tell", "s", number, "--failed", "DIVERGED", "--message", "é \"q\"\n\tend"});
    } else if (i == 4) {
      Out({"tell", "s", number, "--pruned", "--metric", "y=1e-310", "--step", "2"});
    } else {
      Out({"tell", "s", number, "--metric", absl::StrCat("y=", 0.1 * i + 1e-16), "--metric", "z=nan", "--step", "3",
           "--training", "limit"});
    }
  }
  Out({"trial", "note", "s", "2", "a=text ü\n", absl::StrCat("long=", std::string(60'000, 'x'))});
  EXPECT_EQ(Json({"study", "get", "s"})["state"], "COMPLETED");
  const std::string first = Out({"study", "export", "s"});
  EXPECT_THAT(first, AllOf(HasSubstr(R"("measurements":[{"step":1)"), HasSubstr(std::string(60'000, 'x'))));
  Out({"study", "import", Write("one.jsonl", first), "--name", "t"});
  EXPECT_EQ(Json({"study", "get", "t"})["state"], "COMPLETED") << "no more trials than were exported";
  const std::string second = Out({"study", "export", "t"});
  EXPECT_EQ(Comparable(first, false), Comparable(second, false));
  Out({"study", "import", Write("two.jsonl", second), "--name", "u"});
  const std::string third = Out({"study", "export", "u"});
  EXPECT_EQ(Comparable(second, true), Comparable(third, true)) << "of an import not even the provenance differs";
  Out({"study", "clone", "t", "w", "--with-trials"});
  EXPECT_THAT(Out({"study", "export", "w"}), HasSubstr(R"("measurements":[{"step":1)"));
  // What comes next depends on the results alone.
  std::vector<json> next;
  for (const char* id : {"t", "u"}) {
    Out({"study", "update", id, "--max-trials", "9"});
    next.push_back(Json({"ask", id})[0]["parameters"]);
  }
  EXPECT_EQ(next[0], next[1]);
  EXPECT_THAT(Out({"study", "export", "s", "--without-measurements"}), Not(HasSubstr(R"("measurements":[{)")));
}

TEST_F(CliTest, AnImportThatFailsLeavesNoStudyBehind) {
  StartServer();
  Out({"study", "create", "-f", Write("s.yaml", kStudy)});
  Out({"ask", "s"});
  Out({"tell", "s", "1", "--metric", "y=1"});
  const std::string text = Out({"study", "export", "s"});
  const std::string bad = std::regex_replace(text, std::regex("\"x\":[-0-9.e]+"), "\"x\":77");
  const Result result = Run({"study", "import", Write("bad.jsonl", bad), "--name", "t"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("77 is outside [-5, 5]"));
  EXPECT_EQ(Run({"study", "get", "t"}).code, 5);
  Out({"study", "import", Write("good.jsonl", text), "--name", "t"});
}

TEST_F(CliTest, AFinishedStudyThatPlansByItsBudgetComesBackFromItsExport) {
  StartServer();
  const std::string parts = std::regex_replace(std::string(kStudy), std::regex("algorithm: \\{random: \\{\\}\\}"),
                                               "algorithm: {asha: {}}\nresource: {max: 9}");
  Out({"study", "create", "-f", Write("s.yaml", parts)});
  for (const char* number : {"1", "2", "3", "4"}) {
    Out({"ask", "s"});
    Out({"tell", "s", number, "--metric", "y=1"});
  }
  const std::string text = Out({"study", "export", "s"});
  Out({"study", "import", Write("s.jsonl", text), "--name", "t"});
  EXPECT_THAT(Out({"study", "get", "t"}), HasSubstr("COMPLETED"));
}

TEST_F(CliTest, ACloneThatCanNotTakeTrialsLeavesNoStudyBehind) {
  StartServer();
  const std::string once = std::regex_replace(std::string(kStudy), std::regex("budget: \\{"),
                                              "reproducible: true\nbudget: {max_parallel: 1, ");
  Out({"study", "create", "-f", Write("s.yaml", once)});
  Out({"ask", "s"});
  Out({"tell", "s", "1", "--metric", "y=1"});
  const Result result = Run({"study", "clone", "s", "t", "--with-trials"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("reproducible"));
  EXPECT_EQ(Run({"study", "get", "t"}).code, 5);
}

}  // namespace
}  // namespace luthier::cli
