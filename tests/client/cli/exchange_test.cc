#include "client/cli/commands/exchange.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <cmath>

#include "client/cli/commands/trial_csv.h"
#include "client/cli/csv.h"

namespace luthier::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

v1::StudySpec Spec() {
  v1::StudySpec spec;
  spec.add_space()->set_name("lr");
  spec.mutable_space(0)->mutable_float_()->set_min(0.0);
  spec.mutable_space(0)->mutable_float_()->set_max(1.0);
  spec.add_space()->set_name("kind");
  for (const char* label : {"a,b", "7"}) spec.mutable_space(1)->mutable_categorical()->add_values(label);
  spec.add_space()->set_name("on");
  spec.mutable_space(2)->mutable_bool_();
  spec.mutable_metric()->set_name("loss");
  return spec;
}

std::string Why(const char* text) {
  const v1::StudySpec spec = Spec();
  return std::string(ParseImport(text, "f", &spec).status().message());
}

TEST(Csv, QuotesLineEndsAndMarks) {
  EXPECT_THAT(*ParseCsv("\xEF\xBB\xBF"
                        "a, b ,\"c,\"\"d\"\"\"\r\n1,,\"x\ny\"\n\n",
                        "f"),
              ElementsAre(ElementsAre("a", "b", "c,\"d\""), ElementsAre("1", "", "x\ny")));
  EXPECT_THAT(*ParseCsv("", "f"), IsEmpty());
  EXPECT_THAT(std::string(ParseCsv("a\n\"b\n", "f").status().message()),
              HasSubstr("f:3: a quoted field is not closed"));
}

TEST(Import, ATableBecomesTrials) {
  const v1::StudySpec spec = Spec();
  const ImportFile file = *ParseImport(
      "lr,kind,on,loss,state,step,who\n0.5,\"a,b\",True,1e-3,,4,x\n,7,0,nan,,,y\n"
      "0.1,7,1,,FAILED,,z\n0.1,7,1,2,PENDING,,z\n",
      "f", &spec);
  ASSERT_EQ(file.trials.size(), 3u);
  EXPECT_EQ(file.open, 1);
  EXPECT_THAT(file.ignored, ElementsAre("who"));
  const auto& first = file.trials[0];
  EXPECT_EQ(first.state(), v1::Trial::COMPLETE);
  EXPECT_EQ(first.parameters().fields().at("lr").number_value(), 0.5);
  EXPECT_EQ(first.parameters().fields().at("kind").string_value(), "a,b");
  EXPECT_TRUE(first.parameters().fields().at("on").bool_value());
  EXPECT_EQ(first.final_measurement().metrics().at("loss"), 1e-3);
  EXPECT_EQ(first.final_measurement().step(), 4);
  EXPECT_EQ(file.trials[1].parameters().fields().at("kind").string_value(), "7") << "a label, not a number";
  EXPECT_EQ(file.trials[1].parameters().fields().count("lr"), 0u);
  EXPECT_TRUE(std::isnan(file.trials[1].final_measurement().metrics().at("loss")));
  EXPECT_EQ(file.trials[2].state(), v1::Trial::FAILED);
}

TEST(Import, ErrorsNameTheirLine) {
  EXPECT_THAT(Why("lr,los\n0.1,2\n"), HasSubstr("f:1: no column has the metric \"loss\" (did you mean"));
  EXPECT_THAT(Why("lr,loss\n0.1\n"), HasSubstr("f:2: has 1 fields, and the header has 2"));
  EXPECT_THAT(Why("lr,loss\n0.1,good\n"), HasSubstr("f:2: \"good\" is no value of loss"));
  EXPECT_THAT(Why("lr,loss\n0.1,\n"), HasSubstr("f:2: has no value of loss"));
  EXPECT_THAT(Why("lr,loss,state\n0.1,1,DONE\n"), HasSubstr("f:2: \"DONE\" is no state"));
  EXPECT_THAT(Why("lr,lr,loss\n1,1,1\n"), HasSubstr("is there twice"));
  EXPECT_THAT(Why("lr,loss\n"), HasSubstr("at least one row"));
  EXPECT_THAT(Why("{\"number\": \"x\"}\n"), HasSubstr("f:1: is no trial"));
  EXPECT_THAT(Why("lr,loss\n0.1,1e400\n"), HasSubstr("f:2: \"1e400\" is no value of loss"));
  EXPECT_THAT(std::string(ParseImport("a,b\n1,2\n", "f", nullptr).status().message()), HasSubstr("--metric"));
}

TEST(Import, NamesOfColumnsAreQuotedAndFew) {
  std::vector<std::string> names(12, std::string(100'000, 'x'));
  names[0] = "\x1b[2J";
  const std::string text = SomeColumns(names);
  EXPECT_THAT(text, HasSubstr("\"\\x1b[2J\", \"xxx"));
  EXPECT_THAT(text, HasSubstr(" and 2 more"));
  EXPECT_LT(text.size(), 2'000);
}

TEST(Import, LinesReadBackAsTheyWereWritten) {
  v1::Study study;
  study.set_name("projects/default/studies/s");
  *study.mutable_spec() = Spec();
  v1::Trial trial;
  trial.set_name("projects/default/studies/s/trials/1");
  trial.set_number(1);
  trial.set_state(v1::Trial::COMPLETE);
  (*trial.mutable_parameters()->mutable_fields())["lr"].set_number_value(0.1 + 0.2);
  (*trial.mutable_final_measurement()->mutable_metrics())["loss"] = std::nextafter(1.0, 2.0);
  (*trial.mutable_final_measurement()->mutable_metrics())["other"] = -INFINITY;
  trial.mutable_final_measurement()->mutable_gradient()->mutable_full()->add_values(-0.0);
  (*trial.mutable_attributes())["note"] = "\"q\"\n";
  v1::Trial running = trial;
  running.set_state(v1::Trial::RUNNING);
  const ImportFile file =
      *ParseImport(StudyLine(study) + "\n" + TrialLine(running) + "\n" + TrialLine(trial) + "\n", "f", nullptr);
  EXPECT_EQ(file.id, "s");
  ASSERT_EQ(file.trials.size(), 1u);
  EXPECT_EQ(file.open, 1);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(file.trials[0], trial))
      << file.trials[0].DebugString();
}

TEST(Import, ASpecIsGuessedFromATable) {
  const v1::StudySpec spec = *GuessSpec("lr,n,kind,on,loss\n1e-5,1,a,true,1\n0.1,8,b,false,2\n", "f", "loss", true, {});
  ASSERT_EQ(spec.space_size(), 4);
  EXPECT_EQ(spec.space(0).float_().scale(), v1::LOG);
  EXPECT_EQ(spec.space(0).float_().max(), 0.1);
  EXPECT_EQ(spec.space(1).int_().max(), 8);
  EXPECT_THAT(spec.space(2).categorical().values(), ElementsAre("a", "b"));
  EXPECT_TRUE(spec.space(3).has_bool_());
  EXPECT_EQ(spec.metric().goal(), v1::MAXIMIZE);
  EXPECT_THAT(std::string(GuessSpec("a,b\n1,2\n", "f", "c", false, {}).status().message()), HasSubstr("\"a\", \"b\""));
}

}  // namespace
}  // namespace luthier::cli
