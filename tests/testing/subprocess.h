#ifndef LUTHIER_TESTS_TESTING_SUBPROCESS_H_
#define LUTHIER_TESTS_TESTING_SUBPROCESS_H_

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace luthier::testing {

// A child process for end-to-end tests; killed when this object goes, or when the test dies.
class Subprocess {
 public:
  struct Options {
    std::map<std::string, std::string> environment;  // Added to ours.
    std::string directory;                           // Working directory; empty: ours.
    std::string output;                              // File that takes stdout and stderr (appended); empty: ours.
  };
  explicit Subprocess(const std::vector<std::string>& argv) : Subprocess(argv, Options()) {}
  Subprocess(const std::vector<std::string>& argv, const Options& options);
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  void Signal(int number);
  // Exit code, or 128 + the signal that ended it. Blocks.
  int Wait();
  bool Running();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int code_ = -1;
};

struct CommandResult {
  int code = 0;
  std::string out;
  std::string err;
};
// Runs to the end and returns what it printed.
CommandResult RunCommand(const std::vector<std::string>& argv, const Subprocess::Options& options = {});

// $LUTHIER_BIN_DIR/name, as ctest sets it.
std::string Program(const std::string& name);
// $LUTHIER_SOURCE_DIR/path.
std::string SourcePath(const std::string& path);

}  // namespace luthier::testing

#endif  // LUTHIER_TESTS_TESTING_SUBPROCESS_H_
