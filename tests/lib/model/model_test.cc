#include "lib/model/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "lib/base/random.h"
#include "lib/crf/features/features.h"
#include "lib/data/column_text.h"
#include "lib/notation/templates.h"
#include "lib/objectives/train_model.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ModelTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  absl::StatusOr<std::unique_ptr<Model>> Train(const std::string& objective, const std::string& data,
                                               study::Parameters settings) const {
    objectives::TrainRequest request;
    request.objective.model = objective;
    request.objective.data = data;
    for (const auto& [name, value] : settings) {
      (name == "l2" ? request.parameters : request.objective.options)[name] = value;
    }
    const data::DataRoot root = data::DataRoot::Open(directory_.path()).value();
    return objectives::TrainModel(request, &root, {});
  }

  // What a file of it would hold.
  static std::unique_ptr<Model> Reloaded(const Model& model) { return LoadModel(model.Save(), "m").value(); }

  // Rows of two features and a label that depends on them; names in the header.
  std::string Table(int rows, int classes) const {
    base::RandomStream random(7, "table");
    std::string text = "width,height,kind\n";
    for (int i = 0; i < rows; ++i) {
      const double a = 10.0 + 3.0 * random.Normal(), b = random.Normal();
      const int kind = classes == 2 ? (a - 10.0 + b + random.Normal() > 0.0 ? 1 : 0)
                                    : static_cast<int>(std::clamp(std::floor((a - 6.0) / 3.0), 0.0, classes - 1.0));
      text += std::to_string(a) + "," + std::to_string(b) + ",k" + std::to_string(kind) + "\n";
    }
    return text;
  }

  // Words and tags; capitalised words are names of one type or another by their neighbour.
  static std::string Sentences(int count, uint64_t seed) {
    base::RandomStream random(seed, "sentences");
    std::string text;
    for (int s = 0; s < count; ++s) {
      const auto length = 2 + random.UniformInt(6);
      std::string before = "O";
      for (uint64_t t = 0; t < length; ++t) {
        const bool name = random.UniformInt(3) == 0;
        const std::string label = !name ? "O" : before == "O" ? "B-PER" : "I-PER";
        text += (name ? "Nm" : "wd") + std::to_string(random.UniformInt(9)) + (name ? " NNP " : " VB ") + label + "\n";
        before = label;
      }
      text += "\n";
    }
    return text;
  }

  testing::TemporaryDirectory directory_;
};

TEST_F(ModelTest, PredictionsAreThoseOfTheWeightsTheTrainingFound) {
  for (const int classes : {2, 3}) {
    for (const bool standardize : {false, true}) {
      directory_.Write("t.csv", Table(200, classes));
      const auto model = Train("logistic", "t.csv", {{"l2", 0.5}, {"standardize", standardize}, {"tolerance", 1e-10}});
      ASSERT_TRUE(model.ok()) << model.status();
      EXPECT_EQ((*model)->info().outcome, "converged");
      const auto loaded = Reloaded(**model);
      const Evaluation evaluation = loaded->Evaluate({Path("t.csv"), {}}).value();
      // The training computed this loss on its own layout of the rows.
      EXPECT_NEAR(evaluation.metrics.at("loss"), (*model)->info().metrics.at("train_loss"), 1e-10);
      const Predictions predictions = loaded->Predict({Path("t.csv"), {}}).value();
      ASSERT_EQ(predictions.label.size(), 200u);
      EXPECT_EQ(predictions.numbers.size(), static_cast<size_t>(classes));
      EXPECT_EQ(predictions.numbers[1], "p_k1");
      int64_t right = 0;
      for (size_t i = 0; i < 200; ++i) {
        const std::vector<double>& p = predictions.value[i];
        EXPECT_NEAR(std::accumulate(p.begin(), p.end(), 0.0), 1.0, 1e-12);
        const auto best = static_cast<size_t>(std::max_element(p.begin(), p.end()) - p.begin());
        EXPECT_EQ(predictions.label[i], "k" + std::to_string(best));
      }
      const data::Dataset truth = data::ReadDataset(OpenUserFile, Path("t.csv"), data::ReadOptions()).value();
      for (size_t i = 0; i < 200; ++i) right += truth.classes[truth.label[i]] == predictions.label[i] ? 1 : 0;
      EXPECT_DOUBLE_EQ(evaluation.metrics.at("accuracy"), static_cast<double>(right) / 200.0);
      EXPECT_GT(evaluation.metrics.at("accuracy"), 0.7);
    }
  }
}

