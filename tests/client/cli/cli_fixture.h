#ifndef LUTHIER_TESTS_CLIENT_CLI_CLI_FIXTURE_H_
#define LUTHIER_TESTS_CLIENT_CLI_CLI_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "client/cli/cli.h"
#include "lib/base/log.h"
#include "server/server.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::cli {

using nlohmann::json;

inline constexpr char kStudy[] = R"(
space: [{name: x, float: {min: -5, max: 5}}, {name: kind, categorical: {values: [a, "=b"]}}]
metric: {name: y, goal: MINIMIZE}
algorithm: {random: {}}
budget: {max_trials: 4}
)";

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

// The program in this process, against a real coordinator without a disk.
class CliTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { base::SetLogLevel(base::LogLevel::kError); }

  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  void StartServer() {
    server::ServerOptions options;
    options.listen = "unix:" + Path("socket");
    options.designers = designers_;
    auto server = server::Server::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  Result Run(const std::vector<std::string>& args, const std::string& input = "") const {
    std::ostringstream out;
    std::ostringstream err;
    std::istringstream in(input);
    std::map<std::string, std::string> variables = {{"XDG_STATE_HOME", Path("state")},
                                                    {"LUTHIER_SERVER", "unix:" + Path("socket")}};
    Environment environment;
    environment.out = &out;
    environment.err = &err;
    environment.in = &in;
    environment.getenv = [&](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      if (found == variables.end()) return std::nullopt;
      return found->second;
    };
    for (const auto& [name, value] : variables_) variables[name] = value;
    environment.out_width = out_width_;
    environment.seed = ++runs_;
    environment.host = "Test Host";
    environment.program_directory = directory_.path();
    const int code = RunCli(args, environment);
    return {code, out.str(), err.str()};
  }

  // Of a verb that must succeed.
  std::string Out(const std::vector<std::string>& args) const {
    const Result result = Run(args);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.out;
  }
  json Json(std::vector<std::string> args) const {
    args.insert(args.end(), {"-o", "json"});
    return json::parse(Out(args), nullptr, /*allow_exceptions=*/false);
  }

  decltype(server::ServerOptions::designers) designers_;  // Null: the registry.
  const testing::TemporaryDirectory directory_;
  std::unique_ptr<server::Server> server_;
  std::map<std::string, std::string> variables_;  // Of the environment.
  int out_width_ = 0;                             // 0: the output is no terminal.
  mutable std::atomic<uint64_t> runs_ = 0;        // Verbs may run on several threads.
};

}  // namespace luthier::cli

#endif  // LUTHIER_TESTS_CLIENT_CLI_CLI_FIXTURE_H_
