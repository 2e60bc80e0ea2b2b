#include "lib/wire/yaml_spec.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "lib/base/error.h"
#include "lib/base/random.h"
#include "lib/wire/convert.h"
#include "lib/wire/json.h"
#include "luthier/v1/trial.pb.h"

namespace luthier::wire {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(const std::string& text) {
  const absl::StatusOr<StudyFile> file = StudyFile::Parse(text, "s.yaml");
  return file.ok() ? "" : std::string(file.status().message());
}

constexpr char kGood[] = R"(display_name: L2 penalty for breast cancer
space:
  - {name: l2, float: {min: 1.0e-8, max: 1e4, scale: log}}
  - name: depth
    int: {min: 1, max: 1e2}
  - {name: kind, categorical: {values: [a, 2, true]}, default_value: a}
  - {name: early, bool: , condition: {parent: kind, values: [a, "2"]}}
objective: {builtin: {model: logistic, data: data/breast_cancer.csv, split: {validation: 0.33, seed: 1},
                      options: {standardize: true, solver: saga, tol: 1e-6, quoted: "5"}}}
metric: {name: validation_loss, goal: Minimize}
algorithm: {grid: }
budget: {max_trials: 40, max_parallel: 4, target_value: -.5}
lease: {ttl: 2m}
seed: 18446744073709551615
labels: {team: x}
)";

TEST(StudyFile, ReadsTheManualsExample) {
  const absl::StatusOr<StudyFile> file = StudyFile::Parse(kGood, "s.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  const v1::StudySpec& spec = file->spec();
  EXPECT_EQ(spec.space(0).float_().min(), 1e-8);
  EXPECT_EQ(spec.space(0).float_().scale(), v1::LOG);
  EXPECT_EQ(spec.space(1).int_().max(), 100);
  EXPECT_EQ(spec.space(2).categorical().values(1), "2");
  EXPECT_EQ(spec.space(2).categorical().values(2), "true");
  EXPECT_TRUE(spec.space(3).has_bool_());
  EXPECT_EQ(spec.space(3).condition().values(1).string_value(), "2");
  EXPECT_EQ(spec.metric().goal(), v1::MINIMIZE);
  EXPECT_TRUE(spec.algorithm().has_grid());
  EXPECT_EQ(spec.budget().target_value(), -0.5);
  EXPECT_EQ(spec.lease().ttl().seconds(), 120);
  EXPECT_EQ(spec.seed(), 18446744073709551615u);
  const auto& options = spec.objective().builtin().options();
  EXPECT_TRUE(options.at("standardize").bool_value());
  EXPECT_EQ(options.at("solver").string_value(), "saga");
  EXPECT_EQ(options.at("tol").number_value(), 1e-6);
  EXPECT_EQ(options.at("quoted").string_value(), "5");
}

TEST(StudyFile, ReadsJsonByteOrderMarkAndWindowsLines) {
  const std::string json =
      "{\"space\": [{\"name\": \"x\", \"float\": {\"min\": 0, \"max\": 1}}],\n\t\"metric\": {\"name\": \"loss\", "
      "\"goal\": \"MINIMIZE\"}, \"description\": \"a\\/b\\u00e9\"}";
  const absl::StatusOr<StudyFile> file = StudyFile::Parse(json, "s.json");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->spec().description(), "a/bé");
  EXPECT_EQ(Error("\xEF\xBB\xBF" + json), "");
  std::string windows;
  for (const char c : std::string(kGood)) windows += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(Error(windows), "");
}

constexpr char kTail[] = "\nmetric: {name: loss, goal: MINIMIZE}\n";

struct BadFile {
  const char* name;
  std::string text;
  const char* message;
};

class BadFiles : public ::testing::TestWithParam<BadFile> {};
TEST_P(BadFiles, AreExplained) {
  EXPECT_EQ(Error(GetParam().text), GetParam().message);
}