TEST_F(ModelTest, AFileHoldsTheWholeModel) {
  directory_.Write("t.csv", Table(60, 2));
  const auto model = Train("hsvm", "t.csv", {{"l2", 2.0}}).value();
  const auto loaded = Reloaded(*model);
  EXPECT_EQ(loaded->Save(), model->Save());
  EXPECT_EQ(loaded->info().settings, model->info().settings);
  EXPECT_EQ(loaded->info().settings.at("l2"), study::ParameterValue(2.0));
  EXPECT_EQ(loaded->info().objective, "hsvm");
  EXPECT_EQ(loaded->info().examples, 60);
  EXPECT_EQ(loaded->Facts(), model->Facts());
  EXPECT_THAT(loaded->Predict({Path("t.csv"), {}})->numbers, ElementsAre("score"));
}

TEST_F(ModelTest, DamagedAndForeignFilesAreRefused) {
  directory_.Write("t.csv", Table(30, 2));
  const std::string bytes = Train("logistic", "t.csv", {{"l2", 1.0}}).value()->Save();
  for (size_t length = 0; length < bytes.size(); length += 7) {
    const absl::Status status = LoadModel(absl::string_view(bytes).substr(0, length), "m.lmodel").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << length;
    EXPECT_THAT(std::string(status.message()), HasSubstr("m.lmodel: is no model file, or it is damaged or cut off"));
  }
  for (size_t at = 0; at < bytes.size(); at += 3) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    EXPECT_FALSE(LoadModel(flipped, "m").ok()) << at;
  }
  // Another version, whole.
  base::CheckpointWriter writer("luthier.model/1");
  writer.U64(1);
  const absl::Status status = LoadModel(std::move(writer).Finish(), "m").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("\"luthier.model/1\", not \"luthier.model/2\""));
  EXPECT_EQ(ReadModelFile(Path("none")).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadModelFile(directory_.path()).status().message()), HasSubstr("is a directory"));
}

TEST_F(ModelTest, ColumnsAreFoundByName) {
  directory_.Write("t.csv", Table(40, 2));
  directory_.Write("a.csv", "width,height\n12,0.5\n7,-1\n");
  directory_.Write("b.csv", "id,height,width\nx1,0.5,12\nx2,-1,7\n");
  directory_.Write("c.csv", "id,heigth,width\nx1,0.5,12\n");
  directory_.Write("d.csv", "12,0.5\n7,-1\n");
  directory_.Write("e.csv", "12,0.5,3,4\n");
  const auto model = Train("logistic", "t.csv", {{"l2", 1.0}}).value();
  const Predictions a = model->Predict({Path("a.csv"), {}}).value();
  const Predictions b = model->Predict({Path("b.csv"), {}}).value();
  EXPECT_EQ(a.value, b.value);
  EXPECT_EQ(a.label, b.label);
  EXPECT_THAT(b.notes, ElementsAre(HasSubstr("columns that the model has not: id")));
  EXPECT_EQ(model->Predict({Path("d.csv"), {}})->value, a.value);
  EXPECT_THAT(std::string(model->Predict({Path("c.csv"), {}}).status().message()),
              HasSubstr("c.csv:1: lacks column \"height\", which the model was trained on (did you mean \"heigth\"?)"));
  EXPECT_THAT(std::string(model->Predict({Path("e.csv"), {}}).status().message()),
              HasSubstr("has 4 fields; the model takes 2 features"));
  EXPECT_THAT(std::string(model->Evaluate({Path("a.csv"), {}}).status().message()), HasSubstr("has no labels"));
}

