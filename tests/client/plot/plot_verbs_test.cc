// `luthier plot` against a real coordinator: every figure in every form, hostile names, and 10^5 trials.
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const char* const kKinds[] = {"history", "slice", "contour", "importance", "parallel", "curves", "timeline", "edf"};

std::string TextOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

bool HasGnuplot() {
  for (const char* folder : {"/usr/bin/gnuplot", "/usr/local/bin/gnuplot"}) {
    if (std::filesystem::exists(folder)) return true;
  }
  return false;
}

class PlotVerbsTest : public CliTest {
 protected:
  // A study of two floats and hostile labels, whose results are imported.
  void Import(const std::string& id, int trials) {
    std::string text =
        R"({"luthier": 1, "id": "x", "spec": {"display_name": "`touch X`", "space": [)"
        R"({"name": "lr", "float": {"min": 0.001, "max": 1, "scale": "LOG"}},)"
        R"({"name": "w", "float": {"min": 0, "max": 1}},)"
        R"({"name": "kind", "categorical": {"values": ["`touch X`", "'; system('touch X') #", "<b>", "50% off",)"
        R"( "{a}^b_c @x \\"]}}],)"
        R"("metric": {"name": "y", "goal": "MINIMIZE"}, "algorithm": {"random": {}}}})"
        "\n";
    for (int i = 0; i < trials; ++i) {
      const double x = std::fmod(i * 0.618033988749895, 1.0);
      const double w = std::fmod(i * 0.754877666246693, 1.0);
      absl::StrAppend(&text, R"({"parameters": {"lr": )", std::pow(10.0, -3.0 * x), R"(, "w": )", w, R"(, "kind": ")",
                      i % 3 == 0   ? "`touch X`"
                      : i % 3 == 1 ? "'; system('touch X') #"
                                   : "<b>",
                      R"("}, "state": "COMPLETE", "final_measurement": {"metrics": {"y": )", (x - 0.3) * (x - 0.3) + w,
                      R"(}}, "measurements": [{"step": 1, "metrics": {"y": 2}}]})", "\n");
    }
    Out({"study", "import", Write(id + ".jsonl", text), "--name", id});
  }
};

TEST_F(PlotVerbsTest, EveryFigureComesInEveryForm) {
  if (!HasGnuplot()) GTEST_SKIP() << "gnuplot is not installed (tools/install_packages.sh demo)";
  StartServer();
  Import("s", 60);
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::create_directory(Path("here"));
  std::filesystem::current_path(Path("here"));
  for (const char* kind : kKinds) {
    const auto drawn = [&](const std::string& form) {
      Out({"plot", kind, "s", "--out", absl::StrCat("picture.", form)});
      return TextOf(absl::StrCat("picture.", form));
    };
    const std::string svg = drawn("svg");
    EXPECT_THAT(svg, AllOf(HasSubstr("<svg"), EndsWith("</svg>\n\n"))) << kind;
    if (absl::string_view(kind) == "slice") {
      EXPECT_THAT(svg, AllOf(HasSubstr("50% off"), HasSubstr("{a}^b_c @x \\")));
    }
    EXPECT_THAT(drawn("png"), StartsWith("\x89PNG")) << kind;
    EXPECT_THAT(drawn("pdf"), StartsWith("%PDF")) << kind;
    EXPECT_THAT(drawn("gp"), HasSubstr("\nplot ")) << kind;
    EXPECT_THAT(drawn("html"), AllOf(StartsWith("<!doctype html>"), HasSubstr("Content-Security-Policy"))) << kind;
    const json figure = json::parse(drawn("json"));
    EXPECT_EQ(figure["kind"], kind);
    EXPECT_FALSE(figure["caption"].get<std::string>().empty());
    EXPECT_GT(Out({"plot", kind, "s", "--out", "-"}).size(), 500u) << kind;
  }
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("."))
    files += entry.path().stem() == "picture" ? 1 : 100;
  EXPECT_EQ(files, 6) << "names that are commands to a shell or to gnuplot left something behind";
  std::filesystem::current_path(before);
}

TEST_F(PlotVerbsTest, WhatCannotBeDrawnIsRefusedBeforeAnythingIsWritten) {
  StartServer();
  Import("s", 12);
  const Result bad = Run({"plot", "history", "s", "--out", Path("x.jpeg")});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("does not end in .svg, .png, .pdf, .html, .gp or .json"));
  const Result unknown = Run({"plot", "slice", "s", "--params", "lr,depth", "--out", Path("x.json")});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_THAT(unknown.err, HasSubstr("\"depth\" is no parameter of study s"));
  EXPECT_EQ(Run({"plot", "contour", "s", "--params", "lr", "--out", Path("x.json")}).code, 2);
  EXPECT_THAT(Run({"plot", "contour", "s", "--params", "w,w", "--out", Path("x.json")}).err,
              HasSubstr("parameter \"w\" is named twice"));
  EXPECT_EQ(Run({"plot", "history", "t", "--out", Path("x.json")}).code, 5);
  const Result metric = Run({"plot", "history", "s", "--metric", "z", "--out", Path("x.json")});
  EXPECT_EQ(metric.code, 1);
  EXPECT_THAT(metric.err, HasSubstr("it has metrics.y"));
  EXPECT_FALSE(std::filesystem::exists(Path("x.json")));
  EXPECT_EQ(Run({"plot", "history", "s", "--out", Path("missing/x.json")}).code, 1);
}

TEST_F(PlotVerbsTest, OtherStudiesAndTheLastTrialsAreChosen) {
  StartServer();
  Import("s", 20);
  Import("t", 30);
  Out({"plot", "history", "s", "--compare", "t", "--last", "5", "--out", Path("x.json")});
  const json figure = json::parse(TextOf(Path("x.json")));
  EXPECT_EQ(figure["panels"][0]["layers"][0]["x"], json({16, 17, 18, 19, 20}));
  EXPECT_EQ(figure["panels"][0]["layers"][1]["name"], "best so far of t");
  EXPECT_EQ(Run({"plot", "edf", "s", "--compare", "nothing", "--out", Path("x.json")}).code, 5);
}

}  // namespace
}  // namespace luthier::cli