std::string Space(const std::string& parameter) {
  return "space:\n  - " + parameter + kTail;
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadFiles,
    ::testing::Values(
        BadFile{"Empty", "", "s.yaml: is empty"}, BadFile{"OnlyComment", "# nothing\n", "s.yaml: is empty"},
        BadFile{"JustText", "hello",
                "s.yaml:1:1: must be a map, not a scalar; give display_name, description, space, metric, metrics, "
                "algorithm, objective, budget, lease, seed, reproducible, labels, resource, stopping, weight, "
                "open_space, pool, constraints"},
        BadFile{"MisspeltKey", Space("{name: x, flaot: {min: 0, max: 1}}"),
                "s.yaml:2:15: space[0]: has no field \"flaot\" (did you mean \"float\"?)"},
        BadFile{"MisspeltTopKey", "bugdet: {max_trials: 3}" + std::string(kTail),
                "s.yaml:1:1: has no field \"bugdet\" (did you mean \"budget\"?)"},
        BadFile{"KeyOneLevelTooHigh", Space("{name: x, min: 0}"),
                "s.yaml:2:15: space[0]: has no field \"min\"; it belongs inside \"float\" or \"int\""},
        BadFile{"WordOfAnotherTool", Space("{name: x, float: {low: 0, max: 1}}"),
                "s.yaml:2:23: space[0].float: has no field \"low\" (here it is min)"},
        BadFile{"ScaleInAnotherToolsWords", Space("{name: x, float: {min: 1, max: 2, log: true}}"),
                "s.yaml:2:39: space[0].float: has no field \"log\" (here it is scale: LOG)"},
        BadFile{"ChoicesOfAnotherTool", Space("{name: x, categorical: {choices: [a, b]}}"),
                "s.yaml:2:29: space[0].categorical: has no field \"choices\" (here it is values)"},
        BadFile{"BudgetOfAnotherTool", "n_trials: 3" + std::string(kTail),
                "s.yaml:1:1: has no field \"n_trials\" (here it is budget: {max_trials: N})"},
        BadFile{"BoundsByNameOfTheMetric", "constraints: {ms: {at_most: 20}}" + std::string(kTail),
                "s.yaml:1:14: constraints: must be a list, not a map; these are constraints on parameters, [{sum: "
                "{...}, at_most: ...}] or [{forbid: {...}}]; a bound on a metric is written metrics: [{name: ms, "
                "at_most: ...}]"},
        BadFile{"BoundsInAListOfConstraints", "constraints: [{name: ms, at_most: 20}]" + std::string(kTail),
                "s.yaml:1:16: constraints[0]: has no field \"name\"; a bound on a metric is written metrics: [{name: "
                "ms, at_most: ...}]"},
        BadFile{"MetricsByName", "metrics: {ms: {at_most: 20}}" + std::string(kTail),
                "s.yaml:1:10: metrics: must be a list, not a map; write [{name: ms, ...}]"},
        BadFile{"ObjectivesOfAnotherTool", "objectives: [a, b]" + std::string(kTail),
                "s.yaml:1:1: has no field \"objectives\" (here it is metrics: [{name: ..., goal: MINIMIZE or "
                "MAXIMIZE}])"},
        BadFile{"FieldOfAnEmptyMessage", Space("{name: x, bool: {a: 1}}"),
                "s.yaml:2:22: space[0].bool: has no field \"a\"; nothing belongs here, write {}"},
        BadFile{"UnknownWithChoices", "lease: {zzzzzzzz: 1}" + std::string(kTail),
                "s.yaml:1:9: lease: has no field \"zzzzzzzz\"; possible here: ttl, max_attempts"},
        BadFile{"OptionThatMoved", "algorithm: {bo: {kernel: SE}}" + std::string(kTail),
                "s.yaml:1:18: algorithm.bo: kernel moved; write expert: {kernel: SE}"},
        BadFile{"OptionThatMovedInASampler",
                "algorithm: {asha: {sampler: {hbo: {explore_every: 2, exploration: FARTHEST}}}}" + std::string(kTail),
                "s.yaml:1:54: algorithm.asha.sampler.hbo: exploration moved; write expert: {exploration: FARTHEST}"},
        BadFile{
            "OptionThatMovedWithAValueThatIsNoMore", "algorithm: {bo: {prior: inverse_squared}}" + std::string(kTail),
            "s.yaml:1:18: algorithm.bo: prior moved into expert, and inverse_squared is no option any more; leave it "
            "out"},
        BadFile{"OptionThatIsNoMore", "algorithm: {bo: {criterion: LEAVE_ONE_OUT}}" + std::string(kTail),
                "s.yaml:1:18: algorithm.bo: criterion is no option any more; leave it out"},
        BadFile{"ExpertOptionThatIsNoMore", "algorithm: {cma_es: {restarts: false}}" + std::string(kTail),
                "s.yaml:1:22: algorithm.cma_es: restarts is no option any more; leave it out"},
        BadFile{"ValueThatIsNoMore", "algorithm: {bo: {expert: {prior: inverse_squared}}}" + std::string(kTail),
                "s.yaml:1:34: algorithm.bo.expert.prior: INVERSE_SQUARED is no option any more; use one of "
                "DIMENSION_SCALED, THESIS"},
        BadFile{"UnknownExpertOption", "algorithm: {grid: {expert: {center: true}}}" + std::string(kTail),
                "s.yaml:1:29: algorithm.grid.expert: has no field \"center\" (did you mean \"centres\"?)"},
        BadFile{"TextForNumber", Space("{name: x, float: {min: zero, max: 1}}"),
                "s.yaml:2:28: space[0].float.min: \"zero\" is not a number"},
        BadFile{"QuotedNumber", Space("{name: x, float: {min: \"0\", max: 1}}"),
                "s.yaml:2:28: space[0].float.min: must be a number, not text; leave the quotes out"},
        BadFile{"FractionForInteger", "budget: {max_trials: 1.5}" + std::string(kTail),
                "s.yaml:1:22: budget.max_trials: \"1.5\" is not a whole number within ±2^63"},
        BadFile{"HugeInteger",
                "budget: {max_trials: 1e18}\nspace: [{name: x, bool: {}}]\nmetric: {name: loss, goal: MINIMIZE}\n",
                "s.yaml:1:22: budget.max_trials: 1000000000000000000 is not between 1 and 1000000"},
        BadFile{"FractionWithExponent", "budget: {max_trials: 1.25e1}" + std::string(kTail),
                "s.yaml:1:22: budget.max_trials: \"1.25e1\" is not a whole number within ±2^63"},
        BadFile{"IntegerOverflow", "budget: {max_trials: 9223372036854775808}" + std::string(kTail),
                "s.yaml:1:22: budget.max_trials: \"9223372036854775808\" is not a whole number within ±2^63"},
        BadFile{"NegativeSeed", "seed: -1" + std::string(kTail),
                "s.yaml:1:7: seed: \"-1\" is not a whole number from 0 to 2^64-1"},
        BadFile{"YesForBool", "reproducible: yes" + std::string(kTail),
                "s.yaml:1:15: reproducible: \"yes\" is not true or false"},
        BadFile{"ListForNumber", "seed: [1]" + std::string(kTail),
                "s.yaml:1:7: seed: must be a whole number from 0 to 2^64-1, not a list"},
        BadFile{"NoValue", "seed:" + std::string(kTail),
                "s.yaml:1:1: seed: has no value; give one or leave the field out"},
        BadFile{"ScalarForMessage", "algorithm: random" + std::string(kTail),
                "s.yaml:1:12: algorithm: must be a map, not a scalar; write {random: {}}"},
        BadFile{"ScalarForList", Space("{name: x, ordinal: {values: a}}"),
                "s.yaml:2:33: space[0].ordinal.values: must be a list, not a scalar; write [a]"},
        BadFile{"ListForMap", "labels: [a]" + std::string(kTail),
                "s.yaml:1:9: labels: must be a map, not a list; write {name: value}"},
        BadFile{"UnknownEnum", Space("{name: x, float: {min: 1, max: 2, scale: LOGG}}"),
                "s.yaml:2:46: space[0].float.scale: \"LOGG\" is not one of LINEAR, LOG, LOGIT (did you mean \"LOG\"?)"},
        BadFile{"UnspecifiedEnum", Space("{name: x, float: {min: 1, max: 2, scale: SCALE_UNSPECIFIED}}"),
                "s.yaml:2:46: space[0].float.scale: \"SCALE_UNSPECIFIED\" is not one of LINEAR, LOG, LOGIT"},
        BadFile{"DuplicateKey", "seed: 1\nseed: 2",
                "s.yaml:2:1: \"seed\" is given twice; the first time in line 1; keep one"},
        BadFile{"TwoKinds", Space("{name: x, bool: {}, float: {min: 0, max: 1}}"),
                "s.yaml:2:25: space[0].float: excludes \"bool\" in line 2; keep one of the two"},
        BadFile{"BadDuration", "lease: {ttl: soon}" + std::string(kTail),
                "s.yaml:1:14: lease.ttl: \"soon\" is not a duration; write 90s, 2m, 1h30m or seconds"},
        BadFile{"InfiniteDuration", "lease: {ttl: inf}" + std::string(kTail),
                "s.yaml:1:14: lease.ttl: \"inf\" is longer than 10,000 years; leave it out for none"},
        BadFile{"ValueIsNull", Space("{name: x, bool: {}, default_value: null}"),
                "s.yaml:2:25: space[0].default_value: must be a number, true, false or text, not nothing"},
        BadFile{"ValueIsNan", Space("{name: x, bool: {}, default_value: .nan}"),
                "s.yaml:2:40: space[0].default_value: \".nan\" is not a finite number; quote it if it is text"},
        BadFile{"ValueIsInfinite", Space("{name: x, bool: {}, default_value: -.inf}"),
                "s.yaml:2:40: space[0].default_value: \"-.inf\" is not a finite number; quote it if it is text"},
        BadFile{"ValueOverflows", Space("{name: x, bool: {}, default_value: 1e999}"),
                "s.yaml:2:40: space[0].default_value: \"1e999\" is not a finite number; quote it if it is text"},
        BadFile{"ValueLosesDigits", Space("{name: x, bool: {}, default_value: 9007199254740993}"),
                "s.yaml:2:40: space[0].default_value: \"9007199254740993\" is beyond ±2^53; quote it if it is text"},
        BadFile{"Anchor", "space: &a [*a]",
                "s.yaml:1:8: anchors (&name) and aliases (*name) are not supported; write "
                "the value out"},
        BadFile{"Tag", "seed: !!int 3", "s.yaml:1:7: the tag \"tag:yaml.org,2002:int\" is not supported; leave it out"},
        BadFile{"SecondDocument", "seed: 1\n---\nseed: 2", "s.yaml:3:1: a second document begins here; give one"},
        BadFile{"KeyIsAList", "[a]: 1", "s.yaml:1:1: a key must be a name, not a list or a map"},
        BadFile{"TabIndentation", "space:\n\t- name: x",
                "s.yaml:2:2: is not YAML: illegal block entry; indent with spaces, not tabs"},
        BadFile{"Unclosed", "space: [", "s.yaml:1:1: is not YAML: end of sequence flow not found"},
        BadFile{"Binary",
                std::string("\x7f"
                            "ELF\0\1\2",
                            7),
                "s.yaml:1:1: control character 0x7f; is it a text file?"},
        BadFile{"Latin1", "display_name: caf\xE9", "s.yaml:1:18: byte 0xe9 is not UTF-8; is it a text file?"},
        BadFile{"Semantic", Space("{name: x, float: {min: 2, max: 1}}"),
                "s.yaml:2:36: space[0].float.max: 1 is below min 2; swap the bounds"},
        BadFile{"SemanticOfAMissingField", Space("{name: x, float: {min: 2}}"),
                "s.yaml:2:22: space[0].float.max: is required"},
        BadFile{"SemanticInAMap",
                "objective:\n  command:\n    argv: [a]\n    stdout_patterns: {loss: x(}" + std::string(kTail) +
                    "space: [{name: x, bool: {}}]",
                "s.yaml:4:23: objective.command.stdout_patterns[\"loss\"]: is not a regular expression of RE2, "
                "which has no back-references and no look-ahead: missing ): x("},
        BadFile{"SumWithoutABound", Space("{name: x, float: {min: 0, max: 1}}") + "constraints:\n  - {sum: {x: 1}}",
                "s.yaml:5:5: constraints[0]: bounds nothing; give at_most, at_least or both beside sum"},
        BadFile{"ForbiddenValueThatCannotBe",
                Space("{name: x, int: {min: 0, max: 9}}") + "constraints:\n  - {forbid: {x: {at_least: 10}}}",
                "s.yaml:5:18: constraints[0].forbid.x: names a range that has no value of the parameter, which goes "
                "from 0 to 9"},
        BadFile{"MapInPlaceOfADefault", Space("{name: x, float: {min: 0, max: 1}, default_value: {at_least: 1}}"),
                "s.yaml:2:55: space[0].default_value: must be a number, true, false or text, not a map"},
        BadFile{"AllInOrderOfLines", "budget: {max_trials: 0}\nspace: [{name: 1x, bool: {}}]\nmetric: {name: loss}",
                "s.yaml:1:22: budget.max_trials: 0 is not between 1 and 1000000\n"
                "s.yaml:2:16: space[0].name: \"1x\" is not a name: letters, digits, '_' and '.', not starting with a "
                "digit, at most 64\n"
                "s.yaml:3:9: metric.goal: is required: MINIMIZE or MAXIMIZE"}),
    [](const auto& i) { return std::string(i.param.name); });