TEST_F(ModelTest, LibsvmRowsNeedNoLabels) {
  std::string text;
  for (int i = 0; i < 40; ++i) text += (i % 3 == 0 ? "+1 1:" : "-1 1:") + std::to_string(i % 7) + " 3:1\n";
  directory_.Write("t.svm", text);
  directory_.Write("p.svm", "1:2 3:1\n3:1 9:4\n");
  directory_.Write("l.svm", "-1 1:2 3:1\n1 3:1 9:4\n");
  directory_.Write("mixed.svm", "-1 1:2 3:1\n3:1\n");
  directory_.Write("nan.svm", "1:nan\n");
  directory_.Write("empty.svm", "\n");
  const auto model = Train("logistic", "t.svm", {{"l2", 1.0}}).value();
  const Predictions p = model->Predict({Path("p.svm"), {}}).value();
  EXPECT_EQ(p.value, model->Predict({Path("l.svm"), {}})->value);
  EXPECT_THAT(p.notes, ElementsAre(HasSubstr("1 entries belong to features above 3")));
  EXPECT_THAT(std::string(model->Predict({Path("mixed.svm"), {}}).status().message()),
              HasSubstr("1 of 2 rows have no label"));
  EXPECT_THAT(std::string(model->Predict({Path("nan.svm"), {}}).status().message()), HasSubstr("nan.svm:1:3"));
  EXPECT_THAT(std::string(model->Predict({Path("empty.svm"), {}}).status().message()), HasSubstr("has no rows"));
}

TEST_F(ModelTest, MeasuresAreThoseOfTheirDefinitions) {
  directory_.Write("t.csv", Table(120, 2));
  std::string other = Table(120, 2);
  other += "9,0,k7\n";
  directory_.Write("o.csv", other);
  for (const char* objective : {"logistic", "hsvm"}) {
    const auto model = Train(objective, "t.csv", {{"l2", 1.0}}).value();
    const Predictions p = model->Predict({Path("o.csv"), {}}).value();
    const Evaluation e = model->Evaluate({Path("o.csv"), {}}).value();
    const data::Dataset truth = data::ReadDataset(OpenUserFile, Path("o.csv"), data::ReadOptions()).value();
    double pairs = 0.0, ordered = 0.0, found = 0.0, hits = 0.0, gold = 0.0;
    const size_t column = p.numbers.size() - 1;
    for (size_t i = 0; i < 120; ++i) {
      found += p.label[i] == "k1" ? 1.0 : 0.0;
      gold += truth.label[i] == 1 ? 1.0 : 0.0;
      hits += truth.label[i] == 1 && p.label[i] == "k1" ? 1.0 : 0.0;
      for (size_t j = 0; j < 120; ++j) {
        if (truth.label[i] != 1 || truth.label[j] != 0) continue;
        pairs += 1.0;
        ordered += p.value[i][column] > p.value[j][column] ? 1.0 : p.value[i][column] == p.value[j][column] ? 0.5 : 0.0;
      }
    }
    found += p.label[120] == "k1" ? 1.0 : 0.0;
    EXPECT_NEAR(e.metrics.at("auc"), ordered / pairs, 1e-12);
    EXPECT_DOUBLE_EQ(e.parts[1].precision, hits / found);
    EXPECT_DOUBLE_EQ(e.parts[1].recall, hits / gold);
    EXPECT_DOUBLE_EQ(e.parts[1].f1, 2.0 * hits / (found + gold));
    EXPECT_EQ(e.metrics.at("unknown_labels"), 1.0);
    EXPECT_EQ(e.metrics.at("rows"), 121.0);
    EXPECT_THAT(e.notes, ElementsAre(HasSubstr("1 of 121 rows have labels that the model does not know")));
    EXPECT_NEAR(e.metrics.at("loss"), model->info().metrics.at("train_loss"), 1e-12);
  }
}

