#include "lib/study/command_template.h"

#include <gmock/gmock.h>

#include <string>

namespace luthier::study {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Expand(const std::string& text, const std::map<std::string, std::string>& values) {
  const absl::StatusOr<std::optional<std::string>> out = ExpandTemplate(text, values);
  if (!out.ok()) return "error: " + std::string(out.status().message());
  return *out ? **out : "(left out)";
}

TEST(CommandTemplate, ReplacesNamesAndUnescapesBraces) {
  const std::map<std::string, std::string> values = {{"lr", "0.5"}, {"a.b", "{x}"}, {"luthier.trial", "7"}};
  EXPECT_EQ(Expand("", values), "");
  EXPECT_EQ(Expand("--lr={lr}/{luthier.trial}", values), "--lr=0.5/7");
  EXPECT_EQ(Expand("{a.b}", values), "{x}") << "a value is never looked at again";
  EXPECT_EQ(Expand("{{lr}} {{}} }}{{", values), "{lr} {} }{");
  EXPECT_EQ(Expand("{{{lr}}}", values), "{0.5}");
  EXPECT_EQ(Expand("$(rm) `x` \"{lr}\"", values), "$(rm) `x` \"0.5\"");
}

TEST(CommandTemplate, AnArgumentWithoutItsValueIsLeftOut) {
  EXPECT_EQ(Expand("--gamma={gamma}", {{"lr", "1"}}), "(left out)");
}

TEST(CommandTemplate, RefusesLoneBraces) {
  for (const char* text : {"{", "}", "a{", "{}", "{a b}", "{1}", "{lr", "{\"a\": 1}", "{{}", "{lr}}"}) {
    EXPECT_THAT(Expand(text, {{"lr", "1"}}), HasSubstr("error: byte ")) << text;
  }
}

TEST(CommandTemplate, ParsesIntoPieces) {
  EXPECT_THAT(*ParseTemplate("a{b}c"),
              ElementsAre(TemplatePiece{false, "a"}, TemplatePiece{true, "b"}, TemplatePiece{false, "c"}));
}

TEST(CommandTemplate, NamesAreCheckedWhenAStudyIsCreated) {
  StudySpec spec;
  spec.space = SearchSpace::Create({{"learning_rate", FloatRange{}, {}, {}}}).value();
  spec.metric.name = "loss";
  spec.objective = CommandObjective{{"train", "{learning_rate}", "{luthier.seed}"}, {}, absl::Minutes(1), 0, {}};
  EXPECT_TRUE(ValidateSpec(spec).ok()) << ValidateSpec(spec);
  spec.objective = CommandObjective{
      {"train", "{learningrate}", "{luthier.tial}", "{"}, {{"X", "{nothing}"}}, absl::Minutes(1), 0, {}};
  const std::string message(ValidateSpec(spec).message());
  EXPECT_THAT(message, HasSubstr("objective.command.argv[1]: the space has no parameter \"learningrate\" (did you mean "
                                 "\"learning_rate\"?)"));
  EXPECT_THAT(message, HasSubstr("objective.command.argv[2]: there is no \"luthier.tial\" (did you mean \"trial\"?)"));
  EXPECT_THAT(message, HasSubstr("objective.command.argv[3]: byte 0"));
  EXPECT_THAT(message, HasSubstr("objective.command.environment.X: "));
}

std::string Refused(const std::vector<std::string>& argv) {
  base::Violations violations;
  RefuseShellLines(CommandObjective{argv, {}, absl::Minutes(1), 0, {}}, &violations);
  return violations.empty() ? "" : std::string(violations.ToStatus().message());
}

TEST(CommandTemplate, LinesForAShellAreRefused) {
  EXPECT_THAT(Refused({"python3 t.py --lr {lr}"}),
              HasSubstr(R"(objective.command.argv[0]: "python3 t.py --lr {lr}" is a program and its arguments in one )"
                        R"(entry, and there is no shell to split it; write "python3", "t.py", "--lr", "{lr}")"));
  for (const char* line :
       {"python3 t.py", "./train.sh {lr}", "/usr/bin/python3 t.py --fast", "python3\tt.py", "echo 'x'"}) {
    EXPECT_NE(Refused({line}), "") << line;
    EXPECT_NE(Refused({line, "{lr}"}), "") << line;
  }
  EXPECT_THAT(
      Refused({"python3", "t.py", "--lr {lr}"}),
      HasSubstr(R"(argv[2]: "--lr {lr}" is an option and its value in one entry, and there is no shell to split )"
                R"(it; write "--lr", "{lr}" or "--lr={lr}")"));
  EXPECT_THAT(
      Refused({"/usr/bin/python3.11", "t.py --lr {lr}"}),
      HasSubstr(R"(argv[1]: "t.py --lr {lr}" is a script and its arguments in one entry, and there is no shell )"
                R"(to split it; write "t.py", "--lr", "{lr}")"));
  EXPECT_NE(Refused({"bash", "train.sh {lr}"}), "");
  for (const std::vector<std::string>& argv :
       std::vector<std::vector<std::string>>{{"python3", "t.py", "--lr={lr}"},
                                             {"python3", "my train.py", "{lr}"},
                                             {"echo", "rate {lr}"},
                                             {"/home/me/My Drive/train.sh", "{lr}"},
                                             {"./my program"},
                                             {"sh", "-c", "python3 t.py --lr {lr}"},
                                             {"awk", "-v x={lr}"},
                                             {"python3", "-c", "print({lr})"},
                                             {"t", "--title={lr} and more"},
                                             {"t", "- {lr}"},
                                             {"t", "--text {{lr}}"}}) {
    EXPECT_EQ(Refused(argv), "");
  }
}

}  // namespace
}  // namespace luthier::study
