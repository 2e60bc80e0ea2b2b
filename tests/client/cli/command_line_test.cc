// The command line itself: help, usage errors, exit codes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/client/cli/cli_fixture.h"

namespace luthier::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(CliTest, HelpNamesEveryVerbOnStandardOutput) {
  const Result result = Run({"--help"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  for (const char* verb : {"run", "study", "trial", "ask", "tell", "report", "model", "simulate", "objectives",
                           "algorithms", "verify-replay", "version"}) {
    EXPECT_THAT(result.out, HasSubstr(absl::StrCat("\n  ", verb, " "))) << verb;
  }
  EXPECT_THAT(result.out, HasSubstr("124 timed out"));
}

TEST_F(CliTest, NounsAloneShowTheirVerbs) {
  EXPECT_EQ(Run({}).code, 0);
  EXPECT_EQ(Run({}).out, Run({"--help"}).out);
  EXPECT_EQ(Run({"study"}).out, Run({"study", "--help"}).out);
  EXPECT_EQ(Run({"help", "study", "get"}).out, Run({"study", "get", "--help"}).out);
  EXPECT_EQ(Run({"--version"}).out, Run({"version"}).out);
}

TEST_F(CliTest, EveryVerbHasHelpWithAnExampleOfItself) {
  for (const std::string verb : {"run",
                                 "study create",
                                 "study preview",
                                 "study list",
                                 "study get",
                                 "study importance",
                                 "study watch",
                                 "study wait",
                                 "study pause",
                                 "study resume",
                                 "study stop",
                                 "study cancel",
                                 "study delete",
                                 "trial list",
                                 "trial get",
                                 "trial best",
                                 "trial explain",
                                 "trial add",
                                 "trial cancel",
                                 "ask",
                                 "tell",
                                 "report",
                                 "model train",
                                 "model show",
                                 "model predict",
                                 "model evaluate",
                                 "simulate",
                                 "objectives",
                                 "objectives describe",
                                 "algorithms",
                                 "verify-replay",
                                 "completion",
                                 "version"}) {
    std::vector<std::string> args = absl::StrSplit(verb, ' ');
    args.push_back("--help");
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0) << verb;
    EXPECT_THAT(result.out, HasSubstr("Example:\n  luthier " + verb)) << verb;
  }
}

struct BadUsage {
  std::vector<std::string> args;
  const char* error;
};

TEST_F(CliTest, BadCommandLinesAreExplainedWithExitCodeTwo) {
  const BadUsage table[] = {
      {{"stduy"}, "luthier: there is no verb \"stduy\" (did you mean \"study\"?)"},
      {{"study", "lst"}, "luthier: there is no verb \"study lst\" (did you mean \"list\"?)"},
      {{"study", "get"}, "luthier: STUDY is required\nfor help: luthier study get --help\n"},
      {{"study", "list", "-o", "xml"}, "luthier: --output: xml not in {table,wide,json,yaml,csv,name}"},
      {{"study", "list", "--what"}, "luthier: there is no option \"--what\"\nfor help: luthier study list --help\n"},
      {{"trial", "get", "s", "0"}, "luthier: TRIAL: must be at least 1, not 0"},
      {{"tell", "s", "-1", "--metric", "y=1"}, "luthier: TRIAL: must be at least 1, not -1"},
      {{"trial", "get", "s", "one"}, "luthier: "},
      {{"study", "list", "--state", "activ"},
       "luthier: --state: \"activ\" is not one of ACTIVE, PAUSED, STOPPED, CANCELLED, COMPLETED (did you mean "
       "\"ACTIVE\"?)"},
      {{"study", "importance", "s", "-o", "name"},
       "luthier: --output: what study importance prints has no names; it is there as table, wide, json, yaml or csv"},
      {{"trial", "delete", "projects/default/studies/a/trials/1", "projects/default/studies/b/trials/1"}, "luthier: "},
      {{"trial", "list", "s", "--state", "complet"}, "luthier: --state: \"complet\" is not one of PENDING"},
      {{"trial", "add", "s", "--set", "x"}, "luthier: --set: \"x\" is not of the form NAME=VALUE"},
      {{"trial", "add", "s", "--set", "x=1", "--set", "x=2"}, "luthier: --set: \"x\" is given twice"},
      {{"tell", "s", "1"}, "luthier: tell: needs --metric NAME=VALUE for a result, or --failed REASON"},
      {{"tell", "s", "1", "--metric", "y=1", "--failed", "X"},
       "luthier: --failed: a failure has no result; leave out --metric"},
      {{"tell", "s", "1", "--metric", "y=1", "--infra"}, "luthier: --infra: goes with --failed REASON"},
      {{"tell", "s", "1", "--metric", "y=0x10"}, "luthier: --metric: \"y=0x10\" is not of the form NAME=NUMBER"},
      {{"tell", "s", "1", "--metic", "y=1"}, "luthier: there is no option \"--metic\" (did you mean \"--metric\"?)"},
      {{"ask", "No/such"}, "luthier: STUDY: \"No\" is not an id"},
      {{"study", "list", "--server", "bad"}, "luthier: --server: \"bad\" has no port; give host:port"},
      {{"simulate", "--algorithm", "random", "--function", "branin", "--seeds", "0"},
       "luthier: --seeds: must be at least 1, not 0"},
      {{"simulate", "--algorithm", "random", "--function", "branin", "--noise", "-1"}, "luthier: --noise: "},
      {{"simulate", "--algorithm", "random", "--function", "branin", "--noise", "1", "--resource", "9"}, "luthier: "},
      {{"tell", "s", "1", "--metric", "y=one"}, "luthier: --metric: \"y=one\" is not of the form NAME=NUMBER"},
      {{"tell", "s", "1", "--metric", "y=1", "--token", "zz"}, "luthier: --token: is not the hexadecimal token"},
      {{"study", "wait", "s", "--timeout", "soon"}, "luthier: --timeout: 'soon' is not a duration"},
      {{"simulate", "--algorithm", "boo", "--function", "branin"},
       "luthier: --algorithm: \"boo\" is none (did you mean \"bo\"?)"},
      {{"simulate", "--algorithm", "bo", "--function", "brainin"}, "luthier: --function: "},
      {{"verify-replay"}, "luthier: --db: is required"},
      {{"run", "x.yaml", "--workers", "0"}, "luthier: --workers: "},
      {{"run", "x.yaml", "--server", "unix:s"}, "luthier: --server: run has a coordinator of its own"},
      {{"--server=unix:s", "study", "list", "--db", "d"}, "luthier: --server: stands beside --db"},
  };
  for (const BadUsage& bad : table) {
    const Result result = Run(bad.args);
    EXPECT_EQ(result.code, 2) << bad.error << result.err;
    EXPECT_THAT(result.err, StartsWith(bad.error));
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(CliTest, UnreachableServerIsExplained) {
  const Result result = Run({"study", "list"});
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err, StartsWith("luthier: no server answers at unix:" + Path("socket")));
  EXPECT_THAT(result.err, HasSubstr("start one: luthierd --listen unix:" + Path("socket")));
  const Result bad = Run({"study", "list", "--server", "localhost"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_THAT(bad.err, HasSubstr("has no port; give host:port"));
}

}  // namespace
}  // namespace luthier::cli