TEST(StudyFile, StructuralProblemsAreReportedTogether) {
  EXPECT_EQ(Error("seed: x\nbugdet: {}\nreproducible: 1\n"),
            "s.yaml:1:7: seed: \"x\" is not a whole number from 0 to 2^64-1\n"
            "s.yaml:2:1: has no field \"bugdet\" (did you mean \"budget\"?)\n"
            "s.yaml:3:15: reproducible: \"1\" is not true or false");
  std::string many;
  for (int i = 0; i < 30; ++i) absl::StrAppend(&many, "unknown", i, ": 1\n");
  EXPECT_THAT(Error(many), HasSubstr("\n… and 10 more"));
}

TEST(StudyFile, HugeFilesAreRefusedUnread) {
  EXPECT_EQ(Error(std::string(10 << 20, '[')), "s.yaml: is larger than 1 MiB (10485760 bytes); is it the right file?");
}

TEST(StudyFile, DeepNestingIsRefused) {
  EXPECT_THAT(Error(std::string(40, '[')), HasSubstr("is nested more than 32 levels deep"));
  EXPECT_NE(Error(std::string(1 << 20, '[')), "");
  EXPECT_NE(Error(std::string((1 << 20) / 2, '{')), "");
  std::string dashes;
  for (int i = 0; i < (1 << 19); ++i) dashes += "- ";
  EXPECT_NE(Error(dashes), "");
}

