// Coordinator, worker and command line at their most talkative, in calls that go well and calls that fail: none of the
// secrets that they use is found in what they leave behind.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <sstream>
#include <utility>

#include "tests/e2e/programs_fixture.h"

namespace luthier {
namespace {

namespace fs = std::filesystem;

std::string ContentOf(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

class SecretsTest : public testing::ProgramsFixture {
 protected:
  // Runs `luthier`, and keeps what it says for the search.
  CommandResult Say(std::vector<std::string> args, std::map<std::string, std::string> environment = {}) {
    args.insert(args.begin(), Program("luthier"));
    args.insert(args.end(), {"--log-level", "debug"});
    Subprocess::Options options;
    options.directory = directory_.path();
    options.environment = std::move(environment);
    options.environment.insert({{"XDG_STATE_HOME", Path("state")}, {"GRPC_VERBOSITY", "debug"}});
    CommandResult result = RunCommand(args, options);
    std::ofstream(Path("cli.log"), std::ios::app) << result.err;
    return result;
  }
  // The same over TLS, as the holder of a token.
  CommandResult Call(std::vector<std::string> args, const std::string& token_file) {
    args.insert(args.end(), {"--server", address_, "--tls-ca", Path("pki/ca.pem"), "--token-file", Path(token_file)});
    CommandResult result = Say(std::move(args));
    std::ofstream(Path("cli.log"), std::ios::app) << result.out;
    return result;
  }
  // A file for this user alone.
  void WriteSecret(const std::string& name, const std::string& text) {
    Write(name, text);
    chmod(Path(name).c_str(), 0600);
  }
  // Makes a token and its file; the token.
  std::string MakeToken(const std::string& name, const std::string& role, const std::vector<std::string>& more = {}) {
    std::vector<std::string> args = {"admin", "token", "create", "--name", name, "--role", role, "--db", Path("data")};
    args.insert(args.end(), more.begin(), more.end());
    const CommandResult made = Say(args);
    EXPECT_EQ(made.code, 0) << made.err;
    WriteSecret(name + ".token", made.out);
    return Remember(made.out);
  }
  // The part of a token that is its secret, or of a key that is not the same in every key.
  std::string Remember(const std::string& text) {
    const size_t line = text.find_last_not_of('\n') + 1;
    secrets_.push_back(text.substr(line - 43, 43));
    return text.substr(0, line);
  }

  std::string address_;
  std::vector<std::string> secrets_;
};

TEST_F(SecretsTest, StayWhereTheyBelong) {
  ASSERT_EQ(Say({"admin", "pki", "init", "--out", Path("pki")}).code, 0);
  ASSERT_EQ(Say({"admin", "pki", "issue", "--out", Path("pki"), "--server", "localhost"}).code, 0);
  for (const char* key : {"pki/ca.key", "pki/server.key"}) {
    const std::string text = ContentOf(Path(key));
    secrets_.push_back(text.substr(text.find('\n') + 50, 43));  // Behind what is the same in every key.
  }
  Subprocess::Options options;
  options.output = Path("server.log");
  options.environment = {{"GRPC_VERBOSITY", "debug"}};
  server_ = std::make_unique<Subprocess>(
      std::vector<std::string>{Program("luthierd"), "--listen", "localhost:0", "--data-dir", Path("data"), "--tls-cert",
                               Path("pki/server.pem"), "--tls-key", Path("pki/server.key"), "--log-level", "debug"},
      options);
  constexpr char kServing[] = "luthierd: serving on ";
  WaitFor([&] { return ContentOf(Path("server.log")).find(kServing) != std::string::npos; }, "the server");
  const std::string log = ContentOf(Path("server.log"));
  const size_t at = log.find(kServing) + sizeof(kServing) - 1;
  address_ = log.substr(at, log.find('\n', at) - at);
  Remember(ContentOf(Path("data/admin.token")));

  // What goes well.
  const std::string user = MakeToken("alice", "user", {"--commands"});
  MakeToken("gpu1", "worker");
  const std::string gone = MakeToken("gone", "user");
  Write("show.sh",
        "for f in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $f; echo; done > seen.txt 2>&1\n"
        "env >> seen.txt; env; ls -l /proc/self/fd; echo '{\"loss\": 1}'\n");
  Write("study.yaml",
        "space: [{name: x, float: {min: 0, max: 1}}]\nmetric: {name: loss, goal: MINIMIZE}\n"
        "objective: {command: {argv: [sh, show.sh]}}\nbudget: {max_trials: 2}\n");
  const CommandResult created = Call({"study", "create", "-f", Path("study.yaml"), "--name", "s"}, "alice.token");
  ASSERT_EQ(created.code, 0) << created.err;
  std::vector<std::string> argv = {Program("luthier-worker"),
                                   "--server",
                                   address_,
                                   "--tls-ca",
                                   Path("pki/ca.pem"),
                                   "--token-file",
                                   Path("gpu1.token"),
                                   "--spool",
                                   Path("state/spool"),
                                   "--log-level",
                                   "debug"};
  if (geteuid() == 0) argv.insert(argv.end(), {"--run-as", "root"});
  options.output = Path("worker.log");
  options.directory = directory_.path();
  options.environment["LUTHIER_TOKEN"] = user;  // What a program's environment must not have.
  Subprocess worker(argv, options);
  WaitFor(
      [&] {
        return Call({"study", "get", "s", "-o", "json"}, "alice.token").out.find("COMPLETED") != std::string::npos;
      },
      "the study");
  EXPECT_EQ(
      Say({"study", "list", "--server", address_, "--tls-ca", Path("pki/ca.pem")}, {{"LUTHIER_TOKEN", user}}).code, 0);
  const std::string id = gone.substr(4, 16);
  const CommandResult rotated = Say({"admin", "token", "rotate", id, "--overlap", "1h", "--db", Path("data")});
  ASSERT_EQ(rotated.code, 0) << rotated.err;
  WriteSecret("gone.token", Remember(rotated.out));
  EXPECT_EQ(Call({"study", "list"}, "gone.token").code, 0);
  ASSERT_EQ(Say({"admin", "token", "revoke", id, "--db", Path("data")}).code, 0);

  // What fails.
  const std::string wrong = "lut_0123456789abcdef_" + std::string(20, 'C') + std::string(23, 'n');
  WriteSecret("wrong.token", Remember(wrong));
  WriteSecret("long.token", wrong + "more");
  WriteSecret("key.token", ContentOf(Path("pki/server.key")));  // One file for another.
  WriteSecret("open.token", user);
  chmod(Path("open.token").c_str(), 0644);
  for (const char* token : {"gone", "wrong", "long", "key", "open", "gpu1"}) {
    EXPECT_NE(Call({"study", "create", "-f", Path("study.yaml"), "--name", "t"}, std::string(token) + ".token").code, 0)
        << token;
  }
  EXPECT_NE(Say({"study", "list", "--server", address_}, {{"LUTHIER_TOKEN", user}}).code, 0);  // Not TLS.
  EXPECT_NE(Say({"study", "list", "--server", address_, "--tls-ca", Path("alice.token")}).code, 0);
  EXPECT_NE(Say({"study", "list", "--server", address_, "--tls-ca", Path("pki/ca.pem"), "--tls-cert",
                 Path("pki/server.pem"), "--tls-key", Path("alice.token")},
                {{"LUTHIER_TOKEN", user}})
                .code,
            0);
  for (const char* token : {"gone.token", "wrong.token", "key.token"}) {
    std::vector<std::string> refused = argv;
    refused[6] = Path(token);
    Subprocess worse(refused, options);
    EXPECT_NE(worse.Wait(), 0) << token;
  }
  for (const char* key : {"alice.token", "pki/ca.key"}) {
    Subprocess worse({Program("luthierd"), "--listen", "localhost:0", "--data-dir", Path("other"), "--tls-cert",
                      Path("pki/server.pem"), "--tls-key", Path(key), "--log-level", "debug"},
                     options);
    EXPECT_NE(worse.Wait(), 0) << key;
  }
  ASSERT_EQ(
      Call({"admin", "audit"}, "../" + fs::path(directory_.path()).filename().string() + "/data/admin.token").code, 0);
  for (const pid_t pid : {server_->pid(), worker.pid()}) {
    std::ofstream(Path("arguments.txt"), std::ios::app)
        << ContentOf("/proc/" + std::to_string(pid) + "/cmdline") << "\n";
  }
  worker.Signal(SIGTERM);
  EXPECT_EQ(worker.Wait(), 0);
  server_->Signal(SIGTERM);
  EXPECT_EQ(server_->Wait(), 0);

  // The search. First that there is something to be found in.
  for (const auto& [file, text] : {std::pair("seen.txt", "luthier-worker --server"), std::pair("server.log", " debug "),
                                   std::pair("worker.log", " debug "), std::pair("cli.log", "does not know the token"),
                                   std::pair("cli.log", "\"outcome\":\"REVOKED\"")}) {
    EXPECT_NE(ContentOf(Path(file)).find(text), std::string::npos) << file << " has no " << text;
  }
  ASSERT_EQ(secrets_.size(), 8u);
  int searched = 0;
  for (const auto& entry : fs::recursive_directory_iterator(directory_.path())) {
    const std::string suffix = entry.path().extension();
    if (!entry.is_regular_file() || suffix == ".token" || suffix == ".key") continue;
    ++searched;
    const std::string content = ContentOf(entry.path());
    for (size_t i = 0; i < secrets_.size(); ++i) {
      EXPECT_EQ(content.find(secrets_[i]), std::string::npos) << entry.path() << " has secret " << i;
    }
  }
  EXPECT_GT(searched, 10);
}

}  // namespace
}  // namespace luthier
