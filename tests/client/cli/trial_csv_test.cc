#include "client/cli/commands/trial_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/csv.h"
#include "lib/base/random.h"
#include "lib/wire/json.h"
#include "tests/testing/subprocess.h"

namespace luthier::cli {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json Format() {
  std::ifstream file(testing::SourcePath("tests/data/tables/format.json"));
  return json::parse(file, nullptr, /*allow_exceptions=*/false);
}

std::string Kind(const v1::ParameterSpec& p) {
  return p.has_float_() ? "float" : p.has_int_() ? "int" : p.has_bool_() ? "bool" : "categorical";
}

json Essence(const v1::Trial& trial) {
  json essence = {
      {"state", v1::Trial::State_Name(trial.state())}, {"parameters", json::object()}, {"metrics", json::object()}};
  const json whole = json::parse(wire::ToJson(trial).dump());
  if (whole.contains("parameters")) essence["parameters"] = whole["parameters"];
  for (const auto& [name, value] : trial.final_measurement().metrics()) essence["metrics"][name] = value;
  if (trial.final_measurement().step() != 0) essence["step"] = trial.final_measurement().step();
  for (const auto& [key, value] : trial.attributes()) essence["attributes"][key] = value;
  return essence;
}

// A study with a bound, one of whose metrics may have the name of the column that tells of bounds.
TEST(TrialCsv, BoundsHaveAColumnThatReadersLeaveToTheMetrics) {
  for (const char* name : {"ms", "feasible"}) {
    for (const bool first : {false, true}) {
      v1::StudySpec spec;
      spec.add_space()->set_name("x");
      spec.mutable_space(0)->mutable_float_()->set_max(1);
      const std::string objective = first ? name : "loss", bound = first ? "loss" : name;
      spec.mutable_metric()->set_name(objective);
      *spec.add_metrics() = spec.metric();
      spec.add_metrics()->set_name(bound);
      spec.mutable_metrics(1)->set_at_most(20);
      std::vector<v1::Trial> trials(3);
      for (int i = 0; i < 3; ++i) {
        v1::Trial& trial = trials[static_cast<size_t>(i)];
        trial.set_number(i + 1);
        trial.set_state(i == 2 ? v1::Trial::FAILED : v1::Trial::COMPLETE);
        (*trial.mutable_parameters()->mutable_fields())["x"].set_number_value(0.25 * i);
        if (i == 2) continue;
        trial.set_feasible(i == 0);
        (*trial.mutable_final_measurement()->mutable_metrics())[objective] = 0.5;
        (*trial.mutable_final_measurement()->mutable_metrics())[bound] = i == 0 ? 19.0 : 21.0;
      }
      std::stringstream out;
      WriteTrialsCsv(spec, trials, out);
      EXPECT_THAT(out.str(), HasSubstr(",feasible,step,"));
      EXPECT_THAT(out.str(), HasSubstr(",true,"));
      EXPECT_THAT(out.str(), HasSubstr(",false,"));
      const absl::StatusOr<TableTrials> read = ReadTrialsCsv(out.str(), "f", spec);
      ASSERT_TRUE(read.ok()) << read.status() << out.str();
      EXPECT_EQ(read->ignored, (std::vector<std::string>{"attempts", "origin", "worker"}));
      ASSERT_EQ(read->trials.size(), 3u);
      for (size_t i = 0; i < 3; ++i) EXPECT_EQ(Essence(read->trials[i]), Essence(trials[i]));
      EXPECT_FALSE(read->trials[0].has_feasible()) << "the study that takes it has its own bounds";
    }
  }
}

TEST(TrialCsv, ReservedNamesAreThoseOfTheFormat) {
  const json format = Format();
  EXPECT_EQ(json(ReservedColumns()), format["reserved"]);
  EXPECT_EQ(json(ReservedPrefixes()), format["prefixes"]);
}

TEST(TrialCsv, TablesOfTheFormatAreRead) {
  const json format = Format();
  ASSERT_GE(format["tables"].size(), 8U);
  for (const json& table : format["tables"]) {
    SCOPED_TRACE(table["name"]);
    const std::string text = table["csv"];
    const absl::StatusOr<v1::StudySpec> spec = GuessSpec(text, "f", table["metric"], false, {});
    ASSERT_TRUE(spec.ok()) << spec.status();
    ASSERT_EQ(static_cast<size_t>(spec->space_size()), table["space"].size()) << spec->DebugString();
    for (int i = 0; i < spec->space_size(); ++i) {
      const json& wanted = table["space"][static_cast<size_t>(i)];
      EXPECT_EQ(spec->space(i).name(), wanted[0].get<std::string>());
      EXPECT_EQ(Kind(spec->space(i)), wanted[1].get<std::string>()) << spec->space(i).name();
      if (wanted.size() > 2) {
        const auto& labels = spec->space(i).categorical().values();
        EXPECT_EQ(json(std::vector<std::string>(labels.begin(), labels.end())), wanted[2]);
      }
      if (table.contains("condition") && table["condition"][0] == spec->space(i).name()) {
        EXPECT_EQ(spec->space(i).condition().parent(), table["condition"][1].get<std::string>());
        EXPECT_EQ(static_cast<size_t>(spec->space(i).condition().values_size()), table["condition"][2].size());
      }
    }
    const absl::StatusOr<TableTrials> read = ReadTrialsCsv(text, "f", *spec);
    ASSERT_TRUE(read.ok()) << read.status();
    json wanted = json::array();
    for (const json& trial : table["trials"]) {
      if (!trial.contains("incomplete")) wanted.push_back(trial);
    }
    json got = json::array();
    for (const v1::Trial& trial : read->trials) got.push_back(Essence(trial));
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(read->incomplete, static_cast<int64_t>(table["trials"].size() - wanted.size()));
  }
}

TEST(TrialCsv, RefusedTablesAreExplained) {
  v1::StudySpec spec;
  spec.mutable_metric()->set_name("loss");
  spec.add_space()->set_name("lr");
  spec.mutable_space(0)->mutable_float_();
  const json format = Format();
  for (const json& one : format["refused"]) {
    EXPECT_THAT(std::string(ReadTrialsCsv(std::string(one["csv"]), "f", spec).status().message()),
                HasSubstr(std::string(one["words"])))
        << one;
  }
}

TEST(TrialCsv, AnEmptyCellOfADataFrameMayBeTheChoiceNone) {
  const char kText[] = "value,datetime_start,params_c,params_x\n1,t,,0.5\n2,t,a,0.25\n3,t,,0.75\n4,t,a,0.5\n";
  const v1::StudySpec spec = *GuessSpec(kText, "f", "value", false, {});
  EXPECT_THAT(spec.space(0).categorical().values(), ElementsAre("null", "a"));
  EXPECT_TRUE(GuessSpec("value,started,params_c\n1,t,\n2,t,a\n", "f", "value", false, {}).ok());
  const TableTrials read = *ReadTrialsCsv(kText, "f", spec);
  ASSERT_EQ(read.trials.size(), 4U);
  EXPECT_EQ(read.trials[0].parameters().fields().at("c").string_value(), "null");
  EXPECT_EQ(read.trials[1].parameters().fields().at("c").string_value(), "a");
}

TEST(TrialCsv, EmptyCellsThatNothingExplainsAreNamed) {
  EXPECT_THAT(std::string(GuessSpec("a,b,loss\n1,x,1\n,x,2\n", "f", "loss", false, {}).status().message()),
              HasSubstr("f:3: has no value of \"a\", and no other column tells when there is one"));
  EXPECT_TRUE(GuessSpec("a,b,loss\n1,x,1\n,x,2\n", "f", "loss", false, {"a"}).ok());
  EXPECT_THAT(std::string(GuessSpec("a,loss\n\"0,5\",1\n2,2\n", "f", "loss", false, {}).status().message()),
              HasSubstr("f:1: column \"a\" has numbers with decimal commas"));
}

TEST(TrialCsv, MarksRoundTrip) {
  for (const char* text : {"=1", "'=1", "''=1", "'",  "''", "-1", "'-1", "7",   "'7", "true", "nan",
                           "'x", "@a",  "\tb",  "[1", "+",  "-",  "",    "1e5", ".5", "a'=1"}) {
    EXPECT_EQ(Unmarked(MarkedText(text)), text);
    EXPECT_EQ(Unmarked(MarkedFormula(text)), text);
  }
  EXPECT_EQ(MarkedFormula("-1"), "-1");
  EXPECT_EQ(MarkedFormula("=A1"), "'=A1");
  EXPECT_EQ(MarkedText("7"), "'7");
}

// A study with hostile names and labels, written and read back.
TEST(TrialCsv, WrittenTablesReadBackWhateverTheNames) {
  const std::vector<std::string> names = {"step",      "number",   "state", "value", "note",
                                          "metrics_a", "params_b", "x.y",   "loss"};
  const std::vector<std::string> shown = {"",        "=x", "-x", ",", "\"q\"", "a\nb", "\xE6\xBC\xA2",
                                          " blank ", "'t", "7",  "\r"};
  const std::vector<std::string> labels = {"=1", "-x", ",",    "\"",           "\n",  " ",
                                           "'7", "7",  "true", "\xE6\xBC\xA2", "nan", "'"};
  for (uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    base::RandomStream random(seed, "names");
    const auto pick = [&](size_t n) { return static_cast<size_t>(random.UniformInt(n)); };
    v1::StudySpec spec;
    spec.mutable_metric()->set_name(names[pick(5)]);
    for (size_t i = 0; i < names.size(); ++i) {
      v1::ParameterSpec* p = spec.add_space();
      p->set_name(names[i]);
      if (i < 6) p->set_display_name(shown[(seed + i) % shown.size()]);
      switch (i % 3) {
        case 0:
          p->mutable_float_()->set_min(-1e300);
          break;
        case 1:
          p->mutable_int_()->set_min(0);
          break;
        default:
          for (const std::string& label : labels) p->mutable_categorical()->add_values(label);
      }
    }
    std::vector<v1::Trial> trials(6);
    for (size_t t = 0; t < trials.size(); ++t) {
      trials[t].set_number(static_cast<int64_t>(t) + 1);
      trials[t].set_state(t == 5 ? v1::Trial::FAILED : v1::Trial::COMPLETE);
      for (const v1::ParameterSpec& p : spec.space()) {
        google::protobuf::Value& value = (*trials[t].mutable_parameters()->mutable_fields())[p.name()];
        if (p.has_categorical()) value.set_string_value(labels[pick(labels.size())]);
        if (p.has_float_())
          value.set_number_value(std::ldexp(random.Uniform() - 0.5, static_cast<int>(pick(600)) - 300));
        if (p.has_int_()) value.set_number_value(t == 0 ? 9007199254740992.0 : static_cast<double>(pick(9)));
      }
      if (t == 5) continue;
      (*trials[t].mutable_final_measurement()->mutable_metrics())[spec.metric().name()] = random.Uniform();
      (*trials[t].mutable_final_measurement()->mutable_metrics())["other"] = -0.0;
      trials[t].mutable_final_measurement()->set_step(static_cast<int64_t>(pick(3)));
      (*trials[t].mutable_attributes())["a,=b"] = labels[pick(labels.size())];
    }
    std::ostringstream out;
    WriteTrialsCsv(spec, trials, out);
    const absl::StatusOr<TableTrials> read = ReadTrialsCsv(out.str(), "f", spec);
    ASSERT_TRUE(read.ok()) << read.status() << "\n" << out.str();
    ASSERT_EQ(read->trials.size(), trials.size());
    for (size_t t = 0; t < trials.size(); ++t) EXPECT_EQ(Essence(read->trials[t]), Essence(trials[t])) << out.str();
    // A study that the table alone makes has the same parameters, of the same kinds.
    const absl::StatusOr<v1::StudySpec> guessed = GuessSpec(out.str(), "f", spec.metric().name(), false, {});
    ASSERT_TRUE(guessed.ok()) << guessed.status();
    ASSERT_EQ(guessed->space_size(), spec.space_size());
    for (int i = 0; i < spec.space_size(); ++i) {
      const v1::ParameterSpec& p = spec.space(i);
      const v1::ParameterSpec& q = guessed->space(i);
      EXPECT_EQ(q.display_name().empty() ? q.name() : q.display_name(),
                p.display_name().empty() ? p.name() : p.display_name());
      EXPECT_EQ(Kind(q), Kind(p)) << p.name();
    }
  }
}

}  // namespace
}  // namespace luthier::cli
