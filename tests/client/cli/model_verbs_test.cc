// The verbs of trained models, for each objective that trains one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/client/cli/cli_fixture.h"
#include "tests/testing/compress.h"

namespace luthier::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class ModelVerbsTest : public CliTest {
 protected:
  // A study file of one objective, and its data.
  std::string Study(const std::string& model, const std::string& data, const std::string& options = "{}") const {
    return Write(absl::StrCat(model, ".yaml"),
                 absl::StrCat("space: [{name: l2, float: {min: 1.0e-3, max: 1.0e3, scale: LOG}}]\n"
                              "objective: {builtin: {model: ",
                              model, ", data: ", data, ", options: ", options,
                              "}}\n"
                              "metric: {name: validation_loss, goal: MINIMIZE}\n"));
  }
  void WriteData() const {
    std::string csv = "width,height,kind\n", svm, text;
    for (int i = 0; i < 30; ++i) {
      const std::string kind = i % 3 == 0 ? "wide" : "high";
      absl::StrAppend(&csv, 3 * (i % 3 == 0) + i % 5, ",", 3 * (i % 3 != 0) + i % 4, ",", kind, "\n");
      absl::StrAppend(&svm, i % 3 == 0 ? "1 1:" : "-1 2:", 1 + i % 5, "\n");
      absl::StrAppend(&text, "Nm", i % 4, " NNP B-PER\nwd", i % 3, " VB O\n\n");
    }
    Write("t.csv", csv);
    Write("t.svm", svm);
    Write("t.txt", text);
  }
  Result Train(const std::string& study, const std::string& out) const {
    return Run({"model", "train", "--file", study, "--set", "l2=1", "--data-root", directory_.path(), "--out",
                Path(out), "-o", "json"});
  }
};

TEST_F(ModelVerbsTest, EveryObjectiveIsTrainedShownAppliedAndEvaluated) {
  struct Case {
    const char* model;
    const char* data;
    const char* csv;  // How predictions begin, in each form.
    const char* table;
    const char* json_key;
  };
  for (const Case& c : {Case{"logistic", "t.csv", "row,label,p_high,p_wide\n1,wide,", "row  label", "p_wide"},
                        Case{"logistic", "t.svm", "row,label,p_-1,p_1\n1,1,", "row  label", "p_1"},
                        Case{"hsvm", "t.csv", "row,label,score\n1,wide,", "row  label", "score"},
                        Case{"hsvm", "t.svm", "row,label,score\n1,1,", "row  label", "score"},
                        Case{"crf", "t.txt", "sequence,token,label\n1,1,B-PER\n1,2,O\n2,1,",
                             "Nm0\tNNP\tB-PER\tB-PER\nwd0\tVB\tO\tO\n\n", ""}}) {
    SCOPED_TRACE(absl::StrCat(c.model, " ", c.data));
    WriteData();
    const Result trained = Train(Study(c.model, c.data), "m.lmodel");
    ASSERT_EQ(trained.code, 0) << trained.err;
    const json info = json::parse(trained.out);
    EXPECT_EQ(info["objective"], c.model);
    EXPECT_EQ(info["settings"]["l2"], 1.0);
    // Elsewhere, where there is nothing but the file and the data to apply it to.
    std::filesystem::create_directory(Path("elsewhere"));
    const std::string model = Path("elsewhere/m.lmodel"), data = Path(absl::StrCat("elsewhere/", c.data));
    std::filesystem::rename(Path("m.lmodel"), model);
    std::filesystem::rename(Path(c.data), data);
    EXPECT_EQ(Json({"model", "show", model}), info);
    EXPECT_THAT(Out({"model", "show", model}), AllOf(StartsWith("name "), HasSubstr("converged")));
    EXPECT_THAT(Out({"model", "show", model, "-o", "csv"}), StartsWith("name,value\nobjective,"));

    EXPECT_THAT(Out({"model", "predict", model, "--data", data, "-o", "csv"}), StartsWith(c.csv));
    EXPECT_THAT(Out({"model", "predict", model, "--data", data}), StartsWith(c.table));
    const json predicted = Json({"model", "predict", model, "--data", data});
    ASSERT_EQ(predicted.size(), 30u);
    if (predicted[0].is_array()) {
      EXPECT_EQ(predicted[29], json::parse(R"(["B-PER", "O"])"));
    } else {
      EXPECT_TRUE(predicted[29].contains(c.json_key));
    }

    const json measured = Json({"model", "evaluate", model, "--data", data});
    EXPECT_GT(measured["metrics"]["accuracy"], 0.9);
    EXPECT_NEAR(measured["metrics"]["loss"].get<double>(), info["metrics"]["train_loss"].get<double>(), 1e-12);
    EXPECT_GE(measured["parts"].size(), 1u);
    EXPECT_THAT(Out({"model", "evaluate", model, "--data", data, "-o", "csv"}),
                StartsWith("of,measure,value\nall,accuracy,"));
    EXPECT_THAT(Out({"model", "evaluate", model, "--data", data}), HasSubstr("recall"));
  }
}