TEST(StudyFile, AliasBombsAreRefused) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 30; ++i) {
    absl::StrAppend(&bomb, "a", i, ": &a", i, " [*a", i - 1, ",*a", i - 1, ",*a", i - 1, "]\n");
  }
  EXPECT_THAT(Error(bomb), StartsWith("s.yaml:1:5: anchors (&name)"));
}

// Mutations of a good file: any answer is fine, as long as it comes and names a place.
TEST(StudyFile, DamagedFilesNeverCrash) {
  const std::string good = kGood;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    base::RandomStream random(seed, "test.damage");
    std::string text = good;
    for (uint64_t n = 1 + random.UniformInt(4); n > 0; --n) {
      const size_t at = random.UniformInt(text.size());
      static constexpr char kBytes[] =
          "{}[]:,-\"'&*!|>%@#?~\n\t \x80\xFF"
          "0e.x";
      switch (random.UniformInt(4)) {
        case 0:
          text.erase(at, 1 + random.UniformInt(20));
          break;
        case 1:
          text.insert(at, 1, kBytes[random.UniformInt(sizeof(kBytes) - 1)]);
          break;
        case 2:
          text[at] = kBytes[random.UniformInt(sizeof(kBytes) - 1)];
          break;
        default:
          text.insert(at, text.substr(random.UniformInt(text.size()), random.UniformInt(40)));
      }
      if (text.empty()) text = "x";
    }
    const absl::StatusOr<StudyFile> file = StudyFile::Parse(text, "s.yaml");
    if (!file.ok()) {
      EXPECT_THAT(std::string(file.status().message()), StartsWith("s.yaml:")) << text;
      EXPECT_EQ(base::GetReason(file.status()), base::reason::kBadField);
    } else {
      EXPECT_TRUE(FromProto(file->spec()).ok());
    }
  }
}

