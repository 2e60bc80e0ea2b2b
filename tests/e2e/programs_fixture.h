// What tests of the programs share: a directory, a server in it, and `luthier` run against it.
#ifndef LUTHIER_TESTS_E2E_PROGRAMS_FIXTURE_H_
#define LUTHIER_TESTS_E2E_PROGRAMS_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "tests/testing/subprocess.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::testing {

class ProgramsFixture : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return directory_.path() + "/" + name; }

  // Writes a file into the test's directory; its path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name)) << text;
    return Path(name);
  }

  // Runs `luthier` in the test's directory, against the test's server when one was started.
  CommandResult Luthier(std::vector<std::string> args) const {
    args.insert(args.begin(), Program("luthier"));
    Subprocess::Options options;
    options.directory = directory_.path();
    options.environment = {{"LUTHIER_SERVER", "unix:" + Path("socket")}, {"XDG_STATE_HOME", Path("state")}};
    return RunCommand(args, options);
  }

  // What `luthier` prints, which has to be JSON.
  nlohmann::json LuthierJson(const std::vector<std::string>& args) const {
    const CommandResult result = Luthier(args);
    EXPECT_EQ(result.code, 0) << result.err;
    const nlohmann::json parsed = nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
    EXPECT_FALSE(parsed.is_discarded()) << result.out;
    return parsed;
  }

  // Starts `luthierd` on the test's socket and data directory, again after it was killed; returns when it answers.
  void StartServer() {
    Subprocess::Options options;
    options.output = Path("server.log");
    server_ = std::make_unique<Subprocess>(
        std::vector<std::string>{Program("luthierd"), "--listen", "unix:" + Path("socket"), "--data-dir", Path("data")},
        options);
    WaitFor([&] { return Luthier({"study", "list"}).code == 0; }, "the server");
  }

  // Waits for other processes; long enough for a sanitizer's build on a busy machine.
  template <typename F>
  static void WaitFor(F&& condition, const char* what) {
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), patience) << "waited in vain for " << what;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }

  const TemporaryDirectory directory_;
  std::unique_ptr<Subprocess> server_;
};

}  // namespace luthier::testing

// Words of every test of the programs.
namespace luthier {

using testing::CommandResult;
using testing::Program;
using testing::RunCommand;
using testing::SourcePath;
using testing::Subprocess;

}  // namespace luthier

#endif  // LUTHIER_TESTS_E2E_PROGRAMS_FIXTURE_H_