// What `auto` chose is said where a model is trained, and kept in its file.
TEST_F(ModelVerbsTest, AChosenSolverIsNamedWithItsReason) {
  WriteData();
  const Result chosen = Train(Study("logistic", "t.csv"), "m.lmodel");
  ASSERT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_THAT(json::parse(chosen.out)["note"].get<std::string>(), StartsWith("solver auto is lbfgs: 30 rows"));
  EXPECT_THAT(Out({"model", "show", Path("m.lmodel")}), HasSubstr("note          solver auto is lbfgs"));
  const Result named = Train(Study("logistic", "t.csv", "{solver: lbfgs}"), "m.lmodel");
  EXPECT_EQ(json::parse(named.out)["note"], "");
}

TEST_F(ModelVerbsTest, StandardInputIsReadLikeAFile) {
  WriteData();
  for (const auto& [model, data] : {std::pair("logistic", "t.csv"), {"hsvm", "t.svm"}, {"crf", "t.txt"}}) {
    SCOPED_TRACE(model);
    ASSERT_EQ(Train(Study(model, data), "m.lmodel").code, 0);
    std::ostringstream bytes;
    bytes << std::ifstream(Path(data)).rdbuf();
    const std::string file = Out({"model", "predict", Path("m.lmodel"), "--data", Path(data), "-o", "csv"});
    for (const std::string& input : {bytes.str(), testing::Gzip(bytes.str()), testing::Xz(bytes.str())}) {
      const Result piped = Run({"model", "predict", Path("m.lmodel"), "--data", "-", "-o", "csv"}, input);
      EXPECT_EQ(piped.code, 0) << piped.err;
      EXPECT_EQ(piped.out, file);
    }
    const Result measured = Run({"model", "evaluate", Path("m.lmodel"), "--data", "-", "-o", "json"}, bytes.str());
    EXPECT_GT(json::parse(measured.out)["metrics"]["accuracy"], 0.9);
    const Result nothing = Run({"model", "predict", Path("m.lmodel"), "--data", "-"}, "");
    EXPECT_EQ(nothing.code, 1);
    EXPECT_THAT(nothing.err, HasSubstr("standard input: "));
  }
  // Rows of LIBSVM without labels are known by their content.
  ASSERT_EQ(Train(Study("logistic", "t.svm"), "m.lmodel").code, 0);
  EXPECT_THAT(Run({"model", "predict", Path("m.lmodel"), "--data", "-", "-o", "csv"}, "1:4\n2:4\n").out,
              AllOf(HasSubstr("\n1,1,"), HasSubstr("\n2,-1,")));
}