TEST(StudyFile, LocatesTheServersRefusal) {
  const absl::StatusOr<StudyFile> file = StudyFile::Parse(kGood, "s.yaml");
  ASSERT_TRUE(file.ok());
  const absl::Status located = file->Locate(base::BadField("algorithm.grid.levels", "gives more than 10^6 points"));
  EXPECT_EQ(std::string(located.message()), "s.yaml:11:13: algorithm.grid.levels: gives more than 10^6 points");
  EXPECT_EQ(base::GetErrorDetail(located)->violations[0].field, "algorithm.grid.levels");
  EXPECT_EQ(file->Locate(base::BadField("spec.algorithm.grid.levels", "gives more than 10^6 points")), located);
  EXPECT_EQ(file->Locate(absl::UnavailableError("x")), absl::UnavailableError("x"));
}

// Every field that `descriptor` reaches, by name. `seen`: the messages so far; an algorithm may hold another.
void CollectFields(const google::protobuf::Descriptor* descriptor, std::set<std::string>* seen,
                   std::set<std::string>* names) {
  if (descriptor->full_name().rfind("google.", 0) == 0 || descriptor->options().map_entry()) return;
  if (!seen->insert(descriptor->full_name()).second) return;
  for (int i = 0; i < descriptor->field_count(); ++i) {
    names->insert(descriptor->field(i)->name());
    if (descriptor->field(i)->message_type() != nullptr) {
      CollectFields(descriptor->field(i)->message_type(), seen, names);
    }
  }
}

