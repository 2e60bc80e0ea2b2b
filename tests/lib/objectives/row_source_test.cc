// The rows of an objective and their split, from files: columns that group or order rows, data of its own to validate
// on.

#include "lib/objectives/row_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "lib/catalogue/registry.h"
#include "lib/objectives/train_model.h"
#include "tests/lib/objectives/objectives_testing.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::objectives {
namespace {

using ::testing::HasSubstr;

class RowSourceTest : public ::testing::Test {
 protected:
  // A file below the data root; returns its name there.
  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(absl::StrCat(dir_.path(), "/", name)) << text;
    return name;
  }
  absl::StatusOr<RowSource> Load(const BuiltinObjective& objective, data::Task task) const {
    return LoadRows(objective, task, &root_, nullptr, {});
  }
  std::string Why(const BuiltinObjective& objective, data::Task task) const {
    return std::string(Load(objective, task).status().message());
  }

  const testing::TemporaryDirectory dir_;
  const data::DataRoot root_ = data::DataRoot::Open(dir_.path()).value();
};

std::string People(int rows) {
  std::string text = "patient,age,day,dose,y\n";
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, "p", i % 7, ",", 20 + i % 30, ",2024-01-", i % 28 < 9 ? "0" : "", i % 28 + 1, ",", i % 5,
                    ",", 0.5 * i, "\n");
  }
  return text;
}

TEST_F(RowSourceTest, AGroupColumnIsNoFeatureAndStaysTogether) {
  BuiltinObjective spec;
  spec.data = File("people.csv", People(60));
  spec.split.group_column = "patient";
  spec.split.folds = 3;
  // Days are text, which no feature may be.
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("is a date; a date orders rows: split.time_column"));
  spec.data = File("grouped.csv", "patient,age,y\nann,3,1.5\nbob,4,2\nann,5,1\ncid,6,0.5\nbob,7,2\nbob,8,1\n");
  const RowSource source = Load(spec, data::Task::kRegression).value();
  EXPECT_EQ(source.dataset.features, std::vector<std::string>{"age"});
  EXPECT_EQ(source.dataset.label_name, "y");
  EXPECT_EQ(source.dataset.key, (std::vector<int32_t>{0, 1, 0, 2, 1, 1}));
  ASSERT_EQ(source.folds.size(), 3u);
  std::set<std::vector<int32_t>> held;
  for (const data::Partition& fold : source.folds) held.insert(fold.validation);
  EXPECT_EQ(held, (std::set<std::vector<int32_t>>{{0, 2}, {3}, {1, 4, 5}}));
  EXPECT_THAT(source.identity, HasSubstr("by group"));
}

TEST_F(RowSourceTest, ATimeColumnOrdersDatesAsTextAndNumbersAsNumbers) {
  BuiltinObjective spec;
  spec.data = File("days.csv", "day,x,y\n2024-01-10,1,1\n2024-01-02,2,1\n2023-12-31,3,1\n2024-02-01,4,2\n");
  spec.split.time_column = "day";
  const RowSource dates = Load(spec, data::Task::kRegression).value();
  EXPECT_EQ(dates.folds[0].validation, std::vector<int32_t>{3});
  EXPECT_EQ(dates.folds[0].train, (std::vector<int32_t>{0, 1, 2}));
  spec.split.time_column = "t";
  spec.data = File("steps.csv", "t,x,y\n9,1,1\n10,2,1\n100,3,1\n8,4,2\n");
  EXPECT_EQ(Load(spec, data::Task::kRegression)->folds[0].validation, std::vector<int32_t>{2});
}