TEST_F(ModelVerbsTest, MistakesAreExplainedWithTheirExitCode) {
  WriteData();
  const std::string study = Study("logistic", "t.csv");
  ASSERT_EQ(Train(study, "m.lmodel").code, 0);
  std::ostringstream bytes;
  bytes << std::ifstream(Path("m.lmodel"), std::ios::binary).rdbuf();
  std::string flipped = bytes.str();
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  Write("flipped.lmodel", flipped);
  Write("cut.lmodel", bytes.str().substr(0, 100));
  Write("ragged.csv", "width,height,kind\n1,2,wide\n1,2\n");
  Write("unlabelled.csv", "width,height\n1,2\n");
  Write("other.csv", "width,depth\n1,2\n");
  Write("command.yaml",
        "space: [{name: x, float: {min: 0, max: 1}}]\nobjective: {command: {argv: [train]}}\n"
        "metric: {name: loss, goal: MINIMIZE}\n");
  const std::string model = Path("m.lmodel"), out = Path("out.lmodel");
  struct Case {
    std::vector<std::string> args;
    int code;
    std::string error;
  };
  for (const Case& c : std::vector<Case>{
           {{"model", "train", "--file", study}, 2, "--out"},
           {{"model", "train", "--out", out}, 2, "one of the two"},
           {{"model", "train", "--file", study, "--study", "s", "--out", out}, 2, "one of the two"},
           {{"model", "train", "--file", study, "--trial", "1", "--out", out}, 2, "needs --study"},
           {{"model", "train", "--file", study, "--out", directory_.path()}, 2, "names no file"},
           {{"model", "train", "--file", study, "--out", Path("none/m")}, 1, "is no directory"},
           {{"model", "train", "--file", study, "--out", out}, 1, "l2: is required"},
           {{"model", "train", "--file", study, "--set", "l2=0", "--out", out},
            1,
            "l2: \"0\" is not in [1e-10, 1e+10]"},
           {{"model", "train", "--file", study, "--set", "l2=1e300", "--out", out}, 1, "is not in [1e-10"},
           {{"model", "train", "--file", study, "--set", "l2=nan", "--out", out}, 1, "l2"},
           {{"model", "train", "--file", study, "--set", "l3=1", "--out", out}, 1, "no such parameter"},
           {{"model", "train", "--file", study, "--set", "l2=1", "--out", out, "--data-root", Path("none")}, 5, "none"},
           {{"model", "train", "--file", Path("command.yaml"), "--out", out}, 1, "another program"},
           {{"model", "show", Path("none.lmodel")}, 5, "none.lmodel"},
           {{"model", "show", Path("t.csv")}, 1, "is no model file"},
           {{"model", "show", Path("cut.lmodel")}, 1, "damaged or cut off"},
           {{"model", "show", Path("flipped.lmodel")}, 1, "damaged or cut off"},
           {{"model", "predict", model}, 2, "--data"},
           {{"model", "predict", model, "--data", Path("none.csv")}, 5, "none.csv"},
           {{"model", "predict", model, "--data", directory_.path()}, 1, "is a directory"},
           {{"model", "predict", model, "--data", "/dev/null"}, 1, "what a pipe gives can be read as `-`"},
           {{"model", "predict", model, "--data", Path("ragged.csv")}, 1, "ragged.csv:3"},
           {{"model", "predict", model, "--data", Path("other.csv")}, 1, "lacks column \"height\""},
           {{"model", "predict", model, "--data", Path("t.csv"), "--format", "xml"}, 2, "--format"},
           {{"model", "evaluate", model, "--data", Path("unlabelled.csv")}, 1, "has no labels to compare with"}}) {
    const Result result = Run(c.args);
    EXPECT_EQ(result.code, c.code) << absl::StrJoin(c.args, " ") << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(c.error)) << absl::StrJoin(c.args, " ");
    EXPECT_EQ(result.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(out));
  // Labels that training has not, features that it has not.
  Write("more.csv", "depth,height,width,kind\n9,1,2,wide\n9,3,0,round\n");
  const Result more = Run({"model", "evaluate", model, "--data", Path("more.csv"), "-o", "json"});
  EXPECT_EQ(more.code, 0);
  EXPECT_EQ(json::parse(more.out)["metrics"]["unknown_labels"], 1.0);
  EXPECT_THAT(more.err, AllOf(HasSubstr("note: columns that the model has not: depth"),
                              HasSubstr("note: 1 of 2 rows have labels that the model does not know")));
}

}  // namespace
}  // namespace luthier::cli