TEST_F(ModelTest, TagsColumnsOfText) {
  directory_.Write("train.txt", Sentences(60, 1));
  directory_.Write("test.txt", Sentences(20, 2));
  for (const double hash_bits : {0.0, 14.0}) {
    const auto trained = Train("crf", "train.txt", {{"l2", 0.1}, {"hash_bits", hash_bits}, {"max_passes", 100.0}});
    ASSERT_TRUE(trained.ok()) << trained.status();
    const auto model = Reloaded(**trained);
    EXPECT_EQ(model->Save(), (*trained)->Save());
    EXPECT_NEAR(model->Evaluate({Path("train.txt"), {}})->metrics.at("loss"),
                (*trained)->info().metrics.at("train_loss"), 1e-12);
    const Evaluation e = model->Evaluate({Path("test.txt"), {}}).value();
    EXPECT_GT(e.metrics.at("f1"), 0.95);
    EXPECT_GT(e.metrics.at("accuracy"), 0.95);
    ASSERT_EQ(e.parts.size(), 1u);
    EXPECT_EQ(e.parts[0].name, "PER");
    // Without labels the same, and the file's columns come back.
    directory_.Write("new.txt", "Nm1 NNP\nwd2 VB\n\nNm3 NNP\nNm4 NNP\n");
    const Predictions p = model->Predict({Path("new.txt"), {}}).value();
    EXPECT_EQ(p.text, "Nm1\tNNP\tB-PER\nwd2\tVB\tO\n\nNm3\tNNP\tB-PER\nNm4\tNNP\tI-PER\n");
    EXPECT_THAT(p.sequence_start, ElementsAre(0, 2, 4));
    EXPECT_THAT(std::string(model->Evaluate({Path("new.txt"), {}}).status().message()), HasSubstr("has no labels"));
    directory_.Write("odd.txt", "Nm1 NNP B-PER\nwd2 VB I-ORG\n");
    const Evaluation odd = model->Evaluate({Path("odd.txt"), {}}).value();
    EXPECT_EQ(odd.metrics.at("unknown_labels"), 1.0);
    EXPECT_THAT(odd.notes, ElementsAre(HasSubstr("does not know (I-ORG)")));
    EXPECT_TRUE(std::isnan(odd.metrics.at("loss"))) << "no sequence has a loss";
    directory_.Write("narrow.txt", "Nm1\n");
    EXPECT_THAT(std::string(model->Predict({Path("narrow.txt"), {}}).status().message()),
                HasSubstr("has 1 columns; the model takes 2"));
    directory_.Write("none.txt", "");
    EXPECT_THAT(std::string(model->Predict({Path("none.txt"), {}}).status().message()), HasSubstr("has no tokens"));
  }
}

TEST_F(ModelTest, ReadsLetters) {
  // Two letters that differ in one half of the bitmap; words of three.
  std::string text;
  for (int w = 0; w < 12; ++w) {
    for (int t = 0; t < 3; ++t) {
      const bool a = (w + t) % 2 == 0;
      text += "0\t" + std::to_string(w) + "\t" + std::to_string(t) + (a ? "\ta\t" : "\tb\t");
      text += a ? std::string(16, 'f') + std::string(16, '0') : std::string(16, '0') + std::string(16, 'f');
      text += "\n";
    }
  }
  directory_.Write("letters.tsv", text);
  const auto model = Reloaded(*Train("crf", "letters.tsv", {{"l2", 1.0}, {"format", std::string("letters")}}).value());
  const Evaluation e = model->Evaluate({Path("letters.tsv"), {}}).value();
  EXPECT_EQ(e.metrics.at("accuracy"), 1.0);
  EXPECT_FALSE(e.metrics.contains("f1"));
  EXPECT_THAT(model->Predict({Path("letters.tsv"), {}})->text, ::testing::StartsWith("a\ta\nb\tb\na\ta\n\nb\tb\n"));
}