TEST(StudyFile, ManualHasEveryField) {
  const char* source = std::getenv("LUTHIER_SOURCE_DIR");
  if (source == nullptr) GTEST_SKIP() << "LUTHIER_SOURCE_DIR is not set; ctest sets it";
  std::ostringstream manual;
  for (const char* page : {"study_file", "expert"}) {
    manual << std::ifstream(std::string(source) + "/docs/reference/" + page + ".md").rdbuf();
  }
  std::set<std::string> seen, names;
  CollectFields(v1::StudySpec::descriptor(), &seen, &names);
  EXPECT_GT(names.size(), 40u);
  for (const std::string& name : names)
    EXPECT_THAT(manual.str(), ::testing::ContainsRegex("[`.: {]" + name + "[^a-z_]")) << name;
}

TEST(StudyFile, ReadsConstraintsAndWritesThemAgain) {
  const std::string text =
      "space:\n  - {name: a, int: {min: 0, max: 9}}\n  - {name: b, float: {min: 0, max: 1}}\n"
      "  - {name: c, categorical: {values: [x, y, z]}}\n" +
      std::string(kTail) +
      "constraints:\n  - {sum: {a: 1, b: -2.5}, at_least: -1, at_most: 8}\n"
      "  - {forbid: {a: 3, b: {at_least: 0.25, at_most: 0.5}, c: [x, z]}}\n  - {forbid: {a: {at_most: 2}, c: y}}\n";
  const absl::StatusOr<StudyFile> file = StudyFile::Parse(text, "s.yaml");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::StatusOr<study::StudySpec> spec = FromProto(file->spec());
  ASSERT_TRUE(spec.ok()) << spec.status();
  ASSERT_EQ(spec->constraints.size(), 3u);
  EXPECT_EQ(spec->constraints[0].sum, (std::map<std::string, double>{{"a", 1.0}, {"b", -2.5}}));
  EXPECT_EQ(spec->constraints[0].at_least, -1.0);
  EXPECT_EQ(spec->constraints[0].at_most, 8.0);
  const auto& forbid = spec->constraints[1].forbid;
  EXPECT_EQ(forbid.at("a").values, std::vector<study::ParameterValue>{3.0});
  EXPECT_EQ(forbid.at("b").at_least, 0.25);
  EXPECT_EQ(forbid.at("b").at_most, 0.5);
  EXPECT_EQ(forbid.at("c").values, (std::vector<study::ParameterValue>{std::string("x"), std::string("z")}));
  EXPECT_EQ(spec->constraints[2].forbid.at("a").at_least, std::nullopt);
  const absl::StatusOr<StudyFile> again = StudyFile::Parse(ToYaml(ToProto(*spec)), "again.yaml");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FromProto(again->spec())->constraints, spec->constraints);
}

