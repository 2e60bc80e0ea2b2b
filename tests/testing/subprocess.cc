#include "tests/testing/subprocess.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "lib/base/check.h"
#include "tests/testing/temporary_directory.h"

namespace luthier::testing {
namespace {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

// Everything the child needs, made before fork: after it only async-signal-safe calls are allowed.
pid_t Start(const std::vector<std::string>& argv, const Subprocess::Options& options, const std::string& err) {
  std::vector<std::string> environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string entry = *e;
    if (options.environment.count(entry.substr(0, entry.find('='))) == 0) environment.push_back(entry);
  }
  for (const auto& [name, value] : options.environment) environment.push_back(name + "=" + value);
  std::vector<char*> args, env;
  for (const std::string& a : argv) args.push_back(const_cast<char*>(a.c_str()));
  args.push_back(nullptr);
  for (const std::string& e : environment) env.push_back(const_cast<char*>(e.c_str()));
  env.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  LUTHIER_CHECK(pid >= 0);
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);
  if (!options.directory.empty() && chdir(options.directory.c_str()) != 0) _exit(127);
  if (!options.output.empty()) {
    const int out = open(options.output.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    const int error = err.empty() ? out : open(err.c_str(), O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(out, 1);
    dup2(error, 2);
  }
  execvpe(args[0], args.data(), env.data());
  _exit(127);
}

}  // namespace

Subprocess::Subprocess(const std::vector<std::string>& argv, const Options& options) : pid_(Start(argv, options, "")) {}

Subprocess::~Subprocess() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Wait();
}

void Subprocess::Signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

int Subprocess::Wait() {
  if (pid_ <= 0) return code_;
  int status = 0;
  LUTHIER_CHECK(waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return code_;
}

bool Subprocess::Running() {
  if (pid_ <= 0) return false;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) == 0) return true;
  pid_ = -1;
  code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return false;
}

CommandResult RunCommand(const std::vector<std::string>& argv, const Subprocess::Options& options) {
  const TemporaryDirectory directory;
  Subprocess::Options with_output = options;
  with_output.output = directory.path() + "/out";
  const std::string err = directory.path() + "/err";
  const pid_t pid = Start(argv, with_output, err);
  int status = 0;
  LUTHIER_CHECK(waitpid(pid, &status, 0) == pid);
  CommandResult result;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  result.out = ReadAll(with_output.output);
  result.err = ReadAll(err);
  return result;
}

std::string Program(const std::string& name) {
  const char* dir = std::getenv("LUTHIER_BIN_DIR");
  LUTHIER_CHECK(dir != nullptr);  // Run through ctest, or set it.
  return std::string(dir) + "/" + name;
}

std::string SourcePath(const std::string& path) {
  const char* dir = std::getenv("LUTHIER_SOURCE_DIR");
  LUTHIER_CHECK(dir != nullptr);
  return std::string(dir) + "/" + path;
}

}  // namespace luthier::testing
