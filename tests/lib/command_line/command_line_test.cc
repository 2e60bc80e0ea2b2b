#include "lib/command_line/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace luthier::command_line {
namespace {

using ::testing::HasSubstr;

struct Result {
  std::optional<int> code;
  std::string out, err;
};

// A program with an option for all verbs, a verb with options and arguments, and a group of verbs.
Result RunProgram(const std::vector<std::string>& args) {
  CLI::App app("A program", "prog");
  std::string server, metric, name;
  int64_t number = 0;
  app.fallthrough();
  app.require_subcommand(1);
  app.add_option("--server", server, "Where");
  CLI::App* tell = app.add_subcommand("tell", "Tell");
  tell->add_option("NUMBER", number, "Which")->required()->check(AtLeastOne());
  tell->add_option("-m,--metric", metric, "What");
  CLI::App* study = app.add_subcommand("study", "Studies");
  study->require_subcommand(1);
  study->add_subcommand("get", "One")->add_option("NAME", name, "Which")->required();
  study->add_subcommand("list", "All");
  std::ostringstream out, err;
  const std::optional<int> code = Parse(app, args, out, err);
  return {code, out.str(), err.str()};
}

TEST(CommandLine, DurationsAreSecondsOrHaveUnits) {
  const auto read = [](const std::string& text) {
    CLI::App app("A program", "prog");
    absl::Duration duration;
    AddDuration(app, "--for", &duration, "How long");
    std::ostringstream out, err;
    return Parse(app, {"--for", text}, out, err) ? err.str() : absl::FormatDuration(duration);
  };
  EXPECT_EQ(read("90"), "1m30s");
  EXPECT_EQ(read(".5"), "500ms");
  EXPECT_EQ(read("1h30m"), "1h30m");
  EXPECT_EQ(read("0"), "0");
  for (const char* bad : {"-1", "-1s", "soon", "1 h", "nan"}) {
    EXPECT_THAT(read(bad), HasSubstr("--for: '" + std::string(bad) + "' is not a duration such as 90s")) << bad;
  }
}

TEST(CommandLine, GoodOnesGoOn) {
  EXPECT_EQ(RunProgram({"tell", "3", "--metric", "x=1"}).code, std::nullopt);
  EXPECT_EQ(RunProgram({"study", "get", "a", "--server", "b"}).code, std::nullopt);
}

TEST(CommandLine, NounsAloneAndHelpShowWhatThereIs) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"study"}, {"help", "study"}, {"study", "--help"}, {"study", "--server", "x"}}) {
    const Result result = RunProgram(args);
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.out, RunProgram({"study", "--help"}).out);
    EXPECT_EQ(result.err, "");
  }
  EXPECT_EQ(RunProgram({}).out, RunProgram({"--help"}).out);
  EXPECT_EQ(RunProgram({"help"}).out, RunProgram({"--help"}).out);
  EXPECT_EQ(RunProgram({"help", "tell"}).out, RunProgram({"tell", "--help"}).out);
  EXPECT_EQ(RunProgram({"help", "nothing"}).code, 2);
}

TEST(CommandLine, HelpGoesToStandardOutput) {
  const Result result = RunProgram({"tell", "--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("--metric"));
  EXPECT_EQ(result.err, "");
}

TEST(CommandLine, MistakesNameTheNearestAndTheVerbsOwnHelp) {
  const struct {
    std::vector<std::string> args;
    const char* error;
  } table[] = {
      {{"study", "get", "a", "--sever", "x"},
       "prog: there is no option \"--sever\" (did you mean \"--server\"?)\nfor help: prog study get --help\n"},
      {{"tell", "3", "--metic=x=1"},
       "prog: there is no option \"--metic\" (did you mean \"--metric\"?)\nfor help: prog tell --help\n"},
      {{"tell", "--metic", "x=1", "3"},
       "prog: there is no option \"--metic\" (did you mean \"--metric\"?)\nfor help: prog tell --help\n"},
      {{"tell", "3", "-metric", "x=1", "y"}, "prog: arguments too many: \"x=1\" \"y\"\nfor help: prog tell --help\n"},
      {{"tell", "3", "-x"}, "prog: there is no option \"-x\"\nfor help: prog tell --help\n"},
      {{"tell", "3", "b", "a"}, "prog: arguments too many: \"b\" \"a\"\nfor help: prog tell --help\n"},
      {{"study", "list", "b"}, "prog: one argument too many: \"b\"\nfor help: prog study list --help\n"},
      {{"study", "list", "--server", ""},
       "prog: --server is empty, as a variable that is not set is; give it a value or leave it out\nfor help: prog "
       "study "
       "list --help\n"},
      {{"study", "get", ""},
       "prog: NAME is empty, as a variable that is not set is; give it a value or leave it out\nfor help: prog study "
       "get "
       "--help\n"},
      {{"tell", "0"}, "prog: NUMBER: must be at least 1, not 0\nfor help: prog tell --help\n"},
      {{"tell", "-1"}, "prog: NUMBER: must be at least 1, not -1\nfor help: prog tell --help\n"},
      {{"study", "get"}, "prog: NAME is required\nfor help: prog study get --help\n"},
      {{"stduy", "get"},
       "prog: there is no verb \"stduy\" (did you mean \"study\"?); verbs: tell, study\nfor help: prog --help\n"},
      // As other programs have it, with and without a noun, and whatever stands behind it.
      {{"get", "study"},
       "prog: there is no verb \"get\" (did you mean: prog study get?); verbs: tell, study\nfor help: prog study "
       "--help\n"},
      {{"--server", "x", "list", "study", "y", "--help"},
       "prog: there is no verb \"list\" (did you mean: prog study list?); verbs: tell, study\nfor help: prog study "
       "--help\n"},
      {{"get", "a"},
       "prog: there is no verb \"get\" (did you mean: prog study get?); verbs: tell, study\nfor help: prog --help\n"},
      {{"bogus", "study"}, "prog: there is no verb \"bogus\"; verbs: tell, study\nfor help: prog study --help\n"},
      {{"study", "bogus", "--help"},
       "prog: there is no verb \"study bogus\"; verbs: get, list\nfor help: prog study --help\n"},
      {{"study", "gt"},
       "prog: there is no verb \"study gt\" (did you mean \"get\"?); verbs: get, list\nfor help: prog study --help\n"},
  };
  for (const auto& [args, error] : table) {
    const Result result = RunProgram(args);
    EXPECT_EQ(result.code, 2) << error;
    EXPECT_EQ(result.err, error);
    EXPECT_EQ(result.out, "");
  }
}

}  // namespace
}  // namespace luthier::command_line