TEST(ParseMessage, ReadsAGradient) {
  v1::Gradient gradient;
  ASSERT_TRUE(ParseMessage("{\"full\": {\"values\": [1, -2e-3]}, \"error_bound\": 0.5}", "g", &gradient).ok());
  EXPECT_EQ(gradient.full().values(1), -2e-3);
  EXPECT_EQ(gradient.error_bound(), 0.5);
  EXPECT_FALSE(ParseMessage("{full: 3}", "g", &gradient).ok());
}

TEST(ParseParameters, ReadsValuesByTheirLooks) {
  const absl::StatusOr<study::Parameters> p =
      ParseParameters("{lr: 1e-3, depth: 4, on: true, kind: rbf, text: '4', time: 12:30}", "p");
  ASSERT_TRUE(p.ok()) << p.status();
  EXPECT_EQ(study::FormatParameters(*p), "depth=4, kind=rbf, lr=0.001, on=true, text=4, time=12:30");
  EXPECT_TRUE(std::holds_alternative<std::string>(p->at("text")));
  EXPECT_FALSE(ParseParameters("{lr: [a]}", "p").ok());
  EXPECT_FALSE(ParseParameters("3", "p").ok());
}

TEST(ParseValue, FollowsYamlsCoreSchema) {
  EXPECT_EQ(ParseValue("+.5"), study::ParameterValue(0.5));
  EXPECT_EQ(ParseValue("-1e-400"), study::ParameterValue(-0.0));
  EXPECT_EQ(ParseValue("FALSE"), study::ParameterValue(false));
  for (const char* text : {"", "nan", "inf", "infinity", "1e", "0x10", "1_000", "--1", "1 2", "yes", "e5", "."}) {
    EXPECT_TRUE(std::holds_alternative<std::string>(ParseValue(text))) << text;
  }
}

}  // namespace
}  // namespace luthier::wire