TEST_F(ModelTest, TagsTokensWithAttributes) {
  std::string text;
  for (int s = 0; s < 40; ++s) {
    for (int t = 0; t < 4; ++t) {
      const bool name = (s + t) % 3 == 0;
      text += (name ? "B-PER\tw=N" : "O\tw=w") + std::to_string((s + 2 * t) % 5) + "\tcapital:" + (name ? "2" : "0.5") +
              "\n";
    }
    text += "\n";
  }
  directory_.Write("train.crfsuite", text);
  const auto trained = Train("crf", "train.crfsuite", {{"l2", 0.1}, {"format", std::string("attributes")}});
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto model = Reloaded(**trained);
  EXPECT_EQ(model->Save(), (*trained)->Save());
  const Evaluation e = model->Evaluate({Path("train.crfsuite"), {}}).value();
  EXPECT_EQ(e.metrics.at("accuracy"), 1.0);
  EXPECT_NEAR(e.metrics.at("loss"), (*trained)->info().metrics.at("train_loss"), 1e-12);
  // Labels are read and may be anything; attributes that training has not have no weights.
  directory_.Write("new.crfsuite", "?\tw=N1\tcapital:2\n?\tnew:1e9\tcapital:0.5\n\nO\tcapital:2\n");
  const Predictions p = model->Predict({Path("new.crfsuite"), {}}).value();
  EXPECT_EQ(p.text, "?\tB-PER\n?\tO\n\nO\tB-PER\n");
  EXPECT_EQ(model->Evaluate({Path("new.crfsuite"), {}})->metrics.at("unknown_labels"), 2.0);
  directory_.Write("bad.crfsuite", "O\tw=N1:x\n");
  EXPECT_THAT(std::string(model->Predict({Path("bad.crfsuite"), {}}).status().message()), HasSubstr("bad.crfsuite:1"));
}

TEST_F(ModelTest, ObjectivesWithoutAModelSaySo) {
  EXPECT_THAT(std::string(Train("function:branin", "", {}).status().message()), HasSubstr("x1: is required"));
  directory_.Write("t.csv", Table(30, 3));
  EXPECT_THAT(std::string(Train("hsvm", "t.csv", {{"l2", 1.0}}).status().message()), HasSubstr("two classes, not 3"));
  EXPECT_THAT(std::string(Train("logistic", "t.csv", {}).status().message()), HasSubstr("l2: is required"));
  EXPECT_EQ(Train("logistic", "none.csv", {{"l2", 1.0}}).status().code(), absl::StatusCode::kNotFound);
}

// A table of attributes that was saved encodes any text as the one it was made from.
TEST_F(ModelTest, AttributesSurviveTheFile) {
  directory_.Write("train.txt", Sentences(40, 3));
  directory_.Write("other.txt", Sentences(30, 4) + "unseen XX O\nNm1 XX O\n");
  const auto read = [&](const char* name) {
    data::LineReader lines(data::OpenBytes(OpenUserFile(Path(name)).value(), name).value(), name);
    return data::ReadColumnText(lines).value();
  };
  const data::ColumnText train = read("train.txt"), other = read("other.txt");
  const auto rows = [](const data::ColumnText& text) {
    std::vector<int32_t> all(static_cast<size_t>(text.sequences()));
    std::iota(all.begin(), all.end(), 0);
    return all;
  };
  for (const crf::Boundary boundary : {crf::Boundary::kSingle, crf::Boundary::kNumbered, crf::Boundary::kSkip}) {
    for (const int64_t min_count : {1, 4}) {
      for (const int hash_bits : {0, 10}) {
        crf::FeatureOptions options;
        options.templates = notation::ParseTemplates("chunking").value();
        options.boundary = boundary;
        options.min_count = min_count;
        options.hash_bits = hash_bits;
        const crf::FeatureMap map = crf::FeatureMap::Fit(train, rows(train), options).value();
        base::CheckpointWriter writer("test");
        map.Save(&writer);
        const std::string bytes = std::move(writer).Finish();
        base::CheckpointReader reader = base::CheckpointReader::Open(bytes, "test").value();
        const absl::StatusOr<crf::FeatureMap> loaded = crf::FeatureMap::Load(&reader);
        ASSERT_TRUE(loaded.ok() && reader.Done()) << loaded.status();
        EXPECT_EQ(loaded->attributes(), map.attributes());
        for (const data::ColumnText* text : {&train, &other}) {
          const crf::ChainData a = map.Encode(*text, rows(*text), crf::FeatureMap::UnknownLabels::kKeep).value();
          const crf::ChainData b = loaded->Encode(*text, rows(*text), crf::FeatureMap::UnknownLabels::kKeep).value();
          EXPECT_EQ(crf::Fingerprint(a).value(), crf::Fingerprint(b).value());
        }
        // Saved again, nothing changes: only what is needed was kept.
        base::CheckpointWriter again("test");
        loaded->Save(&again);
        EXPECT_EQ(std::move(again).Finish(), bytes);
      }
    }
  }
}

}  // namespace
}  // namespace luthier::model