TEST_F(RowSourceTest, ModelsOfSuchDataTakeRowsWithAndWithoutTheColumn) {
  TrainRequest request;
  request.objective.model = "ridge";
  request.objective.data = File("grouped2.csv", "patient,age,y\nann,3,1.5\nbob,4,2\nann,5,1\ncid,6,0.5\n");
  request.objective.split.group_column = "patient";
  request.parameters = {{"l2", 0.1}};
  const auto model = TrainModel(request, &root_, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto predict = [&](const std::string& name, const std::string& text) {
    return (*model)->Predict({absl::StrCat(dir_.path(), "/", File(name, text)), {}}).value();
  };
  const model::Predictions with = predict("with.csv", "patient,age,y\nzoe,3,0\n");
  const model::Predictions without = predict("without.csv", "age\n3\n");
  EXPECT_EQ(with.label, without.label);
  const auto evaluation = (*model)->Evaluate({absl::StrCat(dir_.path(), "/", request.objective.data), {}}).value();
  EXPECT_NEAR(evaluation.metrics.at("loss"), (*model)->info().metrics.at("train_loss"), 1e-12);
}

TEST_F(RowSourceTest, ValidationDataOfItsOwn) {
  BuiltinObjective spec;
  spec.model = "logistic";
  spec.data = File("train.csv", "a,b,class\n1,2,yes\n2,3,no\n3,1,yes\n4,0,no\n");
  spec.split.validation_data = File("held.csv", "class,b,a\nno,7,8\nyes,5,6\n");
  EXPECT_THAT(Why(spec, data::Task::kClassification),
              HasSubstr("column 1 is true or false; export 1 or 0"));  // The label is the last column.
  spec.options["label"] = std::string("class");
  const RowSource named = Load(spec, data::Task::kClassification).value();
  EXPECT_EQ(named.dataset.appended, 2);
  EXPECT_EQ(named.folds[0].train, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(named.folds[0].validation, (std::vector<int32_t>{4, 5}));
  // Columns by name: a is 8 and 6, b is 7 and 5.
  EXPECT_EQ(std::vector<double>(named.dataset.x.value.end() - 4, named.dataset.x.value.end()),
            (std::vector<double>{8, 7, 6, 5}));
  EXPECT_EQ(named.dataset.label[4], 0);
  EXPECT_NE(named.identity, Load({.model = "logistic", .data = spec.data, .split = {}, .options = spec.options},
                                 data::Task::kClassification)
                                ->identity);
  spec.split.validation_data = File("other.csv", "class,b,c\nno,7,8\nyes,5,6\n");
  EXPECT_THAT(Why(spec, data::Task::kClassification), HasSubstr("has a name that is not in train.csv"));
  spec.split.validation_data = File("new.csv", "class,b,a\nno,7,8\nmaybe,5,6\n");
  EXPECT_THAT(Why(spec, data::Task::kClassification), HasSubstr("has a class that is not in train.csv"));
  // LIBSVM files have as many columns as their largest index.
  spec.options.clear();
  spec.data = File("a.svm", "+1 1:1 3:2\n-1 2:1\n+1 1:4\n-1 3:1\n");
  spec.split.validation_data = File("b.svm", "+1 1:1 5:2\n-1 2:1\n");
  EXPECT_EQ(Load(spec, data::Task::kClassification)->dataset.x.cols, 5);
  BuiltinObjective generated;
  generated.data = "synth:regression?rows=20&cols=3";
  generated.split.validation_data = "synth:regression?rows=10&cols=3&seed=2";
  EXPECT_EQ(Load(generated, data::Task::kRegression)->folds[0].validation.size(), 10u);
}

TEST_F(RowSourceTest, WrongDataSayWhere) {
  BuiltinObjective spec;
  spec.data = File("bad.csv", "a,y\n1,2\n2,three\n");
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("bad.csv: row 2 of the data: the target is not"));
  spec.split.group_column = "b";
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("there is no column \"b\""));
  spec.split.group_column = "y";
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("column \"y\" is the label"));
  spec.split.group_column = "a";
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("no column left that is a feature"));
  spec.data = File("holes.csv", "g,a,y\nx,1,2\n,2,3\n");
  spec.split.group_column = "g";
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("column \"g\" is missing"));
  spec.data = File("rows.svm", "1 1:2\n2 1:3\n");
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("only CSV files with a header have columns by name"));
  spec.data = "synth:regression?rows=20";
  EXPECT_THAT(Why(spec, data::Task::kRegression), HasSubstr("there is no column \"g\""));
}

TEST(SplitFieldsTest, ContradictionsAreRefusedBeforeAnyFile) {
  const auto why = [](const std::string& model, const study::Split& split) {
    BuiltinObjective spec;
    spec.model = model;
    spec.data = model == "crf" ? "a.txt" : "a.csv";
    spec.split = split;
    return std::string(catalogue::Validate(spec, Space({Float("l2", 1, 2)}), kLoss).message());
  };
  study::Split split;
  split.validation_data = "/etc/passwd";
  EXPECT_THAT(why("logistic", split), HasSubstr("split.validation_data: is an absolute path"));
  split.validation_data = "b.csv";
  EXPECT_EQ(why("logistic", split), "");
  EXPECT_THAT(why("crf", split), HasSubstr("is option validation_data of crf"));
  split = {};
  split.group_column = "g";
  EXPECT_EQ(why("ridge", split), "");
  EXPECT_THAT(why("crf", split), HasSubstr("split.group_column: is not for objective crf"));
}

}  // namespace
}  // namespace luthier::objectives
